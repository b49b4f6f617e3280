/* effort.c: the words and numbers of reasoning effort, and how they are spelled in a prompt.
 *
 * A number is rounded as C's %.2f rounds its binary value, and written without trailing zeros; 0.575 is 0.57 because the double is less.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/chat_int.h"
#include "core/status.h"
#include "io/json.h"

/* White space of one character at p, as bytes; 0 for another character. */
static size_t space_at(const unsigned char *p, size_t n) {
  if ((p[0] >= 9 && p[0] <= 13) || (p[0] >= 0x1c && p[0] <= 0x20)) return 1;
  if (n >= 2 && p[0] == 0xC2 && (p[1] == 0x85 || p[1] == 0xA0)) return 2;
  if (n < 3) return 0;
  uint32_t c = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]; /* U+1680, 2000..200A, 2028, 2029, 202F, 205F, 3000 */
  bool space = c == 0xE19A80 || (c >= 0xE28080 && c <= 0xE2808A) || c == 0xE280A8 || c == 0xE280A9 || c == 0xE280AF || c == 0xE2819F ||
               c == 0xE38080;
  return space ? 3 : 0;
}

void ij__chat_trim(const char **bytes, size_t *n) {
  const unsigned char *p = (const unsigned char *)*bytes;
  for (size_t k; *n && (k = space_at(p, *n)) > 0; p += k) *n -= k;
  *bytes = (const char *)p;
  for (bool more = true; more;) {
    more = false;
    for (size_t k = 1; !more && k <= 3 && k <= *n; k++) {
      if (space_at(p + *n - k, k) == k) *n -= k, more = true;
    }
  }
}

static bool same_word(const char *text, size_t n, const char *word) {
  if (strlen(word) != n) return false;
  for (size_t i = 0; i < n; i++) {
    char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
    if (c != word[i]) return false;
  }
  return true;
}

/* A JSON number and nothing else. */
static bool read_number(const char *text, size_t n, double *out) {
  ij_json *doc = NULL;
  if (ij__json_parse(&doc, text, n, "effort", NULL) != IJ_OK) return false;
  bool ok = ij__json_get_double(ij__json_root(doc), out);
  ij__json_free(&doc);
  return ok;
}

ij_status ij__chat_effort(char *out, size_t size, const char *effort, ij_err *err) {
  static const struct {
    const char *word;
    double value;
  } words[] = {{"none", 0}, {"minimal", 0.1}, {"low", 0.2}, {"medium", 0.7}, {"high", 0.9}, {"xhigh", 0.99}, {"max", 0.99}};
  const char *text = effort ? effort : "high";
  size_t n = strlen(text);
  double value = NAN;
  ij__chat_trim(&text, &n);
  for (size_t i = 0; i < IJ_COUNT_OF(words); i++) {
    if (same_word(text, n, words[i].word)) value = words[i].value;
  }
  if (isnan(value) && !read_number(text, n, &value)) value = NAN;
  if (!(value >= 0 && value <= 0.99)) {
    char shown[64];
    ij__json_show(shown, sizeof shown, text, n);
    return ij__fail(err, IJ_E_ARGUMENT, "effort", "expected none, minimal, low, medium, high, xhigh, max, or a number from 0 to 0.99, found %s",
                    shown);
  }
  char digits[16];
  int len = snprintf(digits, sizeof digits, "%.2f", fabs(value)); /* 0, the point of some locale, two digits */
  char tenths = digits[len - 2], hundredths = digits[len - 1];
  if (tenths == '0' && hundredths == '0') snprintf(out, size, "0");
  else if (hundredths == '0') snprintf(out, size, "0.%c", tenths);
  else snprintf(out, size, "0.%c%c", tenths, hundredths);
  return IJ_OK;
}
