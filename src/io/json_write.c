/* json_write.c: canonical JSON, and floats and strings in its spelling.
 *
 * The spelling is Python's (json.dumps with sorted keys, no spaces, and text kept as it is), because prompts were made with it: a
 * number spelled otherwise is other tokens. Nothing here asks the locale.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "io/json.h"

/* --- strings */

void ij__json_quote(ij_buf *out, const char *bytes, size_t n) {
  static const char letters[] = "\b\t\n\f\r\"\\", spelled[] = "btnfr\"\\";
  ij__buf_append(out, "\"", 1);
  size_t plain = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    const char *letter = c ? strchr(letters, c) : NULL;
    if (c >= 0x20 && !letter) continue;
    ij__buf_append(out, bytes + plain, i - plain);
    if (letter) ij__buf_printf(out, "\\%c", spelled[letter - letters]);
    else ij__buf_printf(out, "\\u%04x", c);
    plain = i + 1;
  }
  if (n > plain) ij__buf_append(out, bytes + plain, n - plain);
  ij__buf_append(out, "\"", 1);
}

/* --- floats */

/* A decimal: 0.d1d2d3... times 10^point. */
typedef struct decimal {
  char digits[24];
  int n, point;
} decimal;

/* The n digits nearest to v > 0. */
static decimal digits_of(double v, int n) {
  char text[48];
  decimal d = {.n = n};
  int at = 0;
  snprintf(text, sizeof text, "%.*e", n - 1, v);
  const char *p = text;
  for (; *p != 'e'; p++) { /* what is no digit is the point of some locale */
    if (*p >= '0' && *p <= '9' && at < n) d.digits[at++] = *p;
  }
  d.point = atoi(p + 1) + 1;
  return d;
}

static bool reads_as(const decimal *d, double v) {
  char text[64];
  double back;
  int n = snprintf(text, sizeof text, "%c.%.*se%d", d->digits[0], d->n - 1, d->n > 1 ? d->digits + 1 : "0", d->point - 1);
  if (d->n == 1) n = snprintf(text, sizeof text, "%ce%d", d->digits[0], d->point - 1);
  return ij__json_read_double(text, (size_t)n, &back) && back == v;
}

/* One more in the last digit. */
static decimal next_up(decimal d) {
  int i = d.n - 1;
  while (i >= 0 && d.digits[i] == '9') d.digits[i--] = '0';
  if (i >= 0) d.digits[i]++;
  else d.digits[0] = '1', d.point++;
  return d;
}

/* The fewest digits that read back as v, and of those the nearest. Below a power of two the doubles lie closer, so that there the nearest
 * n digits may miss while the next ones above are still right. */
static decimal shortest(double v) {
  for (int n = 1; n < 17; n++) {
    decimal d = digits_of(v, n);
    if (reads_as(&d, v)) return d;
    d = next_up(d);
    if (reads_as(&d, v)) return d;
  }
  return digits_of(v, 17);
}

void ij__json_put_double(ij_buf *out, double v) {
  if (signbit(v)) ij__buf_append(out, "-", 1);
  if (v == 0) {
    ij__buf_puts(out, "0.0");
    return;
  }
  decimal d = shortest(fabs(v));
  while (d.n > 1 && d.digits[d.n - 1] == '0') d.n--;
  if (d.point <= -4 || d.point > 16) { /* 1.5e-05, 1e+16 */
    ij__buf_append(out, d.digits, 1);
    if (d.n > 1) ij__buf_printf(out, ".%.*s", d.n - 1, d.digits + 1);
    ij__buf_printf(out, "e%c%02d", d.point - 1 < 0 ? '-' : '+', abs(d.point - 1));
  } else if (d.point <= 0) { /* 0.00015 */
    ij__buf_printf(out, "0.%.*s%.*s", -d.point, "0000", d.n, d.digits);
  } else if (d.n <= d.point) { /* 1500.0 */
    ij__buf_printf(out, "%.*s%.*s.0", d.n, d.digits, d.point - d.n, "0000000000000000");
  } else {
    ij__buf_printf(out, "%.*s.%.*s", d.point, d.digits, d.n - d.point, d.digits + d.point);
  }
}

/* --- values */

static bool put_number(ij_buf *out, const ij_json_value *v) {
  const char *text;
  size_t n;
  double value;
  if (!ij__json_get_number(v, &text, &n)) return false;
  if (!memchr(text, '.', n) && !memchr(text, 'e', n) && !memchr(text, 'E', n)) {
    bool minus_zero = n == 2 && text[0] == '-' && text[1] == '0';
    ij__buf_append(out, text + minus_zero, n - minus_zero);
    return true;
  }
  if (!ij__json_read_double(text, n, &value) || !isfinite(value)) return false;
  ij__json_put_double(out, value);
  return true;
}

typedef struct member {
  const char *key;
  size_t len, place;
  const ij_json_value *value;
} member;

/* By key; equal keys keep their order. The bytes of UTF-8 sort as the code points do. */
static int compare_members(const void *a, const void *b) {
  const member *x = a, *y = b;
  int c = memcmp(x->key, y->key, IJ_MIN(x->len, y->len));
  if (c) return c;
  if (x->len != y->len) return x->len < y->len ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

static bool same_key(const member *a, const member *b) { return a->len == b->len && memcmp(a->key, b->key, a->len) == 0; }

static bool put_object(ij_buf *out, const ij_json_value *v) {
  size_t n = ij__json_size(v), i = 0, n_written = 0;
  ij_json_iter it = {0};
  member *members = ij__alloc_array(n, sizeof *members);
  if (!members) return out->failed = true, false;
  for (; i < n && ij__json_next(v, &it, &members[i].key, &members[i].len, &members[i].value); i++) members[i].place = i;
  if (n) qsort(members, n, sizeof *members, compare_members);
  bool ok = true;
  ij__buf_append(out, "{", 1);
  for (i = 0; ok && i < n; i++) {
    if (i + 1 < n && same_key(&members[i], &members[i + 1])) continue;
    if (n_written++) ij__buf_append(out, ",", 1);
    ij__json_quote(out, members[i].key, members[i].len);
    ij__buf_append(out, ":", 1);
    ok = ij__json_canonical(out, members[i].value);
  }
  ij__buf_append(out, "}", 1);
  ij__free(members);
  return ok;
}

static bool put_array(ij_buf *out, const ij_json_value *v) {
  ij_json_iter it = {0};
  const ij_json_value *element;
  bool ok = true;
  ij__buf_append(out, "[", 1);
  while (ok && ij__json_next(v, &it, NULL, NULL, &element)) {
    if (it.index > 1) ij__buf_append(out, ",", 1);
    ok = ij__json_canonical(out, element);
  }
  ij__buf_append(out, "]", 1);
  return ok;
}

/* The nesting of a document is bounded, so the recursion is. */
bool ij__json_canonical(ij_buf *out, const ij_json_value *v) {
  const char *bytes = NULL;
  size_t n = 0;
  bool truth = false, ok = true;
  switch (ij__json_type_of(v)) {
    case IJ_JSON_BOOL:
      ij__json_get_bool(v, &truth);
      ij__buf_puts(out, truth ? "true" : "false");
      break;
    case IJ_JSON_INT:
    case IJ_JSON_REAL: ok = put_number(out, v); break;
    case IJ_JSON_STRING:
      ij__json_get_string(v, &bytes, &n);
      ij__json_quote(out, bytes, n);
      break;
    case IJ_JSON_ARRAY: ok = put_array(out, v); break;
    case IJ_JSON_OBJECT: ok = put_object(out, v); break;
    case IJ_JSON_NULL:
    case IJ_JSON_NONE: ij__buf_puts(out, "null"); break;
  }
  return ok && !out->failed;
}
