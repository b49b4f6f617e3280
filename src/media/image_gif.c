/* image_gif.c: the first frame of a GIF, decoded here: the format is small, and it is read in every build.
 *
 * As Pillow shows frame 0: the canvas is the screen, enlarged when the frame reaches beyond it; around the frame it has the transparent
 * colour of the frame, or else colour 0. A file without a palette is gray, and colours beyond the palette are the gray of their number.
 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"
#include "media/image.h"

enum { MAX_CODES = 4096, MAX_CODE_BITS = 12 };

typedef struct gif {
  const ij__image_file *file;
  size_t at;
  bool ended; /* a read went beyond the end; what it gave was 0 */
  int screen_width, screen_height;
  int x, y, width, height; /* of the frame */
  bool interlaced, has_transparent;
  int transparent;
  uint8_t palette[256][3];
} gif;

static int next_byte(gif *g) {
  if (g->at < g->file->n) return g->file->bytes[g->at++];
  g->ended = true;
  return 0;
}

static int next_short(gif *g) {
  int low = next_byte(g);
  return low | next_byte(g) << 8;
}

static ij_status truncated(const gif *g, ij_err *err) {
  return ij__fail(err, IJ_E_FORMAT, g->file->where, "truncated GIF: its data end before the first frame is complete, at byte %zu", g->at);
}

static void read_palette(gif *g, int flags) {
  int n = 2 << (flags & 7);
  for (int i = 0; i < 256; i++) memset(g->palette[i], i, 3);
  for (int i = 0; i < n && !g->ended; i++) {
    for (int c = 0; c < 3; c++) g->palette[i][c] = (uint8_t)next_byte(g);
  }
}

static void skip_blocks(gif *g) {
  for (int n; (n = next_byte(g)) > 0;) g->at = IJ_MIN(g->at + (size_t)n, g->file->n);
}

static void read_extension(gif *g) {
  enum { GRAPHIC_CONTROL = 249 };
  if (next_byte(g) == GRAPHIC_CONTROL && g->at + 5 <= g->file->n && g->file->bytes[g->at] >= 4) {
    const uint8_t *block = g->file->bytes + g->at;
    g->has_transparent = block[1] & 1;
    g->transparent = block[4];
  }
  skip_blocks(g);
}

/* Up to the first frame, whose header is read too. */
static ij_status read_headers(gif *g, ij_err *err) {
  g->at = 6;
  g->screen_width = next_short(g);
  g->screen_height = next_short(g);
  int flags = next_byte(g);
  g->at += 2; /* background and aspect */
  for (int i = 0; i < 256; i++) memset(g->palette[i], i, 3);
  if (flags & 0x80) read_palette(g, flags);
  for (;;) {
    int mark = next_byte(g);
    if (g->ended) return truncated(g, err);
    if (mark == ';') return ij__fail(err, IJ_E_FORMAT, g->file->where, "a GIF without a picture");
    if (mark == '!') read_extension(g);
    if (mark == ',') break;
  }
  g->x = next_short(g);
  g->y = next_short(g);
  g->width = next_short(g);
  g->height = next_short(g);
  flags = next_byte(g);
  g->interlaced = flags & 0x40;
  if (flags & 0x80) read_palette(g, flags);
  return g->ended ? truncated(g, err) : IJ_OK;
}

/* Where pixels go, in the order in which they come. */
typedef struct canvas {
  ij__image *out;
  const gif *g;
  int x, y;           /* within the frame */
  int first, step;    /* of the rows of the current interlace pass */
  int64_t n_left;
} canvas;

static void canvas_next_row(canvas *c) {
  c->x = 0;
  c->y += c->step;
  while (c->y >= c->g->height && c->step > 1) { /* passes: every 8th row from 0, every 8th from 4, every 4th from 2, every 2nd from 1 */
    c->step = c->first == 0 ? 8 : c->step / 2;
    c->first = c->first == 0 ? 4 : c->first / 2;
    c->y = c->first;
    if (c->first == 0) return;
  }
}

static void canvas_put(canvas *c, int colour) {
  const gif *g = c->g;
  uint8_t *to = c->out->pixels + ((size_t)(g->y + c->y) * (size_t)c->out->width + (size_t)(g->x + c->x)) * 3;
  memcpy(to, g->palette[colour], 3);
  c->n_left--;
  if (++c->x == g->width && c->n_left > 0) canvas_next_row(c);
}

/* Codes of growing width out of blocks of up to 255 bytes. */
typedef struct code_reader {
  gif *g;
  int block_left, n_bits;
  uint32_t bits;
} code_reader;

/* -1: no more data. */
static int next_code(code_reader *r, int width) {
  while (r->n_bits < width) {
    if (r->block_left == 0) r->block_left = next_byte(r->g);
    if (r->block_left == 0) return -1;
    r->bits |= (uint32_t)next_byte(r->g) << r->n_bits;
    if (r->g->ended) return -1;
    r->n_bits += 8;
    r->block_left--;
  }
  int code = (int)(r->bits & ((1u << width) - 1));
  r->bits >>= width;
  r->n_bits -= width;
  return code;
}

/* A code stands for the string of another code and one more colour. */
typedef struct lzw {
  int n, width, clear; /* codes defined, bits of the next one */
  int previous;        /* the code before this one; -1 after a clear */
  uint16_t prefix[MAX_CODES];
  uint8_t last[MAX_CODES], first[MAX_CODES];
  uint8_t string[MAX_CODES + 1];
} lzw;

static void lzw_clear(lzw *z, int min_bits) {
  z->clear = 1 << min_bits;
  z->n = z->clear + 2;
  z->width = min_bits + 1;
  z->previous = -1;
}

static void lzw_define(lzw *z, int colour) {
  if (z->n == MAX_CODES) return;
  z->prefix[z->n] = (uint16_t)z->previous;
  z->last[z->n] = (uint8_t)colour;
  z->first[z->n] = z->first[z->previous];
  z->n++;
  if (z->n == 1 << z->width && z->width < MAX_CODE_BITS) z->width++;
}

/* Writes the string of a code; false when the code is not defined. */
static bool lzw_take(lzw *z, int code, canvas *c) {
  if (code > z->n || (code == z->n && (z->previous < 0 || z->n == MAX_CODES)) || (z->previous < 0 && code >= z->clear)) return false;
  if (z->previous >= 0) lzw_define(z, code == z->n ? z->first[z->previous] : z->first[code]);
  int n = 0;
  for (int at = code; ; at = z->prefix[at]) {
    z->string[n++] = z->last[at];
    if (at < z->clear) break;
  }
  while (n > 0 && c->n_left > 0) canvas_put(c, z->string[--n]);
  z->previous = code;
  return true;
}

static ij_status decode_frame(gif *g, ij__image *out, lzw *z, ij_err *err) {
  canvas c = {.out = out, .g = g, .step = g->interlaced ? 8 : 1, .n_left = (int64_t)g->width * g->height};
  int min_bits = next_byte(g);
  code_reader codes = {.g = g};
  if (min_bits < 1 || min_bits > 8) {
    return ij__fail(err, IJ_E_FORMAT, g->file->where, "damaged GIF: colours of %d bits, expected 1 to 8", min_bits);
  }
  lzw_clear(z, min_bits);
  for (int i = 0; i < z->clear; i++) z->last[i] = z->first[i] = (uint8_t)i;
  while (c.n_left > 0) {
    int code = next_code(&codes, z->width);
    if (code < 0 || code == z->clear + 1) return truncated(g, err);
    if (code == z->clear) lzw_clear(z, min_bits);
    else if (!lzw_take(z, code, &c)) {
      return ij__fail(err, IJ_E_FORMAT, g->file->where, "damaged GIF: code %d of its first frame is not defined, at byte %zu", code, g->at);
    }
  }
  g->at = IJ_MIN(g->at + (size_t)codes.block_left, g->file->n);
  return IJ_OK;
}

/* Whether another frame follows, for the description; what follows is not checked. */
static bool has_more_frames(gif *g) {
  skip_blocks(g);
  while (!g->ended) {
    int mark = next_byte(g);
    if (mark == ',') return true;
    if (mark == ';') return false;
    if (mark == '!') read_extension(g);
  }
  return false;
}

ij_status ij__image_read_gif(ij__image *out, const ij__image_file *file, ij_err *err) {
  gif g = {.file = file};
  ij_status s = read_headers(&g, err);
  if (s == IJ_OK) s = ij__image_check_size(g.width, g.height, file, err);
  if (s == IJ_OK) s = ij__image_begin(out, IJ_MAX(g.screen_width, g.x + g.width), IJ_MAX(g.screen_height, g.y + g.height), file, err);
  if (s != IJ_OK) return s;
  const uint8_t *around = g.palette[g.has_transparent ? g.transparent : 0];
  for (size_t i = 0, n = (size_t)out->width * (size_t)out->height; i < n; i++) memcpy(out->pixels + 3 * i, around, 3);
  lzw *z = ij__alloc(sizeof *z);
  if (!z) return ij__fail_nomem(err, "LZW tables", sizeof *z);
  bool transparent = g.has_transparent;
  s = decode_frame(&g, out, z, err);
  ij__free(z);
  if (s != IJ_OK) return s;
  snprintf(out->format, sizeof out->format, "GIF%s%s%s", g.interlaced ? ", interlaced" : "", transparent ? ", alpha dropped" : "",
           has_more_frames(&g) ? ", animated: the first frame" : "");
  return IJ_OK;
}
