/* info_media.c: `inkjet info --media FILE`: what a picture, sound or video is, how it would be prepared, and what it would cost in tokens.
 *
 * It is opened as it would be for a model: by the towers that are named, or else as the published models want it. No decoder is opened.
 */
#include "cli/info_media.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_media.h"
#include "core/alloc.h"

/* Tokens around the rows of a message: role, kind and end; a sound has an end of its own, too. */
enum { FRAME_PICTURE = 3, FRAME_SOUND = 4 };

typedef struct about {
  const cli_args *args;
  const char *path;
  ij_towers *towers;     /* NULL: none is named */
  ij_media_options options;
} about;

static int open_towers(about *a) {
  const cli_args *args = a->args;
  const char *path = args->v[OPT_MMPROJ].text;
  ij_err err = {0};
  if (!path) path = args->v[OPT_MODEL].text;
  if (!path && args->n_positional) path = args->positional[0];
  if (path) {
    ij_model_options o = ij_model_options_default();
    o.n_threads = (int)args->v[OPT_THREADS].i;
    o.cpu_mask = args->v[OPT_CPU_MASK].text;
    if (ij_towers_open(&a->towers, path, &o, &err) != IJ_OK) return say_bad_input(&err);
  }
  a->options = media_options(args, a->towers);
  return CLI_EXIT_OK;
}

/* ------------------------------------------------------------------------------------------------------ pictures and sounds */

static void json_member_int(const char *key, int64_t v) {
  json_key(key);
  json_int(v);
}

static void json_member_real(const char *key, double v) {
  json_key(key);
  json_real(v);
}

static void json_head(const about *a, const char *kind, const char *format) {
  json_open('{');
  json_key("path");
  json_text(a->path);
  json_key("kind");
  json_text(kind);
  json_key("format");
  json_text(format);
}

static void json_tokens(int64_t n_rows, int64_t n_frame) {
  json_member_int("tokens", n_rows);
  json_member_int("control_tokens", n_frame);
  json_close();
  json_end();
}

static void print_tokens(int64_t n_rows, int64_t n_frame) {
  out_printf("tokens       %lld, and %lld control tokens around them in a message\n", (long long)n_rows, (long long)n_frame);
}

static void print_head(const about *a, const char *kind, const char *format) {
  out_printf("file         ");
  json_string(a->path, strlen(a->path));
  out_printf("\nkind         %s\nformat       %s\n", kind, format);
}

static void picture_json(const about *a, const ij_media_info *m) {
  json_head(a, "image", m->format);
  json_member_int("width", m->width);
  json_member_int("height", m->height);
  json_member_int("used_width", m->used_width);
  json_member_int("used_height", m->used_height);
  json_member_int("patch", m->patch);
  json_member_int("grid_rows", m->grid_rows);
  json_member_int("grid_cols", m->grid_cols);
  json_tokens(m->n_rows, FRAME_PICTURE);
}

static void picture_text(const about *a, const ij_media_info *m) {
  print_head(a, "picture", m->format);
  out_printf("size         %d x %d pixels\n", m->width, m->height);
  if (m->used_width != m->width || m->used_height != m->height) out_printf("used as      %d x %d pixels\n", m->used_width, m->used_height);
  out_printf("grid         %d rows, %d columns of patches of %d x %d pixels\n", m->grid_rows, m->grid_cols, m->patch, m->patch);
  print_tokens(m->n_rows, FRAME_PICTURE);
}

static void sound_json(const about *a, const ij_media_info *m) {
  json_head(a, "audio", m->format);
  json_member_int("rate", m->rate);
  json_member_int("channels", m->channels);
  json_member_real("seconds", m->seconds);
  json_member_int("samples_16khz", m->n_samples);
  json_tokens(m->n_rows, FRAME_SOUND);
}

static void sound_text(const about *a, const ij_media_info *m) {
  print_head(a, "sound", m->format);
  out_printf("samples      %d per second, %d channel%s\n", m->rate, m->channels, m->channels == 1 ? "" : "s");
  out_printf("length       %.3f s: %lld samples at 16000 per second, mono\n", m->seconds, (long long)m->n_samples);
  print_tokens(m->n_rows, FRAME_SOUND);
}

static int tell_medium(const about *a) {
  ij_err err = {0};
  char *bytes;
  size_t n;
  ij_media *media = NULL;
  ij_media_info info;
  bool json = a->args->v[OPT_JSON].set;
  int rc = read_input(a->path, &bytes, &n);
  if (rc != CLI_EXIT_OK) return rc;
  ij_status s = ij_media_open(&media, IJ_MEDIA_ANY, bytes, n, a->path, &a->options, &err);
  ij__free(bytes);
  if (s != IJ_OK) return say_bad_input(&err);
  ij_media_get_info(media, &info);
  if (info.kind == IJ_MEDIA_AUDIO) (json ? sound_json : sound_text)(a, &info);
  else (json ? picture_json : picture_text)(a, &info);
  ij_media_close(&media);
  return CLI_EXIT_OK;
}

/* ------------------------------------------------------------------------------------------------------------------ videos */

/* Containers that hold videos, by their first bytes. Pictures in the container of MP4 (AVIF, HEIC) are none. */
static bool is_video(const unsigned char *b, size_t n) {
  static const unsigned char matroska[] = {0x1a, 0x45, 0xdf, 0xa3};
  if (n < 12) return false;
  if (memcmp(b + 4, "ftyp", 4) == 0) {
    static const char *const others[] = {"avif", "avis", "heic", "mif1", "M4A "};
    bool video = true;
    for (size_t i = 0; i < IJ_COUNT_OF(others); i++) video = video && memcmp(b + 8, others[i], 4) != 0;
    return video;
  }
  if (memcmp(b, "RIFF", 4) == 0) return memcmp(b + 8, "AVI ", 4) == 0;
  if (b[0] == 0 && b[1] == 0 && b[2] == 1) return b[3] == 0xba || b[3] == 0xb3;
  if (b[0] == 0x47 && n > 188) return b[188] == 0x47;
  return memcmp(b, matroska, 4) == 0 || memcmp(b, "FLV\x01", 4) == 0;
}

static bool looks_like_video(const char *path) {
  unsigned char head[256];
  int fd = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof head);
  if (fd >= 0) close(fd);
  return n > 0 && is_video(head, (size_t)n);
}

/* Control tokens around the rows of a video: those of its first line, of every time and of every picture. What the texts between them cost
 * depends on the vocabulary, and there may be none. */
static int64_t frame_of(int n_blocks, bool sound) { return 3 + (int64_t)n_blocks * (3 + FRAME_PICTURE) + (sound ? FRAME_SOUND : 0); }

static void video_json(const about *a, const ij_video_info *v, const ij_media_info *m, const ij_video *video) {
  int n_blocks = ij_video_n_blocks(video);
  json_head(a, "video", v->format);
  json_member_int("width", v->width);
  json_member_int("height", v->height);
  json_member_real("seconds", v->seconds);
  json_member_real("fps", v->fps);
  json_member_int("frames_total", v->n_frames_total);
  json_member_int("frames", v->n_frames);
  json_member_int("blocks", n_blocks);
  json_key("has_sound");
  json_bool(v->has_sound);
  json_key("uses_sound");
  json_bool(ij_video_sound(video) != NULL);
  json_member_int("used_width", m->used_width);
  json_member_int("used_height", m->used_height);
  json_member_int("patch", m->patch);
  json_member_int("grid_rows", m->grid_rows);
  json_member_int("grid_cols", m->grid_cols);
  json_tokens(v->n_rows, frame_of(n_blocks, ij_video_sound(video) != NULL));
}

static void video_text(const about *a, const ij_video_info *v, const ij_media_info *m, const ij_video *video) {
  int n_blocks = ij_video_n_blocks(video);
  bool heard = ij_video_sound(video) != NULL;
  print_head(a, "video", v->format);
  out_printf("size         %d x %d pixels\n", v->width, v->height);
  out_printf("length       %.3f s, %.3f frames per second, %s\n", v->seconds, v->fps,
             heard ? "with sound" : v->has_sound ? "with sound (not used)" : "no sound");
  out_printf("used         %d frames in %d blocks of %s\n", v->n_frames, n_blocks, m->pair ? "two" : "one");
  if (m->used_width != v->width || m->used_height != v->height) out_printf("used as      %d x %d pixels\n", m->used_width, m->used_height);
  out_printf("grid         %d rows, %d columns of patches of %d x %d pixels, for each block\n", m->grid_rows, m->grid_cols,
             m->patch, m->patch);
  out_printf("tokens       %lld, and %lld control tokens around them in a message, besides the times as text\n", (long long)v->n_rows,
             (long long)frame_of(n_blocks, heard));
}

static int tell_video(const about *a) {
  ij_err err = {0};
  ij_video *video = NULL;
  ij_video_info info;
  ij_media_info block;
  ij_video_options o = video_options(a->args);
  o.media = &a->options;
  if (ij_video_open(&video, a->path, NULL, 0, a->path, &o, &err) != IJ_OK) return say_bad_input(&err);
  ij_video_get_info(video, &info);
  ij_media_get_info(ij_video_block(video, 0, NULL), &block);
  (a->args->v[OPT_JSON].set ? video_json : video_text)(a, &info, &block, video);
  ij_video_close(&video);
  return CLI_EXIT_OK;
}

int info_media(const cli_args *args) {
  about a = {.args = args, .path = args->v[OPT_MEDIA_FILE].text};
  if (args->v[OPT_TENSORS].set || args->v[OPT_CTX].set) {
    return say_misuse(args, "--tensors and --ctx are about checkpoints, and --media about a file");
  }
  if (args->n_positional && args->v[OPT_MODEL].set) return say_misuse(args, "the checkpoint is named twice, by PATH and by -m");
  int rc = open_towers(&a);
  bool video = rc == CLI_EXIT_OK && looks_like_video(a.path);
  if (rc == CLI_EXIT_OK && !video && names_video_options(args)) {
    rc = say_misuse(args, "the options for videos need one, and %s is none", a.path);
  }
  if (rc == CLI_EXIT_OK) rc = video ? tell_video(&a) : tell_medium(&a);
  ij_towers_close(&a.towers);
  return rc;
}
