/* gguf_writer.h: GGUF files for tests, from C: keys and tensors one after the other, the data filled with 0, 1, 2, ... A test may also
 * change the counts in the head, or append raw bytes to any part, to make a file that is wrong in one place. */
#ifndef IJ_TEST_GGUF_WRITER_H
#define IJ_TEST_GGUF_WRITER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "io/gguf.h"

typedef struct gw_file {
  uint32_t version;
  uint64_t n_values, n_tensors;
  size_t alignment;
  uint64_t data_bytes;         /* of all tensors so far, aligned */
  ij_buf values, tensors;
} gw_file;

static inline gw_file gw_new(void) { return (gw_file){.version = 3, .alignment = 32}; }

static inline void gw_number(ij_buf *b, uint64_t v, int n_bytes) {
  for (int i = 0; i < n_bytes; i++) ij__buf_append(b, &(char){i < 8 ? (char)(v >> (8 * i) & 255) : 0}, 1);
}

static inline void gw_text(ij_buf *b, const char *s, size_t n) {
  gw_number(b, n, 8);
  ij__buf_append(b, s, n);
}

/* The key and the type of a value; its bytes follow by gw_number on f->values. */
static inline void gw_key(gw_file *f, const char *key, ij_gguf_type type) {
  gw_text(&f->values, key, strlen(key));
  gw_number(&f->values, type, 4);
  f->n_values++;
}

static inline void gw_int(gw_file *f, const char *key, ij_gguf_type type, int64_t v) {
  gw_key(f, key, type);
  gw_number(&f->values, (uint64_t)v, (int)ij__gguf_type_bytes(type));
}

static inline void gw_f32(gw_file *f, const char *key, float v) {
  uint32_t u;
  memcpy(&u, &v, 4);
  gw_int(f, key, IJ_GGUF_F32, u);
}

static inline void gw_string(gw_file *f, const char *key, const char *s) {
  gw_key(f, key, IJ_GGUF_STRING);
  gw_text(&f->values, s, strlen(s));
}

/* The head of an array; its n elements follow on f->values. */
static inline void gw_array(gw_file *f, const char *key, ij_gguf_type type, uint64_t n) {
  gw_key(f, key, IJ_GGUF_ARRAY);
  gw_number(&f->values, type, 4);
  gw_number(&f->values, n, 8);
}

static inline void gw_tensor_at(gw_file *f, const char *name, uint32_t type, int n_dims, const uint64_t *ne, uint64_t offset) {
  gw_text(&f->tensors, name, strlen(name));
  gw_number(&f->tensors, (uint64_t)n_dims, 4);
  for (int i = 0; i < n_dims; i++) gw_number(&f->tensors, ne[i], 8);
  gw_number(&f->tensors, type, 4);
  gw_number(&f->tensors, offset, 8);
  f->n_tensors++;
}

/* A tensor of n_bytes behind those there are. */
static inline void gw_tensor(gw_file *f, const char *name, uint32_t type, int n_dims, const uint64_t *ne, uint64_t n_bytes) {
  gw_tensor_at(f, name, type, n_dims, ne, f->data_bytes);
  f->data_bytes += ij__align_up((size_t)n_bytes, f->alignment);
}

/* Byte-level spelling of a token: printable bytes of Latin-1 as they are, the other 68 from U+0100 on. */
static inline void gw_spell(ij_buf *b, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unsigned c = (unsigned char)s[i];
    unsigned spelled = c <= 0x20 ? 0x100 + c : c >= 0x7F && c <= 0xA0 ? 0x121 + (c - 0x7F) : c == 0xAD ? 0x143 : c;
    if (spelled < 0x80) ij__buf_append(b, &(char){(char)spelled}, 1);
    else ij__buf_append(b, (char[]){(char)(0xC0 | spelled >> 6), (char)(0x80 | (spelled & 63))}, 2);
  }
}

#define GW_NE(...) (int)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[]){__VA_ARGS__}

/* The whole file; f is empty afterwards. */
static inline ij_buf gw_finish(gw_file *f) {
  ij_buf b = {0};
  ij__buf_puts(&b, "GGUF");
  gw_number(&b, f->version, 4);
  gw_number(&b, f->n_tensors, 8);
  gw_number(&b, f->n_values, 8);
  ij__buf_append(&b, f->values.data, f->values.len);
  ij__buf_append(&b, f->tensors.data, f->tensors.len);
  while (f->data_bytes && b.len % f->alignment) gw_number(&b, 0, 1);
  for (uint64_t i = 0; i < f->data_bytes; i++) gw_number(&b, i, 1);
  ij__buf_free(&f->values);
  ij__buf_free(&f->tensors);
  *f = gw_new();
  return b;
}

static inline void gw_put(const char *folder, const char *name, gw_file *f) {
  char path[512];
  ij_buf b = gw_finish(f);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(b.data, 1, b.len, out) != b.len || fclose(out) != 0) {
    perror(path);
    exit(2);
  }
  ij__buf_free(&b);
}

#endif
