/* state.h: what one timeline remembers: keys, values, and the recent inputs of every short convolution.
 *
 * All of it is addressed by absolute position, so moving the end of the timeline back is only a smaller number:
 *
 *   keys, values   [n_kv][cap][d] per layer. Global layers: cap covers the whole context, position p in slot p. Sliding layers: a ring,
 *                  position p in slot p % cap. cap is a multiple of IJ_STATE_BLOCK, so a block of positions is always contiguous.
 *   convolutions   [cap_conv][C] raw inputs per layer and slot, position p in row p % cap_conv; cap_conv = K - 1 + max_rollback.
 *
 * `pos` is the number of positions that count; `high` the furthest end ever written, which bounds how far back the rings still reach.
 * Owned by one session; used by one thread at a time, workers of the pool write disjoint parts.
 */
#ifndef IJ_CACHE_STATE_H
#define IJ_CACHE_STATE_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/status.h"

#define IJ_STATE_BLOCK 64   /* equals the block of attention; a static assert in model/attn.c holds them together */
#define IJ_STATE_APPEND 64  /* rows that may be appended to a ring before they are attended to */
#define IJ_STATE_N_CONV 4

typedef struct ij_layer_spec {
  int n_kv, head_dim;
  int window;                  /* 0: a global layer */
  int n_chan[IJ_STATE_N_CONV]; /* channels of each short convolution */
} ij_layer_spec;

typedef struct ij_state_spec {
  int n_layer;
  const ij_layer_spec *layers; /* borrowed while opening */
  int n_tap;                   /* K */
  ij_dtype kv_type;            /* F32, BF16 or F16 */
  int64_t n_ctx;
  int max_rollback;
  int max_append;              /* rows of a step that may fail midway, which ij__state_unstep then takes back; 0: steps do not fail */
} ij_state_spec;

typedef struct ij_layer_state {
  ij_layer_spec spec;
  int64_t cap;                 /* positions held by k and v */
  char *k, *v;
  float *conv[IJ_STATE_N_CONV];
  float *held[IJ_STATE_N_CONV]; /* [K - 1][C] inputs kept by ij__state_hold; NULL when the ring itself always reaches back */
} ij_layer_state;

typedef struct ij_state {
  ij_state_spec spec;          /* spec.layers is NULL: each layer has its own copy */
  int64_t cap_conv;
  int64_t pos, high;
  int64_t touched;             /* positions whose pages were written before the last reset */
  int64_t held;                /* position that the held rows belong to; -1: none */
  ij_layer_state *layers;
  char *pages;                 /* all of the above, one reservation */
  size_t n_bytes;
} ij_state;

/* Bytes a state of this spec reserves; false when the product overflows. */
bool ij__state_bytes(const ij_state_spec *spec, size_t *n_bytes);

/* Bytes of those pages that have been written. */
size_t ij__state_used(const ij_state *s);

ij_status ij__state_open(ij_state **out, const ij_state_spec *spec, ij_err *err);
void ij__state_close(ij_state **s);

/* Forgets everything. Contents need not be cleared: nothing at or beyond `pos` is ever read. */
void ij__state_reset(ij_state *s);

/* Moves the end back to `pos`. False, and nothing changed, when the rings no longer reach that far. */
bool ij__state_rewind(ij_state *s, int64_t pos);

/* Before a step that may fail: keeps what it will overwrite of the convolutions' past. Rings of keys and values are long enough. */
void ij__state_hold(ij_state *s);

/* After a step of n rows that failed, with `pos` still where it began: makes that position whole again. False: the rings do not reach that far. */
bool ij__state_unstep(ij_state *s, int64_t n);

/* Copies everything a timeline at src->pos needs; both have the same spec. */
void ij__state_copy(ij_state *dst, const ij_state *src);

/* Where position pos lies. Keys of head h: row of head_dim values of the kv type. */
static inline int64_t ij__state_slot(const ij_layer_state *l, int64_t pos) { return l->spec.window ? pos % l->cap : pos; }
static inline float *ij__state_conv_row(const ij_state *s, int layer, int conv, int64_t pos) {
  const ij_layer_state *l = &s->layers[layer];
  return l->conv[conv] + (pos % s->cap_conv) * l->spec.n_chan[conv];
}

#endif
