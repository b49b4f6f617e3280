/* usage.c: see usage.h. The file is a head of fixed length, the shares, and the checksum of saved sessions; parse and ij__usage_bytes are the two
 * readers of its layout, which docs/formats/usage.md describes.
 */
#include "cache/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/out_file.h"
#include "core/str.h"

#define VERSION 1u
#define MAX_FILE_BYTES ((size_t)16 << 20) /* 384 experts on 64 layers are 98 kB */
#define SUM_BOUND 1e-3 /* how far the float32 shares of a layer may sum from 1 */

static const char magic[8] = {'I', 'J', 'E', 'X', 'P', 'U', 'S', 'E'};

/* The head as it lies in the file: no padding, and all supported hosts are little endian. */
typedef struct head {
  char magic[8];
  uint32_t version, n_layer, n_expert, zero;
  uint64_t fingerprint, n_sessions, n_tokens, n_hit, n_miss, read_bytes;
  double read_seconds, weight;
} head;

_Static_assert(sizeof(head) == 88, "the head of the file has 88 bytes");

/* The checksum of docs/formats/session.md. */
static uint64_t sum_of(const unsigned char *p, size_t n) {
  uint64_t h = 0xcbf29ce484222325u, word;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&word, p, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  word = 0;
  if (n) memcpy(&word, p, n);
  h = (h ^ word) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static size_t n_shares(const ij_usage *u) { return (size_t)u->n_layer * (size_t)u->n_expert; }

ij_status ij__usage_new(ij_usage *out, uint64_t fingerprint, int n_layer, int n_expert, ij_err *err) {
  size_t n = 0;
  *out = (ij_usage){0};
  if (n_layer < 0 || n_expert < 0 || !ij__mul_size((size_t)n_layer, (size_t)n_expert, &n) || n > MAX_FILE_BYTES / sizeof(float) / 2) {
    return ij__fail(err, IJ_E_ARGUMENT, "the use of experts", "%d layers of %d experts are more than is counted", n_layer, n_expert);
  }
  float *share = ij__alloc_zero(n, sizeof *share);
  if (!share) return ij__fail_nomem(err, "the use of experts", n * sizeof *share);
  *out = (ij_usage){.fingerprint = fingerprint, .n_layer = n_layer, .n_expert = n_expert, .share = share};
  return IJ_OK;
}

void ij__usage_free(ij_usage *u) {
  ij__free(u->share);
  *u = (ij_usage){0};
}

/* ------------------------------------------------------------------------------------------------------------- reading */

/* What kind of file it is, whose, and that it is whole. */
static ij_status check_file(const ij_usage *u, const head *h, const unsigned char *bytes, size_t n_bytes, const char *where, ij_err *err) {
  size_t want = sizeof *h + n_shares(u) * sizeof *u->share + sizeof(uint64_t);
  uint64_t sum;
  if (h->version != VERSION) {
    return ij__fail(err, IJ_E_FORMAT, where, "it has version %u; this program reads version %u", h->version, VERSION);
  }
  if (h->fingerprint != u->fingerprint) {
    return ij__fail(err, IJ_E_FORMAT, where, "it tells of a model of another architecture (fingerprint %016llx, this model has %016llx)",
                    (unsigned long long)h->fingerprint, (unsigned long long)u->fingerprint);
  }
  if (h->n_layer != (uint32_t)u->n_layer || h->n_expert != (uint32_t)u->n_expert) {
    return ij__fail(err, IJ_E_FORMAT, where, "it is damaged: it tells of %u layers of %u experts, this model has %d of %d", h->n_layer, h->n_expert,
                    u->n_layer, u->n_expert);
  }
  if (n_bytes != want) return ij__fail(err, IJ_E_FORMAT, where, "it is damaged: expected %zu bytes, found %zu", want, n_bytes);
  memcpy(&sum, bytes + n_bytes - sizeof sum, sizeof sum);
  if (sum != sum_of(bytes, n_bytes - sizeof sum)) return ij__fail(err, IJ_E_FORMAT, where, "it is damaged: its checksum is wrong");
  return IJ_OK;
}

/* The numbers of the head, of a file whose checksum is right: whoever wrote it may still not have been this program. */
static ij_status check_head(const head *h, const char *where, ij_err *err) {
  const uint64_t counts[] = {h->n_sessions, h->n_tokens, h->n_hit, h->n_miss, h->read_bytes};
  bool good = h->zero == 0 && h->n_sessions <= h->n_tokens;
  for (size_t i = 0; i < IJ_COUNT_OF(counts); i++) good = good && counts[i] <= INT64_MAX;
  good = good && isfinite(h->read_seconds) && h->read_seconds >= 0;
  good = good && h->weight >= 0 && h->weight <= IJ_USAGE_MEMORY && (h->weight > 0) == (h->n_sessions > 0);
  return good ? IJ_OK : ij__fail(err, IJ_E_FORMAT, where, "a number in its head is not possible");
}

static ij_status check_shares(const ij_usage *u, const char *where, ij_err *err) {
  for (int layer = 0; layer < u->n_layer; layer++) {
    const float *share = u->share + (size_t)layer * (size_t)u->n_expert;
    double sum = 0;
    for (int e = 0; e < u->n_expert; e++) {
      if (share[e] >= 0 && share[e] <= 1) {
        sum += (double)share[e];
        continue;
      }
      return ij__fail(err, IJ_E_FORMAT, where, "the share of expert %d on layer %d is %g, which is not between 0 and 1", e, layer, (double)share[e]);
    }
    if (sum > 0 && (fabs(sum - 1) > SUM_BOUND || !(u->weight > 0))) {
      return ij__fail(err, IJ_E_FORMAT, where, "the shares of layer %d sum to %g, expected %s", layer, sum, u->weight > 0 ? "1" : "0");
    }
  }
  return IJ_OK;
}

ij_status ij__usage_parse(ij_usage *out, const void *bytes, size_t n_bytes, const char *where, uint64_t fingerprint, int n_layer, int n_expert,
                          ij_err *err) {
  head h;
  *out = (ij_usage){0};
  if (n_bytes < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0) {
    return ij__fail(err, IJ_E_FORMAT, where, "this is no file of the use of experts (wrong first bytes)");
  }
  if (n_bytes < sizeof h) return ij__fail(err, IJ_E_FORMAT, where, "it is damaged: expected at least %zu bytes, found %zu", sizeof h, n_bytes);
  memcpy(&h, bytes, sizeof h);
  ij_status s = ij__usage_new(out, fingerprint, n_layer, n_expert, err);
  if (s == IJ_OK) s = check_file(out, &h, bytes, n_bytes, where, err);
  if (s == IJ_OK) s = check_head(&h, where, err);
  if (s == IJ_OK) {
    if (n_shares(out)) memcpy(out->share, (const char *)bytes + sizeof h, n_shares(out) * sizeof *out->share);
    out->n_sessions = (int64_t)h.n_sessions;
    out->n_tokens = (int64_t)h.n_tokens;
    out->n_hit = h.n_hit;
    out->n_miss = h.n_miss;
    out->read_bytes = h.read_bytes;
    out->read_seconds = h.read_seconds;
    out->weight = h.weight;
    s = check_shares(out, where, err);
  }
  if (s != IJ_OK) ij__usage_free(out);
  return s;
}

ij_status ij__usage_read(ij_usage *out, const char *path, uint64_t fingerprint, int n_layer, int n_expert, ij_err *err) {
  char *bytes = NULL;
  size_t n = 0;
  *out = (ij_usage){0};
  ij_status s = ij__os_read_file(path, MAX_FILE_BYTES, &bytes, &n, err);
  if (s == IJ_OK) s = ij__usage_parse(out, bytes, n, path, fingerprint, n_layer, n_expert, err);
  ij__free(bytes);
  return s;
}

/* -------------------------------------------------------------------------------------------------------------- mixing */

static bool counts(float heat) { return heat > 0 && isfinite(heat); }

static double sum_heat(const float *heat, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += counts(heat[i]) ? (double)heat[i] : 0;
  return sum;
}

/* The weighted mean of the shares so far and of the session's. A layer that was never used has nothing to weigh against. */
static void mix_layer(const ij_usage *u, int layer, const float *heat, double weight) {
  float *share = u->share + (size_t)layer * (size_t)u->n_expert;
  double heat_sum = sum_heat(heat, (size_t)u->n_expert), share_sum = sum_heat(share, (size_t)u->n_expert);
  if (!(heat_sum > 0)) return;
  double old = share_sum > 0 ? u->weight / (u->weight + weight) / share_sum : 0;
  double new = (share_sum > 0 ? weight / (u->weight + weight) : 1) / heat_sum;
  for (int e = 0; e < u->n_expert; e++) share[e] = (float)((double)share[e] * old + (counts(heat[e]) ? (double)heat[e] * new : 0));
}

static uint64_t add_counts(uint64_t a, uint64_t b) { return a > INT64_MAX || b > INT64_MAX - a ? INT64_MAX : a + b; }

static bool has_use(int n_layer, int n_expert, const ij_usage_session *session) {
  return session->n_tokens > 0 && sum_heat(session->heat, (size_t)n_layer * (size_t)n_expert) > 0;
}

void ij__usage_mix(ij_usage *u, const ij_usage_session *session) {
  if (!has_use(u->n_layer, u->n_expert, session)) return;
  double weight = (double)IJ_MIN(session->n_tokens, (int64_t)IJ_USAGE_SESSION);
  for (int layer = 0; layer < u->n_layer; layer++) mix_layer(u, layer, session->heat + (size_t)layer * (size_t)u->n_expert, weight);
  u->weight = IJ_MIN(u->weight + weight, (double)IJ_USAGE_MEMORY);
  u->n_sessions = (int64_t)add_counts((uint64_t)u->n_sessions, 1);
  u->n_tokens = (int64_t)add_counts((uint64_t)u->n_tokens, (uint64_t)session->n_tokens);
  u->n_hit = add_counts(u->n_hit, session->n_hit);
  u->n_miss = add_counts(u->n_miss, session->n_miss);
  u->read_bytes = add_counts(u->read_bytes, session->read_bytes);
  if (isfinite(u->read_seconds + session->read_seconds) && session->read_seconds > 0) u->read_seconds += session->read_seconds;
}

void ij__usage_prior(const ij_usage *u, float *out) {
  const double all = u->weight + IJ_USAGE_DOUBT, alike = IJ_USAGE_DOUBT / all / IJ_MAX(u->n_expert, 1);
  for (int layer = 0; layer < u->n_layer; layer++) {
    size_t at = (size_t)layer * (size_t)u->n_expert;
    bool used = sum_heat(u->share + at, (size_t)u->n_expert) > 0;
    for (int e = 0; e < u->n_expert; e++) out[at + (size_t)e] = used ? (float)((double)u->share[at + (size_t)e] * (u->weight / all) + alike) : 0;
  }
}

/* ------------------------------------------------------------------------------------------------------------- writing */

void *ij__usage_bytes(const ij_usage *u, size_t *n_bytes) {
  size_t n = n_shares(u) * sizeof *u->share;
  head h = {.version = VERSION, .n_layer = (uint32_t)u->n_layer, .n_expert = (uint32_t)u->n_expert, .fingerprint = u->fingerprint,
            .n_sessions = (uint64_t)u->n_sessions, .n_tokens = (uint64_t)u->n_tokens, .n_hit = u->n_hit, .n_miss = u->n_miss,
            .read_bytes = u->read_bytes, .read_seconds = u->read_seconds, .weight = u->weight};
  memcpy(h.magic, magic, sizeof magic);
  unsigned char *bytes = ij__alloc(sizeof h + n + sizeof(uint64_t));
  if (!bytes) return NULL;
  memcpy(bytes, &h, sizeof h);
  if (n) memcpy(bytes + sizeof h, u->share, n);
  uint64_t sum = sum_of(bytes, sizeof h + n);
  memcpy(bytes + sizeof h + n, &sum, sizeof sum);
  *n_bytes = sizeof h + n + sizeof sum;
  return bytes;
}

/* A path that was mistyped may name anything, and what is replaced is gone: only files of this kind are, and empty ones. */
static ij_status check_target(const char *path, ij_err *err) {
  struct stat st;
  char found[sizeof magic];
  if (stat(path, &st) != 0) return errno == ENOENT ? IJ_OK : ij__fail_errno(err, errno, path, "cannot stat the file");
  if (!S_ISREG(st.st_mode)) return ij__fail(err, IJ_E_FORMAT, path, "expected a file of the use of experts, found no regular file: it is left alone");
  FILE *f = fopen(path, "rb");
  if (!f) return ij__fail_errno(err, errno, path, "cannot open the file");
  size_t n = fread(found, 1, sizeof found, f);
  bool failed = ferror(f) != 0;
  fclose(f);
  if (failed) return ij__fail(err, IJ_E_IO, path, "cannot read the file");
  if (n == 0 || (n == sizeof found && memcmp(found, magic, sizeof magic) == 0)) return IJ_OK;
  return ij__fail(err, IJ_E_FORMAT, path, "this is no file of the use of experts: it is left alone");
}

ij_status ij__usage_write(const ij_usage *u, const char *path, ij_err *err) {
  size_t n = 0;
  ij_status s = check_target(path, err);
  if (s != IJ_OK) return s;
  void *bytes = ij__usage_bytes(u, &n);
  s = bytes ? ij__out_write(path, bytes, n, err) : ij__fail_nomem(err, path, n_shares(u) * sizeof *u->share);
  ij__free(bytes);
  return s;
}

/* A lock on the folder leaves no file behind. Whoever holds it does so for milliseconds; if it is not to be had in a second (another program
 * holds it, or the file system has no locks), a session that is lost is better than a program that does not end. -1: not locked. */
static int lock_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? ij__strndup(path, (size_t)(slash - path) + 1) : ij__strdup(".");
  int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  ij__free(folder);
  for (int i = 0; fd >= 0 && i < 100; i++) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  if (fd >= 0) close(fd);
  return -1;
}

/* What a link stands for, whether or not it is there yet: whoever puts a link beside a model wants the file elsewhere, and renaming a new file
 * to the name of the link would put it here. From ij__alloc. */
static char *follow_links(const char *path) {
  enum { MAX_LINKS = 16, MAX_TARGET = 4096 };
  char target[MAX_TARGET];
  char *at = ij__strdup(path);
  for (int i = 0; at && i < MAX_LINKS; i++) {
    ssize_t n = readlink(at, target, sizeof target);
    if (n <= 0 || n == sizeof target) break; /* no link; a longer one is left to fail by itself */
    const char *slash = target[0] == '/' ? NULL : strrchr(at, '/');
    ij_buf next = {0};
    ij__buf_printf(&next, "%.*s%.*s", slash ? (int)(slash - at) + 1 : 0, at, (int)n, target);
    ij__free(at);
    at = next.failed ? NULL : next.data;
    if (next.failed) ij__buf_free(&next);
  }
  return at;
}

static ij_status record_at(const char *path, uint64_t fingerprint, int n_layer, int n_expert, const ij_usage_session *session, ij_err *err) {
  ij_usage u;
  int lock = lock_folder(path);
  ij_status s = ij__usage_read(&u, path, fingerprint, n_layer, n_expert, NULL);
  if (s == IJ_E_IO || s == IJ_E_FORMAT) s = ij__usage_new(&u, fingerprint, n_layer, n_expert, err); /* what may not be replaced, writing finds out */
  else if (s != IJ_OK) ij__fail_nomem(err, path, (size_t)n_layer * (size_t)n_expert * sizeof *u.share);
  if (s == IJ_OK) ij__usage_mix(&u, session);
  if (s == IJ_OK) s = ij__usage_write(&u, path, err);
  ij__usage_free(&u);
  if (lock >= 0) close(lock);
  return s;
}

ij_status ij__usage_record(const char *path, uint64_t fingerprint, int n_layer, int n_expert, const ij_usage_session *session, ij_err *err) {
  if (!has_use(n_layer, n_expert, session)) return IJ_OK;
  char *real = follow_links(path);
  ij_status s = real ? record_at(real, fingerprint, n_layer, n_expert, session, err) : ij__fail_nomem(err, path, strlen(path));
  ij__free(real);
  return s;
}
