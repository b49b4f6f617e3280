/* test_image.c: pictures from pixels to patches against the reference's answers (tests/fixtures/media), the reader of GIF, and what is
 * refused. The pictures lie there also as raw pixels, so that this runs in builds without readers; media_pictures compares the readers. */
#include "test.h"

#include "core/alloc.h"
#include "core/blake2b.h"
#include "inkjet_media.h"
#include "io/json.h"
#include "media/image.h"
#include "media/media.h"
#include "media/media_kind.h"
#include "sha256.h"

#define FOLDER "tests/fixtures/media/"

static char *read_text(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    printf("%s cannot be read\n", path);
    exit(1);
  }
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  char *text = malloc(*n + 1);
  if (!text || fread(text, 1, *n, f) != *n) exit(1);
  text[*n] = 0;
  fclose(f);
  return text;
}

static ij_json *read_json(const char *name) {
  char path[256];
  size_t n;
  ij_err err = {0};
  ij_json *doc = NULL;
  snprintf(path, sizeof path, FOLDER "%s", name);
  char *text = read_text(path, &n);
  CHECK_OK(ij__json_parse(&doc, text, n, path, &err), err);
  free(text);
  return doc;
}

/* The raw pixels beside NAME.png; from malloc. */
static uint8_t *read_pixels(const char *png_name, int *w, int *h) {
  char path[256];
  size_t n;
  int at = 0;
  snprintf(path, sizeof path, FOLDER "%.*s.ppm", (int)strlen(png_name) - 4, png_name);
  char *text = read_text(path, &n);
  if (sscanf(text, "P6 %d %d 255%n", w, h, &at) != 2 || n != (size_t)at + 1 + (size_t)*w * (size_t)*h * 3) {
    printf("%s is no raw picture\n", path);
    exit(1);
  }
  memmove(text, text + at + 1, n - (size_t)at - 1);
  return (uint8_t *)text;
}

static int number(const ij_json_value *object, const char *key) {
  int64_t v = -1;
  if (!ij__json_get_int(ij__json_member(object, key), &v)) TEST_FAIL("no number %s", key);
  return (int)v;
}

static const char *string(const ij_json_value *object, const char *key) {
  const char *s = "";
  size_t n;
  ij__json_get_string(ij__json_member(object, key), &s, &n);
  return s;
}

static void check_hash(const void *bytes, size_t n, const ij_json_value *object, const char *key, const char *of) {
  char hex[65];
  sha256_hex(hex, bytes, n);
  if (strcmp(hex, string(object, key)) != 0) TEST_FAIL("%s: %s is %s, expected %s", of, key, hex, string(object, key));
}

/* ------------------------------------------------------------------------------------------------------------- resizing */

static void lanczos_equals_the_reference(void) {
  ij_json *doc = read_json("lanczos.json");
  ij_json_iter it = {0};
  const ij_json_value *v;
  int n = 0;
  while (ij__json_next(ij__json_member(ij__json_root(doc), "resize"), &it, NULL, NULL, &v)) {
    ij_err err = {0};
    ij__image image = {.orientation = 1};
    ij_json_iter sides = {0};
    const ij_json_value *side;
    int64_t to[2] = {0};
    for (int i = 0; i < 2 && ij__json_next(ij__json_member(v, "to"), &sides, NULL, NULL, &side); i++) ij__json_get_int(side, &to[i]);
    uint8_t *raw = read_pixels(string(v, "file"), &image.width, &image.height);
    size_t n_bytes = (size_t)image.width * (size_t)image.height * 3;
    image.pixels = ij__alloc(n_bytes);
    memcpy(image.pixels, raw, n_bytes);
    CHECK_OK(ij__image_resize(&image, (int)to[0], (int)to[1], "test", &err), err);
    check_hash(image.pixels, (size_t)(to[0] * to[1] * 3), v, "rgb_sha256", string(v, "file"));
    ij__free(image.pixels);
    free(raw);
    n++;
  }
  CHECK(n >= 4);
  ij__json_free(&doc);
}

static void check_grid(const ij_json_value *want, int width, int height, double frac, int long_edge) {
  ij_media_options o = ij_media_options_default();
  ij__image_file file = {NULL, 0, "test", &o};
  ij__image_plan plan;
  ij_err err = {0};
  o.rescale_frac = frac;
  o.rescale_long_edge = long_edge;
  CHECK_OK(ij__image_make_plan(&plan, width, height, &file, &err), err);
  CHECK_INT(plan.used.width, frac != 0 ? number(want, "width") : width);
  CHECK_INT(plan.used.height, frac != 0 ? number(want, "height") : height);
  CHECK_INT(plan.rows, number(want, "rows"));
  CHECK_INT(plan.cols, number(want, "cols"));
  CHECK_INT(plan.rows * plan.cols, number(want, "tokens"));
}

static void grids_equal_the_reference(void) {
  ij_json *doc = read_json("image_grid.json");
  ij_json_iter it = {0};
  const ij_json_value *v;
  CHECK(ij__json_size(ij__json_root(doc)) > 20);
  while (ij__json_next(ij__json_root(doc), &it, NULL, NULL, &v)) {
    check_grid(ij__json_member(v, "no_rescale"), number(v, "width"), number(v, "height"), 0, 2048);
    check_grid(ij__json_member(v, "rescale_2_2048"), number(v, "width"), number(v, "height"), 2.0, 2048);
  }
  ij__json_free(&doc);
}

static void the_longer_side_is_limited_before_rescaling(void) {
  static const struct {
    int w, h, limit, mid_w, mid_h, used_w, used_h;
    double frac;
  } cases[] = {
      {1000, 500, 0, 1000, 500, 1000, 500, 0},  {1000, 500, 1000, 1000, 500, 1000, 500, 0}, {1000, 500, 100, 100, 50, 100, 50, 0},
      {500, 1000, 100, 50, 100, 100, 200, 2.0}, {1000, 25, 100, 100, 2, 100, 2, 0} /* 2.5 */, {1000, 35, 100, 100, 4, 100, 4, 0} /* 3.5 */,
      {1000, 1, 10, 10, 1, 5, 1, 0.5},          {3, 2, 0, 3, 2, 2, 1, 0.5} /* 1.5 and 1 */,
  };
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    ij_media_options o = ij_media_options_default();
    ij__image_size used, mid;
    ij_err err = {0};
    o.max_long_edge = cases[i].limit;
    o.rescale_frac = cases[i].frac;
    CHECK_OK(ij__image_used_size(&used, &mid, cases[i].w, cases[i].h, &o, "test", &err), err);
    CHECK_INT(mid.width, cases[i].mid_w);
    CHECK_INT(mid.height, cases[i].mid_h);
    CHECK_INT(used.width, cases[i].used_w);
    CHECK_INT(used.height, cases[i].used_h);
  }
}

/* -------------------------------------------------------------------------------------------------------------- patches */

static uint16_t high_half(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static void normalized_values_equal_the_reference(void) {
  ij_json *doc = read_json("normalize.json");
  ij_json_iter it = {0};
  const ij_json_value *v;
  CHECK_INT(ij__json_size(ij__json_member(ij__json_root(doc), "rows")), 257);
  while (ij__json_next(ij__json_member(ij__json_root(doc), "rows"), &it, NULL, NULL, &v)) {
    ij_json_iter f = {0}, b = {0};
    const ij_json_value *exact, *rounded;
    int raw = number(v, "raw");
    for (int c = 0; c < 3; c++) {
      double want = 0;
      const char *hex = "";
      size_t n;
      ij__json_next(ij__json_member(v, "f32"), &f, NULL, NULL, &exact);
      ij__json_next(ij__json_member(v, "bf16"), &b, NULL, NULL, &rounded);
      ij__json_get_double(exact, &want);
      ij__json_get_string(rounded, &hex, &n);
      CHECK(ij__image_normal(raw, c) == (float)want);
      CHECK_INT(high_half(ij__image_bf16(ij__image_normal(raw, c))), strtol(hex, NULL, 16));
    }
  }
  ij__json_free(&doc);
}

static void check_patches(const ij_media *m, const ij_json_value *want, const char *name) {
  const ij_media_info *info = &m->info;
  size_t per_patch = (size_t)2 * (size_t)(info->patch * info->patch) * 3, n = (size_t)info->n_rows * per_patch;
  float *values = malloc(n * sizeof *values), *one = malloc(per_patch * sizeof *one);
  uint16_t *halves = malloc(n * sizeof *halves);
  ij_err err = {0};
  CHECK_INT(info->grid_rows, number(want, "rows"));
  CHECK_INT(info->grid_cols, number(want, "cols"));
  CHECK_INT(info->n_rows, number(want, "tokens"));
  CHECK_OK(ij_media_patches(m, 0, info->n_rows, values, &err), err);
  for (size_t i = 0; i < n; i++) halves[i] = high_half(values[i]);
  check_hash(halves, n * sizeof *halves, want, "patch_bf16_sha256", name);
  CHECK_OK(ij_media_patches(m, info->n_rows - 1, 1, one, &err), err);
  CHECK(memcmp(one, values + n - per_patch, per_patch * sizeof *one) == 0);
  if (ij__json_member(want, "patch_f32_sha256")) { /* the same before rounding */
    float table[257][3];
    for (int raw = -1; raw < 256; raw++) {
      for (int c = 0; c < 3; c++) table[raw + 1][c] = ij__image_normal(raw, c);
    }
    for (int64_t i = 0; i < 2 * info->n_rows; i++) {
      const uint8_t *pixels = m->pixels[info->pair ? i % 2 : 0];
      ij__image_patch(values + (size_t)i * per_patch / 2, pixels, info->used_width, info->used_height, info->patch,
                      (int)(i / 2) / info->grid_cols, (int)(i / 2) % info->grid_cols, (const float(*)[3])table);
    }
    check_hash(values, n * sizeof *values, want, "patch_f32_sha256", name);
  }
  free(values);
  free(one);
  free(halves);
}

static void patches_equal_the_reference(void) {
  ij_json *doc = read_json("images.json");
  ij_json_iter it = {0};
  const ij_json_value *v;
  CHECK(ij__json_size(ij__json_member(ij__json_root(doc), "images")) >= 11);
  while (ij__json_next(ij__json_member(ij__json_root(doc), "images"), &it, NULL, NULL, &v)) {
    const ij_json_value *doubled = ij__json_member(v, "rescale_2_2048");
    ij_media_options o = ij_media_options_default();
    ij_media *m = NULL;
    ij_err err = {0};
    int w, h;
    uint8_t *raw = read_pixels(string(v, "file"), &w, &h);
    check_hash(raw, (size_t)w * (size_t)h * 3, v, "rgb_sha256", string(v, "file"));
    CHECK_OK(ij_media_from_pixels(&m, raw, NULL, w, h, NULL, &err), err);
    check_patches(m, ij__json_member(v, "no_rescale"), string(v, "file"));
    ij_media_close(&m);
    o.rescale_frac = 2.0;
    o.rescale_long_edge = 2048;
    CHECK_OK(ij_media_from_pixels(&m, raw, NULL, w, h, &o, &err), err);
    CHECK_INT(m->info.used_width, number(doubled, "width"));
    CHECK_INT(m->info.used_height, number(doubled, "height"));
    CHECK_INT(m->info.width, w);
    check_hash(m->pixels[0], (size_t)m->info.used_width * (size_t)m->info.used_height * 3, doubled, "rgb_sha256", string(v, "file"));
    check_patches(m, doubled, string(v, "file"));
    ij_media_close(&m);
    free(raw);
  }
  ij__json_free(&doc);
}

static void a_pair_of_frames_equals_the_reference(void) {
  ij_json *doc = read_json("video_pair.json");
  ij_media *m = NULL;
  ij_err err = {0};
  int w, h;
  uint8_t *first = read_pixels("frame0_50x45.png", &w, &h), *second = read_pixels("frame1_50x45.png", &w, &h);
  CHECK_OK(ij_media_from_pixels(&m, first, second, w, h, NULL, &err), err);
  CHECK(m->info.pair);
  check_patches(m, ij__json_root(doc), "pair");
  ij_media_close(&m);
  free(first);
  free(second);
  ij__json_free(&doc);
}

/* Any patch size: every value is that of its pixel, or of padding. */
static void patches_of_any_size_cover_the_picture(void) {
  static const int sizes[][3] = {{12, 25, 24}, {12, 24, 37}, {7, 7, 7}, {1, 3, 2}, {64, 5, 5}};
  for (size_t k = 0; k < IJ_COUNT_OF(sizes); k++) {
    int p = sizes[k][0], w = sizes[k][1], h = sizes[k][2];
    uint8_t pixels[25 * 37 * 3];
    ij_media_options o = ij_media_options_default();
    ij_media *m = NULL;
    ij_err err = {0};
    for (int i = 0; i < w * h * 3; i++) pixels[i] = (uint8_t)(i * 37 + i / 5);
    o.patch = p;
    CHECK_OK(ij_media_from_pixels(&m, pixels, NULL, w, h, &o, &err), err);
    CHECK_INT(m->info.grid_cols, w / p + 1);
    CHECK_INT(m->info.grid_rows, (h + p - 1) / p);
    size_t slice = (size_t)(p * p) * 3;
    float *values = malloc((size_t)m->info.n_rows * 2 * slice * sizeof *values);
    CHECK_OK(ij_media_patches(m, 0, m->info.n_rows, values, &err), err);
    int wrong = 0;
    for (int i = 0; i < (int)m->info.n_rows * 2 * (int)slice; i++) {
      int c = i % 3, x = i / 3 % p, y = i / 3 / p % p, patch = i / 3 / p / p / 2;
      x += patch % m->info.grid_cols * p;
      y += patch / m->info.grid_cols * p;
      int raw = x < w && y < h ? pixels[(y * w + x) * 3 + c] : -1;
      wrong += values[i] != ij__image_bf16(ij__image_normal(raw, c));
    }
    CHECK_INT(wrong, 0);
    free(values);
    ij_media_close(&m);
  }
}

/* --------------------------------------------------------------------------------------------------------------- digest */

static void blake2b_equals_known_answers(void) {
  /* Of n bytes 0, 1, ... 255, 0, ...: Python's hashlib.blake2b(x, digest_size=16). */
  static const struct {
    int n;
    uint64_t want[2];
  } cases[] = {{0, {0x40bdefd94169e6cau, 0x7076a68e75884d4eu}},
               {3, {0x1b0c36970d0b5ca7u, 0x5a39a0b66e4983a7u}},
               {128, {0xe389f54e008747a7u, 0x4a29d00039184911u}},
               {129, {0xe44e6d1f37b0f1aau, 0xef499cdd5dfbe49eu}},
               {300, {0x87560090133af515u, 0x4d54eabcc19f859bu}}};
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    uint8_t bytes[300];
    for (int k = 0; k < 300; k++) bytes[k] = (uint8_t)k;
    for (int step = 1; step <= 300; step += 43) {
      uint64_t got[2];
      ij__blake2b b;
      ij__blake2b_init(&b);
      for (int at = 0; at < cases[i].n; at += step) ij__blake2b_add(&b, bytes + at, (size_t)IJ_MIN(step, cases[i].n - at));
      ij__blake2b_end(&b, got);
      CHECK(got[0] == cases[i].want[0] && got[1] == cases[i].want[1]);
    }
  }
}

static void digests_tell_media_apart(void) {
  enum { N = 8 };
  uint8_t a[24 * 24 * 3], b[24 * 24 * 3];
  uint64_t digests[N][2];
  ij_media_options small = ij_media_options_default();
  small.patch = 12;
  for (size_t i = 0; i < sizeof a; i++) a[i] = b[i] = (uint8_t)(i * 7);
  b[sizeof b - 1] ^= 1;
  const struct {
    const uint8_t *first, *second;
    int w, h;
    const ij_media_options *o;
  } media[N] = {{a, NULL, 24, 24, NULL}, {b, NULL, 24, 24, NULL}, {a, a, 24, 24, NULL},   {a, b, 24, 24, NULL},
                {b, a, 24, 24, NULL},    {a, NULL, 12, 48, NULL}, {a, NULL, 24, 24, &small}, {a, NULL, 24, 23, NULL}};
  for (int i = 0; i < N; i++) {
    ij_media *m = NULL, *again = NULL;
    ij_err err = {0};
    CHECK_OK(ij_media_from_pixels(&m, media[i].first, media[i].second, media[i].w, media[i].h, media[i].o, &err), err);
    CHECK_OK(ij_media_from_pixels(&again, media[i].first, media[i].second, media[i].w, media[i].h, media[i].o, &err), err);
    CHECK(memcmp(m->info.digest, again->info.digest, sizeof m->info.digest) == 0);
    memcpy(digests[i], m->info.digest, sizeof digests[i]);
    for (int k = 0; k < i; k++) CHECK(digests[k][0] != digests[i][0] && digests[k][1] != digests[i][1]);
    ij_media_close(&m);
    ij_media_close(&again);
  }
}

/* ------------------------------------------------------------------------------------------------------ GIF and refusals */

static ij_err open_bytes(const void *bytes, size_t n, ij_media_kind kind, const ij_media_options *o) {
  ij_media *m = (ij_media *)&m;
  ij_err err = {0};
  if (ij_media_open(&m, kind, bytes, n, "file", o, &err) == IJ_OK) ij_media_close(&m);
  CHECK(m == NULL);
  return err;
}

/* 3 x 2 pixels 0 1 2 / 2 1 0 at (1, 1) of a 5 x 4 screen with four colours, transparent colour 3; codes of 3 bits: clear and literals. */
static const uint8_t small_gif[] = {'G', 'I', 'F', '8', '9', 'a', 5, 0, 4, 0, 0x81, 0, 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3,
                                    '!', 249, 4, 1, 0, 0, 3, 0, ',', 1, 0, 1, 0, 3, 0, 2, 0, 0, 2,
                                    4, 0x44, 0x44, 0x2a, 0x0a, 0, ';'};

static void gif_shows_its_first_frame(void) {
  static const uint8_t want[4][5] = {{3, 3, 3, 3, 3}, {3, 0, 1, 2, 3}, {3, 2, 1, 0, 3}, {3, 3, 3, 3, 3}};
  ij_media *m = NULL;
  ij_err err = {0};
  /* Codes, low bits first: clear 4; 0 1 2 2 1 0 in 3 bits until 8 codes exist, which is after the third: 100 000 001 010 then 4 bits. */
  uint8_t gif[sizeof small_gif];
  memcpy(gif, small_gif, sizeof gif);
  uint64_t bits = 0;
  int n = 0;
  static const struct {
    int code, width;
  } codes[] = {{4, 3}, {0, 3}, {1, 3}, {2, 3}, {2, 4}, {1, 4}, {0, 4}, {5, 4}};
  for (size_t i = 0; i < IJ_COUNT_OF(codes); i++) bits |= (uint64_t)codes[i].code << n, n += codes[i].width;
  for (int i = 0; i < 4; i++) gif[sizeof gif - 6 + (size_t)i] = (uint8_t)(bits >> 8 * i);
  CHECK_OK(ij_media_open(&m, IJ_MEDIA_ANY, gif, sizeof gif, "small.gif", NULL, &err), err);
  if (!m) return;
  CHECK_STR(m->info.format, "GIF, alpha dropped");
  CHECK_INT(m->info.width, 5);
  CHECK_INT(m->info.height, 4);
  for (int i = 0; i < 20; i++) CHECK(memcmp(m->pixels[0] + 3 * i, gif + 13 + 3 * want[i / 5][i % 5], 3) == 0);
  ij_media_close(&m);
  for (size_t cut = 0; cut < sizeof gif - 3; cut++) CHECK(open_bytes(gif, cut, IJ_MEDIA_IMAGE, NULL).code != IJ_OK);
  gif[36] = gif[37] = 0; /* 0 pixels wide */
  for (int at = 38; at < 40; at++) gif[at] = 0;
  CHECK_HAS(open_bytes(gif, sizeof gif, IJ_MEDIA_ANY, NULL).message, "a side is zero");
}

static void other_kinds_are_refused_by_name(void) {
  CHECK_INT(open_bytes("", 0, IJ_MEDIA_ANY, NULL).code, IJ_E_FORMAT);
  CHECK_HAS(open_bytes("BM\0\0\0\0\0\0\0\0", 10, IJ_MEDIA_ANY, NULL).message, "BMP");
  CHECK_HAS(open_bytes("II*\0\0\0\0\0", 8, IJ_MEDIA_ANY, NULL).message, "TIFF");
  CHECK_HAS(open_bytes("\0\0\0\x20" "ftypavif", 12, IJ_MEDIA_ANY, NULL).message, "AVIF");
  CHECK_HAS(open_bytes("\0\0\0\x20" "ftypisom", 12, IJ_MEDIA_ANY, NULL).message, "a video (MP4)");
  CHECK_HAS(open_bytes("RIFF\0\0\0\0WAVEfmt ", 16, IJ_MEDIA_IMAGE, NULL).message, "a sound: WAV");
  CHECK_HAS(open_bytes("some words", 10, IJ_MEDIA_IMAGE, NULL).message, "not known here");
  CHECK_INT(open_bytes("some words", 10, IJ_MEDIA_IMAGE, NULL).code, IJ_E_UNSUPPORTED);
  CHECK_HAS(open_bytes(small_gif, sizeof small_gif, IJ_MEDIA_AUDIO, NULL).message, "found a picture: GIF");
  CHECK_HAS(open_bytes("some words", 10, IJ_MEDIA_ANY, NULL).message, "no picture, sound or video of a kind that is known");
  CHECK_INT(open_bytes("some words", 10, IJ_MEDIA_ANY, NULL).code, IJ_E_UNSUPPORTED);
  CHECK_HAS(open_bytes("some words", 10, IJ_MEDIA_AUDIO, NULL).message, "no kind of sound");
  CHECK_HAS(open_bytes("MThd\0\0\0\6", 8, IJ_MEDIA_ANY, NULL).message, "this is MIDI");
}

static void limits_hold_before_memory_is_taken(void) {
  ij_media_options o = ij_media_options_default();
  uint8_t gif[sizeof small_gif];
  memcpy(gif, small_gif, sizeof gif);
  memset(gif + 6, 0xff, 4); /* a screen of 65535 x 65535 */
  size_t before = ij__alloc_bytes();
  CHECK_INT(open_bytes(gif, sizeof gif, IJ_MEDIA_ANY, NULL).code, IJ_E_RANGE);
  CHECK_HAS(open_bytes(gif, sizeof gif, IJ_MEDIA_ANY, NULL).message, "65535 x 65535 pixels, which is more than max_pixels, 67108864");
  CHECK_INT(ij__alloc_bytes(), before);
  ij_media *m = NULL;
  ij_err err = {0};
  uint8_t *pixels = calloc(200 * 100, 3);
  o.max_rows = 17; /* 3 x 6 patches */
  CHECK_INT(ij_media_from_pixels(&m, pixels, NULL, 200, 100, &o, &err), IJ_E_RANGE);
  CHECK_HAS(err.message, "3 x 6 = 18 tokens; max_rows is 17");
  o.max_rows = 18;
  CHECK_OK(ij_media_from_pixels(&m, pixels, NULL, 200, 100, &o, &err), err);
  ij_media_close(&m);
  o.rescale_frac = 1000;
  CHECK_INT(ij_media_from_pixels(&m, pixels, NULL, 200, 100, &o, &err), IJ_E_RANGE);
  CHECK_HAS(err.message, "200000 x 100000");
  o.rescale_frac = 1e300;
  CHECK_INT(ij_media_from_pixels(&m, pixels, NULL, 200, 100, &o, &err), IJ_E_RANGE);
  o.rescale_frac = 1.7e308;
  CHECK_INT(ij_media_from_pixels(&m, pixels, NULL, 200, 100, &o, &err), IJ_E_RANGE);
  o.rescale_frac = 0;
  o.max_pixels = 19999;
  CHECK_INT(ij_media_from_pixels(&m, pixels, NULL, 200, 100, &o, &err), IJ_E_RANGE);
  CHECK_INT(ij_media_from_pixels(&m, pixels, NULL, 0, 100, NULL, &err), IJ_E_FORMAT);
  CHECK_INT(ij_media_from_pixels(&m, pixels, NULL, 100, -1, NULL, &err), IJ_E_FORMAT);
  CHECK_INT(ij_media_from_pixels(&m, NULL, NULL, 100, 100, NULL, &err), IJ_E_ARGUMENT);
  CHECK(m == NULL);
  free(pixels);
}

static void options_and_ranges_are_checked(void) {
  uint8_t pixel[3] = {1, 2, 3};
  float patch[2 * 40 * 40 * 3];
  ij_media *m = NULL;
  ij_err err = {0};
  ij_media_options good = ij_media_options_default(), bad[8];
  for (int i = 0; i < 8; i++) bad[i] = good;
  bad[0].struct_size = 0;
  bad[1].patch = 0;
  bad[2].rescale_frac = NAN;
  bad[3].rescale_frac = -1;
  bad[4].max_long_edge = -1;
  bad[5].max_pixels = 0;
  bad[6].max_rows = 0;
  bad[7].rescale_long_edge = -5;
  for (int i = 0; i < 8; i++) CHECK_INT(ij_media_from_pixels(&m, pixel, NULL, 1, 1, &bad[i], &err), IJ_E_ARGUMENT);
  size_t *shorter = malloc(sizeof *shorter); /* options of another version: nothing behind their size may be read */
  if (shorter) {
    *shorter = sizeof *shorter;
    CHECK_INT(ij_media_from_pixels(&m, pixel, NULL, 1, 1, (const ij_media_options *)(const void *)shorter, &err), IJ_E_ARGUMENT);
  }
  free(shorter);
  CHECK_OK(ij_media_from_pixels(&m, pixel, NULL, 1, 1, &good, &err), err);
  if (!m) return;
  CHECK_OK(ij_media_patches(m, 0, 1, patch, &err), err);
  CHECK_OK(ij_media_patches(m, 1, 0, patch, &err), err);
  CHECK_INT(ij_media_patches(m, 0, 2, patch, &err), IJ_E_RANGE);
  CHECK_INT(ij_media_patches(m, 1, 1, patch, &err), IJ_E_RANGE);
  CHECK_INT(ij_media_patches(m, -1, 1, patch, &err), IJ_E_RANGE);
  CHECK_INT(ij_media_patches(m, INT64_MAX, INT64_MAX, patch, &err), IJ_E_RANGE);
  CHECK(ij_media_bins(m) == NULL);
  ij_media_close(&m);
  CHECK(m == NULL);
}

/* A file of the fuzz targets opened with every allocation failing in turn: an error, and nothing stays behind. */
static void check_without_memory(const char *path, const char *without) {
  int64_t before = ij__alloc_blocks();
  size_t n_bytes;
  ij_media_options o = ij_media_options_default();
  ij_media *m = NULL;
  ij_err err = {0};
  char *bytes = read_text(path, &n_bytes);
  o.max_long_edge = 7;
  o.rescale_frac = 1.5;
  ij_status s = ij_media_open(&m, IJ_MEDIA_IMAGE, bytes, n_bytes, path, &o, &err);
  ij_media_close(&m);
  if (s == IJ_E_UNSUPPORTED) CHECK_HAS(err.message, without); /* a build without this reader */
  else CHECK_OK(s, err);
  int n = 1;
  for (bool done = s != IJ_OK; !done && n < 1000; n++) {
    ij__alloc_fail_after(n);
    s = ij_media_open(&m, IJ_MEDIA_IMAGE, bytes, n_bytes, path, &o, &err);
    ij__alloc_fail_after(0);
    done = s == IJ_OK;
    if (!done) CHECK_INT(s, IJ_E_NOMEM);
    ij_media_close(&m);
    CHECK_INT(ij__alloc_blocks(), before);
  }
  CHECK(n < 1000 && (n > 8 || s == IJ_E_UNSUPPORTED));
  free(bytes);
}

static void no_memory_is_an_error(void) {
  check_without_memory("tests/fuzz/corpus/png/png-6-16-1-0.png", "made without libpng");
  check_without_memory("tests/fuzz/corpus/png/png-3-4-0-trns.png", "made without libpng");
  check_without_memory("tests/fuzz/corpus/jpeg/jpeg-ycck-1.jpg", "made without libjpeg-turbo");
  check_without_memory("tests/fuzz/corpus/jpeg/jpeg-exif-6.jpg", "made without libjpeg-turbo");
  check_without_memory("tests/fuzz/corpus/webp/webp-exif-7.webp", "made without libwebp");
  check_without_memory("tests/fuzz/corpus/gif/gif-part-3.gif", "");
}

static void no_memory_for_a_pair_is_an_error(void) {
  int64_t before = ij__alloc_blocks();
  ij_media_options o = ij_media_options_default();
  uint8_t pixels[10 * 10 * 3] = {0};
  o.max_long_edge = 7;
  o.rescale_frac = 1.5;
  bool done = false;
  int n = 1;
  for (; n < 100 && !done; n++) {
    ij_media *m = NULL;
    ij_err err = {0};
    ij__alloc_fail_after(n);
    ij_status s = ij_media_from_pixels(&m, pixels, pixels, 10, 10, &o, &err);
    ij__alloc_fail_after(0);
    done = s == IJ_OK;
    if (!done) CHECK_INT(s, IJ_E_NOMEM);
    ij_media_close(&m);
    CHECK_INT(ij__alloc_blocks(), before);
  }
  CHECK(done && n > 10);
}

static void orientations_turn_as_exif_says(void) {
  /* Stored 2 wide, 3 high: a b / c d / e f. */
  static const char *const want[9] = {"", "abcdef", "badcfe", "fedcba", "efcdab", "acebdf", "ecafdb", "fdbeca", "bdface"};
  for (int o = 1; o <= 8; o++) {
    ij__image image = {.pixels = ij__alloc(18), .width = 2, .height = 3, .orientation = o};
    ij_err err = {0};
    for (int i = 0; i < 18; i++) image.pixels[i] = (uint8_t)("abcdef"[i / 3] + 32 * (i % 3));
    CHECK_OK(ij__image_upright(&image, "test", &err), err);
    CHECK_INT(image.width, o < 5 ? 2 : 3);
    CHECK_INT(image.height, o < 5 ? 3 : 2);
    for (int i = 0; i < 18; i++) CHECK_INT(image.pixels[i], want[o][i / 3] + 32 * (i % 3));
    ij__free(image.pixels);
  }
}

static void exif_is_read_in_both_byte_orders(void) {
  static const uint8_t little[] = {'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  static const uint8_t big[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 2, 1, 0, 0, 3, 0, 0, 0, 1, 0, 5, 0, 0, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0};
  CHECK_INT(ij__exif_orientation(little, sizeof little), 6);
  CHECK_INT(ij__exif_orientation(big, sizeof big), 8);
  for (size_t n = 0; n < sizeof little; n++) CHECK_INT(ij__exif_orientation(little, n), 1);
  uint8_t wrong[sizeof little];
  memcpy(wrong, little, sizeof wrong);
  wrong[24] = 9;
  CHECK_INT(ij__exif_orientation(wrong, sizeof wrong), 1);
  wrong[24] = 0;
  CHECK_INT(ij__exif_orientation(wrong, sizeof wrong), 1);
  memcpy(wrong, little, sizeof wrong);
  memset(wrong + 10, 0xff, 4); /* a directory beyond the end */
  CHECK_INT(ij__exif_orientation(wrong, sizeof wrong), 1);
}

int main(void) {
  RUN(lanczos_equals_the_reference);
  RUN(grids_equal_the_reference);
  RUN(the_longer_side_is_limited_before_rescaling);
  RUN(normalized_values_equal_the_reference);
  RUN(patches_equal_the_reference);
  RUN(a_pair_of_frames_equals_the_reference);
  RUN(patches_of_any_size_cover_the_picture);
  RUN(blake2b_equals_known_answers);
  RUN(digests_tell_media_apart);
  RUN(gif_shows_its_first_frame);
  RUN(other_kinds_are_refused_by_name);
  RUN(limits_hold_before_memory_is_taken);
  RUN(options_and_ranges_are_checked);
  RUN(no_memory_is_an_error);
  RUN(no_memory_for_a_pair_is_an_error);
  RUN(orientations_turn_as_exif_says);
  RUN(exif_is_read_in_both_byte_orders);
  CHECK_INT(ij__alloc_blocks(), 0);
  return test_report();
}
