/* iq_floats.c: fills the tables of iq_floats.h. Built for the baseline processor: it runs whatever the level. */
#include "kernels/iq_floats.h"

#include "quant/fmt_iq.h"

ij_iq_floats ij__iq_floats;

static void magnitudes(float *out, uint64_t entry, int n) {
  for (int i = 0; i < n; i++) out[i] = (float)(entry >> (8 * i) & 0xff);
}

static void masks(uint32_t *out, int signs) {
  for (int i = 0; i < 8; i++) out[i] = (uint32_t)(signs >> i & 1) << 31;
}

/* The bytes that occur in entries of the one-bit and two-bit types. */
static const uint8_t iq1_values[3] = {0xff, 0, 1}, iq2_values[3] = {8, 25, 43};

/* The code of each byte of an entry, given the three bytes that occur. */
static uint16_t two_bit_codes(uint64_t entry, const uint8_t *value) {
  uint16_t codes = 0;
  for (int i = 0; i < 8; i++) {
    uint8_t byte = entry >> (8 * i) & 0xff;
    codes |= (uint16_t)((byte == value[1] ? 1 : byte == value[2] ? 2 : 0) << (2 * i));
  }
  return codes;
}

/* The same as bytes, twice the code. */
static uint64_t byte_codes(uint64_t entry, const uint8_t *value) {
  uint64_t codes = 0, two = two_bit_codes(entry, value);
  for (int i = 0; i < 8; i++) codes |= 2 * (two >> (2 * i) & 3) << (8 * i);
  return codes;
}

/* For the rows of a pair, of which the second has the lowest bit of each byte set. */
static void pair_codes(uint64_t *first, uint64_t *second, uint64_t entry) {
  *first = byte_codes(entry, iq2_values);
  *second = *first | 0x0101010101010101;
}

/* Bytes 4, 12, .. 52 and 62 -> 1, 3, .. 15. */
static uint32_t odd_codes(uint32_t entry) { return (entry >> 2 & 0x0e0e0e0eu) | 0x01010101u; }

/* Of an entry of four codes: the first and the third in a byte, and the second and the fourth. */
static void planes(uint8_t *even, uint8_t *odd, uint32_t codes) {
  *even = (uint8_t)((codes & 15) | (codes >> 16 & 15) << 4);
  *odd = (uint8_t)((codes >> 8 & 15) | (codes >> 24 & 15) << 4);
}

void ij__iq_floats_fill(void) {
  ij_iq_floats *t = &ij__iq_floats;
  for (int i = 0; i < 256; i++) magnitudes(t->iq2_xxs[i], ij__iq2_xxs_grid[i], 8);
  for (int i = 0; i < 512; i++) magnitudes(t->iq2_xs[i], ij__iq2_xs_grid[i], 8);
  for (int i = 0; i < 256; i++) magnitudes(t->iq3_xxs[i], ij__iq3_xxs_grid[i], 4);
  for (int i = 0; i < 256; i++) t->iq3_xxs_codes[i] = odd_codes(ij__iq3_xxs_grid[i]);
  for (int i = 0; i < 512; i++) magnitudes(t->iq3_s[i], ij__iq3_s_grid[i], 4);
  for (int i = 0; i < 256; i++) planes(&t->iq3_xxs_planes[0][i], &t->iq3_xxs_planes[1][i], t->iq3_xxs_codes[i]);
  for (int i = 0; i < 512; i++) planes(&t->iq3_s_planes[0][i], &t->iq3_s_planes[1][i], ij__iq3_s_grid[i]);
  for (int i = 0; i < 128; i++) masks(t->signs7[i], ij__iq_signs[i]);
  for (int i = 0; i < 256; i++) masks(t->signs8[i], i);
  for (int i = 0; i < 256; i++) pair_codes(&t->iq2_xxs_codes[0][i], &t->iq2_xxs_codes[1][i], ij__iq2_xxs_grid[i]);
  for (int i = 0; i < 512; i++) pair_codes(&t->iq2_xs_codes[0][i], &t->iq2_xs_codes[1][i], ij__iq2_xs_grid[i]);
  for (int i = 0; i < 1024; i++) pair_codes(&t->iq2_s_codes[0][i], &t->iq2_s_codes[1][i], ij__iq2_s_grid[i]);
  for (int i = 0; i < 2048; i++) t->iq1_codes[i] = byte_codes(ij__iq1_grid[i], iq1_values);
  for (int i = 0; i < 2048; i++) t->iq1[i] = two_bit_codes(ij__iq1_grid[i], iq1_values);
  for (int i = 0; i < 1024; i++) t->iq2_s[i] = two_bit_codes(ij__iq2_s_grid[i], iq2_values);
}
