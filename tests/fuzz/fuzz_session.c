/* fuzz_session.c: any bytes as a saved session. A wrong checksum is put right, so that what lies behind it is reached.
 *
 * Whatever is accepted is sound (positions within the context, ids of the vocabulary, media in order at placeholders) and saves to bytes
 * that restore to the same.
 */
#include <stdlib.h>
#include <string.h>

#include "cache/snapshot.h"
#include "core/alloc.h"

enum { N_CTX = 16, N_VOCAB = 8, IMAGE = 5, SOUND = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

typedef struct tape {
  unsigned char bytes[1 << 14];
  size_t n, at;
} tape;

static bool read_tape(void *user, void *bytes, size_t n) {
  tape *t = user;
  if (n > t->n - t->at) return false;
  memcpy(bytes, t->bytes + t->at, n);
  t->at += n;
  return true;
}

static bool write_tape(void *user, const void *bytes, size_t n) {
  tape *t = user;
  must(n <= sizeof t->bytes - t->n);
  memcpy(t->bytes + t->n, bytes, n);
  t->n += n;
  return true;
}

typedef struct session {
  ij_state *state;
  int32_t ids[N_CTX];
  float logits[N_VOCAB];
  ij_snapshot_extra extra;
} session;

static void open_session(session *s) {
  static const ij_layer_spec layers[] = {{.n_kv = 1, .head_dim = 2, .n_chan = {2, 2, 3, 3}}, {.n_kv = 2, .head_dim = 2, .window = 4, .n_chan = {4, 4, 3, 3}}};
  const ij_state_spec spec = {.n_layer = 2, .layers = layers, .n_tap = 3, .kv_type = IJ_DTYPE_F32, .n_ctx = N_CTX, .max_rollback = 4};
  must(ij__state_open(&s->state, &spec, NULL) == IJ_OK);
  s->extra = (ij_snapshot_extra){.fingerprint = 0x1234, .ids = s->ids, .placeholders = {IMAGE, SOUND}, .n_vocab = N_VOCAB, .logits = s->logits};
}

static void close_session(session *s) {
  ij__state_close(&s->state);
  ij__free(s->extra.media);
}

static ij_status restore(session *s, tape *t, ij_err *err) {
  t->at = 0;
  ij__free(s->extra.media);
  return ij__snapshot_restore(s->state, &s->extra, read_tape, t, err);
}

/* The checksum of docs/formats/session.md over the first n bytes, put behind them. */
static void seal(tape *t, size_t n) {
  uint64_t h = 0xcbf29ce484222325u, word = 0;
  for (size_t i = 0; i < n; i++) {
    word |= (uint64_t)t->bytes[i] << (8 * (i % 8));
    if (i % 8 != 7) continue;
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    word = 0;
  }
  h = (h ^ word) * 0x9e3779b97f4a7c15u;
  h ^= h >> 29;
  for (size_t i = 0; i < 8; i++) t->bytes[n + i] = (unsigned char)(h >> (8 * i));
}

static void is_sound(const session *s) {
  const ij_snapshot_extra *e = &s->extra;
  int64_t pos = s->state->pos;
  uint64_t end = 0;
  must(pos >= 0 && pos <= N_CTX && s->state->high >= pos);
  for (int64_t i = 0; i < pos; i++) must(s->ids[i] >= 0 && s->ids[i] < N_VOCAB);
  for (uint64_t i = 0; i < e->n_media; i++) {
    const ij_snapshot_media *m = &e->media[i];
    must(m->first >= end && m->n >= 1 && m->n <= N_CTX && m->first + m->n <= (uint64_t)pos);
    end = m->first + m->n;
    for (uint64_t at = m->first; at < end; at++) must(s->ids[at] == IMAGE || s->ids[at] == SOUND);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tape t, again;
  static session s, other;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  if (size > sizeof t.bytes) return 0;
  memcpy(t.bytes, data, size);
  t.n = size;
  open_session(&s);
  ij_status status = restore(&s, &t, &err);
  if (status != IJ_OK && t.at >= 8 && strstr(err.message, "checksum")) {
    seal(&t, t.at - 8);
    status = restore(&s, &t, &err);
  }
  if (status != IJ_OK) {
    must(err.message[0] && s.state->pos == 0 && s.extra.n_media == 0 && !s.extra.has_logits);
  } else {
    is_sound(&s);
    again.n = 0;
    must(ij__snapshot_save(s.state, &s.extra, write_tape, &again, NULL) == IJ_OK);
    open_session(&other);
    must(restore(&other, &again, NULL) == IJ_OK);
    must(other.state->pos == s.state->pos && other.extra.n_media == s.extra.n_media);
    must(memcmp(other.ids, s.ids, (size_t)s.state->pos * sizeof *s.ids) == 0);
    close_session(&other);
  }
  close_session(&s);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
