/* reader_uring.c: reads through io_uring: not in this build, which says so. */
#include "io/reader_int.h"
static ij_status open_ring(ij_reader *r, ij_err *err) {
  (void)r;
  return ij__fail(err, IJ_E_UNSUPPORTED, "io_uring", "this build has no io_uring: use the pool");
}
static void wake_ring(ij_reader *r, size_t n) { (void)r, (void)n; }
static void close_ring(ij_reader *r) { (void)r; }
const reader_way ij__reader_uring = {"io_uring", open_ring, wake_ring, close_ring};
