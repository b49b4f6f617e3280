/* copies.c: see copies.h. Parts that share a page are read as one; long ones are read in stretches, several at a time, so that a drive is kept
 * busy and progress can be told. */
#include "io/copies.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"

#define STRETCH ((size_t)8 << 20) /* a multiple of IJ_READ_ALIGN */
#define N_READS 4

typedef struct part {
  const char *data;  /* in the mapping */
  size_t n_bytes;
  int file;          /* of the checkpoint */
  uint64_t offset;   /* in it */
  size_t at;         /* of its room in the block */
} part;

struct ij_copies {
  const ij_ckpt *ckpt;
  part *parts;       /* once merged: by file and offset, and so by address within a file */
  int n, cap;
  bool merged, locked;
  int *reader_files; /* [files of the checkpoint] -1: not opened yet */
  char *block;
  size_t block_bytes;
};

ij_status ij__copies_open(ij_copies **out, const ij_ckpt *ckpt, ij_err *err) {
  *out = NULL;
  size_t n_files = (size_t)ij__ckpt_n_files(ckpt);
  ij_copies *c = ij__alloc_zero(1, sizeof *c);
  int *files = ij__alloc_array(n_files, sizeof *files);
  if (!c || !files) {
    ij__free(c);
    ij__free(files);
    return ij__fail_nomem(err, "a list of weights", sizeof *c + n_files * sizeof *files);
  }
  for (size_t i = 0; i < n_files; i++) files[i] = -1;
  *c = (ij_copies){.ckpt = ckpt, .reader_files = files};
  *out = c;
  return IJ_OK;
}

void ij__copies_close(ij_copies **copies) {
  if (!copies || !*copies) return;
  ij_copies *c = *copies;
  ij__os_free_pages(c->block, c->block_bytes);
  ij__free(c->reader_files);
  ij__free(c->parts);
  ij__free(c);
  *copies = NULL;
}

ij_status ij__copies_add(ij_copies *c, const void *data, size_t n_bytes, ij_err *err) {
  part p = {.data = data, .n_bytes = n_bytes};
  if (!data || n_bytes == 0 || !ij__ckpt_place(c->ckpt, data, n_bytes, &p.file, &p.offset)) return IJ_OK;
  if (c->n == c->cap) {
    int cap = c->cap ? 2 * c->cap : 64;
    part *bigger = ij__realloc(c->parts, (size_t)cap * sizeof *bigger);
    if (!bigger) return ij__fail_nomem(err, "a list of weights", (size_t)cap * sizeof *bigger);
    c->parts = bigger;
    c->cap = cap;
  }
  c->parts[c->n++] = p;
  c->merged = false;
  return IJ_OK;
}

static int by_place(const void *a, const void *b) {
  const part *x = a, *y = b;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

static uint64_t page_down(uint64_t offset) { return offset / IJ_READ_ALIGN * IJ_READ_ALIGN; }

/* Sorts the parts, joins those whose rooms would touch, and gives each its room. */
static void merge(ij_copies *c) {
  int n = 0;
  if (c->merged) return;
  if (c->n) qsort(c->parts, (size_t)c->n, sizeof *c->parts, by_place);
  for (int i = 0; i < c->n; i++) {
    part *p = &c->parts[i], *last = n ? &c->parts[n - 1] : NULL;
    if (last && last->file == p->file && page_down(p->offset) <= last->offset + last->n_bytes) {
      size_t end = (size_t)(p->offset - last->offset) + p->n_bytes;
      last->n_bytes = IJ_MAX(last->n_bytes, end);
    } else {
      c->parts[n++] = *p;
    }
  }
  c->n = n;
  c->block_bytes = 0;
  for (int i = 0; i < n; i++) {
    c->parts[i].at = c->block_bytes;
    c->block_bytes += ij__read_room(c->parts[i].offset, c->parts[i].n_bytes);
  }
  c->merged = true;
}

size_t ij__copies_bytes(ij_copies *c) {
  merge(c);
  return c->block_bytes;
}

/* ------------------------------------------------------------------------------------------------------------- reading */

/* The reads that are under way, and what comes next. */
typedef struct walk {
  ij_copies *c;
  ij_reader *reader;
  int part;
  size_t done;          /* bytes of the part that have been asked for */
  size_t total, arrived;
  ij_read reads[N_READS];
  ij_read *idle[N_READS];
  int n_idle;
  ij_err *err;
} walk;

static ij_status open_file(walk *w, int file) {
  int *mine = &w->c->reader_files[file];
  if (*mine >= 0) return IJ_OK;
  ij_status s = ij__reader_add(w->reader, ij__ckpt_file_path(w->c->ckpt, file), ij__ckpt_file_size(w->c->ckpt, file), mine, w->err);
  return s == IJ_OK ? ij__ckpt_check_file(w->c->ckpt, file, w->err) : s;
}

/* Begins the next stretch. The first of a part ends at a boundary, so that all others begin at one. */
static ij_status begin_next(walk *w) {
  part *p = &w->c->parts[w->part];
  ij_status s = open_file(w, p->file);
  if (s != IJ_OK) return s;
  uint64_t from = p->offset + w->done;
  size_t lead = (size_t)(from % IJ_READ_ALIGN), n = IJ_MIN(STRETCH - lead, p->n_bytes - w->done);
  ij_read *r = w->idle[--w->n_idle];
  *r = (ij_read){.file = w->c->reader_files[p->file], .offset = from, .n_bytes = n,
                 .room = w->c->block + p->at + (size_t)(page_down(from) - page_down(p->offset))};
  ij__os_touch(r->room, ij__read_room(from, n));
  ij__reader_submit(w->reader, r);
  w->done += n;
  if (w->done == p->n_bytes) {
    w->part++;
    w->done = 0;
  }
  return IJ_OK;
}

/* Waits for at least one stretch; the first that failed says why. */
static ij_status take_finished(walk *w, ij_status s) {
  ij_read *done[N_READS];
  int n = ij__reader_wait(w->reader, done, N_READS, true);
  for (int i = 0; i < n; i++) {
    if (done[i]->status != IJ_OK && s == IJ_OK) s = ij__reader_explain(w->reader, done[i], w->err);
    w->arrived += done[i]->n_bytes;
    w->idle[w->n_idle++] = done[i];
  }
  return s;
}

static ij_status read_parts(walk *w, bool (*progress)(void *user, double fraction), void *user) {
  ij_status s = IJ_OK;
  for (;;) {
    while (s == IJ_OK && w->n_idle > 0 && w->part < w->c->n) s = begin_next(w);
    if (w->n_idle == N_READS) return s; /* also after a failure: nothing may be written to the block any more */
    s = take_finished(w, s);
    if (s == IJ_OK && progress && !progress(user, (double)w->arrived / (double)w->total)) {
      s = ij__fail(w->err, IJ_E_CANCELLED, "opening the model", "the caller asked to stop");
    }
  }
}

ij_status ij__copies_read(ij_copies *c, ij_reader *reader, bool (*progress)(void *user, double fraction), void *user, ij_err *err) {
  merge(c);
  if (c->block_bytes == 0) return IJ_OK;
  c->block = ij__os_pages(c->block_bytes);
  if (!c->block) return ij__fail_nomem(err, "weights", c->block_bytes);
  ij__os_advise(c->block, c->block_bytes, IJ_ADVICE_HUGE);
  walk *w = ij__alloc_zero(1, sizeof *w);
  if (!w) return ij__fail_nomem(err, "weights", sizeof *w);
  w->c = c;
  w->reader = reader;
  w->err = err;
  for (int i = 0; i < c->n; i++) w->total += c->parts[i].n_bytes;
  for (int i = 0; i < N_READS; i++) w->idle[w->n_idle++] = &w->reads[i];
  ij_status s = read_parts(w, progress, user);
  ij__free(w);
  if (s == IJ_OK) c->locked = ij__os_lock(c->block, c->block_bytes);
  return s;
}

const void *ij__copies_find(const ij_copies *c, const void *data) {
  int file;
  uint64_t offset;
  if (!data || !c->block || !ij__ckpt_place(c->ckpt, data, 1, &file, &offset)) return data;
  int low = 0, high = c->n; /* the last part that begins at or before it lies just below `high` */
  while (low < high) {
    int middle = low + (high - low) / 2;
    const part *p = &c->parts[middle];
    if (p->file < file || (p->file == file && p->offset <= offset)) low = middle + 1;
    else high = middle;
  }
  if (low == 0) return data;
  const part *p = &c->parts[low - 1];
  if (p->file != file || offset - p->offset >= p->n_bytes) return data;
  return c->block + p->at + (p->offset % IJ_READ_ALIGN) + (size_t)(offset - p->offset);
}

bool ij__copies_locked(const ij_copies *c) { return c->locked; }
