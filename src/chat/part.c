/* part.c: data: URLs, files and remote URLs of content parts.
 *
 * What stands in a part was written by somebody else, so everything is taken exactly or refused: base64 has its padding and nothing
 * between its characters, files are opened only where the caller said so, and no other scheme is known. The media type of a data: URL
 * is not believed: the first bytes of a file say what it is.
 */
#include "chat/part.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/alloc.h"
#include "core/blake2b.h"
#include "core/os.h"

/* --- where the URL stands in a part */

static const char *const names[] = {"a picture", "a sound", "a video"};

/* Members that may hold it, in the order in which they are looked for. */
static const char *const members[][6] = {
    {"image_url", "image", "input_image", "source", "url", "path"},
    {"input_audio", "audio_url", "audio", "source", "url", "path"},
    {"video_url", "video", "input_video", "source", "url", "path"},
};

static const char *const forms[] = {
    "\"image_url\": {\"url\": ...}", "\"input_audio\": {\"data\": ...} or \"audio_url\": {\"url\": ...}", "\"video_url\": {\"url\": ...}"};

typedef struct found {
  const char *text;
  size_t n;
  bool is_base64; /* data without the beginning of a URL */
} found;

static bool begins_with(const char *text, size_t n, const char *word) {
  return n >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
}

static bool find_in_object(const ij_json_value *object, found *f) {
  static const char *const keys[] = {"url", "data", "path"};
  for (size_t i = 0; i < IJ_COUNT_OF(keys); i++) {
    if (!ij__json_get_string(ij__json_member(object, keys[i]), &f->text, &f->n)) continue;
    f->is_base64 = strcmp(keys[i], "data") == 0 && !begins_with(f->text, f->n, "data:");
    return true;
  }
  return false;
}

static ij_status find_url(ij_part_kind kind, const ij_json_value *part, found *f, ij_err *err) {
  const char *where = names[kind];
  for (size_t i = 0; i < IJ_COUNT_OF(members[kind]); i++) {
    const ij_json_value *v = ij__json_member(part, members[kind][i]);
    if (ij__json_type_of(v) <= IJ_JSON_NULL) continue;
    if (ij__json_get_string(v, &f->text, &f->n) || find_in_object(v, f)) {
      if (f->n > 0 && !memchr(f->text, 0, f->n)) return IJ_OK;
      return ij__fail(err, IJ_E_ARGUMENT, where, "%s is empty or holds a NUL; expected a URL", members[kind][i]);
    }
    ij_json_type type = ij__json_type_of(v);
    return ij__fail(err, IJ_E_ARGUMENT, where, "%s: expected a URL or an object with one, found %s", members[kind][i],
                    type == IJ_JSON_OBJECT ? "an object without url and data" : ij__json_type_name(type));
  }
  return ij__fail(err, IJ_E_ARGUMENT, where, "the part says nowhere where it is; expected %s", forms[kind]);
}

/* --- URLs */

static bool is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

/* Length of the scheme before "://", or 0. */
static size_t scheme_length(const char *text, size_t n) {
  size_t i = 0;
  while (i < n && (is_letter(text[i]) || (i > 0 && strchr("+-.0123456789", text[i])))) i++;
  return i > 0 && n - i >= 3 && memcmp(text + i, "://", 3) == 0 ? i : 0;
}

/* data:TYPE;NAME=VALUE;base64,DATA. Types and parameters are passed over. */
static ij_status locate_data(ij_part *out, const char *text, size_t n, ij_err *err) {
  static const char mark[] = ";base64";
  const size_t n_mark = sizeof mark - 1;
  const char *comma = memchr(text, ',', n);
  if (!comma) return ij__fail(err, IJ_E_FORMAT, names[out->kind], "its data: URL has no comma; expected data:TYPE;base64,DATA");
  size_t head = (size_t)(comma - text);
  if (head < n_mark || strncasecmp(comma - n_mark, mark, n_mark) != 0) {
    return ij__fail(err, IJ_E_UNSUPPORTED, names[out->kind], "its data: URL is not in base64; expected data:TYPE;base64,DATA");
  }
  out->place = IJ_PART_BASE64;
  out->text = comma + 1;
  out->n = n - head - 1;
  return IJ_OK;
}

static int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)(c | 32);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The path of file:///path, file://localhost/path or file:/path. */
static ij_status locate_file_url(ij_part *out, const char *text, size_t n, ij_err *err) {
  static const char local[] = "//localhost/";
  const char *at = text + 5, *end = text + n;
  if (begins_with(at, (size_t)(end - at), local)) at += sizeof local - 2;
  else if (begins_with(at, (size_t)(end - at), "///")) at += 2;
  if (at == end || at[0] != '/' || (end - at > 1 && at[1] == '/')) {
    return ij__fail(err, IJ_E_ARGUMENT, names[out->kind], "a file: URL names a path of this machine, as file:///PATH does");
  }
  char *path = out->path = ij__alloc((size_t)(end - at) + 1);
  if (!path) return ij__fail_nomem(err, "a path", (size_t)(end - at) + 1);
  size_t len = 0;
  for (; at < end; at++) {
    int high = *at == '%' && end - at > 2 ? hex_of(at[1]) : -1, low = high >= 0 ? hex_of(at[2]) : -1;
    if (*at == '%' && (low < 0 || high + low == 0)) {
      return ij__fail(err, IJ_E_ARGUMENT, names[out->kind], "its file: URL has a %% without the two hexadecimal digits of a character");
    }
    path[len++] = low >= 0 ? (char)(high * 16 + low) : *at;
    if (low >= 0) at += 2;
  }
  path[len] = 0;
  out->text = path;
  out->n = len;
  return IJ_OK;
}

static ij_status locate_url(ij_part *out, const found *f, const ij_attach_options *options, ij_err *err) {
  size_t scheme = scheme_length(f->text, f->n);
  bool is_url = begins_with(f->text, f->n, "file:"), remote = !is_url && scheme > 0;
  if (begins_with(f->text, f->n, "data:")) return locate_data(out, f->text, f->n, err);
  out->place = remote ? IJ_PART_REMOTE : IJ_PART_FILE;
  out->text = f->text;
  out->n = f->n;
  char shown[100];
  ij__json_show(shown, sizeof shown, f->text, f->n);
  bool http = (scheme == 4 && begins_with(f->text, f->n, "http:")) || (scheme == 5 && begins_with(f->text, f->n, "https:"));
  if (remote && !http) {
    return ij__fail(err, IJ_E_UNSUPPORTED, names[out->kind], "%s: the scheme %.*s is not known here", shown, (int)IJ_MIN(scheme, (size_t)20),
                    f->text);
  }
  if (remote && !options->fetch) {
    return ij__fail(err, IJ_E_UNSUPPORTED, names[out->kind], "%s: nothing is fetched from other machines; send the bytes as a data: URL",
                    shown);
  }
  if (!remote && !options->files) {
    return ij__fail(err, IJ_E_UNSUPPORTED, names[out->kind], "%s: files are not opened for a message; send the bytes as a data: URL",
                    shown);
  }
  return is_url ? locate_file_url(out, f->text, f->n, err) : IJ_OK;
}

/* --- keys */

static ij_part_key key_of(const ij_part *part) {
  ij_part_key key = {.kind = part->kind, .place = part->place};
  ij__blake2b b;
  ij__blake2b_init(&b);
  ij__blake2b_add(&b, part->text, part->n);
  ij__blake2b_end(&b, key.hash);
  return key;
}

bool ij__part_same(const ij_part_key *a, const ij_part_key *b) {
  return a->kind == b->kind && a->place == b->place && a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1];
}

ij_status ij__part_locate(ij_part *out, ij_part_kind kind, const char *json, size_t n, const ij_attach_options *options, ij_err *err) {
  found f = {0};
  *out = (ij_part){.kind = kind};
  ij_status s = ij__json_parse_exact(&out->doc, json, n, names[kind], err);
  if (s == IJ_OK) s = find_url(kind, ij__json_root(out->doc), &f, err);
  if (s != IJ_OK) return s;
  if (f.is_base64) {
    out->text = f.text;
    out->n = f.n;
  } else {
    s = locate_url(out, &f, options, err);
  }
  if (s == IJ_OK) out->key = key_of(out);
  return s;
}

void ij__part_close(ij_part *part) {
  ij__json_free(&part->doc);
  ij__free(part->path);
  *part = (ij_part){0};
}

/* --- bytes */

static int base64_value(unsigned char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648, section 4, and nothing else: padded, no line ends, no bits left over. n_pad: how many of the last characters are padding. */
static ij_status decode_base64(const char *text, size_t n, size_t n_pad, unsigned char *out, const char *name, ij_err *err) {
  uint32_t bits = 0;
  for (size_t i = 0; i < n; i++) {
    int v = i >= n - n_pad ? 0 : base64_value((unsigned char)text[i]);
    if (v < 0) {
      char shown[20];
      ij__json_show(shown, sizeof shown, text + i, 1);
      return ij__fail(err, IJ_E_FORMAT, name, "its base64 has %s at character %zu", shown, i);
    }
    bits = bits << 6 | (uint32_t)v;
    if (i % 4 != 3) continue;
    size_t n_out = i + 1 == n ? 3 - n_pad : 3;
    if (bits & ((1u << 8 * (3 - n_out)) - 1)) return ij__fail(err, IJ_E_FORMAT, name, "its base64 ends in bits that stand for nothing");
    for (size_t k = 0; k < n_out; k++) *out++ = (unsigned char)(bits >> (16 - 8 * k));
    bits = 0;
  }
  return IJ_OK;
}

static ij_status load_base64(const ij_part *part, size_t max_bytes, ij_part_bytes *out, ij_err *err) {
  const char *name = names[part->kind];
  size_t n_pad = 0;
  while (n_pad < 2 && n_pad < part->n && part->text[part->n - 1 - n_pad] == '=') n_pad++;
  if (part->n == 0 || part->n % 4 != 0) {
    return ij__fail(err, IJ_E_FORMAT, name,
                    "its base64 has %zu characters; expected a multiple of 4 that is not 0, with = at the end to fill up", part->n);
  }
  out->n = part->n / 4 * 3 - n_pad;
  if (out->n > max_bytes) return ij__fail(err, IJ_E_RANGE, name, "it has %zu bytes; at most %zu are accepted here", out->n, max_bytes);
  out->data = ij__alloc(out->n);
  return out->data ? decode_base64(part->text, part->n, n_pad, out->data, name, err) : ij__fail_nomem(err, name, out->n);
}

ij_status ij__part_load(const ij_part *part, const ij_attach_options *options, ij_part_bytes *out, ij_err *err) {
  char *file = NULL;
  ij_status s = IJ_OK;
  *out = (ij_part_bytes){0};
  if (part->place == IJ_PART_BASE64) {
    s = load_base64(part, options->max_bytes, out, err);
  } else if (part->place == IJ_PART_FILE) {
    s = ij__os_read_file(part->text, options->max_bytes, &file, &out->n, err);
    out->data = file;
  } else {
    out->is_foreign = true;
    s = options->fetch(options->user, part->text, &out->data, &out->n, err);
    if (s == IJ_OK && out->n > options->max_bytes) {
      s = ij__fail(err, IJ_E_RANGE, part->text, "it has %zu bytes; at most %zu are accepted here", out->n, options->max_bytes);
    }
  }
  if (s != IJ_OK) ij__part_free(out);
  return s;
}

void ij__part_free(ij_part_bytes *bytes) {
  if (bytes->is_foreign) free(bytes->data);
  else ij__free(bytes->data);
  *bytes = (ij_part_bytes){0};
}

/* --- errors */

ij_status ij__part_fail(ij_status s, const char *path, ij_err *err) {
  if (s == IJ_OK || !err || strcmp(err->where, path) == 0) return s;
  ij_err inner = *err;
  return ij__fail(err, s, path, "%s%s%s", inner.where, inner.where[0] ? ": " : "", inner.message);
}
