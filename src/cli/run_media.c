/* run_media.c: a text in which markers stand for files.
 *
 * The media are rendered as one user's message, by the code that renders conversations, and its pieces are copied to where the markers
 * stand: of a picture or sound the rows alone, of a video everything that its part became. What is between markers is encoded by itself.
 */
#include "cli/run_media.h"

#include <string.h>

#include "cli/cli_media.h"
#include "core/alloc.h"

typedef struct splice {
  run_media *m;
  const ij_tokenizer *tokenizer;
  bool special;
  int32_t *ids;
  size_t n_ids, cap_ids;
  int segment;           /* of the parts, the next to copy */
} splice;

static int add_ids(splice *s, const int32_t *ids, size_t n) {
  if (n > s->cap_ids - s->n_ids) {
    size_t cap = IJ_MAX(2 * s->cap_ids, s->n_ids + n);
    int32_t *grown = ij__realloc(s->ids, cap * sizeof *grown);
    if (!grown) return say_nomem("the prompt", cap * sizeof *grown);
    s->ids = grown;
    s->cap_ids = cap;
  }
  if (n > 0) memcpy(s->ids + s->n_ids, ids, n * sizeof *ids);
  s->n_ids += n;
  return CLI_EXIT_OK;
}

static int add_text(splice *s, const char *text, size_t n) {
  int32_t *ids;
  size_t n_ids;
  if (n == 0) return CLI_EXIT_OK;
  int rc = encode_text(s->tokenizer, text, n, s->special, &ids, &n_ids);
  if (rc == CLI_EXIT_OK) rc = add_ids(s, ids, n_ids);
  ij__free(ids);
  return rc;
}

static bool is_medium(ij_segment s) { return s.kind == IJ_SEGMENT_IMAGE || s.kind == IJ_SEGMENT_AUDIO; }

/* One segment of the parts, with the rows that stand there. */
static int add_segment(splice *s, ij_segment segment) {
  if (is_medium(segment)) {
    int n;
    const ij_rows *all = ij_attachments_rows(s->m->attachments, &n);
    s->m->rows[s->m->n_rows] = all[s->m->n_rows];
    s->m->rows[s->m->n_rows++].first = (int64_t)s->n_ids;
  }
  return add_ids(s, ij_prompt_ids(s->m->parts) + segment.first, (size_t)segment.n_ids);
}

/* What the next part became. A block of the message begins with a role: those of a video are copied whole, up to the next part. */
static int add_medium(splice *s) {
  const ij_prompt *parts = s->m->parts;
  int n = ij_prompt_n_segments(parts), first = s->segment, rc = CLI_EXIT_OK;
  while (first < n && !is_medium(ij_prompt_segment(parts, first))) first++;
  ij_segment medium = ij_prompt_segment(parts, first);
  if (!medium.video) {
    s->segment = first + 1;
    return add_segment(s, medium);
  }
  int last = first;
  for (int i = first; i < n; i++) {
    if (ij_prompt_segment(parts, i).source == medium.source) last = i;
  }
  bool sound = ij_prompt_segment(parts, last).kind == IJ_SEGMENT_AUDIO;
  int from = first - 2 - 4 - 4; /* role, kind; the time: role, kind, text, end; the line before it, too */
  int to = last + (sound ? 3 : 2);
  for (int i = from; i < to && rc == CLI_EXIT_OK; i++) rc = add_segment(s, ij_prompt_segment(parts, i));
  s->segment = to;
  return rc;
}

static int splice_all(splice *s, const char *text, size_t n) {
  const char *end = text + n;
  int rc = CLI_EXIT_OK;
  while (rc == CLI_EXIT_OK) {
    const char *mark = text;
    while (mark < end && !((size_t)(end - mark) >= sizeof RUN_MARKER - 1 && memcmp(mark, RUN_MARKER, sizeof RUN_MARKER - 1) == 0)) mark++;
    rc = add_text(s, text, (size_t)(mark - text));
    if (mark == end || rc != CLI_EXIT_OK) return rc;
    rc = add_medium(s);
    text = mark + sizeof RUN_MARKER - 1;
  }
  return rc;
}

static int count_markers(const char *text, size_t n) {
  int count = 0;
  for (size_t at = 0; at + sizeof RUN_MARKER - 1 <= n; at++) count += memcmp(text + at, RUN_MARKER, sizeof RUN_MARKER - 1) == 0;
  return count;
}

static int check_markers(const cli_args *args, int n_markers) {
  int n = args->n_media;
  if (n_markers == n) return CLI_EXIT_OK;
  if (n_markers == 0) {
    return say_misuse(args, "the prompt says nowhere where %s belongs: put " RUN_MARKER " there (inkjet chat needs none)",
                      args->media[0].path);
  }
  return say_misuse(args, "the prompt has %d " RUN_MARKER " and the command line %d file%s: give as many --image, --audio and --video as "
                    "there are", n_markers, n, n == 1 ? "" : "s");
}

/* A user's message of nothing but the media, rendered and opened. */
static int open_parts(run_media *m, const cli_args *args, ij_model *model, const ij_tokenizer *tokenizer) {
  ij_buf json = {0};
  ij_err err = {0};
  ij_model_info info;
  ij_prompt_options o = ij_prompt_options_default();
  ij_model_get_info(model, &info);
  int64_t most = args->v[OPT_CTX].set ? IJ_MIN(args->v[OPT_CTX].i, info.max_context) : info.max_context;
  int rc = media_open(args, model, most, &m->attachments);
  if (rc != CLI_EXIT_OK) return rc;
  o.add_generation_prompt = false;
  o.video = ij_attachments_video;
  o.user = m->attachments;
  ij__buf_puts(&json, "[{\"role\":\"user\",\"content\":[");
  rc = media_parts(args, &json);
  ij__buf_puts(&json, "]}]");
  if (rc == CLI_EXIT_OK && json.failed) rc = say_nomem("the media", json.len);
  if (rc == CLI_EXIT_OK) {
    ij_status s = ij_prompt_render(&m->parts, tokenizer, json.data, json.len, NULL, 0, &o, &err);
    if (s == IJ_OK) s = media_attach(m->attachments, model, m->parts, &err);
    if (s != IJ_OK) rc = say_bad_input(&err);
  }
  ij__buf_free(&json);
  return rc;
}

int run_media_prompt(run_media *m, const cli_args *args, ij_model *model, const ij_tokenizer *tokenizer, const char *text, size_t n,
                     int32_t **ids, size_t *n_ids) {
  splice s = {.m = m, .tokenizer = tokenizer, .special = args->v[OPT_SPECIAL].set};
  int rc = CLI_EXIT_OK;
  if (!tokenizer) {
    rc = say_misuse(args, "no tokenizer lies with the checkpoint: pass --tokenizer PATH, or give the prompt as --ids");
  }
  if (rc == CLI_EXIT_OK) rc = check_markers(args, count_markers(text, n));
  if (rc == CLI_EXIT_OK && args->n_media > 0) rc = open_parts(m, args, model, tokenizer);
  if (rc == CLI_EXIT_OK && m->attachments) {
    m->rows = ij__alloc_array((size_t)ij_attachments_n_media(m->attachments) + 1, sizeof *m->rows);
    if (!m->rows) rc = say_nomem("the places of media", sizeof *m->rows);
  }
  if (rc == CLI_EXIT_OK) rc = splice_all(&s, text, n);
  if (rc != CLI_EXIT_OK) ij__free(s.ids);
  else *ids = s.ids, *n_ids = s.n_ids;
  return rc;
}

static void note(void *user, const char *line) {
  (void)user;
  say_plain("%s", line);
}

int run_media_eval(run_media *m, ij_model *model, ij_session *session, const int32_t *ids, int64_t n) {
  ij_model_info info;
  int rc = CLI_EXIT_OK;
  if (m->attachments) {
    int n_all;
    media_costs(m->attachments, m->parts, 0, note, NULL);
    rc = media_encode(m->attachments, ij_model_towers(model), 0);
    const ij_rows *all = ij_attachments_rows(m->attachments, &n_all);
    for (int i = 0; i < m->n_rows; i++) m->rows[i].rows = all[i].rows;
  }
  ij_model_get_info(model, &info);
  return rc == CLI_EXIT_OK ? media_eval(session, info.hidden, ids, n, m->rows, m->n_rows, "reading the prompt") : rc;
}

void run_media_close(run_media *m) {
  ij_attachments_close(&m->attachments);
  ij_prompt_close(&m->parts);
  ij__free(m->rows);
}
