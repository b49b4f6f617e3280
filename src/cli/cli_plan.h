/* cli_plan.h: options about memory -> the plan of a model, and what a command says about it. */
#ifndef IJ_CLI_CLI_PLAN_H
#define IJ_CLI_CLI_PLAN_H

#include "cli/cli.h"

/* What a command is going to take from a model, known before it is opened. */
typedef struct cli_plan {
  int64_t n_ctx;       /* positions of a session; 0: 8192, or what the model allows */
  int n_sessions;
  int rollback;        /* 0: the usual */
  size_t kept, other;  /* for further sessions; for the command itself */
} cli_plan;

/* --mem, --home and --kv, and what the command takes. plan NULL: one session of the usual length. */
void plan_options(const cli_args *args, const cli_plan *plan, ij_model_options *options);

/* The plan that opening with these would follow; its home is AUTO when it would be refused. */
ij_plan plan_try(const cli_args *args, const char *path, const cli_plan *plan);

/* One line about a plan on standard error, when experts are streamed or with --verbose; and a warning when less is free than --mem. */
void plan_say(const cli_args *args, const ij_plan *plan);

/* Sizes of a model and whether it has towers, from its headers alone: what a command needs to know before it can say what it takes. */
typedef struct cli_peek {
  ij_model_info info;  /* without its strings */
  bool towers;
} cli_peek;
int peek_model(const cli_args *args, const char *path, cli_peek *out);

/* Positions that a prompt of text and `more` tokens after it need at most: --ctx, or by the text, which is only tokenized (by `own`, or the
 * tokenizer of the model) when it is long. */
int64_t plan_ctx_of_text(const cli_args *args, const ij_tokenizer *own, const char *text, size_t n, int64_t more);

/* "1.21 GB", into a buffer that the next call but seven reuses. */
const char *plan_size(double n_bytes);

#endif
