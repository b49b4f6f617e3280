/* snapshot.c: see snapshot.h. Save and restore walk the same parts in the same order through one function, so they cannot drift. */
#include "cache/snapshot.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/dtype.h"

#define MAGIC 0x53534a49u /* "IJSS" */
#define VERSION 2u
#define VERSION_WITHOUT_MEDIA 1u /* still read */

static const uint64_t hash_start = 0xcbf29ce484222325u;

/* The stream of all bytes, eight at a time as little-endian words, whatever pieces it comes in. Detects damage, not malice. */
static void hash_more(ij_snapshot *io, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  for (size_t i = 0; i < n; i++) {
    io->word |= (uint64_t)p[i] << (8 * io->n_word);
    if (++io->n_word < 8) continue;
    io->hash = (io->hash ^ io->word) * 0x9e3779b97f4a7c15u;
    io->hash ^= io->hash >> 29;
    io->word = 0;
    io->n_word = 0;
  }
}

/* The checksum of everything so far: what is left over counts as padded with zeros. */
static uint64_t hash_now(const ij_snapshot *io) {
  uint64_t h = (io->hash ^ io->word) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

/* Moves n bytes in whichever direction the stream goes. */
static void pass(ij_snapshot *io, void *bytes, size_t n) {
  if (io->failed || n == 0) return;
  if (io->read ? !io->read(io->user, bytes, n) : !io->write(io->user, bytes, n)) {
    io->failed = true;
    return;
  }
  hash_more(io, bytes, n);
}

static void pass_u64(ij_snapshot *io, uint64_t *v) {
  unsigned char b[8] = {0};
  for (int i = 0; i < 8; i++) b[i] = (unsigned char)(*v >> (8 * i));
  pass(io, b, sizeof b);
  *v = 0;
  for (int i = 0; i < 8; i++) *v |= (uint64_t)b[i] << (8 * i);
}

/* The fixed head of a payload. All supported machines are little endian, so arrays below pass as they lie. */
typedef struct head {
  uint64_t magic_version, fingerprint, kv_type, n_tap, n_layer, pos, history, n_vocab, has_logits;
} head;

static void pass_head(ij_snapshot *io, head *h) {
  uint64_t *fields[] = {&h->magic_version, &h->fingerprint, &h->kv_type, &h->n_tap, &h->n_layer, &h->pos, &h->history, &h->n_vocab, &h->has_logits};
  for (size_t i = 0; i < IJ_COUNT_OF(fields); i++) pass_u64(io, fields[i]);
}

/* Bytes that a restoring state with less history has no room for. */
static void skip(ij_snapshot *io, size_t n) {
  char sink[4096];
  while (n > 0 && !io->failed) {
    size_t step = IJ_MIN(n, sizeof sink);
    pass(io, sink, step);
    n -= step;
  }
}

/* Keys or values, head by head, in runs that are contiguous in the cache: positions [all, pos) are in the payload, [from, pos) in the
 * state. */
static void pass_positions(ij_snapshot *io, const ij_layer_state *l, char *base, size_t row, int64_t all, int64_t from,
                           int64_t pos) {
  for (int h = 0; h < l->spec.n_kv; h++) {
    skip(io, (size_t)(from - all) * row);
    for (int64_t p = from; p < pos;) {
      int64_t slot = ij__state_slot(l, p);
      int64_t n = IJ_MIN(pos - p, l->cap - slot);
      pass(io, base + (size_t)(h * l->cap + slot) * row, (size_t)n * row);
      p += n;
    }
  }
}

/* The caches of a state at `pos`, from which `history` positions can be taken back; `keep` <= history of them fit into this state. */
static void pass_caches(ij_snapshot *io, ij_state *s, int64_t pos, int64_t history, int64_t keep) {
  size_t item = (size_t)ij__dtype_block_bytes(s->spec.kv_type);
  for (int i = 0; i < s->spec.n_layer; i++) {
    ij_layer_state *l = &s->layers[i];
    size_t row = (size_t)l->spec.head_dim * item;
    int64_t all = l->spec.window ? IJ_MAX(pos - l->spec.window - history, (int64_t)0) : 0;
    int64_t from = l->spec.window ? IJ_MAX(pos - l->spec.window - keep, (int64_t)0) : 0;
    char *parts[2] = {l->k, l->v};
    for (int j = 0; j < 2; j++) pass_positions(io, l, parts[j], row, all, from, pos);
    int64_t conv_all = IJ_MAX(pos - (s->spec.n_tap - 1) - history, (int64_t)0);
    int64_t conv_from = IJ_MAX(pos - (s->spec.n_tap - 1) - keep, (int64_t)0);
    for (int c = 0; c < IJ_STATE_N_CONV; c++) {
      size_t bytes = (size_t)l->spec.n_chan[c] * sizeof(float);
      skip(io, (size_t)(conv_from - conv_all) * bytes);
      for (int64_t p = conv_from; p < pos; p++) pass(io, ij__state_conv_row(s, i, c, p), bytes);
    }
  }
}

static void pass_media(ij_snapshot *io, ij_snapshot_media *m) {
  uint64_t *fields[] = {&m->first, &m->n, &m->row0, &m->digest[0], &m->digest[1]};
  for (size_t i = 0; i < IJ_COUNT_OF(fields); i++) pass_u64(io, fields[i]);
}

static void pass_extra(ij_snapshot *io, ij_snapshot_extra *extra, int64_t pos) {
  pass(io, extra->ids, (size_t)pos * sizeof *extra->ids);
  if (extra->has_logits) pass(io, extra->logits, (size_t)extra->n_vocab * sizeof *extra->logits);
}

ij_status ij__snapshot_save(const ij_state *state, const ij_snapshot_extra *extra, ij_write_fn write, void *user, ij_err *err) {
  ij_snapshot io = {.write = write, .user = user, .hash = hash_start};
  ij_state s = *state; /* the walk is shared with restore, which writes; here it only reads */
  ij_snapshot_extra e = *extra;
  int64_t history = IJ_MAX(s.spec.max_rollback - (s.high - s.pos), (int64_t)0); /* a step that failed may have run further ahead */
  head h = {.magic_version = MAGIC | (uint64_t)VERSION << 32, .fingerprint = e.fingerprint, .kv_type = (uint64_t)s.spec.kv_type,
            .n_tap = (uint64_t)s.spec.n_tap, .n_layer = (uint64_t)s.spec.n_layer, .pos = (uint64_t)s.pos, .history = (uint64_t)history,
            .n_vocab = (uint64_t)e.n_vocab, .has_logits = e.has_logits};
  pass_head(&io, &h);
  pass_caches(&io, &s, s.pos, history, history);
  pass_extra(&io, &e, s.pos);
  pass_u64(&io, &e.n_media);
  for (uint64_t i = 0; i < extra->n_media; i++) {
    ij_snapshot_media m = extra->media[i];
    pass_media(&io, &m);
  }
  uint64_t sum = hash_now(&io);
  pass_u64(&io, &sum);
  if (io.failed) return ij__fail(err, IJ_E_IO, "saving a session", "the writer failed");
  return IJ_OK;
}

static ij_status check_head(const ij_state *s, const ij_snapshot_extra *extra, const head *h, ij_err *err) {
  static const char where[] = "a saved session";
  if ((h->magic_version & 0xffffffffu) != MAGIC) return ij__fail(err, IJ_E_FORMAT, where, "this is not a saved session (wrong first bytes)");
  uint64_t version = h->magic_version >> 32;
  if (version != VERSION && version != VERSION_WITHOUT_MEDIA) {
    return ij__fail(err, IJ_E_UNSUPPORTED, where, "it has version %u; this program reads versions %u and %u", (unsigned)version,
                    VERSION_WITHOUT_MEDIA, VERSION);
  }
  if (h->fingerprint == extra->fingerprint && (h->n_layer != (uint64_t)s->spec.n_layer || h->n_tap != (uint64_t)s->spec.n_tap ||
                                               h->n_vocab != (uint64_t)extra->n_vocab)) {
    return ij__fail(err, IJ_E_FORMAT, where, "its header is damaged: the numbers of layers or ids contradict the fingerprint");
  }
  if (h->fingerprint != extra->fingerprint) {
    return ij__fail(err, IJ_E_FORMAT, where, "it comes from a model of another architecture (fingerprint %016llx, this model has %016llx)",
                    (unsigned long long)h->fingerprint, (unsigned long long)extra->fingerprint);
  }
  if (h->kv_type != (uint64_t)s->spec.kv_type) {
    const char *found = h->kv_type < IJ_DTYPE_COUNT ? ij__dtype_name((ij_dtype)h->kv_type) : "an unknown type";
    return ij__fail(err, IJ_E_FORMAT, where, "its keys and values are %s; this session keeps %s: open the session with the same kv type", found,
                    ij__dtype_name(s->spec.kv_type));
  }
  if (h->pos > (uint64_t)s->spec.n_ctx) {
    return ij__fail(err, IJ_E_CONTEXT, where, "it holds %llu positions; this session has room for %lld", (unsigned long long)h->pos, (long long)s->spec.n_ctx);
  }
  if (h->history > (uint64_t)INT32_MAX || h->has_logits > 1 || (h->has_logits && h->pos == 0)) return ij__fail(err, IJ_E_FORMAT, where, "its header is damaged");
  return IJ_OK;
}

/* The spans of media, each after the one before it and within the positions; what they say is checked before anything grows. */
static ij_status read_media(ij_snapshot_extra *extra, ij_snapshot *io, uint64_t pos, ij_err *err) {
  static const char where[] = "a saved session";
  uint64_t n = 0, cap = 0, end = 0;
  pass_u64(io, &n);
  if (io->failed) return IJ_OK; /* said with the checksum */
  if (n > pos) return ij__fail(err, IJ_E_FORMAT, where, "%llu media in %llu positions", (unsigned long long)n, (unsigned long long)pos);
  for (uint64_t i = 0; i < n; i++) {
    ij_snapshot_media m = {0};
    pass_media(io, &m);
    if (io->failed) return IJ_OK;
    if (m.first < end || m.n < 1 || m.first > pos || m.n > pos - m.first || m.row0 > INT64_MAX - m.n) {
      return ij__fail(err, IJ_E_FORMAT, where, "medium %llu is not where one can be", (unsigned long long)i);
    }
    end = m.first + m.n;
    if (i == cap) {
      cap = cap ? 2 * cap : 4;
      ij_snapshot_media *bigger = ij__realloc(extra->media, (size_t)cap * sizeof *bigger);
      if (!bigger) return ij__fail_nomem(err, where, (size_t)cap * sizeof *bigger);
      extra->media = bigger;
    }
    extra->media[extra->n_media++] = m;
  }
  return IJ_OK;
}

static ij_status check_media(const ij_snapshot_extra *extra, ij_err *err) {
  for (uint64_t i = 0; i < extra->n_media; i++) {
    const ij_snapshot_media *m = &extra->media[i];
    for (uint64_t at = m->first; at < m->first + m->n; at++) {
      if (extra->ids[at] == extra->placeholders[0] || extra->ids[at] == extra->placeholders[1]) continue;
      return ij__fail(err, IJ_E_FORMAT, "a saved session", "a medium stands at token %llu, which is no placeholder", (unsigned long long)at);
    }
  }
  return IJ_OK;
}

static ij_status read_body(ij_state *s, ij_snapshot_extra *extra, ij_snapshot *io, const head *h, ij_err *err) {
  int64_t pos = (int64_t)h->pos, history = (int64_t)h->history, keep = IJ_MIN(history, (int64_t)s->spec.max_rollback);
  pass_caches(io, s, pos, history, keep);
  extra->has_logits = h->has_logits;
  pass_extra(io, extra, pos);
  if (h->magic_version >> 32 != VERSION_WITHOUT_MEDIA) {
    ij_status status = read_media(extra, io, h->pos, err);
    if (status != IJ_OK) return status;
  }
  uint64_t want = hash_now(io), found = 0;
  pass_u64(io, &found);
  if (io->failed) return ij__fail(err, IJ_E_FORMAT, "a saved session", "it ends early, or reading it failed");
  if (found != want) return ij__fail(err, IJ_E_FORMAT, "a saved session", "its checksum is wrong: the payload is damaged");
  for (int64_t i = 0; i < pos; i++) {
    if (extra->ids[i] < 0 || extra->ids[i] >= extra->n_vocab) {
      return ij__fail(err, IJ_E_FORMAT, "a saved session", "token %lld is %d, outside the vocabulary", (long long)i, extra->ids[i]);
    }
  }
  for (int32_t i = 0; extra->has_logits && i < extra->n_vocab; i++) {
    if (!isfinite(extra->logits[i])) return ij__fail(err, IJ_E_FORMAT, "a saved session", "the logit of token %d is not finite", i);
  }
  ij_status status = check_media(extra, err);
  if (status != IJ_OK) return status;
  s->pos = pos;
  s->high = pos + s->spec.max_rollback - keep;
  return IJ_OK;
}

ij_status ij__snapshot_restore(ij_state *s, ij_snapshot_extra *extra, ij_read_fn read, void *user, ij_err *err) {
  ij_snapshot io = {.read = read, .user = user, .hash = hash_start};
  head h = {0};
  ij__state_reset(s);
  extra->has_logits = false;
  extra->media = NULL;
  extra->n_media = 0;
  pass_head(&io, &h);
  if (io.failed) return ij__fail(err, IJ_E_FORMAT, "a saved session", "it is shorter than its header, or reading it failed");
  ij_status status = check_head(s, extra, &h, err);
  if (status == IJ_OK) status = read_body(s, extra, &io, &h, err);
  if (status != IJ_OK) {
    ij__state_reset(s);
    extra->has_logits = false;
    ij__free(extra->media);
    extra->media = NULL;
    extra->n_media = 0;
  }
  return status;
}
