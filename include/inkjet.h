/* inkjet.h: the public API of inkjet, an engine for the Inkling family of models.
 *
 * Two handles: an ij_model (immutable, shared, owns the threads) and an ij_session (one timeline: caches, position, logits).
 * The same model, tokens and seed give the same bits for any number of threads, any batch, any chunking and any instruction set.
 *
 *     ij_model *model = NULL;
 *     ij_session *session = NULL;
 *     ij_err err;
 *     int32_t ids[64];
 *     size_t n = 0;
 *     if (ij_model_open(&model, "path/to/checkpoint", NULL, &err) != IJ_OK) goto done;
 *     if (ij_encode(ij_model_tokenizer(model), "Once upon a time", 16, false, ids, 64, &n, &err) != IJ_OK) goto done;
 *     if (ij_session_open(&session, model, NULL, &err) != IJ_OK) goto done;
 *     if (ij_session_eval(session, ids, (int64_t)n, &err) != IJ_OK) goto done;
 *     for (int i = 0; i < 20; i++) {
 *       ij_choice next;
 *       if (ij_session_sample(session, NULL, &next, &err) != IJ_OK) goto done;    // greedy
 *       if (ij_model_is_eos(model, next.id)) break;
 *       if (ij_session_eval(session, &next.id, 1, &err) != IJ_OK) goto done;
 *     }
 *   done:
 *     ij_session_close(&session);
 *     ij_model_close(&model);
 *
 * Conventions. `open` writes through its first argument: on failure *out is NULL and there is nothing to close; on success there
 * is exactly one `close`, which takes the address of the handle, sets it to NULL, and accepts NULL. Every `ij_err *err` may be NULL.
 * Options come from ij_*_default(); passing NULL means the defaults. Token ids are int32_t, counts and positions int64_t, sizes in
 * bytes size_t. Floats in outputs are IEEE binary32. The library never prints or exits, and reads the
 * environment only to start the decoder of videos (ij_video_open).
 */
#ifndef INKJET_H
#define INKJET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inkjet_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define IJ_VERSION_MAJOR 0
#define IJ_VERSION_MINOR 1
#define IJ_VERSION_PATCH 0

/* "0.1.0". Any thread. */
IJ_API const char *ij_version(void);

typedef struct ij_model ij_model;
typedef struct ij_session ij_session;
typedef struct ij_tokenizer ij_tokenizer;

/* ------------------------------------------------------------------------------------------------------------- model */

/* Where weights are while the model is open. All give the same bits. AUTO: mapped when everything fits into the memory there is (or mem_bytes),
 * else streamed. */
typedef enum ij_home {
  IJ_HOME_AUTO,
  IJ_HOME_MAPPED,       /* in the page cache of the system, which may drop and read again */
  IJ_HOME_RESIDENT,     /* read into memory of the process once */
  IJ_HOME_STREAMED      /* as resident, but routed experts are read when they are needed, into what memory is left, past the page cache */
} ij_home;

typedef enum ij_predict { IJ_PREDICT_AUTO, IJ_PREDICT_OFF, IJ_PREDICT_ON } ij_predict;

struct ij_plan;

typedef struct ij_model_options {
  size_t struct_size;   /* set by ij_model_options_default */
  size_t mem_bytes;     /* bound on the memory that the model and its sessions take together; 0: what the machine, its control group and the
                           limits of the process leave free now, less a reserve. What cannot work is refused at open (IJ_E_NOMEM), with the
                           numbers, and so is more than the control group or the process may ever use. Where less is free now, the bound
                           is that (ij_plan.bound) */
  ij_home home;         /* default AUTO */
  int64_t plan_ctx;     /* positions of each session that will be opened: memory is kept for them; 0: 8192 or what the model allows */
  int plan_sessions;    /* how many; default 1. With a bound, sessions beyond what was kept for are refused (IJ_E_NOMEM) */
  int plan_kv;          /* an ij_kv_type, of those sessions; default IJ_KV_F32 */
  int plan_rollback;    /* their max_rollback; default 64 */
  size_t plan_kept;     /* memory for further sessions, such as a cache of earlier ones; default 0 */
  size_t plan_other;    /* memory that the caller takes for itself and that the bound is to hold, too; default 0 */
  ij_predict predict;   /* streamed: begin reading experts of the next layer on a guess; AUTO: while it is measured to help */
  const char *usage_path; /* streamed: a file with the use of experts in earlier sessions, read at open (missing, damaged or foreign: as if there was
                           none, see ij_streaming_info) and written by ij_model_save_usage or ij_model_close; NULL: none */
  bool keep_trace;      /* streamed: keep the sequence of experts used, see ij_model_expert_trace */
  int n_threads;        /* 0: one per processor that this process may use. Does not change any result. */
  const char *cpu_mask; /* highest kernel level to use: "scalar", "avx2", "avx512", "neon"; NULL: the best there is */
  int max_batch;        /* rows (tokens) computed at once, over all sessions of a step; default 512, at least 1 */
  bool tokenizer;       /* open the tokenizer that lies with the checkpoint, when there is one; default true */
  const char *mmproj;   /* a GGUF file or checkpoint with the towers for media (inkjet_media.h), instead of those of the checkpoint; may be NULL */
  /* Called with a fraction in [0, 1] while the model is opened; returning false cancels (IJ_E_CANCELLED). May be NULL. */
  bool (*progress)(void *user, double fraction);
  /* Called with the plan once it is made and before anything large is read; returning false cancels (IJ_E_CANCELLED). May be NULL. */
  bool (*planned)(void *user, const struct ij_plan *plan);
  void *user;
} ij_model_options;

IJ_API ij_model_options ij_model_options_default(void);

/* Opens a checkpoint: a folder with config.json and *.safetensors, one .safetensors file, or a GGUF model (a file,
 * any part of a split one, or a folder that holds one). Weights are mapped and not copied when there is memory for all of them; see ij_home.
 * Errors: IJ_E_IO, IJ_E_FORMAT (every missing or ill-shaped tensor in one list), IJ_E_UNSUPPORTED, IJ_E_NOMEM, IJ_E_ARGUMENT
 * (bad option), IJ_E_CANCELLED. Any thread. */
IJ_API ij_status ij_model_open(ij_model **out, const char *path, const ij_model_options *options, ij_err *err);

/* A checkpoint folder in memory: from now on `name`, "builtin:" and a word, is the path of a folder that holds these files, for models and
 * tokenizers. name, files and bytes are borrowed for the life of the process; bytes should be aligned to 64. Any thread.
 * Errors: IJ_E_ARGUMENT (a name that is taken or no such word), IJ_E_NOMEM. */
typedef struct ij_memory_file {
  const char *name;
  const void *bytes;
  size_t n_bytes;
} ij_memory_file;
IJ_API ij_status ij_add_memory_folder(const char *name, const ij_memory_file *files, int n_files, ij_err *err);

/* All sessions of the model must be closed before. */
IJ_API void ij_model_close(ij_model **model);

typedef struct ij_model_info {
  int n_layer, n_layer_sliding, n_layer_dense;
  int hidden, vocab, unpadded_vocab;      /* logits have unpadded_vocab entries */
  int n_head, n_kv_head, n_kv_head_sliding, head_dim;
  int window, rel_extent, d_rel;
  int n_expert, n_expert_used, n_shared, expert_width, dense_width;
  int n_mtp;                              /* depths of multi-token prediction in the file (not used yet) */
  int64_t max_context;
  int64_t n_params;                       /* values in the tensors the decoder uses */
  int64_t n_params_active;                /* values read for one token: everything but the embedding table and idle experts */
  size_t weight_bytes;                    /* bytes of the tensors the decoder uses */
  size_t active_bytes;                    /* bytes of weights read for one token */
  size_t file_bytes;
  int n_tensors, n_files;
  int n_threads;
  const char *level;                      /* kernel level in use */
  const char *layout;                     /* whose names the tensors carry, a static string */
} ij_model_info;

IJ_API void ij_model_get_info(const ij_model *model, ij_model_info *out);

/* What will be where, and why: made before a byte of weights is read. All sizes in bytes. */
typedef struct ij_plan {
  /* Memory found. 0: there is no such limit, or it is not known. */
  size_t machine_total, machine_free;      /* physical; what the system says could be used without swapping */
  size_t group_limit, group_free;          /* of the control group(s) this process is in: the tightest */
  size_t process_limit, process_free;      /* address space and data limits of the process (ulimit -v, -d): the tightest */
  size_t bound;                            /* what this plan may use, of which */
  const char *bound_by;                    /* "--mem", "the machine", "the control group", "the process": static */
  /* What is needed. */
  size_t dense_bytes;                      /* weights that every token reads, and small ones, as held in memory */
  size_t expert_bytes;                     /* all routed experts, as in the file */
  size_t largest_expert, mean_expert;      /* one expert, as in the file */
  int n_expert_layers, n_expert, n_expert_used;
  size_t session_bytes;                    /* one planned session */
  int n_sessions;
  int64_t n_ctx;                           /* positions of each */
  size_t step_bytes;                       /* buffers of a step of max_batch rows */
  size_t other_bytes;                      /* towers, tokenizer, tables, the program itself */
  size_t caller_bytes;                     /* plan_kept and plan_other */
  int64_t picture_pixels;                  /* where memory is bounded, of a picture that there is room to read, one at a time; 0: no bound, or no towers */
  /* What follows. */
  ij_home home;                            /* MAPPED, RESIDENT or STREAMED */
  int max_batch;                           /* rows of a step: the option, or less where the bound asks for it */
  size_t expert_room;                      /* memory for routed experts; mapped: what the bound leaves for them in the page cache */
  int64_t experts_held, experts_total;     /* that fit into it; that there are */
  double bytes_per_token[5];               /* read from the drive for one token, at hit rates of 0, 25, 50, 75 and 90 % */
} ij_plan;

/* The plan that opening `path` with these options would follow. Reads headers only. Refused as ij_model_open would refuse (IJ_E_NOMEM); `out` is then
 * filled all the same, with home AUTO. Any thread. */
IJ_API ij_status ij_plan_make(ij_plan *out, const char *path, const ij_model_options *options, ij_err *err);

/* The plan that the model was opened with. */
IJ_API void ij_model_get_plan(const ij_model *model, ij_plan *out);

/* How the homes of experts have done since the model was opened, as of the latest batch. Any thread, at any time. */
typedef struct ij_streaming_info {
  const char *home;                        /* "mapped", "resident", "streamed": static */
  const char *reader;                      /* "io_uring", "pread threads"; "" without one: static */
  bool direct;                             /* every file is read past the page cache */
  int64_t n_slots;
  int64_t n_hit, n_miss;                   /* experts that were there when asked for; that had to be read */
  int64_t n_guess, n_guess_used, n_guess_cancelled;
  uint64_t expert_bytes, read_bytes;       /* of the experts read, on guesses that were wrong too; read for them, alignment included */
  double read_seconds, wait_seconds;       /* reads were under way; computing waited for them */
  int64_t n_tokens;                        /* rows evaluated */
  const char *usage_note;                  /* why usage_path was not used; NULL: nothing to say. Lives as long as the model */
} ij_streaming_info;
IJ_API void ij_model_get_streaming(ij_model *model, ij_streaming_info *out);

/* Use of each expert, [n_layer][n_expert]: shares of the accesses of its layer, of this opening (earlier = false) or as the usage file had it.
 * Older accesses of this opening count less. IJ_E_RANGE: not known (another home, no file). Waits for a step that runs. */
IJ_API ij_status ij_model_expert_use(ij_model *model, bool earlier, float *out);

/* The sequence of experts used so far, as layer * n_expert + expert; *keys is valid until the next step. Returns their number, 0 without keep_trace. Its
 * room is bounded and keeps the first: those of ij_streaming_info that were hit or missed are more when it was full. */
IJ_API int64_t ij_model_expert_trace(ij_model *model, const int32_t **keys);

/* Mixes the use of experts since the model was opened into usage_path, as ij_model_close does without telling what went wrong: call it before that, once;
 * what is evaluated afterwards is no longer written. IJ_OK without usage_path, or when no expert was used. On failure (IJ_E_IO, IJ_E_FORMAT: something
 * else lies there, IJ_E_NOMEM) the file is as it was, and ij_model_close does not try again. Waits for a step that runs. */
IJ_API ij_status ij_model_save_usage(ij_model *model, ij_err *err);

/* What a usage file tells of this model, whatever its home is. use: [n_layer][n_expert] shares of the accesses of its layer, or NULL. prior: what a
 * streamed home that is opened with the file expects of the next session, or NULL. IJ_E_IO, IJ_E_FORMAT (damaged, or of another model), IJ_E_NOMEM.
 * Any thread. */
typedef struct ij_usage_info {
  int64_t n_sessions, n_tokens;
  int64_t n_hit, n_miss;                   /* as in ij_streaming_info, over all sessions */
  uint64_t read_bytes;
  double read_seconds;
} ij_usage_info;
IJ_API ij_status ij_model_read_usage(const ij_model *model, const char *path, ij_usage_info *out, float *use, float *prior, ij_err *err);

/* The rate of sequential direct reads of the model's largest file, over about `seconds`: bytes per second. IJ_E_RANGE: it is in memory. */
IJ_API ij_status ij_measure_drive(const char *path, double seconds, double *bytes_per_s, ij_err *err);

/* The tensors of the checkpoint, used or not. index in [0, n_tensors), otherwise IJ_E_RANGE. Strings live as long as the model. */
typedef struct ij_tensor_info {
  const char *name, *dtype, *file;
  int n_dims;
  int64_t dims[8];
  size_t n_bytes;
  bool used;                              /* by the decoder, or by the towers of this checkpoint */
} ij_tensor_info;
IJ_API ij_status ij_model_get_tensor(const ij_model *model, int index, ij_tensor_info *out);

/* The weights that the decoder uses, summed by class (attention, routed experts, ...) and storage format; side arrays and factors
 * count in bytes, so bits per weight are 8 * n_bytes / n_values. index counts from 0; IJ_E_RANGE past the last. */
typedef struct ij_weights_info {
  const char *weight_class, *format;      /* static strings */
  int group;                              /* values per scale in formats whose scales are arrays of their own, -1: several; else 0 */
  int n_tensors;
  int64_t n_values, n_values_active;      /* active: read for one token */
  size_t n_bytes, active_bytes;
} ij_weights_info;
IJ_API ij_status ij_model_get_weights(const ij_model *model, int index, ij_weights_info *out);

/* The tokenizer found with the checkpoint, or NULL. Owned by the model. */
IJ_API const ij_tokenizer *ij_model_tokenizer(const ij_model *model);

/* The chat template that came with the checkpoint: chat_template.jinja beside it, or tokenizer.chat_template of a GGUF file. *n_bytes may
 * be NULL. NULL: there is none, or the model was opened without its tokenizer. Owned by the model; not NUL-terminated. Nothing here
 * runs it: ij_template_check (inkjet_chat.h) says whether it agrees with how this library writes conversations. */
IJ_API const char *ij_model_chat_template(const ij_model *model, size_t *n_bytes);

/* True for the ids that end a generation (eos_token_id of the checkpoint). */
IJ_API bool ij_model_is_eos(const ij_model *model, int32_t id);

/* --------------------------------------------------------------------------------------------------------- tokenizer */

/* path: tokenizer.json, a tiktoken rank file, a GGUF file, or a folder that holds one. For use without a model, or with a checkpoint that
 * carries none. Any thread. */
IJ_API ij_status ij_tokenizer_open(ij_tokenizer **out, const char *path, ij_err *err);
IJ_API void ij_tokenizer_close(ij_tokenizer **tokenizer);
IJ_API int32_t ij_tokenizer_size(const ij_tokenizer *tokenizer); /* highest id + 1 */

/* Text -> ids. parse_special: spelled special tokens become their ids; leave it false for text that you did not write. Any bytes
 * are accepted and come back from ij_decode unchanged. Up to cap ids are written; *n_ids is the number there are, which may
 * exceed cap. Any thread. */
IJ_API ij_status ij_encode(const ij_tokenizer *tokenizer, const char *text, size_t n_bytes, bool parse_special, int32_t *ids, size_t cap,
                           size_t *n_ids, ij_err *err);

/* The bytes of one id, owned by the tokenizer. Special ids give their name if special_text, else no bytes. False: no such id. */
IJ_API bool ij_decode(const ij_tokenizer *tokenizer, int32_t id, bool special_text, const char **bytes, size_t *n_bytes);
IJ_API bool ij_is_special(const ij_tokenizer *tokenizer, int32_t id);
IJ_API int32_t ij_find_special(const ij_tokenizer *tokenizer, const char *name); /* -1: none */

/* Streaming text: bytes of tokens in, whole characters out, so that half a character is never shown. Zero-initialize. Bytes that
 * cannot become valid UTF-8 give U+FFFD, one per maximal invalid part. */
typedef struct ij_text_stream {
  unsigned char held[4];
  int n_held;
} ij_text_stream;

/* Writes complete characters to out (room for 3 * (n_bytes + 3)) and returns the number of bytes written. */
IJ_API size_t ij_text_stream_push(ij_text_stream *stream, const char *bytes, size_t n_bytes, char *out);
/* At the end, and before a special token: what is held becomes one U+FFFD. out: room for 3 bytes. */
IJ_API size_t ij_text_stream_flush(ij_text_stream *stream, char *out);

/* ----------------------------------------------------------------------------------------------------------- session */

typedef enum ij_kv_type { IJ_KV_BF16, IJ_KV_F16, IJ_KV_F32 } ij_kv_type;

typedef struct ij_session_options {
  size_t struct_size;   /* set by ij_session_options_default */
  int64_t n_ctx;        /* positions the session can hold; default 8192; memory of global layers is touched as it fills */
  ij_kv_type kv_type;   /* how keys and values are kept; default IJ_KV_F32; the others halve the memory and round, which changes results */
  int max_rollback;     /* how many of the last tokens ij_session_rollback can take back; default 64 */
} ij_session_options;

IJ_API ij_session_options ij_session_options_default(void);

/* A session is used by one thread at a time; different sessions of one model may be used from different threads (steps of one
 * model are serialized inside). Errors: IJ_E_ARGUMENT, IJ_E_NOMEM (with the bytes needed and the bytes available). */
IJ_API ij_status ij_session_open(ij_session **out, ij_model *model, const ij_session_options *options, ij_err *err);
IJ_API void ij_session_close(ij_session **session);

IJ_API int64_t ij_session_pos(const ij_session *session);   /* tokens evaluated so far */
IJ_API int64_t ij_session_n_ctx(const ij_session *session);
IJ_API size_t ij_session_bytes(const ij_session *session);  /* memory reserved for its caches */
IJ_API size_t ij_session_bytes_used(const ij_session *session); /* what it takes now: pages of caches that have been written, and buffers */
IJ_API int64_t ij_session_rollback_room(const ij_session *session); /* how many tokens ij_session_rollback can take back now (or all) */
IJ_API const int32_t *ij_session_ids(const ij_session *session); /* the ids evaluated, [pos]; valid until the next call on it */

/* Evaluates n >= 1 tokens after those already there, in chunks of the model's max_batch. Afterwards the logits are those of the
 * last token. Tokens that are refused (IJ_E_ARGUMENT, IJ_E_CONTEXT) change nothing. After IJ_E_NUMERIC, and IJ_E_IO when experts are streamed
 * and cannot be read, the session is at the position it had before the failing chunk (earlier chunks stay) and has no logits. What is
 * evaluated next has the bits of a session in which nothing has failed. Where experts are not streamed, it is empty if more positions than
 * max_rollback would have to be taken back. */
IJ_API ij_status ij_session_eval(ij_session *session, const int32_t *ids, int64_t n, ij_err *err);

/* Rows that stand in for the embeddings of placeholder ids: a picture or a sound as a tower encoded it (inkjet_media.h). They do not pass
 * through the embedding norm. The ids at those places must be the model's placeholder of media. */
typedef struct ij_rows {
  int64_t first, n;     /* the ids they stand at: ids[first] to ids[first + n - 1] */
  const float *rows;    /* [n][hidden]; read during the call only */
  int64_t row0;         /* which row of its medium rows[0] is: media may be cut, like any tokens */
  uint64_t digest[2];   /* of the medium: equal for equal rows, so that the beginnings of sessions can be compared */
} ij_rows;

/* ij_session_eval with media. rows: ascending, not overlapping, within ids; IJ_E_ARGUMENT otherwise, and for a placeholder (a control token
 * of the vocabulary) that no row stands at: in every evaluation, media are never dropped in silence. */
IJ_API ij_status ij_session_eval_rows(ij_session *session, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, ij_err *err);

/* How many of the session's first positions hold just these ids and media. `rows` of the rows may be NULL. */
IJ_API int64_t ij_session_common(const ij_session *session, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows);

/* The same for two prompts. */
IJ_API int64_t ij_ids_common(const int32_t *a, int64_t n_a, const ij_rows *a_rows, int n_a_rows, const int32_t *b, int64_t n_b,
                             const ij_rows *b_rows, int n_b_rows);

/* Where media stand in the session: [*n], ascending, `rows` NULL; valid until the next call on it. With ij_session_ids, what it holds. */
IJ_API const ij_rows *ij_session_rows(const ij_session *session, int *n);

/* The placeholder id of pictures or sounds; -1 when the vocabulary has none. */
IJ_API int32_t ij_model_placeholder(const ij_model *model, bool sound);

/* Logits after the last evaluated token, [unpadded_vocab], or NULL before any evaluation, after a rollback and after a step that failed.
 * Valid until the next call on the session. */
IJ_API const float *ij_session_logits(const ij_session *session);

/* The four verbs that prefix caches, speculative decoding and servers are built on. All are exact: what follows has the same
 * bits as if the tokens had been evaluated in a fresh session. */

/* An independent copy at the same position. */
IJ_API ij_status ij_session_fork(ij_session **out, const ij_session *session, ij_err *err);
/* Forgets the last n tokens, 0 <= n. n equal to the position empties the session; otherwise IJ_E_RANGE when more than max_rollback
 * tokens before the furthest position ever reached would be needed. Logits are gone until the next evaluation. */
IJ_API ij_status ij_session_rollback(ij_session *session, int64_t n, ij_err *err);
/* Writes the whole state as one versioned payload (docs/formats/session.md) through `write`, which returns false on failure. */
IJ_API ij_status ij_session_save(const ij_session *session, bool (*write)(void *user, const void *bytes, size_t n), void *user, ij_err *err);
/* Replaces the state by a saved one. `read` fills exactly n bytes or returns false. The payload must come from a model with the same
 * architecture and a session of the same kv_type; on error the session is empty. */
IJ_API ij_status ij_session_restore(ij_session *session, bool (*read)(void *user, void *bytes, size_t n), void *user, ij_err *err);

/* One step over any mixture of sessions and token counts. Sessions must be distinct and of this model; the rows of all items
 * together may exceed max_batch (the step is then cut). Each item gets its own status: one bad item does not stop the others. */
typedef struct ij_step_item {
  ij_session *session;
  const int32_t *ids;
  int64_t n;             /* >= 1 */
  const ij_rows *rows;   /* [n_rows] media among the ids; see ij_session_eval_rows */
  int n_rows;
  float *logits_all;     /* NULL, or [n][unpadded_vocab]: logits after every token */
  float *trace;          /* NULL, or [n_layer + 1][n][hidden]: residual stream after the embedding and after each layer */
  ij_status status;      /* out */
} ij_step_item;
/* Returns IJ_OK when every item is; otherwise the first item's error, which fills err. */
IJ_API ij_status ij_step(ij_model *model, ij_step_item *items, int n_items, ij_err *err);

/* ---------------------------------------------------------------------------------------------------------- sampling */

typedef struct ij_logit_bias {
  int32_t id;
  float bias;                /* added to the logit; -INFINITY forbids the id */
} ij_logit_bias;

typedef struct ij_sample_options {
  size_t struct_size;        /* set by ij_sample_options_default */
  float temperature;         /* 0 (default): greedy, ties to the lower id */
  int top_k;                 /* keep the k most likely; 0: off */
  float top_p;               /* keep the smallest set with at least this mass; 1: off */
  float min_p;               /* keep ids at least this fraction as likely as the best; 0: off */
  float repetition_penalty;  /* > 1: divide positive and multiply negative logits of ids already in the session; 1: off */
  float presence_penalty;    /* subtracted once from each id already in the session; 0: off */
  float frequency_penalty;   /* subtracted per occurrence; 0: off */
  int64_t penalty_window;    /* how many of the last ids the penalties look at; -1: all */
  uint64_t seed;             /* the draw depends on (seed, position) only */
  const ij_logit_bias *logit_bias;
  int n_logit_bias;
  const uint32_t *allowed;   /* NULL: every id; else bit i % 32 of word i / 32 says whether id i may be chosen */
  int32_t n_allowed;         /* ids that `allowed` has bits for; ids beyond may not be chosen */
} ij_sample_options;

IJ_API ij_sample_options ij_sample_options_default(void);

#define IJ_MAX_TOP 20

typedef struct ij_choice {
  int32_t id;
  float logprob;             /* of id under the model itself: log-softmax of the raw logits */
} ij_choice;

/* Chooses the next id from the session's logits; does not evaluate it. Errors: IJ_E_RANGE (no logits), IJ_E_ARGUMENT (an option or
 * bias is out of range), IJ_E_NUMERIC. */
IJ_API ij_status ij_session_sample(ij_session *session, const ij_sample_options *options, ij_choice *out, ij_err *err);

/* What `logits` [unpadded_vocab] say about one id; the bits are those that ij_session_sample gives. For rows of ij_step_item.logits_all;
 * NULL: the session's own logits. Errors: IJ_E_RANGE (no logits), IJ_E_ARGUMENT (no such id). */
IJ_API ij_status ij_session_logprob(ij_session *session, const float *logits, int32_t id, ij_choice *out, ij_err *err);

/* The n most likely ids (at most IJ_MAX_TOP) with their log-probabilities, best first. */
IJ_API ij_status ij_session_top(ij_session *session, int n, ij_choice *out, ij_err *err);

/* ---------------------------------------------------------------------------------------------------------- generation */

typedef enum ij_stop { IJ_STOP_EOS, IJ_STOP_LENGTH, IJ_STOP_CONTEXT, IJ_STOP_CALLER } ij_stop;

/* Called for each id before it is evaluated; returning false stops (the id is not evaluated). */
typedef bool (*ij_on_token)(void *user, const ij_choice *choice);

/* Samples and evaluates up to n ids from the session's logits. The end id is passed to on_token and not evaluated. *n_out counts the
 * ids handed to on_token, *why (may be NULL) says why it ended. */
IJ_API ij_status ij_generate(ij_session *session, int64_t n, const ij_sample_options *options, ij_on_token on_token, void *user,
                             int64_t *n_out, ij_stop *why, ij_err *err);

/* ------------------------------------------------------------------------------------------------------------- machine */

/* What this machine gives, measured now with the model's threads and kernel level: the denominators of `inkjet bench`. Means over about
 * `seconds` in all, not less than one read of 256 MB. The first call takes 1 GB of memory to read, which the model keeps until it closes.
 * */
typedef struct ij_machine {
  double read_bytes_per_s;   /* streaming reads over memory much larger than the caches */
  double fma_per_s;          /* float32 multiply-adds in registers */
} ij_machine;
IJ_API ij_status ij_measure_machine(ij_model *model, double seconds, ij_machine *out, ij_err *err);

#ifdef __cplusplus
}
#endif
#endif
