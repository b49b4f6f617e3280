/* test_decode.c: decode of every block and split type at every level, bit for bit against the scalar definition.
 *
 * Rows are random bytes, often hostile ones (scales that are infinite, NaN or subnormal, bytes all ones), at odd addresses in blocks of
 * the heap that end with the row, so that a sanitizer sees a read past it; y lies between guards. Usage: test_decode [seed].
 */
#include "kernels/kernels.h"
#include "test.h"

enum { GUARD = 16, ROUNDS = 60 };

static uint64_t rng = 20260404;

static int64_t below(int64_t n) { return (int64_t)(test_random(&rng) % (uint64_t)n); }

/* n bytes at an odd address, ending where their block ends; free(result - 1). kind 0: any bytes; 1: mostly extreme ones; 2: all ones;
 * 3: zeros; 4: F16 and BF16 numbers of ordinary size, as far as bytes can be that. */
static uint8_t *make_bytes(int64_t n, int kind) {
  static const uint8_t extreme[] = {0x00, 0xff, 0x7f, 0x80, 0x7c, 0xfc, 0x01, 0xfe};
  uint8_t *bytes = (uint8_t *)malloc((size_t)n + 1) + 1;
  for (int64_t i = 0; i < n; i++) {
    uint8_t random = (uint8_t)test_random(&rng);
    if (kind == 0) bytes[i] = random;
    else if (kind == 1) bytes[i] = below(4) ? extreme[below(8)] : random;
    else if (kind == 4) bytes[i] = (random & 0x83) | (uint8_t)(0x28 + 4 * below(5));
    else bytes[i] = kind == 2 ? 0xff : 0;
  }
  return bytes;
}

typedef struct decode_case {
  ij_dtype type;
  ij_stretch s;
  int kind;
} decode_case;

/* A NaN has many spellings; everything else is exact. */
static bool equal(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

static bool check_levels(const decode_case *c) {
  size_t n = (size_t)c->s.n + 2 * GUARD;
  float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
  for (size_t i = 0; i < n; i++) want[i] = 12345.0f;
  ij__kernels_get(IJ_LEVEL_SCALAR)->decode[c->type](want + GUARD, &c->s);
  bool ok = true;
  for (int level = 0; level < IJ_LEVEL_COUNT && ok; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    if (k->level != (ij_level)level) continue;
    for (size_t i = 0; i < n; i++) got[i] = 12345.0f;
    k->decode[c->type](got + GUARD, &c->s);
    for (size_t i = 0; i < n && ok; i++) {
      ok = equal(got[i], want[i]);
      if (ok) continue;
      TEST_FAIL("%s %s group %d sidecars %s kind %d from %lld, %lld values: y[%lld] is %a, expected %a", ij__level_name(k->level),
                ij__dtype_name(c->type), c->s.group, ij__dtype_name(c->s.side_dtype), c->kind, (long long)c->s.c0, (long long)c->s.n,
                (long long)i - GUARD, (double)got[i], (double)want[i]);
    }
  }
  free(want);
  free(got);
  return ok;
}

/* One stretch of `count` units from unit `first` of a row that ends `behind` units later; a unit is a block or a group. */
static bool check_stretch(ij_dtype type, int group, ij_dtype side, int64_t first, int64_t count, int64_t behind, int kind) {
  decode_case c = {.type = type, .kind = kind};
  int64_t unit = ij__dtype_is_affine(type) ? group : ij__dtype_block_len(type), units = first + count + behind;
  int64_t side_bytes = ij__dtype_is_affine(type) ? ij__dtype_block_bytes(side) : 1;
  uint8_t *row = make_bytes(ij__dtype_row_bytes(type, units * unit), kind);
  uint8_t *scales = make_bytes(units * side_bytes, kind), *biases = make_bytes(units * side_bytes, kind);
  c.s = (ij_stretch){row, NULL, NULL, side, group, first * unit, count * unit};
  if (ij__dtype_is_split(type)) c.s.scales = scales;
  if (ij__dtype_is_affine(type)) c.s.biases = biases;
  bool ok = check_levels(&c);
  free(row - 1);
  free(scales - 1);
  free(biases - 1);
  return ok;
}

static void check_type(ij_dtype type, int group, ij_dtype side) {
  for (int64_t count = 1; count <= 9; count++) {
    for (int kind = 0; kind < 5; kind++) {
      if (!check_stretch(type, group, side, 0, count, 0, kind)) return;
    }
  }
  for (int i = 0; i < ROUNDS; i++) {
    if (!check_stretch(type, group, side, below(8), 1 + below(12), below(2) * below(4), i % 5)) return;
  }
}

static void every_block_type(void) {
  for (int t = 0; t < IJ_DTYPE_COUNT; t++) {
    if (ij__dtype_is_block((ij_dtype)t)) check_type((ij_dtype)t, 0, IJ_DTYPE_F32);
  }
}

static void every_affine_type(void) {
  static const ij_dtype sides[] = {IJ_DTYPE_F32, IJ_DTYPE_BF16, IJ_DTYPE_F16};
  for (int t = IJ_DTYPE_AFFINE2; t <= IJ_DTYPE_AFFINE8; t++) {
    for (int group = 32; group <= 128; group *= 2) {
      for (int i = 0; i < 3; i++) check_type((ij_dtype)t, group, sides[i]);
    }
  }
}

static void every_split_type_of_small_floats(void) {
  check_type(IJ_DTYPE_NVFP4_SPLIT, 16, IJ_DTYPE_F8_E4M3);
  check_type(IJ_DTYPE_MXFP4_SPLIT, 32, IJ_DTYPE_U8);
  check_type(IJ_DTYPE_MXFP8_SPLIT, 32, IJ_DTYPE_U8);
}

/* Every scale byte with every code byte, for types where two bytes make a value. */
static void every_pair_of_bytes(void) {
  static const ij_dtype types[] = {IJ_DTYPE_NVFP4_SPLIT, IJ_DTYPE_MXFP4_SPLIT, IJ_DTYPE_MXFP8_SPLIT, IJ_DTYPE_MXFP4, IJ_DTYPE_NVFP4};
  for (size_t t = 0; t < IJ_COUNT_OF(types); t++) {
    for (int code = 0; code < 256; code++) {
      uint8_t row[256 * 32], scales[256];
      int64_t bytes = ij__dtype_block_bytes(types[t]), n_blocks = types[t] == IJ_DTYPE_NVFP4 ? 64 : 256;
      int64_t head = types[t] == IJ_DTYPE_MXFP4 ? 1 : types[t] == IJ_DTYPE_NVFP4 ? 4 : 0;
      memset(row, code, sizeof row);
      for (int64_t i = 0; i < n_blocks; i++) {
        for (int64_t j = 0; j < head; j++) row[i * bytes + j] = (uint8_t)(i * head + j);
      }
      for (int i = 0; i < 256; i++) scales[i] = (uint8_t)i;
      decode_case c = {types[t], {.row = row, .scales = head ? NULL : scales, .n = n_blocks * ij__dtype_block_len(types[t])}, code};
      if (!check_levels(&c)) return;
    }
  }
}

/* The table has a decoder for exactly the block and the split types, at every level. */
static void set_for_exactly_those_types(void) {
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    for (int t = 0; t < IJ_DTYPE_COUNT; t++) {
      CHECK_INT(k->decode[t] != NULL, ij__dtype_is_block((ij_dtype)t) || ij__dtype_is_split((ij_dtype)t));
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1) rng = strtoull(argv[1], NULL, 10);
  RUN(set_for_exactly_those_types);
  RUN(every_block_type);
  RUN(every_affine_type);
  RUN(every_split_type_of_small_floats);
  RUN(every_pair_of_bytes);
  return test_report();
}
