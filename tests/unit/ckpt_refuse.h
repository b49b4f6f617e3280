/* ckpt_refuse.h: a checkpoint that must not open; shared by the tests of safetensors and of GGUF files. */
#ifndef IJ_TESTS_CKPT_REFUSE_H
#define IJ_TESTS_CKPT_REFUSE_H

#include "core/alloc.h"
#include "core/status.h"
#include "core/str.h"
#include "io/ckpt.h"
#include "test.h"

/* `code` with `want` in the message, `where` at the end of the place, and nothing kept. */
static void refuse_path(const char *path, ij_status code, const char *where, const char *want) {
  ij_ckpt *c = (ij_ckpt *)1;
  ij_err err = {0};
  int64_t held = ij__alloc_blocks();
  ij_status s = ij__ckpt_open(&c, path, &err);
  if (s != code) TEST_FAIL("status %s, expected %s (%s)", ij_status_name(s), ij_status_name(code), want);
  CHECK(!c);
  CHECK_INT(ij__alloc_blocks(), held);
  if (s != IJ_OK) {
    CHECK_HAS(err.message, want);
    if (!ij__str_ends_with(err.where, where)) TEST_FAIL("where is \"%s\", expected an end of \"%s\"", err.where, where);
  }
  ij__ckpt_close(&c);
}

#endif
