/* cli.h: what the commands share: exit codes, output that notices failure, messages, interruption, progress, opening and input.
 *
 * Results go to standard output through out_*, which remembers the first write error; everything else goes to standard error
 * through say_*, which never lets control characters from a file reach the terminal.
 */
#ifndef IJ_CLI_CLI_H
#define IJ_CLI_CLI_H

#include "cli/args.h"
#include "core/base.h"
#include "inkjet.h"

/* The exit codes of every command; also in the help and the manual. X(identifier, value, meaning) */
#define CLI_EXIT_LIST(X)                                        \
  X(OK, 0, "success")                                           \
  X(FAILED, 1, "the work failed, or a comparison is outside its bound") \
  X(MISUSE, 2, "the command line is wrong")                     \
  X(BAD_INPUT, 3, "an input file is unreadable, malformed or unsupported") \
  X(INTERRUPTED, 130, "interrupted (Ctrl-C)")

typedef enum cli_exit {
#define CLI_EXIT_ENUM(id, value, text) CLI_EXIT_##id = value,
  CLI_EXIT_LIST(CLI_EXIT_ENUM)
#undef CLI_EXIT_ENUM
} cli_exit;

/* ---- standard output (out.c) */
void out_bytes(const void *bytes, size_t n);
void out_text(const char *s);
void out_printf(const char *fmt, ...) IJ_PRINTF(1, 2);
void out_name(const char *name); /* control characters and what is not ASCII as \xNN */
bool out_flush(void);            /* false once anything could not be written */
int out_finish(int exit_code);   /* at the end: reports a failed write and turns success into CLI_EXIT_FAILED */

/* JSON, one value per program run, commas and escapes taken care of; bytes that are not UTF-8 become U+FFFD. */
void json_open(char bracket);    /* '{' or '[' */
void json_close(void);
void json_key(const char *key);
/* A string, at once or in parts. True when the bytes were valid UTF-8 and nothing had to be replaced. */
bool json_string(const char *bytes, size_t n);
void json_string_begin(void);
void json_string_add(const char *bytes, size_t n);
bool json_string_end(void);
void json_text(const char *s);   /* NULL gives null */
void json_int(int64_t v);
void json_real(double v);        /* not finite gives null */
void json_bool(bool v);
void json_end(void);             /* the closing newline */

/* ---- standard error (say.c) */
void say(const char *fmt, ...) IJ_PRINTF(1, 2);           /* "inkjet: ..." */
void say_plain(const char *fmt, ...) IJ_PRINTF(1, 2);     /* no prefix */
int say_misuse(const cli_args *args, const char *fmt, ...) IJ_PRINTF(2, 3); /* with a pointer to the help; CLI_EXIT_MISUSE */
/* Prints the error and gives its exit code. */
int say_failed(const ij_err *err);        /* an error of the work itself */
int say_nomem(const char *what, size_t n_bytes); /* CLI_EXIT_FAILED */
int say_bad_input(const ij_err *err);     /* an error while opening an input: file trouble is CLI_EXIT_BAD_INPUT */

/* ---- interruption (signals.c) */
void interrupt_install(void);             /* first Ctrl-C: interrupted() turns true; second: the process dies */
bool interrupted(void);
const volatile bool *interrupted_flag(void); /* the same, for who looks by itself */
bool interrupted_for_good(void);          /* by a hangup or a request to terminate, which a conversation obeys too */
bool interrupt_or_input(int fd);          /* waits; true: fd can be read, false: interrupted() */
void interrupt_forget(void);              /* the next Ctrl-C is the first again */
/* A folder and its files, removed if the second Ctrl-C comes: path must stay valid; NULL clears. */
void interrupt_remove_on_kill(const char *const *files, int n_files, const char *folder);

/* ---- progress (progress.c): a bar on a terminal once the work has taken half a second; otherwise silence */
void progress_begin(const char *what);
void progress_update(double fraction);    /* in [0, 1] */
void progress_end(void);

/* ---- opening and input (input.c). Each returns an exit code and has said what was wrong. */
struct cli_plan;
/* plan: what the command is going to take, see cli_plan.h; NULL: one session of the usual length. */
int open_model(const cli_args *args, const char *path, bool tokenizer, int max_batch, const struct cli_plan *plan, ij_model **out);
void close_model(const cli_args *args, ij_model **model);      /* of open_model; says how experts were read, and why their use was not kept */
void raise_descriptors(int64_t n);         /* for n connections and a checkpoint of a thousand files, as far as the system allows; the usual limit is low */
/* To look at only: whatever its size, it opens. */
int open_described(const cli_args *args, const char *path, ij_model **out);
int open_tokenizer(const cli_args *args, ij_tokenizer **out);  /* from --tokenizer, else beside -m */
int open_named_tokenizer(const char *path, ij_tokenizer **out);
int model_path(const cli_args *args, const char **path);       /* -m, or why there is none */
ij_kv_type kv_type(const cli_args *args);

/* A whole file; "-" is standard input. Free with ij__free. */
int read_input(const char *path, char **bytes, size_t *n);
int encode_text(const ij_tokenizer *tokenizer, const char *bytes, size_t n, bool special, int32_t **ids, size_t *n_ids);

/* Exactly one prompt, and options that go with it: checked before anything is opened. */
int check_prompt_options(const cli_args *args);

/* The text of -p, TEXT or -f; not of --ids. Free with ij__free. */
int read_prompt_text(const cli_args *args, char **bytes, size_t *n);

/* The ids of --ids, or else of the text that -p, TEXT or -f gave; at least one id. */
int read_prompt(const cli_args *args, const ij_tokenizer *tokenizer, const char *text, size_t n, int32_t **ids, size_t *n_ids);

/* --ctx, or what stands for it, is within the model's `most` positions. */
int check_ctx(const cli_args *args, int64_t n_ctx, int64_t most);
/* The prompt fits into n_ctx positions and they into the model's, and the model has its ids. */
int check_fit(const cli_args *args, const ij_model *model, const int32_t *ids, int64_t n_ids, int64_t n_ctx);

/* ---- sampling (sampling.c) */
ij_sample_options sample_options(const cli_args *args);
int check_sampling(const cli_args *args);                      /* options that contradict each other */
int check_bias(const cli_args *args, const ij_model *model);   /* ids of --logit-bias that the model lacks */

/* ---- the commands, one file each */
int cmd_run(const cli_args *args);
int cmd_chat(const cli_args *args);
int cmd_embed(const cli_args *args);
int cmd_logits(const cli_args *args);
int cmd_tokenize(const cli_args *args);
int cmd_detokenize(const cli_args *args);
int cmd_info(const cli_args *args);
int cmd_bench(const cli_args *args);
int cmd_serve(const cli_args *args);
int cmd_help(const cli_args *args);
int cmd_man(const cli_args *args);
int cmd_completion(const cli_args *args);

#endif
