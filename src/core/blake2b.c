/* blake2b.c: BLAKE2b as RFC 7693 writes it: 12 rounds of 8 mixings over 16 words; words are read byte by byte, so any machine agrees. */
#include "core/blake2b.h"

#include <string.h>

static const uint64_t iv[8] = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
                               0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};

/* Which word of the block each mixing takes; rounds 10 and 11 repeat 0 and 1. */
static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static uint64_t rotate_right(uint64_t x, int n) { return x >> n | x << (64 - n); }

static uint64_t read_word(const uint8_t *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static inline void mix(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y) {
  v[a] += v[b] + x;
  v[d] = rotate_right(v[d] ^ v[a], 32);
  v[c] += v[d];
  v[b] = rotate_right(v[b] ^ v[c], 24);
  v[a] += v[b] + y;
  v[d] = rotate_right(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotate_right(v[b] ^ v[c], 63);
}

static void take_block(ij__blake2b *b, const uint8_t *block, bool last) {
  uint64_t v[16], m[16];
  for (int i = 0; i < 16; i++) m[i] = read_word(block + 8 * i);
  for (int i = 0; i < 8; i++) v[i] = b->h[i], v[i + 8] = iv[i];
  v[12] ^= b->n_bytes;
  if (last) v[14] = ~v[14];
  for (int round = 0; round < 12; round++) {
    const uint8_t *s = sigma[round % 10];
    for (int i = 0; i < 4; i++) mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
    for (int i = 0; i < 4; i++) mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
  }
  for (int i = 0; i < 8; i++) b->h[i] ^= v[i] ^ v[i + 8];
}

void ij__blake2b_init(ij__blake2b *b) {
  memset(b, 0, sizeof *b);
  memcpy(b->h, iv, sizeof iv);
  b->h[0] ^= 0x01010000u ^ 16; /* no key, 16 bytes of digest */
}

/* The last block is mixed in differently, so a full block waits until more comes. */
void ij__blake2b_add(ij__blake2b *b, const void *bytes, size_t n) {
  const uint8_t *p = bytes;
  while (n > 0) {
    if (b->n_block == sizeof b->block) {
      b->n_bytes += sizeof b->block;
      take_block(b, b->block, false);
      b->n_block = 0;
    }
    size_t part = IJ_MIN(n, sizeof b->block - b->n_block);
    memcpy(b->block + b->n_block, p, part);
    b->n_block += part;
    p += part;
    n -= part;
  }
}

void ij__blake2b_end(ij__blake2b *b, uint64_t digest[2]) {
  b->n_bytes += b->n_block;
  memset(b->block + b->n_block, 0, sizeof b->block - b->n_block);
  take_block(b, b->block, true);
  digest[0] = b->h[0];
  digest[1] = b->h[1];
}
