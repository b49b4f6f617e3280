/* tool_bench.h: how fast a model runs here, as shares of what this machine can do.
 *
 * The machine's read bandwidth and multiply-add peak are measured right before and right after every timed stretch, and each
 * stretch is divided by the mean of its two neighbours: on shared machines the share is steady where the speed is not.
 */
#ifndef IJ_TOOLS_TOOL_BENCH_H
#define IJ_TOOLS_TOOL_BENCH_H

#include "core/base.h"
#include "inkjet.h"
#include "inkjet_media.h"

#define IJ_BENCH_MAX_DEPTHS 16

typedef struct ij_bench_options {
  const char *path;
  ij_model_options model;    /* its progress callback is not used */
  ij_kv_type kv_type;
  int64_t n_ctx;             /* 0: what the measurements need */
  int64_t n_prompt, n_gen;   /* >= 1 */
  const int64_t *depths;     /* rising */
  int n_depths;              /* at most IJ_BENCH_MAX_DEPTHS */
  int n_repeat;              /* >= 1 */
  const char *trace_path;    /* where the sequence of experts goes (expert_trace.h), of all that is measured but the first token; NULL: nowhere */
  /* Called often with what is being done; false cancels. May be NULL. */
  bool (*progress)(void *user, const char *what, double fraction);
  void (*note)(void *user, const char *line); /* one line per repetition; may be NULL */
  void *user;
} ij_bench_options;

typedef struct ij_bench_stat {
  double median, min, max;
} ij_bench_stat;

typedef struct ij_bench_decode {
  int64_t depth;             /* positions before the first decoded token */
  double weight_bytes, kv_bytes; /* read for one token, on average */
  ij_bench_stat tokens_per_s;
  ij_bench_stat share_weights, share; /* of the read bandwidth: weights alone, and with keys and values */
} ij_bench_decode;

/* What was asked of the home of the experts, and how long that took, over all repetitions. */
typedef struct ij_bench_experts {
  int64_t n_tokens, n_hit, n_miss;
  int64_t n_guess, n_guess_used, n_guess_cancelled;
  uint64_t expert_bytes, read_bytes; /* of the missed experts; read for them, alignment included */
  double read_seconds, wait_seconds; /* reads were under way; computing waited for them */
  double seconds;
} ij_bench_experts;

typedef struct ij_bench_result {
  ij_model_info info;
  char level[16];
  ij_bench_stat read_bytes_per_s, fma_per_s;
  ij_bench_stat first_token_s; /* from opening the warm file to the first id of a one-token prompt */
  double prefill_fma;          /* multiply-adds the prefill needs */
  ij_bench_stat prefill_tokens_per_s, prefill_share;
  ij_bench_decode decode;      /* after the prompt */
  ij_bench_decode at_depth[IJ_BENCH_MAX_DEPTHS];
  int n_depths;
  ij_streaming_info home;      /* at the end; without its note */
  ij_bench_experts prefill_experts, decode_experts; /* decode: at all depths */
  ij_err usage;                /* why the use of experts was not read or not kept; code IJ_OK: nothing to say */
  int64_t n_untraced;          /* accesses that trace_path has not, because its room was full */
} ij_bench_result;

/* Media through the towers: a picture of 1024 x 1024 pixels and a sound of 60 s. */
typedef struct ij_bench_media_result {
  ij_towers_info towers;     /* without its source */
  int n_threads;
  char level[16];
  ij_bench_stat read_bytes_per_s, fma_per_s;
  int64_t n_patches, n_frames; /* 0: there is no such tower */
  double vision_fma;         /* multiply-adds the picture needs */
  ij_bench_stat vision_s, vision_share;         /* of the multiply-add peak */
  double audio_bytes, audio_adds;               /* of the table that the sound adds up, from wherever it comes; additions */
  ij_bench_stat audio_s, audio_read, audio_share; /* of the read bandwidth (rows of the table stay in caches); of the multiply-add peak */
} ij_bench_media_result;

/* Sorts the samples. */
ij_bench_stat ij__bench_stat_of(double *v, int n);

ij_status ij__bench_media(ij_bench_media_result *out, const ij_bench_options *options, ij_err *err);

ij_status ij__bench_run(ij_bench_result *out, const ij_bench_options *options, ij_err *err);

#endif
