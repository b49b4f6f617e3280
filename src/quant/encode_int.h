/* encode_int.h: what the encoders share. A group is the run of values under one scale; a level is what a code stands for at scale 1. */
#ifndef IJ_QUANT_ENCODE_INT_H
#define IJ_QUANT_ENCODE_INT_H

#include <math.h>
#include <string.h>

#include "quant/encode.h"
#include "quant/fmt_float.h"

enum { ENC_MAX_GROUP = 256 };

/* How a group is coded when its scale is given. */
typedef enum ij_enc_kind {
  ENC_UNIFORM, /* levels lo .. hi */
  ENC_TABLE,   /* a sorted table of levels */
  ENC_E4M3,    /* the E4M3 values */
  ENC_GRID,    /* magnitudes from a codebook, signs apart */
  ENC_GRID1    /* signed codebook, shifted by +-1/8 */
} ij_enc_kind;

/* Nearest codebook entries of every corner: a point of the full lattice of levels, each of `dims` coordinates one of n_level. */
typedef struct ij_enc_grid {
  int dims, n_level, n_entry;
  float level[8];       /* ascending */
  float middle[8];      /* between neighbours */
  const uint64_t *wide; /* entries of 8 bytes, or */
  const uint32_t *narrow; /* of 4 */
  float *values;        /* [n_entry][dims] the entries as numbers */
  uint16_t *near;       /* [n_level ^ dims][ENC_NEAR] entries, nearest first */
} ij_enc_grid;

enum { ENC_NEAR = 8 };

struct ij_encoder {
  ij_dtype type;
  ij_encode_mode mode;
  int group;
  ij_dtype side_dtype;
  ij_enc_kind kind;
  int lo, hi;             /* ENC_UNIFORM */
  const float *table;     /* ENC_TABLE, ascending */
  const uint8_t *codes;   /* of the table's entries */
  int n_table;
  float middle[16];       /* between neighbours of the table */
  bool even_signs;        /* ENC_GRID: the number of negative signs in 8 values is even */
  int shift_len;          /* ENC_GRID1: values that share a shift */
  ij_enc_grid grid;
};

/* A coded group: level[i] * scale is value i. */
typedef struct ij_enc_group {
  float level[ENC_MAX_GROUP];
  uint16_t code[ENC_MAX_GROUP]; /* per value, or per codebook entry */
  uint8_t signs[4];             /* per 8 values, bit i: value i is negative */
  uint8_t shift[4];             /* ENC_GRID1, per shift_len values: 1 for -1/8 */
} ij_enc_group;

/* Codes n values under `scale`; returns the weighted squared error, or any number >= limit once it is known to be that large. */
float ij__enc_code(const ij_encoder *e, const float *x, const float *w, int n, float scale, float limit, ij_enc_group *out);
float ij__enc_top(const ij_encoder *e); /* the largest level */

/* The real scale that codes a group best (SEARCH) or fits its largest magnitude (PLAIN). *curvature: sum of w * level^2 there. */
float ij__enc_fit(const ij_encoder *e, const float *x, const float *w, int n, double *curvature);

/* Nearest value of the storage type, as bits and as float32. */
uint16_t ij__enc_to_f16(float x);
uint16_t ij__enc_to_bf16(float x);
float ij__enc_round(float x, ij_dtype type); /* F16, BF16 or F32 */

ij_status ij__enc_grid_open(ij_enc_grid *g, ij_err *err); /* fills near; the other fields are given */
void ij__enc_grid_close(ij_enc_grid *g);

/* One block each; x and w hold a block's values. */
void ij__enc_block_simple(const ij_encoder *e, uint8_t *out, const float *x, const float *w);
void ij__enc_block_min(const ij_encoder *e, uint8_t *out, const float *x, const float *w);    /* Q4_1 Q5_1 */
void ij__enc_block_min_k(const ij_encoder *e, uint8_t *out, const float *x, const float *w);  /* Q2_K Q4_K Q5_K */
void ij__enc_block_nested(const ij_encoder *e, uint8_t *out, const float *x, const float *w); /* Q3_K Q6_K IQ4_XS, IQ1 to IQ3 */

/* x = scale * code + min, code 0 .. last; scale and min rounded to `type` (F32: not at all). max_min: min is at most this. */
typedef struct ij_enc_min {
  float scale, min, error;
} ij_enc_min;
ij_enc_min ij__enc_fit_min(const float *x, const float *w, int n, int last, ij_dtype type, float max_min, bool search);
float ij__enc_min_error(const float *x, const float *w, int n, int last, float scale, float min, float limit);
static inline float ij__enc_inverse(float scale) { return scale != 0 && isfinite(1 / scale) ? 1 / scale : 0; }

/* Nearest integer, ties to even, of a number clamped to lo .. hi, which are small integers. */
static inline float ij__enc_rint(float v, float lo, float hi) {
  v = v > lo ? v : lo;
  v = v < hi ? v : hi;
  return (v + 12582912.0f) - 12582912.0f; /* 1.5 * 2^23: the sum has no bits below one */
}

static inline int ij__enc_min_code(float x, int last, float inverse, float min) {
  return (int)ij__enc_rint((x - min) * inverse, 0, (float)last);
}

/* The scale byte of a group, the group coded under it: 2^(byte - 127), and E4M3 with 16 values. */
uint8_t ij__enc_code_e8m0(const ij_encoder *e, const float *x, const float *w, int n, ij_enc_group *group);
uint8_t ij__enc_code_e4m3(const ij_encoder *e, const float *x, const float *w, ij_enc_group *group);

/* One group of a split type. */
void ij__enc_split(const ij_encoder *e, const ij_encoded *out, int64_t g, const float *x, const float *w);
float ij__enc_e4m3(float x, uint8_t *code);  /* nearest, ties to even, saturating; the value */

#endif
