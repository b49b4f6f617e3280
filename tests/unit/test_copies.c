/* test_copies.c: parts of a checkpoint copied out of its mapping: every byte, wherever the parts begin and end and however they overlap; what
 * was not copied stays where it is; failing reads, a caller who stops, and memory that fails leave nothing. */
#include "core/alloc.h"
#include "core/os.h"
#include "io/copies.h"
#include "tiny.h"

static tiny t;
static ij_ckpt *ckpt;

static ij_reader *open_reader(const ij_reader_options *o) {
  ij_reader *r = NULL;
  ij_err err;
  CHECK_OK(ij__reader_open(&r, o, &err), err);
  return r;
}

/* Parts of any tensors at any places, some within others; then every byte of every tensor is looked at. */
static void every_byte_arrives(void) {
  uint64_t seed = 3;
  ij_err err;
  ij_reader *reader = open_reader(NULL);
  for (int round = 0; round < 20; round++) {
    ij_copies *c = NULL;
    CHECK_OK(ij__copies_open(&c, ckpt, &err), err);
    enum { N = 12 };
    const char *from[N];
    size_t n[N], sum = 0;
    for (int i = 0; i < N; i++) {
      const ij_tensor_view *x = ij__ckpt_tensor(ckpt, (int)(test_random(&seed) % (uint64_t)ij__ckpt_n_tensors(ckpt)));
      size_t at = (size_t)(test_random(&seed) % x->n_bytes);
      from[i] = (const char *)x->data + at;
      n[i] = 1 + (size_t)(test_random(&seed) % (x->n_bytes - at));
      sum += n[i];
      CHECK_OK(ij__copies_add(c, from[i], n[i], &err), err);
    }
    CHECK_OK(ij__copies_add(c, NULL, 5, &err), err);
    CHECK_OK(ij__copies_add(c, "not of the mapping", 5, &err), err);
    CHECK(ij__copies_bytes(c) > 0 && ij__copies_bytes(c) <= sum + N * 3 * IJ_READ_ALIGN);
    CHECK(ij__copies_find(c, from[0]) == from[0]); /* nothing has been read */
    CHECK_OK(ij__copies_read(c, reader, NULL, NULL, &err), err);
    for (int i = 0; i < N; i++) {
      const char *now = ij__copies_find(c, from[i]);
      CHECK(now != from[i] && (uintptr_t)now % 64 == (uintptr_t)from[i] % 64);
      CHECK(memcmp(now, from[i], n[i]) == 0);
      CHECK(ij__copies_find(c, from[i] + n[i] - 1) == (const void *)(now + n[i] - 1));
    }
    CHECK(ij__copies_find(c, "elsewhere") != NULL);
    CHECK(ij__copies_find(c, NULL) == NULL);
    ij__copies_close(&c);
    CHECK(c == NULL);
  }
  ij__reader_close(&reader);
}

static void nothing_is_enough(void) {
  ij_err err;
  ij_copies *c = NULL;
  ij_reader *reader = open_reader(NULL);
  CHECK_OK(ij__copies_open(&c, ckpt, &err), err);
  CHECK_INT(ij__copies_bytes(c), 0);
  CHECK_OK(ij__copies_read(c, reader, NULL, NULL, &err), err);
  ij__copies_close(&c);
  ij__copies_close(&c);
  ij__reader_close(&reader);
}

/* --------------------------------------------------------------------------------------------------------------- trouble */

static int64_t broken(void *user, int fd, void *to, size_t n, uint64_t offset, int *errnum) {
  (void)user, (void)fd, (void)to, (void)n, (void)offset;
  *errnum = 5; /* EIO */
  return -1;
}

static bool stop(void *user, double fraction) {
  CHECK(fraction > 0 && fraction <= 1);
  return ++*(int *)user < 1;
}

static void add_all(ij_copies *c, ij_err *err) {
  for (int i = 0; i < ij__ckpt_n_tensors(ckpt); i++) {
    const ij_tensor_view *x = ij__ckpt_tensor(ckpt, i);
    CHECK_OK(ij__copies_add(c, x->data, x->n_bytes, err), *err);
  }
}

static void reads_that_fail_and_callers_who_stop(void) {
  ij_err err = {0};
  const ij_reader_options faulty = {.kind = IJ_READER_POOL, .fault = broken};
  for (int stopped = 0; stopped < 2; stopped++) {
    ij_copies *c = NULL;
    int n_told = 0;
    ij_reader *reader = open_reader(stopped ? NULL : &faulty);
    CHECK_OK(ij__copies_open(&c, ckpt, &err), err);
    add_all(c, &err);
    ij_status s = ij__copies_read(c, reader, stop, &n_told, &err);
    CHECK_INT(s, stopped ? IJ_E_CANCELLED : IJ_E_IO);
    CHECK_INT(err.code, s);
    ij__copies_close(&c);
    ij__reader_close(&reader);
  }
}

static void memory_that_fails(void) {
  ij_reader *reader = open_reader(NULL);
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  int n = 1;
  for (ij_status s = IJ_E_NOMEM; s != IJ_OK && n < 50; n++) {
    ij_copies *c = NULL;
    ij__alloc_fail_after(n);
    s = ij__copies_open(&c, ckpt, &err);
    for (int i = 0; i < ij__ckpt_n_tensors(ckpt) && s == IJ_OK; i++) {
      const ij_tensor_view *x = ij__ckpt_tensor(ckpt, i);
      s = ij__copies_add(c, x->data, x->n_bytes, &err);
    }
    ij__alloc_fail_after(0);
    ij__copies_close(&c);
    if (s != IJ_OK) CHECK_INT(s, IJ_E_NOMEM);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
  CHECK(n > 3 && n < 50);
  ij__reader_close(&reader);
}

int main(void) {
  cw_dims d = cw_usual();
  ij_err err = {0};
  d.vocab = 5000; /* the embedding spans many pages */
  tiny_build(&t, &d, IJ_DTYPE_F32, "");
  cw_write_tensors(&t.file, t.folder);
  CHECK_OK(ij__ckpt_open(&ckpt, t.folder, &err), err);
  RUN(every_byte_arrives);
  RUN(nothing_is_enough);
  RUN(reads_that_fail_and_callers_who_stop);
  RUN(memory_that_fails);
  ij__ckpt_close(&ckpt);
  tiny_free(&t);
  return test_report();
}
