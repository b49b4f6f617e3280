/* drive.c: what the drive under a checkpoint gives, measured now: the denominator of everything that is said about streaming. */
#include "core/memfs.h"
#include "inkjet.h"
#include "io/ckpt.h"
#include "io/reader.h"

static int largest_file(const ij_ckpt *c) {
  int largest = 0;
  for (int i = 1; i < ij__ckpt_n_files(c); i++) {
    if (ij__ckpt_file_size(c, i) > ij__ckpt_file_size(c, largest)) largest = i;
  }
  return largest;
}

static ij_status measure_file(const char *path, uint64_t n_bytes, double seconds, double *bytes_per_s, ij_err *err) {
  ij_reader *r = NULL;
  int file;
  if (ij__memfs_find(path)) return ij__fail(err, IJ_E_RANGE, path, "this file is in memory: there is no drive to measure");
  ij_status s = ij__reader_open(&r, NULL, err);
  if (s == IJ_OK) s = ij__reader_add(r, path, n_bytes, &file, err);
  if (s == IJ_OK) s = ij__reader_measure(r, file, seconds, bytes_per_s, err);
  ij__reader_close(&r);
  return s;
}

ij_status ij_measure_drive(const char *path, double seconds, double *bytes_per_s, ij_err *err) {
  if (!path || !bytes_per_s) return ij__fail(err, IJ_E_ARGUMENT, "ij_measure_drive", "expected a path and room for the rate, found NULL");
  *bytes_per_s = 0;
  if (!(seconds > 0)) return ij__fail(err, IJ_E_ARGUMENT, "seconds", "expected a time to measure for, found %g", seconds);
  ij_ckpt *c = NULL;
  ij_status s = ij__ckpt_open(&c, path, err);
  if (s != IJ_OK) return s;
  int i = largest_file(c);
  s = measure_file(ij__ckpt_file_path(c, i), ij__ckpt_file_size(c, i), seconds, bytes_per_s, err);
  ij__ckpt_close(&c);
  return s;
}
