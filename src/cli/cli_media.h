/* cli_media.h: pictures, sounds and videos on the command line: files become content parts, parts become rows, and what they cost is said
 * before they are read.
 */
#ifndef IJ_CLI_CLI_MEDIA_H
#define IJ_CLI_CLI_MEDIA_H

#include "cli/cli.h"
#include "core/str.h"
#include "inkjet_chat.h"

/* How the towers of the model want their media; NULL: as the published models do. */
ij_media_options media_options(const cli_args *args, const ij_towers *towers);

/* What --video-fps and the others say; `media` is for the caller to set. */
ij_video_options video_options(const cli_args *args);
/* Whether one of them was given. */
bool names_video_options(const cli_args *args);

/* Appends the content part of a file, with its absolute path as a file: URL. kind: OPT_IMAGE, OPT_AUDIO or OPT_VIDEO. An exit code. */
int media_part(cli_option_id kind, const char *path, ij_buf *out);
/* The parts of all --image, --audio and --video, in their order, with commas between them. */
int media_parts(const cli_args *args, ij_buf *out);

/* max_rows: as many tokens may media have. An exit code. */
int media_open(const cli_args *args, ij_model *model, int64_t max_rows, ij_attachments **out);

/* Opens the media of a prompt. IJ_E_UNSUPPORTED when the model has no tower for one of them. Says nothing. */
ij_status media_attach(ij_attachments *attachments, ij_model *model, ij_prompt *prompt, ij_err *err);

typedef void (*media_note)(void *user, const char *line);
/* One line for each medium that goes beyond token `from` of the prompt: what it is and what it costs. */
void media_costs(const ij_attachments *attachments, const ij_prompt *prompt, int64_t from, media_note note, void *user);

/* Encodes what lies beyond the first n_held ids, with a bar and an ear for Ctrl-C. An exit code. */
int media_encode(ij_attachments *attachments, ij_towers *towers, int64_t n_held);

/* The part of rows that stands among ids [from, from + n), placed relative to from. out: [n_rows]. How many there are. */
int media_cut(const ij_rows *rows, int n_rows, int hidden, int64_t from, int64_t n, ij_rows *out);

/* eval_chunked with media among the ids. An exit code. */
int media_eval(ij_session *session, int hidden, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, const char *what);

#endif
