/* run_media.h: the prompt of `inkjet run`: a text in which markers stand for files. */
#ifndef IJ_CLI_RUN_MEDIA_H
#define IJ_CLI_RUN_MEDIA_H

#include "cli/cli.h"
#include "inkjet_chat.h"

#define RUN_MARKER "<__media__>"

/* Zero-initialize; nothing of it is used while the command line names no media. */
typedef struct run_media {
  ij_attachments *attachments;
  ij_prompt *parts;      /* a message with nothing but the media, whose pieces are copied to the markers */
  ij_rows *rows;         /* [n_rows], as the attachments have them, at their places in the prompt */
  int n_rows;
} run_media;

/* The ids of the prompt; the media are opened and not yet encoded. Both return an exit code and have said what was wrong. */
int run_media_prompt(run_media *m, const cli_args *args, ij_model *model, const ij_tokenizer *tokenizer, const char *text, size_t n,
                     int32_t **ids, size_t *n_ids);
/* Says what the media cost, encodes them, and evaluates all of it. */
int run_media_eval(run_media *m, ij_model *model, ij_session *session, const int32_t *ids, int64_t n);
void run_media_close(run_media *m);

#endif
