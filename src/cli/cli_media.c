/* cli_media.c: files become content parts, parts become rows, and what they cost is said before they are read.
 *
 * A file is kept as an absolute file: URL, the form of OpenAI's messages that other programs read too, so that a saved conversation can be
 * loaded from any folder.
 */
#include "cli/cli_media.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"
#include "io/json.h"

ij_media_options media_options(const cli_args *args, const ij_towers *towers) {
  ij_media_options o = ij_towers_media_options(towers);
  if (args->v[OPT_MAX_LONG_EDGE].set) o.max_long_edge = (int)args->v[OPT_MAX_LONG_EDGE].i;
  return o;
}

ij_video_options video_options(const cli_args *args) {
  ij_video_options o = ij_video_options_default();
  if (args->v[OPT_VIDEO_FPS].set) o.fps = args->v[OPT_VIDEO_FPS].real;
  if (args->v[OPT_VIDEO_FRAMES].set) o.max_frames = (int)args->v[OPT_VIDEO_FRAMES].i;
  if (args->v[OPT_VIDEO_STILLS].set) o.pairs = false;
  if (args->v[OPT_VIDEO_SOUND].set) o.sound = true;
  return o;
}

bool names_video_options(const cli_args *args) {
  return args->v[OPT_VIDEO_FPS].set || args->v[OPT_VIDEO_FRAMES].set || args->v[OPT_VIDEO_STILLS].set || args->v[OPT_VIDEO_SOUND].set;
}

/* ------------------------------------------------------------------------------------------------------------------ parts */

static void put_percent(ij_buf *out, const char *path) {
  for (; *path; path++) {
    unsigned char c = (unsigned char)*path;
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("/-._~+@,", c);
    ij__buf_printf(out, plain ? "%c" : "%%%02X", c);
  }
}

int media_part(cli_option_id kind, const char *path, ij_buf *out) {
  const char *type = kind == OPT_IMAGE ? "image_url" : kind == OPT_AUDIO ? "audio_url" : "video_url";
  ij_err err = {0};
  char *real = realpath(path, NULL);
  if (!real) {
    ij__fail_errno(&err, errno, path, "cannot open the file");
    return say_bad_input(&err);
  }
  ij__buf_printf(out, "{\"type\":\"%s\",\"%s\":{\"url\":\"file://", type, type);
  put_percent(out, real);
  ij__buf_puts(out, "\"}}");
  free(real);
  return out->failed ? say_nomem("a file name", strlen(path)) : CLI_EXIT_OK;
}

int media_parts(const cli_args *args, ij_buf *out) {
  int rc = CLI_EXIT_OK;
  for (int i = 0; i < args->n_media && rc == CLI_EXIT_OK; i++) {
    if (i) ij__buf_puts(out, ",");
    rc = media_part(args->media[i].option, args->media[i].path, out);
  }
  return rc;
}

int media_open(const cli_args *args, ij_model *model, int64_t max_rows, ij_attachments **out) {
  ij_err err = {0};
  ij_attach_options o = ij_attach_options_default();
  o.media = media_options(args, ij_model_towers(model));
  o.video = video_options(args);
  o.files = true;
  o.max_media = 4096;
  o.max_rows = max_rows;
  o.max_bytes = SIZE_MAX / 2 < (uint64_t)1 << 32 ? SIZE_MAX / 2 : (size_t)1 << 32;
  return ij_attachments_open(out, &o, &err) == IJ_OK ? CLI_EXIT_OK : say_failed(&err);
}

static bool is_medium(ij_segment_kind kind) { return kind == IJ_SEGMENT_IMAGE || kind == IJ_SEGMENT_AUDIO; }

/* A model that has no tower for a medium cannot take it: said before anything is opened. */
static ij_status check_towers(ij_model *model, const ij_prompt *prompt, ij_err *err) {
  ij_towers_info info = {0};
  ij_towers *towers = ij_model_towers(model);
  if (towers) ij_towers_get_info(towers, &info);
  for (int i = 0; i < ij_prompt_n_segments(prompt); i++) {
    ij_segment s = ij_prompt_segment(prompt, i);
    bool sound = s.kind == IJ_SEGMENT_AUDIO;
    const char *what = sound ? "a sound" : s.video ? "a video" : "a picture", *error = ij_model_towers_error(model);
    if (!is_medium(s.kind) || (sound ? info.audio : info.vision)) continue;
    if (error) return ij__fail(err, IJ_E_UNSUPPORTED, what, "the towers of this model cannot be used: %s", error);
    return ij__fail(err, IJ_E_UNSUPPORTED, what,
                    "this model has no %s tower, so it cannot take one; --mmproj FILE gives it the towers of another file",
                    sound ? "audio" : "vision");
  }
  return IJ_OK;
}

ij_status media_attach(ij_attachments *attachments, ij_model *model, ij_prompt *prompt, ij_err *err) {
  ij_status s = check_towers(model, prompt, err);
  return s == IJ_OK ? ij_attachments_attach(attachments, prompt, err) : s;
}

/* ------------------------------------------------------------------------------------------------------------------ costs */

static const char *url_of(const ij_json_value *part) {
  static const char *const keys[] = {"url", "path", "data"};
  ij_json_iter it = {0};
  const char *key, *text;
  size_t n_key, n;
  const ij_json_value *v;
  while (ij__json_next(part, &it, &key, &n_key, &v)) {
    if (n_key == 4 && memcmp(key, "type", 4) == 0) continue;
    if (ij__json_get_string(v, &text, &n)) return text;
    for (size_t i = 0; i < IJ_COUNT_OF(keys); i++) {
      if (ij__json_get_string(ij__json_member(v, keys[i]), &text, &n)) return strcmp(keys[i], "data") == 0 ? "data:" : text;
    }
  }
  return "";
}

static int hex_of(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* What a person calls it: the last part of a path. */
static void name_of(const ij_segment *segment, char *out, size_t size) {
  ij_json *doc = NULL;
  snprintf(out, size, "medium");
  if (ij__json_parse(&doc, segment->source, segment->n_source, "a part", NULL) != IJ_OK) return;
  const char *url = url_of(ij__json_root(doc)), *slash = strrchr(url, '/');
  bool file = strncmp(url, "file:", 5) == 0, data = strncmp(url, "data:", 5) == 0;
  if (data) url = "data: URL";
  else if (slash && slash[1]) url = slash + 1;
  size_t n = 0;
  for (; *url && n + 1 < size; url++) {
    int high = file && *url == '%' ? hex_of(url[1]) : -1, low = high >= 0 ? hex_of(url[2]) : -1;
    out[n++] = low >= 0 ? (char)(high * 16 + low) : *url;
    if (low >= 0) url += 2;
  }
  out[n] = 0;
  ij__json_free(&doc);
}

/* One part of a message; a video has several segments. */
typedef struct cost {
  ij_segment segment;   /* the first */
  ij_media_info info;   /* of it */
  int n_blocks;         /* of frames */
  double sound;         /* seconds of the sound of a video */
  int64_t n_rows, end;
} cost;

static void describe(const cost *c, char *out, size_t size) {
  const ij_media_info *m = &c->info;
  char scaled[64] = "", film[80] = "picture, ", heard[48] = "";
  if (m->kind == IJ_MEDIA_AUDIO) {
    snprintf(out, size, "sound, %.2f s: ", m->seconds);
    return;
  }
  bool same = m->used_width == m->width && m->used_height == m->height;
  if (!same) snprintf(scaled, sizeof scaled, ", used as %d x %d", m->used_width, m->used_height);
  if (c->segment.video) snprintf(film, sizeof film, "video, %d %s%s of ", c->n_blocks, m->pair ? "frame pair" : "frame",
                                 c->n_blocks == 1 ? "" : "s");
  if (c->sound > 0) snprintf(heard, sizeof heard, ", %.2f s of sound", c->sound);
  snprintf(out, size, "%s%d x %d%s%s: ", film, m->width, m->height, scaled, heard);
}

static void note_cost(const cost *c, int64_t from, media_note note, void *user) {
  char name[120], text[200], line[360];
  if (c->end <= from) return;
  name_of(&c->segment, name, sizeof name);
  describe(c, text, sizeof text);
  snprintf(line, sizeof line, "%s: %s%lld token%s", name, text, (long long)c->n_rows, c->n_rows == 1 ? "" : "s");
  note(user, line);
}

void media_costs(const ij_attachments *attachments, const ij_prompt *prompt, int64_t from, media_note note, void *user) {
  cost c = {0};
  for (int i = 0, k = 0; i < ij_prompt_n_segments(prompt); i++) {
    ij_segment s = ij_prompt_segment(prompt, i);
    ij_media_info info;
    if (!is_medium(s.kind)) continue;
    ij_media_get_info(ij_attachments_media(attachments, k++), &info);
    if (c.n_rows == 0 || c.segment.source != s.source) { /* another part */
      note_cost(&c, from, note, user);
      c = (cost){.segment = s, .info = info};
    }
    c.n_blocks += s.kind == IJ_SEGMENT_IMAGE;
    if (s.kind == IJ_SEGMENT_AUDIO) c.sound = info.seconds;
    c.n_rows += s.n_ids;
    c.end = s.first + s.n_ids;
  }
  note_cost(&c, from, note, user);
}

/* --------------------------------------------------------------------------------------------------------------- encoding */

typedef struct encoding {
  int64_t n_rows, n_asked;
} encoding;

static bool alive(void *user) {
  encoding *e = user;
  progress_update(IJ_MIN(1.0, (double)e->n_asked / (double)IJ_MAX(e->n_rows, (int64_t)1)));
  e->n_asked += 256; /* about what is encoded between two questions */
  return !interrupted();
}

int media_encode(ij_attachments *attachments, ij_towers *towers, int64_t n_held) {
  ij_err err = {0};
  encoding e = {0};
  int n;
  const ij_rows *rows = ij_attachments_rows(attachments, &n);
  for (int i = 0; i < n; i++) e.n_rows += rows[i].first + rows[i].n > n_held && !rows[i].rows ? rows[i].n : 0;
  if (e.n_rows == 0) return CLI_EXIT_OK;
  ij_attachments_held(attachments, n_held);
  progress_begin("encoding the media");
  ij_status s = ij_attachments_encode(attachments, towers, alive, &e, &err);
  progress_end();
  return s == IJ_OK ? CLI_EXIT_OK : say_bad_input(&err);
}

int media_cut(const ij_rows *rows, int n_rows, int hidden, int64_t from, int64_t n, ij_rows *out) {
  int n_out = 0;
  for (int i = 0; i < n_rows; i++) {
    int64_t first = IJ_MAX(rows[i].first, from), end = IJ_MIN(rows[i].first + rows[i].n, from + n), skip = first - rows[i].first;
    if (first >= end) continue;
    out[n_out] = rows[i];
    out[n_out].first = first - from;
    out[n_out].n = end - first;
    out[n_out].row0 += skip;
    if (rows[i].rows) out[n_out].rows += skip * hidden;
    n_out++;
  }
  return n_out;
}

int media_eval(ij_session *session, int hidden, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, const char *what) {
  enum { CHUNK = 512 }; /* one batch of the library by default: large enough for full speed, short enough for Ctrl-C */
  ij_err err = {0};
  ij_status s = IJ_OK;
  ij_rows *cut = ij__alloc_array((size_t)n_rows + 1, sizeof *cut);
  if (!cut) return say_nomem("the places of media", (size_t)n_rows * sizeof *cut);
  progress_begin(what);
  for (int64_t at = 0; at < n && s == IJ_OK && !interrupted(); at += CHUNK) {
    int64_t part = IJ_MIN((int64_t)CHUNK, n - at);
    progress_update((double)at / (double)n);
    s = ij_session_eval_rows(session, ids + at, part, cut, media_cut(rows, n_rows, hidden, at, part, cut), &err);
  }
  progress_end();
  ij__free(cut);
  if (s != IJ_OK) return say_failed(&err);
  return interrupted() ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}
