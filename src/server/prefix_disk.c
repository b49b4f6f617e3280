/* prefix_disk.c: see prefix_disk.h.
 *
 * What a state is of: a fingerprint of the logits that this model gives for a few fixed ids. It differs between checkpoints of one
 * architecture, between quantizations, and between versions of the program whose arithmetic is not the same; so a state from the folder
 * continues with the bits that evaluating its ids here and now would give. A state with media is of the towers as well, of which a fingerprint
 * is taken in the same way: those of another file read the same picture otherwise. Files are not synced: one that a crash cuts short has a wrong
 * checksum. Conversations are private, so files are for their owner only.
 */
#include "server/prefix_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/os.h"
#include "core/status.h"
#include "core/str.h"
#include "inkjet_media.h"

#define SUFFIX ".ijprefix"
#define PART ".ijprefix-part"
#define MAGIC 0x58464552504a4949u /* "IIJPREFX" */
#define VERSION 2u
#define GAIN 32        /* ids that a file must save more than memory does: reading costs too */
#define MAX_FILES 4096
#define N_PROBE 16

/* All fields are 8 bytes, little endian as all supported machines are. */
typedef struct head {
  uint64_t magic, version, identity, kv_type, n_ids, n_media, reach, has_logits;
} head;

/* A medium among the ids, in a file. */
typedef struct medium {
  int64_t first, n, row0;
  uint64_t digest[2];
} medium;

typedef struct file_entry {
  char name[64];
  head h;
  int32_t *ids;          /* [h.n_ids]; NULL: of another model, only counted */
  ij_rows *rows;         /* [h.n_media] */
  size_t bytes;
  uint64_t used;         /* a clock of uses, which begins in the order of the files' times */
} file_entry;

struct ij_prefix_disk {
  ij_prefix_options options;
  uint64_t identity, media_identity; /* of states without media, and with some */
  file_entry *files;     /* [MAX_FILES] */
  int n;
  size_t bytes;
  uint64_t clock;
};

static void say(const ij_prefix_disk *d, const char *fmt, ...) IJ_PRINTF(2, 3);
static void say(const ij_prefix_disk *d, const char *fmt, ...) {
  char line[512];
  va_list args;
  if (!d->options.log) return;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  d->options.log(d->options.log_user, line);
}

/* ------------------------------------------------------------------------------------------------------------ the list */

static void free_entry(file_entry *e) {
  ij__free(e->ids);
  ij__free(e->rows);
}

static void forget(ij_prefix_disk *d, int i) {
  d->bytes -= d->files[i].bytes;
  free_entry(&d->files[i]);
  d->files[i] = d->files[--d->n];
}

static void remove_name(const ij_prefix_disk *d, const char *name) {
  char *path = ij__os_join(d->options.dir, name);
  if (path) unlink(path);
  ij__free(path);
}

static void remove_file(ij_prefix_disk *d, int i) {
  remove_name(d, d->files[i].name);
  forget(d, i);
}

/* Makes room for n_bytes and one more file. */
static void make_room(ij_prefix_disk *d, size_t n_bytes) {
  while (d->n > 0 && (d->n == MAX_FILES || d->bytes + n_bytes > d->options.max_dir_bytes)) {
    int oldest = 0;
    for (int i = 1; i < d->n; i++) {
      if (d->files[i].used < d->files[oldest].used) oldest = i;
    }
    remove_file(d, oldest);
  }
}

/* ------------------------------------------------------------------------------------------------------------- the head */

static medium medium_at(const ij_rows *rows, uint64_t i) {
  return (medium){rows[i].first, rows[i].n, rows[i].row0, {rows[i].digest[0], rows[i].digest[1]}};
}

static uint64_t head_sum(const head *h, const int32_t *ids, const ij_rows *rows) {
  uint64_t sum = ij__hash_bytes(ids, (size_t)h->n_ids * sizeof *ids, ij__hash_bytes(h, sizeof *h, 0));
  for (uint64_t i = 0; i < h->n_media; i++) {
    medium m = medium_at(rows, i);
    sum = ij__hash_bytes(&m, sizeof m, sum);
  }
  return sum;
}

static uint64_t identity_of(const ij_prefix_disk *d, uint64_t n_media) { return n_media > 0 ? d->media_identity : d->identity; }

/* What follows the head in the file, into e, whose lists have room. */
static bool read_lists(FILE *f, file_entry *e) {
  uint64_t sum;
  if (fread(e->ids, sizeof *e->ids, (size_t)e->h.n_ids, f) != e->h.n_ids) return false;
  for (uint64_t i = 0; i < e->h.n_media; i++) {
    medium m;
    if (fread(&m, sizeof m, 1, f) != 1) return false;
    e->rows[i] = (ij_rows){.first = m.first, .n = m.n, .row0 = m.row0, .digest = {m.digest[0], m.digest[1]}};
  }
  return fread(&sum, sizeof sum, 1, f) == 1 && sum == head_sum(&e->h, e->ids, e->rows);
}

/* Reads the head of an open file of n_bytes into e. False: damaged, or no memory (*no_memory). The lists stay NULL for files of others. */
static bool read_head(const ij_prefix_disk *d, FILE *f, size_t n_bytes, file_entry *e, bool *no_memory) {
  head *h = &e->h;
  *no_memory = false;
  e->ids = NULL;
  e->rows = NULL;
  if (fread(h, sizeof *h, 1, f) != 1 || h->magic != MAGIC) return false;
  if (h->version != VERSION) return true; /* of another version of the program: not ours to judge */
  if (h->n_ids < 1 || h->n_ids > n_bytes / sizeof *e->ids || h->n_media > h->n_ids || h->reach > h->n_ids || h->has_logits > 1) return false;
  e->ids = ij__alloc_array((size_t)h->n_ids, sizeof *e->ids);
  e->rows = ij__alloc_array((size_t)h->n_media, sizeof *e->rows);
  *no_memory = !e->ids || !e->rows;
  bool good = !*no_memory && read_lists(f, e);
  bool ours = good && h->identity == identity_of(d, h->n_media) && h->kv_type == (uint64_t)d->options.session.kv_type && h->n_ids <= (uint64_t)d->options.session.n_ctx;
  if (!ours) {
    free_entry(e);
    e->ids = NULL;
    e->rows = NULL;
  }
  return good;
}

/* ------------------------------------------------------------------------------------------------------------- opening */

static ij_status probe(ij_prefix_disk *d, ij_err *err) {
  ij_session *s = NULL;
  ij_model_info info;
  int32_t ids[N_PROBE];
  ij_model_get_info(d->options.model, &info);
  for (int i = 0; i < N_PROBE; i++) {
    ids[i] = (int32_t)((uint32_t)(i + 1) * 2654435761u % (uint32_t)info.unpadded_vocab);
    bool reserved = ids[i] == ij_model_placeholder(d->options.model, false) || ids[i] == ij_model_placeholder(d->options.model, true);
    if (reserved) ids[i] = 0; /* refused without a medium */
  }
  ij_session_options o = d->options.session;
  int64_t n = o.n_ctx = IJ_MIN(o.n_ctx, (int64_t)N_PROBE);
  ij_status status = ij_session_open(&s, d->options.model, &o, err);
  if (status == IJ_OK) status = ij_session_eval(s, ids, n, err);
  if (status == IJ_OK) d->identity = ij__hash_bytes(ij_session_logits(s), (size_t)info.unpadded_vocab * sizeof(float), (uint64_t)info.n_params);
  ij_session_close(&s);
  return status;
}

/* The rows of a medium go into *sum. */
static ij_status probe_medium(ij_towers *towers, const ij_media *media, uint64_t *sum, ij_err *err) {
  ij_media_info info;
  ij_towers_info tower;
  ij_media_get_info(media, &info);
  ij_towers_get_info(towers, &tower);
  size_t n = (size_t)info.n_rows * (size_t)tower.hidden;
  float *rows = ij__alloc_array(n, sizeof *rows);
  if (!rows) return ij__fail_nomem(err, "the prefix cache", n * sizeof *rows);
  ij_status status = ij_towers_encode(towers, media, 0, info.n_rows, rows, err);
  if (status == IJ_OK) *sum = ij__hash_bytes(rows, n * sizeof *rows, *sum);
  ij__free(rows);
  return status;
}

static uint32_t noise(uint32_t i) { return (i + 1) * 2654435761u >> 16; }

static ij_status probe_picture(ij_prefix_disk *d, ij_towers *towers, int side, ij_err *err) {
  ij_media *media = NULL;
  ij_media_options o = ij_media_options_default();
  o.patch = side;
  uint32_t n = 3 * (uint32_t)side * (uint32_t)side;
  uint8_t *pixels = ij__alloc(n);
  if (!pixels) return ij__fail_nomem(err, "the prefix cache", n);
  for (uint32_t i = 0; i < n; i++) pixels[i] = (uint8_t)noise(i);
  ij_status status = ij_media_from_pixels(&media, pixels, NULL, side, side, &o, err);
  if (status == IJ_OK) status = probe_medium(towers, media, &d->media_identity, err);
  ij_media_close(&media);
  ij__free(pixels);
  return status;
}

static ij_status probe_sound(ij_prefix_disk *d, ij_towers *towers, ij_err *err) {
  enum { N_SAMPLES = 16000 };
  ij_media *media = NULL;
  float *samples = ij__alloc_array(N_SAMPLES, sizeof *samples);
  if (!samples) return ij__fail_nomem(err, "the prefix cache", N_SAMPLES * sizeof *samples);
  for (uint32_t i = 0; i < N_SAMPLES; i++) samples[i] = (float)(noise(i) & 0x7fff) / 65536.0f;
  ij_status status = ij_media_from_samples(&media, samples, N_SAMPLES, 1, 16000, NULL, err);
  if (status == IJ_OK) status = probe_medium(towers, media, &d->media_identity, err);
  ij_media_close(&media);
  ij__free(samples);
  return status;
}

static ij_status probe_towers(ij_prefix_disk *d, ij_err *err) {
  ij_towers *towers = ij_model_towers(d->options.model);
  ij_towers_info info = {0};
  ij_status status = IJ_OK;
  d->media_identity = d->identity;
  if (towers) ij_towers_get_info(towers, &info);
  if (info.vision) status = probe_picture(d, towers, info.patch, err);
  if (status == IJ_OK && info.audio) status = probe_sound(d, towers, err);
  return status;
}

static int by_used(const void *a, const void *b) {
  const file_entry *x = a, *y = b;
  return (x->used > y->used) - (x->used < y->used);
}

/* Only a regular file: a pipe of this name would hang whoever opens it. NULL with errno set. */
static FILE *open_state(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return NULL;
  bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  FILE *f = regular ? fdopen(fd, "rb") : NULL;
  if (f) return f;
  close(fd);
  if (!regular) errno = EINVAL;
  return NULL;
}

static bool list_one(ij_prefix_disk *d, const char *name) {
  struct stat st;
  file_entry e = {.used = 0};
  bool no_memory = false, good = false;
  char *path = ij__os_join(d->options.dir, name);
  FILE *f = path ? open_state(path) : NULL;
  if (f && strlen(name) < sizeof e.name && fstat(fileno(f), &st) == 0) {
    snprintf(e.name, sizeof e.name, "%s", name);
    e.bytes = (size_t)st.st_size;
    e.used = (uint64_t)st.st_mtime;
    good = read_head(d, f, e.bytes, &e, &no_memory);
  }
  if (f) fclose(f);
  if (good) {
    d->files[d->n++] = e;
    d->bytes += e.bytes;
  } else if (f && !no_memory) {
    say(d, "prefix cache: %s is damaged and is removed", path);
    unlink(path);
  }
  ij__free(path);
  return !no_memory;
}

static ij_status list_files(ij_prefix_disk *d, ij_err *err) {
  char **names = NULL;
  int n = 0;
  ij_status status = ij__os_list_dir(d->options.dir, PART, &names, &n, err);
  for (int i = 0; status == IJ_OK && i < n; i++) remove_name(d, names[i]); /* of a process that ended while writing */
  if (status == IJ_OK) ij__os_free_names(names, n);
  if (status == IJ_OK) status = ij__os_list_dir(d->options.dir, SUFFIX, &names, &n, err);
  if (status != IJ_OK) return status;
  bool memory = true;
  for (int i = 0; i < n && memory && d->n < MAX_FILES; i++) memory = list_one(d, names[i]);
  ij__os_free_names(names, n);
  if (!memory) return ij__fail_nomem(err, d->options.dir, 0);
  if (d->n > 0) qsort(d->files, (size_t)d->n, sizeof *d->files, by_used);
  for (int i = 0; i < d->n; i++) d->files[i].used = ++d->clock;
  make_room(d, 0);
  return IJ_OK;
}

ij_status ij__prefix_disk_open(ij_prefix_disk **out, const ij_prefix_options *options, ij_err *err) {
  *out = NULL;
  if (mkdir(options->dir, 0700) != 0 && errno != EEXIST) return ij__fail_errno(err, errno, options->dir, "cannot make the folder of the prefix cache");
  ij_prefix_disk *d = ij__alloc_zero(1, sizeof *d);
  if (!d) return ij__fail_nomem(err, "the prefix cache", sizeof *d);
  d->options = *options;
  d->options.dir = ij__strdup(options->dir);
  d->files = ij__alloc_zero(MAX_FILES, sizeof *d->files);
  ij_status status = d->options.dir && d->files ? IJ_OK : ij__fail_nomem(err, "the prefix cache", MAX_FILES * sizeof *d->files);
  if (status == IJ_OK) status = probe(d, err);
  if (status == IJ_OK) status = probe_towers(d, err);
  if (status == IJ_OK) status = list_files(d, err);
  if (status != IJ_OK) {
    ij__prefix_disk_close(&d);
    return status;
  }
  *out = d;
  return IJ_OK;
}

void ij__prefix_disk_close(ij_prefix_disk **disk) {
  if (!*disk) return;
  ij_prefix_disk *d = *disk;
  while (d->n > 0) forget(d, d->n - 1);
  ij__free(d->files);
  ij__free((char *)(uintptr_t)d->options.dir);
  ij__free(d);
  *disk = NULL;
}

/* -------------------------------------------------------------------------------------------------------------- saving */

static bool write_some(void *user, const void *bytes, size_t n) { return fwrite(bytes, 1, n, user) == n; }
static bool read_some(void *user, void *bytes, size_t n) { return fread(bytes, 1, n, user) == n; }

/* Writes the whole file; its size, or 0. */
static size_t write_file(const char *path, const file_entry *e, const ij_session *s, ij_err *err) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
  if (!f) {
    ij__fail_errno(err, errno, path, "cannot create it");
    if (fd >= 0) close(fd);
    return 0;
  }
  uint64_t sum = head_sum(&e->h, e->ids, e->rows);
  bool good = write_some(f, &e->h, sizeof e->h) && write_some(f, e->ids, (size_t)e->h.n_ids * sizeof *e->ids);
  for (uint64_t i = 0; good && i < e->h.n_media; i++) {
    medium m = medium_at(e->rows, i);
    good = write_some(f, &m, sizeof m);
  }
  good = good && write_some(f, &sum, sizeof sum) && ij_session_save(s, write_some, f, err) == IJ_OK;
  long size = good ? ftell(f) : -1;
  int code = errno;
  good = fclose(f) == 0 && good && size > 0;
  if (!good) ij__fail_errno(err, code, path, "cannot write it");
  return good ? (size_t)size : 0;
}

/* Writes beside the final name, then renames. */
static size_t save_as(const ij_prefix_disk *d, const file_entry *e, const ij_session *s) {
  ij_err err = {0};
  char part_name[sizeof d->files->name + sizeof PART];
  snprintf(part_name, sizeof part_name, "%s" PART, e->name);
  char *part = ij__os_join(d->options.dir, part_name), *path = ij__os_join(d->options.dir, e->name);
  size_t size = part && path ? write_file(part, e, s, &err) : 0;
  if (size && rename(part, path) != 0) {
    ij__fail_errno(&err, errno, path, "cannot rename it");
    size = 0;
  }
  if (!size) {
    if (part) unlink(part);
    say(d, "prefix cache: a state of %llu tokens is not kept: %s: %s", (unsigned long long)e->h.n_ids, err.where, err.message);
  }
  ij__free(part);
  ij__free(path);
  return size;
}

/* The lists of a session, copied. */
static bool copy_lists(file_entry *e, const ij_session *s, const ij_rows *rows) {
  size_t n = (size_t)e->h.n_ids, n_rows = (size_t)e->h.n_media;
  e->ids = ij__alloc_array(n, sizeof *e->ids);
  e->rows = ij__alloc_array(n_rows, sizeof *e->rows);
  if (!e->ids || !e->rows) {
    free_entry(e);
    return false;
  }
  memcpy(e->ids, ij_session_ids(s), n * sizeof *e->ids);
  if (n_rows > 0) memcpy(e->rows, rows, n_rows * sizeof *e->rows);
  return true;
}

void ij__prefix_disk_save(ij_prefix_disk *d, const ij_session *s) {
  int n_rows;
  const ij_rows *rows = ij_session_rows(s, &n_rows);
  int64_t pos = ij_session_pos(s);
  size_t estimate = ij_session_bytes_used(s);
  if (pos < IJ_PREFIX_MIN || estimate > d->options.max_dir_bytes) return;
  file_entry e = {.h = {.magic = MAGIC, .version = VERSION, .identity = identity_of(d, (uint64_t)n_rows),
                        .kv_type = (uint64_t)d->options.session.kv_type, .n_ids = (uint64_t)pos, .n_media = (uint64_t)n_rows, .reach = (uint64_t)(pos - ij_session_rollback_room(s)),
                        .has_logits = ij_session_logits(s) != NULL}};
  snprintf(e.name, sizeof e.name, "%016llx" SUFFIX, (unsigned long long)head_sum(&e.h, ij_session_ids(s), rows));
  for (int i = 0; i < d->n; i++) {
    if (strcmp(d->files[i].name, e.name) != 0) continue;
    d->files[i].used = ++d->clock; /* it is there */
    return;
  }
  if (!copy_lists(&e, s, rows)) return;
  make_room(d, estimate);
  e.bytes = save_as(d, &e, s);
  if (!e.bytes) {
    free_entry(&e);
    return;
  }
  e.used = ++d->clock;
  d->files[d->n++] = e;
  d->bytes += e.bytes;
}

/* ------------------------------------------------------------------------------------------------------------- loading */

static int64_t saves(const file_entry *e, const ij_prefix_query *q) {
  if (!e->ids) return 0;
  int64_t n = ij_ids_common(e->ids, (int64_t)e->h.n_ids, e->rows, (int)e->h.n_media, q->ids, q->n_ids, q->rows, q->n_rows);
  if (n == q->n_ids && !(e->h.n_ids == (uint64_t)n && e->h.has_logits)) n--;
  return n == (int64_t)e->h.n_ids || n >= (int64_t)e->h.reach ? n : 0;
}

/* Whether a session holds the tokens and media that the head names, and nothing else. */
static bool holds(const ij_session *s, const file_entry *e) {
  int n_rows;
  ij_session_rows(s, &n_rows);
  int64_t n = (int64_t)e->h.n_ids;
  return ij_session_pos(s) == n && n_rows == (int)e->h.n_media && ij_session_common(s, e->ids, n, e->rows, n_rows) == n;
}

/* IJ_OK, or why the file cannot be used. */
static ij_status restore(const ij_prefix_disk *d, const file_entry *e, ij_session *s, ij_err *err) {
  char *path = ij__os_join(d->options.dir, e->name);
  if (!path) return ij__fail_nomem(err, e->name, 0);
  FILE *f = open_state(path);
  if (!f) {
    ij_status status = ij__fail_errno(err, errno, path, "cannot open it");
    ij__free(path);
    return status;
  }
  file_entry now;
  bool no_memory;
  ij_status status = IJ_OK;
  if (!read_head(d, f, e->bytes, &now, &no_memory) || memcmp(&now.h, &e->h, sizeof now.h) != 0) {
    status = no_memory ? ij__fail_nomem(err, path, 0) : ij__fail(err, IJ_E_FORMAT, path, "its head is damaged, or has changed");
  }
  if (status == IJ_OK) status = ij_session_restore(s, read_some, f, err);
  if (status == IJ_OK && !holds(s, e)) {
    status = ij__fail(err, IJ_E_FORMAT, path, "it does not hold the tokens that its head names");
  }
  utimensat(AT_FDCWD, path, NULL, 0); /* so that the next process knows what was used */
  fclose(f);
  free_entry(&now);
  ij__free(path);
  return status;
}

int64_t ij__prefix_disk_load(ij_prefix_disk *d, const ij_prefix_query *q, int64_t n_have, ij_session **out) {
  int best = -1;
  int64_t n_best = n_have + GAIN - 1;
  *out = NULL;
  for (int i = 0; i < d->n; i++) {
    int64_t n = saves(&d->files[i], q);
    if (n <= n_best) continue;
    best = i;
    n_best = n;
  }
  if (best < 0) return 0;
  ij_session *s = NULL;
  ij_err err = {0};
  ij_status status = ij_session_open(&s, d->options.model, &d->options.session, &err);
  if (status != IJ_OK) return 0;
  status = restore(d, &d->files[best], s, &err);
  if (status == IJ_OK) status = ij_session_rollback(s, ij_session_pos(s) - n_best, &err);
  if (status == IJ_OK) {
    d->files[best].used = ++d->clock;
    *out = s;
    return n_best;
  }
  ij_session_close(&s);
  if (status != IJ_E_NOMEM) {
    say(d, "prefix cache: %s cannot be used and is removed: %s", d->files[best].name, err.message);
    remove_file(d, best);
  }
  return 0;
}

void ij__prefix_disk_stats(const ij_prefix_disk *d, size_t *n_bytes, int *n_files) {
  *n_bytes = d->bytes;
  *n_files = d->n;
}
