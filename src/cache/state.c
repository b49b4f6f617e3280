/* state.c: see state.h. One anonymous mapping holds a whole state: pages of a long context cost nothing until they are written. */
#include "cache/state.h"

#include <string.h>

#include "core/alloc.h"
#include "core/os.h"

static int64_t round_block(int64_t n) { return ij__div_up(n, IJ_STATE_BLOCK) * IJ_STATE_BLOCK; }

/* Positions a layer holds. A ring must reach back a window from the oldest position that may be returned to, and a window from
 * the first of the rows appended at once, or in a step that may fail. */
static int64_t layer_cap(const ij_state_spec *spec, const ij_layer_spec *l) {
  int64_t all = round_block(spec->n_ctx);
  if (!l->window) return all;
  int64_t beyond = IJ_MAX((int64_t)IJ_MAX(spec->max_rollback, spec->max_append), IJ_STATE_APPEND);
  return IJ_MIN(all, round_block(l->window + beyond));
}

static bool add_part(size_t *total, size_t count, size_t size, size_t *offset) {
  size_t n;
  if (!ij__mul_size(count, size, &n) || n > SIZE_MAX - 4096) return false;
  *offset = *total;
  return ij__add_size(*total, ij__align_up(n, 64), total);
}

/* Walks the layout. With `s`, also sets the pointers into s->pages. */
static bool lay_out(const ij_state_spec *spec, const ij_layer_spec *specs, ij_state *s, size_t *n_bytes) {
  size_t total = 0, at;
  size_t item = (size_t)ij__dtype_block_bytes(spec->kv_type);
  size_t cap_conv = (size_t)spec->n_tap - 1 + (size_t)spec->max_rollback;
  for (int i = 0; i < spec->n_layer; i++) {
    const ij_layer_spec *l = &specs[i];
    size_t rows;
    int64_t cap = layer_cap(spec, l);
    if (!ij__mul_size((size_t)cap, (size_t)l->n_kv * (size_t)l->head_dim, &rows)) return false;
    if (!add_part(&total, rows, item, &at)) return false;
    if (s) s->layers[i].k = s->pages + at;
    if (!add_part(&total, rows, item, &at)) return false;
    if (s) s->layers[i].v = s->pages + at;
    if (s) s->layers[i].cap = cap;
    for (int c = 0; c < IJ_STATE_N_CONV; c++) {
      if (!add_part(&total, cap_conv * (size_t)l->n_chan[c], sizeof(float), &at)) return false;
      if (s) s->layers[i].conv[c] = (float *)(void *)(s->pages + at);
      if (spec->max_append <= spec->max_rollback) continue;
      if (!add_part(&total, (size_t)(spec->n_tap - 1) * (size_t)l->n_chan[c], sizeof(float), &at)) return false;
      if (s) s->layers[i].held[c] = (float *)(void *)(s->pages + at);
    }
  }
  *n_bytes = total;
  return true;
}

bool ij__state_bytes(const ij_state_spec *spec, size_t *n_bytes) { return lay_out(spec, spec->layers, NULL, n_bytes); }

ij_status ij__state_open(ij_state **out, const ij_state_spec *spec, ij_err *err) {
  *out = NULL;
  size_t n_bytes;
  if (!ij__state_bytes(spec, &n_bytes)) {
    return ij__fail(err, IJ_E_NOMEM, "the session", "a context of %lld positions overflows the address space", (long long)spec->n_ctx);
  }
  uint64_t available = ij__os_memory_available();
  if (available && n_bytes > available) {
    return ij__fail(err, IJ_E_NOMEM, "the session", "a context of %lld positions needs %.2f GB of cache; %.2f GB of memory are available: ask for a shorter context or a smaller kv type",
                    (long long)spec->n_ctx, (double)n_bytes * 1e-9, (double)available * 1e-9);
  }
  ij_state *s = ij__alloc_zero(1, sizeof *s);
  ij_layer_state *layers = ij__alloc_zero((size_t)spec->n_layer, sizeof *layers);
  char *pages = ij__os_pages(n_bytes);
  if (!s || !layers || !pages) {
    ij__free(s);
    ij__free(layers);
    ij__os_free_pages(pages, n_bytes);
    return ij__fail_nomem(err, "the session's caches", n_bytes);
  }
  *s = (ij_state){.spec = *spec, .layers = layers, .pages = pages, .n_bytes = n_bytes, .held = -1};
  s->cap_conv = spec->n_tap - 1 + spec->max_rollback;
  for (int i = 0; i < spec->n_layer; i++) layers[i].spec = spec->layers[i];
  lay_out(spec, spec->layers, s, &n_bytes);
  s->spec.layers = NULL;
  *out = s;
  return IJ_OK;
}

void ij__state_close(ij_state **state) {
  ij_state *s = *state;
  if (!s) return;
  ij__os_free_pages(s->pages, s->n_bytes);
  ij__free(s->layers);
  ij__free(s);
  *state = NULL;
}

size_t ij__state_used(const ij_state *s) {
  size_t item = (size_t)ij__dtype_block_bytes(s->spec.kv_type), page = ij__os_page_size(), total = 0;
  int64_t n = IJ_MAX(s->touched, s->high);
  for (int i = 0; i < s->spec.n_layer; i++) {
    const ij_layer_state *l = &s->layers[i];
    size_t strip = (size_t)(IJ_MIN(l->cap, n) * l->spec.head_dim) * item; /* of one head: those of a long context lie pages apart */
    if (l->cap > n) strip = ij__align_up(strip, page);
    total += 2 * (size_t)l->spec.n_kv * strip;
    for (int c = 0; c < IJ_STATE_N_CONV; c++) total += (size_t)(IJ_MIN(s->cap_conv, n) * l->spec.n_chan[c]) * sizeof(float);
  }
  return IJ_MIN(total, s->n_bytes);
}

void ij__state_reset(ij_state *s) {
  s->touched = IJ_MAX(s->touched, s->high);
  s->pos = s->high = 0;
}

bool ij__state_rewind(ij_state *s, int64_t pos) {
  if (pos == 0) {
    ij__state_reset(s);
    return true;
  }
  if (pos < 0 || pos > s->pos || s->high - pos > s->spec.max_rollback) return false;
  s->pos = pos;
  return true;
}

/* Moves the inputs that the rows from `pos` on look back to between their ring and the place they are held in. */
static void pass_held(const ij_state *s, bool back) {
  for (int i = 0; i < s->spec.n_layer; i++) {
    const ij_layer_state *l = &s->layers[i];
    for (int c = 0; c < IJ_STATE_N_CONV; c++) {
      size_t n = (size_t)l->spec.n_chan[c];
      float *held = l->held[c];
      for (int64_t p = s->pos - (s->spec.n_tap - 1); p < s->pos; p++, held += n) {
        if (p < 0) continue;
        float *row = ij__state_conv_row(s, i, c, p);
        memcpy(back ? row : held, back ? held : row, n * sizeof *row);
      }
    }
  }
}

void ij__state_hold(ij_state *s) {
  if (s->spec.max_append <= s->spec.max_rollback) return;
  pass_held(s, false);
  s->held = s->pos;
}

bool ij__state_unstep(ij_state *s, int64_t n) {
  if (n <= s->spec.max_rollback) return true;
  if (s->held != s->pos || n > s->spec.max_append) return false;
  pass_held(s, true);
  return true;
}

void ij__state_copy(ij_state *dst, const ij_state *src) {
  size_t item = (size_t)ij__dtype_block_bytes(src->spec.kv_type);
  for (int i = 0; i < src->spec.n_layer; i++) {
    const ij_layer_state *a = &src->layers[i];
    ij_layer_state *b = &dst->layers[i];
    int64_t n = IJ_MIN(a->cap, src->high); /* slots ever written, from slot 0 */
    size_t row = (size_t)a->spec.head_dim * item, head = (size_t)a->cap * row;
    for (int h = 0; h < a->spec.n_kv; h++) {
      memcpy(b->k + (size_t)h * head, a->k + (size_t)h * head, (size_t)n * row);
      memcpy(b->v + (size_t)h * head, a->v + (size_t)h * head, (size_t)n * row);
    }
    int64_t n_conv = IJ_MIN(src->cap_conv, src->high);
    for (int c = 0; c < IJ_STATE_N_CONV; c++) {
      memcpy(b->conv[c], a->conv[c], (size_t)(n_conv * a->spec.n_chan[c]) * sizeof(float));
    }
  }
  dst->pos = src->pos;
  dst->high = src->high;
  dst->held = -1;
}
