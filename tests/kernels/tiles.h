/* tiles.h: tiles that are emulated, for products with AMX on machines without it; what the processor would refuse ends the program. A file
 * that includes this includes the products after it.
 */
#ifndef TILES_H
#define TILES_H

#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels_int.h"

enum { N_TILE = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

static struct {
  bool configured;
  int n_row[N_TILE], row_bytes[N_TILE];
  uint8_t byte[N_TILE][TILE_ROWS][TILE_ROW_BYTES];
} amx;

static void need(bool met, const char *what) {
  if (met) return;
  fprintf(stderr, "a processor would refuse this: %s\n", what);
  abort();
}

/* 64 bytes: palette, first row, 14 zeros; bytes of rows, as 16 bits, of the tiles and of 8 that there are not; rows of the same. */
static void configure(const void *p) {
  const uint8_t *b = p;
  need(!amx.configured, "configured while it is"); /* by the processor it is not refused, but nobody released it */
  need(b[0] == 1, "palette");
  for (int i = 1; i < 64; i++) need(i == 16 + i % 16 || i == 48 + i % 8 || b[i] == 0, "bytes that must be zero");
  for (int t = 0; t < N_TILE; t++) {
    uint16_t row_bytes;
    memcpy(&row_bytes, b + 16 + 2 * t, sizeof row_bytes);
    need(row_bytes > 0 && row_bytes <= TILE_ROW_BYTES && row_bytes % 4 == 0 && b[48 + t] > 0 && b[48 + t] <= TILE_ROWS, "the shape of a tile");
    amx.row_bytes[t] = row_bytes;
    amx.n_row[t] = b[48 + t];
  }
  memset(amx.byte, 0, sizeof amx.byte);
  amx.configured = true;
}

static void release(void) {
  need(amx.configured, "released while there is no configuration");
  amx.configured = false;
}

static void zero(int t) {
  need(amx.configured, "no configuration");
  memset(amx.byte[t], 0, sizeof amx.byte[t]);
}

static void load(int t, const void *p, int64_t stride) {
  zero(t);
  for (int r = 0; r < amx.n_row[t]; r++) memcpy(amx.byte[t][r], (const char *)p + r * stride, (size_t)amx.row_bytes[t]);
}

static void store(int t, void *p, int64_t stride) {
  need(amx.configured, "no configuration");
  for (int r = 0; r < amx.n_row[t]; r++) memcpy((char *)p + r * stride, amx.byte[t][r], (size_t)amx.row_bytes[t]);
}

/* sum + rows of signed bytes in a times columns of unsigned ones in b, four of each of which lie together. */
static void multiply(int sum, int a, int b) {
  need(amx.configured && amx.n_row[sum] == amx.n_row[a] && amx.row_bytes[sum] == amx.row_bytes[b], "the shapes of a product");
  need(amx.row_bytes[a] == 4 * amx.n_row[b], "the shapes of factors");
  for (int r = 0; r < amx.n_row[sum]; r++) {
    int32_t out[TILE_ROW_BYTES / 4];
    memcpy(out, amx.byte[sum][r], sizeof out);
    for (int i = 0; i < amx.row_bytes[a]; i++) {
      const int digit = (int8_t)amx.byte[a][r][i];
      for (int c = 0; c < amx.row_bytes[sum] / 4; c++) out[c] += digit * amx.byte[b][i / 4][4 * c + i % 4];
    }
    memcpy(amx.byte[sum][r], out, (size_t)amx.row_bytes[sum]);
  }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbsud
#define _tile_loadconfig(p) configure(p)
#define _tile_release() release()
#define _tile_loadd(t, p, stride) load(t, p, stride)
#define _tile_stored(t, p, stride) store(t, p, stride)
#define _tile_zero(t) zero(t)
#define _tile_dpbsud(sum, a, b) multiply(sum, a, b)

#endif
