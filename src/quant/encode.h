/* encode.h: float32 -> any block or split type, for the converter and for tests.
 *
 * An encoder is a type and the search tables it needs; opened once, immutable, used from any thread. It looks for the codes and scales
 * whose decoded values lie closest to the input, by weighted squared error, and always judges a candidate by what it decodes to: with
 * scales as rounded as they are stored. Several scales are tried per block (IJ_ENCODE_SEARCH), or only that under which the largest
 * magnitude just fits (IJ_ENCODE_PLAIN); searching is never worse. IJ_ENCODE_MLX makes the same bits as mx.quantize (split types).
 */
#ifndef IJ_QUANT_ENCODE_H
#define IJ_QUANT_ENCODE_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/status.h"

typedef enum ij_encode_mode { IJ_ENCODE_SEARCH, IJ_ENCODE_PLAIN, IJ_ENCODE_MLX } ij_encode_mode;

typedef struct ij_encoder ij_encoder;

/* group and side_dtype (F32, BF16, F16) are those of affine types: 32, 64 or 128 values share a scale and a bias. Other types ignore
 * them. IJ_E_ARGUMENT: the type is neither block nor split, or the group or the mode does not go with it. */
ij_status ij__encoder_open(ij_encoder **out, ij_dtype type, int group, ij_dtype side_dtype, ij_encode_mode mode, ij_err *err);
void ij__encoder_close(ij_encoder **e);

/* Where a row goes. Split types: codes, then scales (E4M3, E8M0 or side_dtype) and, affine types, biases. factor, unless 0: the row is
 * decoded times this (NVFP4's scale2; see ij__nvfp4_factor), so what is stored stands for x / factor. */
typedef struct ij_encoded {
  void *data, *scales, *biases;
  float factor;
} ij_encoded;

/* Encodes n values, a multiple of the block length (and of the group). importance: [n] weights of the squared errors, >= 0, or NULL.
 * IJ_E_ARGUMENT: n does not divide; a value or a weight is not finite, or a weight is negative. IJ_E_RANGE: a value exceeds what the
 * type can hold. Both name the index. Nothing is written then. */
ij_status ij__encode_row(const ij_encoder *e, const ij_encoded *out, const float *x, int64_t n, const float *importance, ij_err *err);

/* The NVFP4 release's factor of a tensor whose largest magnitude is amax: amax / (6 * 448). */
float ij__nvfp4_factor(float amax);

#endif
