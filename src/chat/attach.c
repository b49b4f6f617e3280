/* attach.c: the media of a prompt: found in its parts, opened, counted, encoded.
 *
 * Three lists. Sources are what was opened, by the place it came from: equal parts are opened once. Encoded rows belong to contents, by
 * their digest: equal pictures are encoded once, whatever they came from. Uses are the segments of the prompt at hand. Attaching another
 * prompt keeps what both have and drops the rest, so that a conversation opens and encodes nothing twice.
 */
#include <stdio.h>
#include <string.h>

#include "chat/chat_int.h"
#include "chat/part.h"
#include "core/alloc.h"
#include "core/status.h"

enum { PIECE = 256 }; /* rows encoded between two questions whether anybody waits: enough for one pass over the weights to pay */

typedef struct source {
  ij_part_key key;
  ij_media *media;  /* one of these two */
  ij_video *video;
  double *seconds;  /* of the blocks of a video */
  bool in_use;
} source;

typedef struct encoded {
  uint64_t digest[2];
  ij_media_kind kind;
  const ij_media *media; /* any of that content */
  int64_t n_rows, n_done;
  int hidden;
  float *rows;           /* NULL: not begun */
  int64_t last;          /* the id after its last use in the prompt */
  bool in_use;
  size_t message, part;  /* of its first use */
} encoded;

typedef struct use {
  const ij_media *media;
  int content;           /* index in encoded */
} use;

struct ij_attachments {
  ij_attach_options opt;
  source *sources;
  encoded *contents;
  use *uses;
  ij_rows *rows;         /* [n_uses] */
  int n_sources, cap_sources, n_contents, cap_contents, n_uses, cap_uses, cap_rows;
  int64_t held;          /* ids of the prompt that a session has */
  int64_t n_rows;        /* of the prompt */
};

/* --- opening and closing */

ij_attach_options ij_attach_options_default(void) {
  return (ij_attach_options){.struct_size = sizeof(ij_attach_options),
                             .media = ij_media_options_default(),
                             .video = ij_video_options_default(),
                             .max_media = 64,
                             .max_bytes = (size_t)1 << 28};
}

ij_status ij_attachments_open(ij_attachments **out, const ij_attach_options *options, ij_err *err) {
  if (!out) return ij__fail(err, IJ_E_ARGUMENT, "ij_attachments_open", "out must not be NULL");
  *out = NULL;
  if (options && options->struct_size != sizeof *options) {
    return ij__fail(err, IJ_E_ARGUMENT, "options.struct_size", "expected %zu, found %zu; begin with ij_attach_options_default",
                    sizeof *options, options->struct_size);
  }
  if (options && (options->max_media < 0 || options->max_rows < 0)) {
    return ij__fail(err, IJ_E_ARGUMENT, "options", "max_media and max_rows: expected 0 or more, found %d and %lld", options->max_media,
                    (long long)options->max_rows);
  }
  ij_attachments *a = ij__alloc_zero(1, sizeof *a);
  if (!a) return ij__fail_nomem(err, "attachments", sizeof *a);
  a->opt = options ? *options : ij_attach_options_default();
  if (!a->opt.video.media) a->opt.video.media = &a->opt.media;
  *out = a;
  return IJ_OK;
}

static void free_source(source *s) {
  ij_media_close(&s->media);
  ij_video_close(&s->video);
  ij__free(s->seconds);
}

void ij_attachments_close(ij_attachments **attachments) {
  ij_attachments *a = attachments ? *attachments : NULL;
  if (!a) return;
  for (int i = 0; i < a->n_sources; i++) free_source(&a->sources[i]);
  for (int i = 0; i < a->n_contents; i++) ij__free(a->contents[i].rows);
  ij__free(a->sources);
  ij__free(a->contents);
  ij__free(a->uses);
  ij__free(a->rows);
  ij__free(a);
  *attachments = NULL;
}

/* Room for one more element. */
static ij_status grow(void **list, int *cap, int n, size_t size, ij_err *err) {
  if (n < *cap) return IJ_OK;
  size_t more = IJ_MAX((size_t)2 * (size_t)*cap, (size_t)16), n_bytes;
  void *grown = more <= INT32_MAX && ij__mul_size(more, size, &n_bytes) ? ij__realloc(*list, n_bytes) : NULL;
  if (!grown) return ij__fail_nomem(err, "the list of media", more * size);
  *list = grown;
  *cap = (int)more;
  return IJ_OK;
}

/* --- sources */

static ij_status note_times(source *s, ij_err *err) {
  int n = ij_video_n_blocks(s->video);
  s->seconds = ij__alloc_array((size_t)IJ_MAX(n, 1), sizeof *s->seconds);
  if (!s->seconds) return ij__fail_nomem(err, "the times of a video", (size_t)n * sizeof *s->seconds);
  for (int i = 0; i < n; i++) ij_video_block(s->video, i, &s->seconds[i]);
  return IJ_OK;
}

static ij_status open_source(const ij_attachments *a, const ij_part *part, const char *name, source *s, ij_err *err) {
  ij_part_bytes bytes = {0};
  const char *shown = part->place == IJ_PART_BASE64 ? name : part->text;
  bool movie = part->kind == IJ_PART_MOVIE, by_path = movie && part->place == IJ_PART_FILE; /* the decoder reads it itself */
  ij_status status = by_path ? IJ_OK : ij__part_load(part, &a->opt, &bytes, err);
  if (status == IJ_OK && movie) {
    status = ij_video_open(&s->video, by_path ? part->text : NULL, bytes.data, bytes.n, shown, &a->opt.video, err);
    if (status == IJ_OK) status = note_times(s, err);
  } else if (status == IJ_OK) {
    ij_media_kind kind = part->kind == IJ_PART_SOUND ? IJ_MEDIA_AUDIO : IJ_MEDIA_IMAGE;
    status = ij_media_open(&s->media, kind, bytes.data, bytes.n, shown, &a->opt.media, err);
  }
  ij__part_free(&bytes);
  return status;
}

static int count_in_use(const ij_attachments *a) {
  int n = 0;
  for (int i = 0; i < a->n_sources; i++) n += a->sources[i].in_use;
  return n;
}

static ij_status check_rows(const ij_attachments *a, int64_t n_rows, const char *name, ij_err *err) {
  if (a->opt.max_rows == 0 || n_rows <= a->opt.max_rows) return IJ_OK;
  return ij__fail(err, IJ_E_CONTEXT, name, "with it the media cost %lld tokens or more, and at most %lld are accepted here",
                  (long long)n_rows, (long long)a->opt.max_rows);
}

static ij_status check_number(const ij_attachments *a, int n, const char *name, ij_err *err) {
  if (n <= a->opt.max_media) return IJ_OK;
  return ij__fail(err, IJ_E_RANGE, name, "this is medium %d, and a conversation may have %d", n, a->opt.max_media);
}

/* The source of a part, opened if it is new. */
static ij_status find_source(ij_attachments *a, ij_part_kind kind, const char *json, size_t n, const char *name, source **out,
                             ij_err *err) {
  ij_part part;
  *out = NULL;
  ij_status s = ij__part_locate(&part, kind, json, n, &a->opt, err);
  for (int i = 0; s == IJ_OK && i < a->n_sources && !*out; i++) {
    if (ij__part_same(&a->sources[i].key, &part.key)) *out = &a->sources[i];
  }
  if (s == IJ_OK && !(*out && (*out)->in_use)) s = check_number(a, count_in_use(a) + 1, name, err);
  if (s == IJ_OK && !*out) {
    source opened = {.key = part.key};
    s = grow((void **)&a->sources, &a->cap_sources, a->n_sources, sizeof *a->sources, err);
    if (s == IJ_OK) s = open_source(a, &part, name, &opened, err);
    if (s == IJ_OK) a->sources[a->n_sources++] = opened;
    else free_source(&opened);
    if (s == IJ_OK) *out = &a->sources[a->n_sources - 1];
  }
  if (s == IJ_OK) (*out)->in_use = true;
  ij__part_close(&part);
  return s;
}

ij_status ij_attachments_video(void *attachments, const char *part, size_t n_part, int *n_blocks, const double **seconds, bool *sound,
                               ij_err *err) {
  ij_attachments *a = attachments;
  source *found;
  ij_video_info info;
  ij_status s = find_source(a, IJ_PART_MOVIE, part, n_part, "the video", &found, err);
  if (s != IJ_OK) return s;
  ij_video_get_info(found->video, &info);
  s = check_rows(a, info.n_rows, "the video", err);
  if (s != IJ_OK) return s;
  *n_blocks = ij_video_n_blocks(found->video);
  *seconds = found->seconds;
  *sound = ij_video_sound(found->video) != NULL;
  return IJ_OK;
}

/* --- attaching */

/* The content of a medium, a new one if it is not there yet. */
static ij_status find_content(ij_attachments *a, const ij_media *media, const ij_media_info *info, int *index, ij_err *err) {
  for (int i = 0; i < a->n_contents; i++) {
    encoded *c = &a->contents[i];
    if (c->kind != info->kind || c->digest[0] != info->digest[0] || c->digest[1] != info->digest[1] || c->n_rows != info->n_rows) continue;
    c->media = media; /* what it was found by before may go */
    *index = i;
    return IJ_OK;
  }
  ij_status s = grow((void **)&a->contents, &a->cap_contents, a->n_contents, sizeof *a->contents, err);
  if (s != IJ_OK) return s;
  *index = a->n_contents++;
  a->contents[*index] = (encoded){.digest = {info->digest[0], info->digest[1]}, .kind = info->kind, .media = media, .n_rows = info->n_rows};
  return IJ_OK;
}

static const ij_media *medium_of(const source *s, const ij_chat_place *place, ij_segment_kind kind) {
  if (!place->video) return s->media;
  return kind == IJ_SEGMENT_AUDIO ? ij_video_sound(s->video) : ij_video_block(s->video, place->block, NULL);
}

static ij_status attach_one(ij_attachments *a, ij_prompt *prompt, int index, const char *path, ij_err *err) {
  const ij_chat_segment segment = prompt->segments[index];
  ij_part_kind kind = segment.place.video ? IJ_PART_MOVIE : segment.kind == IJ_SEGMENT_AUDIO ? IJ_PART_SOUND : IJ_PART_PICTURE;
  source *found;
  ij_media_info info;
  int content = 0;
  ij_status s = find_source(a, kind, prompt->text.data + segment.source, segment.n_source, path, &found, err);
  if (s != IJ_OK) return s;
  const ij_media *media = medium_of(found, &segment.place, segment.kind);
  if (!media) return ij__fail(err, IJ_E_ARGUMENT, path, "the video has other blocks than when the prompt was rendered");
  ij_media_get_info(media, &info);
  s = check_rows(a, a->n_rows + info.n_rows, path, err);
  if (s == IJ_OK) s = find_content(a, media, &info, &content, err);
  if (s == IJ_OK) s = grow((void **)&a->uses, &a->cap_uses, a->n_uses, sizeof *a->uses, err);
  if (s == IJ_OK) s = grow((void **)&a->rows, &a->cap_rows, a->n_uses, sizeof *a->rows, err);
  if (s == IJ_OK) s = ij_prompt_set_rows(prompt, index, info.n_rows, err);
  if (s != IJ_OK) return s;
  encoded *c = &a->contents[content];
  if (!c->in_use) c->message = segment.place.message, c->part = segment.place.part;
  c->in_use = true;
  c->last = segment.first + info.n_rows;
  a->n_rows += info.n_rows;
  a->uses[a->n_uses] = (use){media, content};
  a->rows[a->n_uses++] = (ij_rows){.first = segment.first, .n = info.n_rows, .digest = {info.digest[0], info.digest[1]}};
  return IJ_OK;
}

/* Drops what the prompt does not use; the places in `uses` follow. */
static void drop_unused(ij_attachments *a) {
  int n = 0;
  for (int i = 0; i < a->n_contents; i++) {
    if (!a->contents[i].in_use) {
      ij__free(a->contents[i].rows);
      continue;
    }
    for (int k = 0; k < a->n_uses; k++) {
      if (a->uses[k].content == i) a->uses[k].content = n;
    }
    a->contents[n++] = a->contents[i];
  }
  a->n_contents = n;
  n = 0;
  for (int i = 0; i < a->n_sources; i++) {
    if (a->sources[i].in_use) a->sources[n++] = a->sources[i];
    else free_source(&a->sources[i]);
  }
  a->n_sources = n;
}

static void point_rows(ij_attachments *a) {
  for (int i = 0; i < a->n_uses; i++) {
    const encoded *c = &a->contents[a->uses[i].content];
    a->rows[i].rows = c->rows && c->n_done == c->n_rows ? c->rows : NULL;
  }
}

static void path_of(char *out, size_t size, size_t message, size_t part) {
  snprintf(out, size, "messages[%zu].content[%zu]", message, part);
}

ij_status ij_attachments_attach(ij_attachments *a, ij_prompt *prompt, ij_err *err) {
  ij_status s = IJ_OK;
  int n_parts = 0;
  if (!a || !prompt) return ij__fail(err, IJ_E_ARGUMENT, "ij_attachments_attach", "attachments and prompt must not be NULL");
  a->n_uses = 0;
  a->held = a->n_rows = 0;
  for (int i = 0; i < a->n_contents; i++) a->contents[i].in_use = false;
  for (int i = 0; i < a->n_sources; i++) a->sources[i].in_use = false;
  for (size_t i = 0; i < prompt->n_segments && s == IJ_OK; i++) {
    const ij_chat_segment *segment = &prompt->segments[i];
    char path[100];
    if (segment->kind != IJ_SEGMENT_IMAGE && segment->kind != IJ_SEGMENT_AUDIO) continue;
    path_of(path, sizeof path, segment->place.message, segment->place.part);
    if (!segment->place.video || segment->place.block == 0) s = check_number(a, ++n_parts, path, err);
    if (s == IJ_OK) s = ij__part_fail(attach_one(a, prompt, (int)i, path, err), path, err);
  }
  if (s == IJ_OK) drop_unused(a);
  else a->n_uses = 0;
  for (int i = 0; i < a->n_contents && s != IJ_OK; i++) a->contents[i].in_use = false;
  for (int i = 0; i < a->n_sources; i++) a->sources[i].in_use = false; /* counted anew by the next rendering */
  point_rows(a);
  return s;
}

void ij_attachments_held(ij_attachments *attachments, int64_t n_ids) { attachments->held = n_ids; }

/* --- encoding */

static ij_status begin_rows(encoded *c, int hidden, ij_err *err) {
  size_t n, n_bytes;
  if (c->rows && c->hidden == hidden) return IJ_OK;
  ij__free(c->rows);
  c->n_done = 0;
  c->hidden = hidden;
  c->rows = ij__mul_size((size_t)c->n_rows, (size_t)hidden, &n) && ij__mul_size(n, sizeof *c->rows, &n_bytes) ? ij__alloc(n_bytes) : NULL;
  return c->rows ? IJ_OK : ij__fail_nomem(err, "the rows of a medium", (size_t)c->n_rows);
}

static ij_status encode_one(encoded *c, ij_towers *towers, int hidden, bool (*alive)(void *user), void *user, ij_err *err) {
  ij_status s = begin_rows(c, hidden, err);
  while (s == IJ_OK && c->n_done < c->n_rows) {
    int64_t n = IJ_MIN((int64_t)PIECE, c->n_rows - c->n_done);
    if (alive && !alive(user)) return ij__fail(err, IJ_E_CANCELLED, "media", "the encoding was stopped");
    s = ij_towers_encode(towers, c->media, c->n_done, n, c->rows + c->n_done * hidden, err);
    if (s == IJ_OK) c->n_done += n;
  }
  return s;
}

ij_status ij_attachments_encode(ij_attachments *a, ij_towers *towers, bool (*alive)(void *user), void *user, ij_err *err) {
  ij_towers_info info = {0};
  ij_status s = IJ_OK;
  if (!a) return ij__fail(err, IJ_E_ARGUMENT, "ij_attachments_encode", "attachments must not be NULL");
  if (towers) ij_towers_get_info(towers, &info);
  for (int i = 0; i < a->n_contents && s == IJ_OK; i++) {
    encoded *c = &a->contents[i];
    char path[100];
    if (!c->in_use || c->last <= a->held) continue;
    path_of(path, sizeof path, c->message, c->part);
    if (!towers) {
      s = ij__fail(err, IJ_E_UNSUPPORTED, path, "this model has no towers, which turn media into what it reads");
    } else {
      s = encode_one(c, towers, info.hidden, alive, user, err);
      if (s != IJ_E_CANCELLED) s = ij__part_fail(s, path, err);
    }
  }
  point_rows(a);
  return s;
}

const ij_rows *ij_attachments_rows(const ij_attachments *attachments, int *n) {
  *n = attachments->n_uses;
  return attachments->rows;
}

int ij_attachments_n_media(const ij_attachments *attachments) { return attachments->n_uses; }

const ij_media *ij_attachments_media(const ij_attachments *attachments, int index) {
  return index >= 0 && index < attachments->n_uses ? attachments->uses[index].media : NULL;
}
