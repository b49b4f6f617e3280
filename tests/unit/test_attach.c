/* test_attach.c: the media of a prompt: what counts as the bytes of a part, what is refused and with which words, what is opened once. */
#include <unistd.h>

#include "chat/bytes_tokenizer.h"
#include "chat/part.h"
#include "core/alloc.h"
#include "core/str.h"
#include "inkjet_chat.h"
#include "temp_folder.h"
#include "test.h"

static ij_tokenizer *tok;

/* One pixel; another one; a quarter of a second of a rising ramp as WAV (16000 per second, 16 bits), made by wav_bytes. */
#define GIF "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
#define OTHER_GIF "R0lGODlhAQABAIAAAP8AAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

static void put_le(ij_buf *b, uint32_t v, int n) {
  for (int i = 0; i < n; i++) ij__buf_append(b, &(char){(char)(v >> 8 * i)}, 1);
}

static void wav_bytes(ij_buf *b, uint32_t n_samples) {
  ij__buf_puts(b, "RIFF");
  put_le(b, 36 + 2 * n_samples, 4);
  ij__buf_puts(b, "WAVEfmt ");
  put_le(b, 16, 4);
  put_le(b, 1, 2);
  put_le(b, 1, 2);
  put_le(b, 16000, 4);
  put_le(b, 32000, 4);
  put_le(b, 2, 2);
  put_le(b, 16, 2);
  ij__buf_puts(b, "data");
  put_le(b, 2 * n_samples, 4);
  for (uint32_t i = 0; i < n_samples; i++) put_le(b, i * 7 & 0x3fff, 2);
}

static void base64(ij_buf *out, const void *bytes, size_t n) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *p = bytes;
  for (size_t at = 0; at < n; at += 3) {
    size_t left = IJ_MIN((size_t)3, n - at);
    uint32_t v = (uint32_t)p[at] << 16 | (left > 1 ? (uint32_t)p[at + 1] << 8 : 0) | (left > 2 ? p[at + 2] : 0);
    for (size_t k = 0; k < 4; k++) ij__buf_append(out, k <= left ? &letters[v >> (18 - 6 * k) & 63] : "=", 1);
  }
}

/* A conversation of one user's message with these parts, rendered, and attached as far as it goes. */
static ij_status attach(ij_attachments *a, const char *parts, ij_prompt **out, ij_err *err) {
  ij_buf json = {0};
  ij_prompt_options o = ij_prompt_options_default();
  *out = NULL;
  o.video = ij_attachments_video;
  o.user = a;
  ij__buf_printf(&json, "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[\"a\",%s]}]", parts);
  ij_status s = ij_prompt_render(out, tok, json.data, json.len, NULL, 0, &o, err);
  ij__buf_free(&json);
  if (s == IJ_OK) s = ij_attachments_attach(a, *out, err);
  if (s != IJ_OK) ij_prompt_close(out);
  return s;
}

static ij_attachments *open_with(const ij_attach_options *o) {
  ij_attachments *a = NULL;
  ij_err err = {0};
  CHECK_OK(ij_attachments_open(&a, o, &err), err);
  return a;
}

static ij_status try(const ij_attach_options *o, const char *parts, int *n_media, ij_err *err) {
  ij_attachments *a = open_with(o);
  ij_prompt *p;
  if (!a) return IJ_E_NOMEM;
  ij_status s = attach(a, parts, &p, err);
  *n_media = ij_attachments_n_media(a);
  ij_prompt_close(&p);
  ij_attachments_close(&a);
  return s;
}

/* --- which parts are read */

static void the_forms_of_a_part(void) {
  static const char *const forms[] = {
      "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/gif;base64," GIF "\",\"detail\":\"low\"}}",
      "{\"type\":\"image_url\",\"image_url\":\"data:image/gif;base64," GIF "\"}",
      "{\"type\":\"input_image\",\"image_url\":\"data:image/gif;base64," GIF "\"}",
      "{\"type\":\"image\",\"image\":\"DATA:;BASE64," GIF "\"}",
      "{\"type\":\"image\",\"url\":\"data:image/gif;charset=utf-8;name=a.gif;base64," GIF "\"}",
      "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/gif\",\"data\":\"" GIF "\"}}",
      "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"data:application/octet-stream;base64," GIF "\"}}",
  };
  for (size_t i = 0; i < IJ_COUNT_OF(forms); i++) {
    ij_err err = {0};
    int n = 0;
    CHECK_OK(try(NULL, forms[i], &n, &err), err);
    CHECK_INT(n, 1);
  }
}

static void sounds_too(void) {
  ij_buf wav = {0}, text = {0}, part = {0};
  wav_bytes(&wav, 4000);
  base64(&text, wav.data, wav.len);
  static const char *const forms[] = {"{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"%s\",\"format\":\"wav\"}}",
                                      "{\"type\":\"audio_url\",\"audio_url\":{\"url\":\"data:audio/x-wav;codecs=1;base64,%s\"}}"};
  for (size_t i = 0; i < IJ_COUNT_OF(forms); i++) {
    ij_attachments *a = open_with(NULL);
    ij_prompt *p;
    ij_err err = {0};
    ij_media_info info;
    int n_rows = 0;
    part.len = 0;
    const char *gap = strstr(forms[i], "%s");
    ij__buf_append(&part, forms[i], (size_t)(gap - forms[i]));
    ij__buf_append(&part, text.data, text.len);
    ij__buf_puts(&part, gap + 2);
    CHECK_OK(attach(a, part.data, &p, &err), err);
    const ij_rows *rows = ij_attachments_rows(a, &n_rows);
    CHECK_INT(n_rows, 1);
    CHECK_INT(ij_attachments_n_media(a), 1);
    if (n_rows == 1) {
      ij_media_get_info(ij_attachments_media(a, 0), &info);
      CHECK_INT(info.kind, IJ_MEDIA_AUDIO);
      CHECK_INT(rows[0].n, 5);
      CHECK(!rows[0].rows && rows[0].row0 == 0 && rows[0].digest[0] == info.digest[0] && rows[0].digest[1] == info.digest[1]);
      for (int64_t k = 0; k < rows[0].n; k++) CHECK_INT(ij_prompt_ids(p)[rows[0].first + k], ij_find_special(tok, "<|unused_200053|>"));
      CHECK_INT(ij_prompt_ids(p)[rows[0].first + rows[0].n], ij_find_special(tok, "<|audio_end|>"));
    }
    CHECK(!ij_attachments_media(a, 1) && !ij_attachments_media(a, -1));
    ij_prompt_close(&p);
    ij_attachments_close(&a);
  }
  ij__buf_free(&wav);
  ij__buf_free(&text);
  ij__buf_free(&part);
}

/* --- what is refused */

#define IMAGE(url) "{\"type\":\"image_url\",\"image_url\":{\"url\":\"" url "\"}}"
#define DATA(base64) IMAGE("data:image/gif;base64," base64)

static void refusals_name_the_part(void) {
  static const struct {
    const char *part;
    ij_status status;
    const char *message;
  } cases[] = {
      {"{\"type\":\"image_url\"}", IJ_E_ARGUMENT, "says nowhere"},
      {"{\"type\":\"image_url\",\"image_url\":7}", IJ_E_ARGUMENT, "found an integer"},
      {"{\"type\":\"image_url\",\"image_url\":{\"uri\":\"x\"}}", IJ_E_ARGUMENT, "without url and data"},
      {"{\"type\":\"input_image\",\"file_id\":\"f\"}", IJ_E_ARGUMENT, "says nowhere"},
      {"{\"type\":\"input_audio\",\"input_audio\":{\"format\":\"wav\"}}", IJ_E_ARGUMENT, "without url and data"},
      {IMAGE(""), IJ_E_ARGUMENT, "empty"},
      {IMAGE("a\\u0000b"), IJ_E_ARGUMENT, "NUL"},
      {IMAGE("data:image/gif;base64"), IJ_E_FORMAT, "no comma"},
      {IMAGE("data:image/gif," GIF), IJ_E_UNSUPPORTED, "not in base64"},
      {IMAGE("data:image/gif;base64;x=1," GIF), IJ_E_UNSUPPORTED, "not in base64"},
      {IMAGE("http://example.org/cat.gif"), IJ_E_UNSUPPORTED, "nothing is fetched"},
      {IMAGE("HTTPS://example.org/cat.gif"), IJ_E_UNSUPPORTED, "nothing is fetched"},
      {IMAGE("ftp://example.org/cat.gif"), IJ_E_UNSUPPORTED, "the scheme ftp"},
      {IMAGE("javascript://x"), IJ_E_UNSUPPORTED, "the scheme javascript"},
      {IMAGE("file:///etc/passwd"), IJ_E_UNSUPPORTED, "files are not opened"},
      {IMAGE("/etc/passwd"), IJ_E_UNSUPPORTED, "files are not opened"},
      {IMAGE("cat.gif"), IJ_E_UNSUPPORTED, "files are not opened"},
      {DATA(""), IJ_E_FORMAT, "has 0 characters"},
      {DATA("R0l"), IJ_E_FORMAT, "has 3 characters"},
      {DATA("R0lGO==="), IJ_E_FORMAT, "at character 5"},
      {DATA("===="), IJ_E_FORMAT, "at character 0"},
      {DATA("R0lG\\nODlh"), IJ_E_FORMAT, "has 9 characters"},
      {DATA("R0lG\\nODlhAAA"), IJ_E_FORMAT, "at character 4"},
      {DATA("R0l-"), IJ_E_FORMAT, "\"-\" at character 3"},
      {DATA("R0l_"), IJ_E_FORMAT, "at character 3"},
      {DATA("R0lG R0l"), IJ_E_FORMAT, "at character 4"},
      {DATA("R0==AAAA"), IJ_E_FORMAT, "at character 2"},
      {DATA("R0lGOB=="), IJ_E_FORMAT, "stand for nothing"},
      {DATA("R0lGODl="), IJ_E_FORMAT, "stand for nothing"},
      {DATA("R0lGOA=="), IJ_E_UNSUPPORTED, "expected a picture"},
      {"{\"type\":\"audio_url\",\"audio_url\":\"data:;base64," GIF "\"}", IJ_E_UNSUPPORTED, "expected a sound, found a picture"},
      {"{\"type\":\"video_url\",\"video_url\":{\"url\":\"film.mp4\"}}", IJ_E_UNSUPPORTED, "files are not opened"},
      {"{\"type\":\"video_url\",\"video_url\":{}}", IJ_E_ARGUMENT, "without url and data"},
  };
  int64_t blocks = ij__alloc_blocks();
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    ij_err err = {0};
    int n = 0;
    ij_status s = try(NULL, cases[i].part, &n, &err);
    if (s != cases[i].status || err.code != s) {
      TEST_FAIL("%s: %s instead of %s: %s: %s", cases[i].part, ij_status_name(s), ij_status_name(cases[i].status), err.where, err.message);
    }
    CHECK_STR(err.where, "messages[1].content[1]");
    CHECK_HAS(err.message, cases[i].message);
    CHECK_INT(n, 0);
  }
  CHECK_INT(ij__alloc_blocks(), blocks);
}

static void limits(void) {
  ij_attach_options o = ij_attach_options_default();
  ij_err err = {0};
  int n = 0;
  o.max_bytes = 41; /* the picture has 42 */
  CHECK_INT(try(&o, DATA(GIF), &n, &err), IJ_E_RANGE);
  CHECK_HAS(err.message, "42 bytes; at most 41");
  o.max_bytes = 42;
  CHECK_OK(try(&o, DATA(GIF), &n, &err), err);
  o.max_media = 1;
  CHECK_OK(try(&o, DATA(GIF), &n, &err), err);
  CHECK_INT(try(&o, DATA(GIF) "," DATA(GIF), &n, &err), IJ_E_RANGE);
  CHECK_STR(err.where, "messages[1].content[2]");
  CHECK_HAS(err.message, "may have 1");
  o.max_media = 0;
  CHECK_INT(try(&o, DATA(GIF), &n, &err), IJ_E_RANGE);
  CHECK_OK(try(&o, "\"b\"", &n, &err), err);
  o.max_media = 2;
  o.max_rows = 1;
  CHECK_OK(try(&o, DATA(GIF), &n, &err), err);
  CHECK_INT(try(&o, DATA(GIF) "," DATA(OTHER_GIF), &n, &err), IJ_E_CONTEXT);
  CHECK_STR(err.where, "messages[1].content[2]");
  CHECK_HAS(err.message, "at most 1");
  ij_attachments *a = NULL;
  o.max_rows = -1;
  CHECK_INT(ij_attachments_open(&a, &o, &err), IJ_E_ARGUMENT);
  o = ij_attach_options_default();
  o.struct_size = 8;
  CHECK_INT(ij_attachments_open(&a, &o, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_attachments_open(NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK(!a);
}

/* --- files and fetching */

static size_t gif_bytes(unsigned char *out) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t n = 0;
  for (const char *s = GIF; *s; s += 4) {
    uint32_t v = 0;
    for (int k = 0; k < 4; k++) v = v << 6 | (uint32_t)(strchr(letters, s[k]) - letters);
    for (int k = 0; k < 3; k++) out[n++] = (unsigned char)(v >> (16 - 8 * k));
  }
  return n;
}

static void files_where_they_are_allowed(void) {
  char folder[256], path[300], part[700];
  unsigned char gif[64];
  size_t n_gif = gif_bytes(gif);
  ij_attach_options o = ij_attach_options_default();
  int n = 0;
  o.files = true;
  if (!make_temp_folder(folder, sizeof folder)) {
    CHECK(false);
    return;
  }
  snprintf(path, sizeof path, "%s/a b%%.gif", folder);
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(gif, 1, n_gif, f) == n_gif);
  if (f) fclose(f);
  static const char *const forms[] = {"%s/a b%%.gif", "file://%s/a%%20b%%25.gif", "file:%s/a b%%25.gif",
                                      "FILE://localhost%s/%%61%%20b%%25.gif"};
  for (size_t i = 0; i < IJ_COUNT_OF(forms); i++) {
    char url[400];
    ij_err err = {0};
    const char *gap = strstr(forms[i], "%s"), *rest = gap + 2;
    int len = snprintf(url, sizeof url, "%.*s%s", (int)(gap - forms[i]), forms[i], folder);
    for (; *rest; rest++) { /* %% is written once, as by printf */
      url[len++] = *rest;
      if (*rest == '%') rest++;
    }
    url[len] = 0;
    snprintf(part, sizeof part, IMAGE("%s"), url);
    CHECK_OK(try(&o, part, &n, &err), err);
    CHECK_INT(n, 1);
  }
  static const struct {
    const char *url, *message;
    ij_status status;
  } bad[] = {{"file://otherhost/a.gif", "names a path of this machine", IJ_E_ARGUMENT},
             {"file:a.gif", "names a path of this machine", IJ_E_ARGUMENT},
             {"file:////a.gif", "names a path of this machine", IJ_E_ARGUMENT},      {"file:///a%", "%", IJ_E_ARGUMENT},
             {"file:///a%2", "%", IJ_E_ARGUMENT},                                  {"file:///a%2g", "%", IJ_E_ARGUMENT},
             {"file:///a%00b", "%", IJ_E_ARGUMENT},                                {"missing.gif", "missing.gif: ", IJ_E_IO},
             {"http://example.org/a.gif", "nothing is fetched", IJ_E_UNSUPPORTED}};
  for (size_t i = 0; i < IJ_COUNT_OF(bad); i++) {
    ij_err err = {0};
    snprintf(part, sizeof part, IMAGE("%s"), bad[i].url);
    CHECK_INT(try(&o, part, &n, &err), bad[i].status);
    CHECK_STR(err.where, "messages[1].content[1]");
    CHECK_HAS(err.message, bad[i].message);
  }
  unlink(path);
  rmdir(folder);
}

typedef struct remote {
  int n_asked;
  size_t n;
  ij_status status;
  char url[100];
} remote;

static ij_status fetch(void *user, const char *url, void **bytes, size_t *n_bytes, ij_err *err) {
  remote *r = user;
  r->n_asked++;
  snprintf(r->url, sizeof r->url, "%s", url);
  if (r->status != IJ_OK) {
    *err = (ij_err){.code = r->status};
    snprintf(err->message, sizeof err->message, "no answer");
    return r->status;
  }
  *bytes = malloc(1000);
  if (!*bytes) return IJ_E_NOMEM;
  memset(*bytes, 0, 1000);
  gif_bytes(*bytes);
  *n_bytes = r->n;
  return IJ_OK;
}

static void fetching_where_it_is_allowed(void) {
  ij_attach_options o = ij_attach_options_default();
  remote r = {.n = 42};
  ij_err err = {0};
  int n = 0;
  o.fetch = fetch;
  o.user = &r;
  CHECK_OK(try(&o, IMAGE("https://example.org/a.gif?b=1") "," IMAGE("https://example.org/a.gif?b=1"), &n, &err), err);
  CHECK_INT(n, 2);
  CHECK_INT(r.n_asked, 1);
  CHECK_STR(r.url, "https://example.org/a.gif?b=1");
  CHECK_INT(try(&o, IMAGE("ftp://example.org/a.gif"), &n, &err), IJ_E_UNSUPPORTED);
  CHECK_INT(try(&o, IMAGE("a.gif"), &n, &err), IJ_E_UNSUPPORTED);
  CHECK_INT(r.n_asked, 1);
  r.n = 1000;
  o.max_bytes = 999;
  CHECK_INT(try(&o, IMAGE("http://example.org/a.gif"), &n, &err), IJ_E_RANGE);
  r.status = IJ_E_IO;
  CHECK_INT(try(&o, IMAGE("http://example.org/a.gif"), &n, &err), IJ_E_IO);
  CHECK_STR(err.where, "messages[1].content[1]");
  CHECK_STR(err.message, "no answer");
}

/* --- once */

static void equal_parts_are_opened_once(void) {
  ij_attachments *a = open_with(NULL);
  ij_prompt *p, *q;
  ij_err err = {0};
  ij_media_info info[3];
  int n = 0;
  static const char parts[] = DATA(GIF) "," DATA(OTHER_GIF) "," IMAGE("data:;base64," GIF) ",{\"type\":\"image\",\"source\":{\"data\":\"" GIF "\"}}";
  CHECK_OK(attach(a, parts, &p, &err), err);
  CHECK_INT(ij_attachments_n_media(a), 4);
  const ij_media *first = ij_attachments_media(a, 0);
  CHECK(first == ij_attachments_media(a, 2) && first == ij_attachments_media(a, 3) && first != ij_attachments_media(a, 1));
  for (int i = 0; i < 3; i++) ij_media_get_info(ij_attachments_media(a, i), &info[i]);
  CHECK(info[0].digest[0] != info[1].digest[0] && info[0].digest[0] == info[2].digest[0]);
  const ij_rows *rows = ij_attachments_rows(a, &n);
  CHECK_INT(n, 4);
  for (int i = 1; i < n; i++) CHECK(rows[i].first >= rows[i - 1].first + rows[i - 1].n);
  CHECK_OK(attach(a, DATA(GIF), &q, &err), err); /* the next prompt of a conversation */
  CHECK(ij_attachments_n_media(a) == 1 && ij_attachments_media(a, 0) == first);
  ij_prompt_close(&q);
  CHECK_INT(attach(a, DATA(GIF) "," IMAGE("x"), &q, &err), IJ_E_UNSUPPORTED);
  CHECK_INT(ij_attachments_n_media(a), 0);
  CHECK_OK(attach(a, DATA(GIF), &q, &err), err);
  CHECK(ij_attachments_media(a, 0) == first);
  CHECK_INT(ij_attachments_attach(a, q, &err), IJ_E_ARGUMENT); /* it has its rows */
  ij_prompt_close(&q);
  ij_prompt_close(&p);
  ij_attachments_close(&a);
  ij_attachments_close(&a);
}

static bool never(void *user) {
  ++*(int *)user;
  return false;
}

/* The kind and the place are compared themselves: a picture in the place of a video would have none of what is asked of that. */
static void keys_of_other_kinds_differ(void) {
  static const char json[] = "{\"url\": \"/a/file\"}";
  ij_attach_options o = ij_attach_options_default();
  ij_err err = {0};
  ij_part parts[3];
  o.files = true;
  for (int i = 0; i < 3; i++) CHECK_OK(ij__part_locate(&parts[i], (ij_part_kind)i, json, strlen(json), &o, &err), err);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) {
      ij_part_key fooled = parts[k].key; /* as if the text had been chosen for its hash */
      memcpy(fooled.hash, parts[i].key.hash, sizeof fooled.hash);
      CHECK(ij__part_same(&parts[i].key, &fooled) == (i == k));
    }
  }
  for (int i = 0; i < 3; i++) ij__part_close(&parts[i]);
}

static void encoding_without_towers(void) {
  ij_attachments *a = open_with(NULL);
  ij_prompt *p;
  ij_err err = {0};
  int n_asked = 0;
  CHECK_OK(attach(a, "\"no media\"", &p, &err), err);
  CHECK_OK(ij_attachments_encode(a, NULL, never, &n_asked, &err), err);
  ij_prompt_close(&p);
  CHECK_OK(attach(a, "\"b\"," DATA(GIF), &p, &err), err);
  CHECK_INT(ij_attachments_encode(a, NULL, NULL, NULL, &err), IJ_E_UNSUPPORTED);
  CHECK_STR(err.where, "messages[1].content[2]");
  CHECK_HAS(err.message, "no towers");
  ij_attachments_held(a, ij_prompt_n_ids(p)); /* a session has them already */
  CHECK_OK(ij_attachments_encode(a, NULL, never, &n_asked, &err), err);
  CHECK_INT(n_asked, 0);
  ij_prompt_close(&p);
  ij_attachments_close(&a);
}

/* --- with towers */

enum { HIDDEN = 16 };

static void put_tensor(ij_buf *header, ij_buf *data, const char *name, int64_t rows, int64_t cols) {
  size_t begin = data->len;
  uint64_t seed = 7 + begin;
  for (int64_t i = 0; i < rows * IJ_MAX(cols, (int64_t)1); i++) {
    float v = cols ? (float)((double)(test_random(&seed) >> 40) / 8388608.0 - 1) * 0.3f : 1.0f;
    ij__buf_append(data, &v, sizeof v);
  }
  ij__buf_printf(header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%lld", begin ? "," : "{", name, (long long)rows);
  if (cols) ij__buf_printf(header, ",%lld", (long long)cols);
  ij__buf_printf(header, "],\"data_offsets\":[%zu,%zu]}", begin, data->len);
}

/* Random towers for patches of 8 pixels, in a folder that is in memory as long as the program lives. */
static ij_towers *random_towers(ij_err *err) {
  static const char config[] =
      "{\"model_type\":\"inkling_mm_model\",\"vision_config\":{\"vision_encoder_type\":\"hmlp\",\"decoder_dmodel\":16,\"patch_size\":8,"
      "\"temporal_patch_size\":2,\"n_channels\":3,\"n_layers\":4,\"use_vision_norm\":true},\"audio_config\":{\"audio_mode\":\"dmel\","
      "\"decoder_dmodel\":16,\"n_mel_bins\":80,\"mel_vocab_size\":16,\"dmel_min_value\":-7.0,\"dmel_max_value\":2.0,\"use_audio_norm\":true}}";
  static ij_buf file;
  static ij_memory_file files[2];
  ij_buf header = {0}, data = {0};
  ij_towers *towers = NULL;
  static const int64_t sizes[4][2] = {{64, 12}, {64, 256}, {192, 256}, {HIDDEN, 384}};
  for (int i = 0; i < 4; i++) {
    char name[64];
    snprintf(name, sizeof name, "model.visual.layers.linear_%d.weight", i);
    put_tensor(&header, &data, name, sizes[i][0], sizes[i][1]);
    snprintf(name, sizeof name, "model.visual.layers.norm_%d.weight", i);
    if (i < 3) put_tensor(&header, &data, name, sizes[i][0], 0);
  }
  put_tensor(&header, &data, "model.visual.final_norm.weight", HIDDEN, 0);
  put_tensor(&header, &data, "model.audio.encoder.weight", 1280, HIDDEN);
  put_tensor(&header, &data, "model.audio.final_norm.weight", HIDDEN, 0);
  ij__buf_puts(&header, "}");
  while (header.len % 8) ij__buf_puts(&header, " ");
  put_le(&file, (uint32_t)header.len, 4);
  put_le(&file, 0, 4);
  ij__buf_append(&file, header.data, header.len);
  ij__buf_append(&file, data.data, data.len);
  files[0] = (ij_memory_file){"config.json", config, sizeof config - 1};
  files[1] = (ij_memory_file){"model.safetensors", file.data, file.len};
  ij_model_options o = ij_model_options_default();
  o.n_threads = 1;
  CHECK_OK(ij_add_memory_folder("builtin:towers", files, 2, err), *err);
  CHECK_OK(ij_towers_open(&towers, "builtin:towers", &o, err), *err);
  ij__buf_free(&header);
  ij__buf_free(&data);
  return towers;
}

typedef struct patience {
  int n_asked, most;
} patience;

static bool while_patient(void *user) {
  patience *p = user;
  return ++p->n_asked <= p->most;
}

/* A picture, 20 seconds of sound (400 rows: two pieces), the picture again. */
static void put_parts(ij_buf *parts) {
  ij_buf wav = {0};
  wav_bytes(&wav, 320000);
  ij__buf_puts(parts, DATA(GIF) ",{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"");
  base64(parts, wav.data, wav.len);
  ij__buf_puts(parts, "\"}}," IMAGE("data:;base64," GIF));
  ij__buf_free(&wav);
}

static void encoding_in_pieces(void) {
  ij_buf parts = {0};
  ij_err err = {0};
  ij_towers *towers = random_towers(&err);
  ij_attach_options o = ij_attach_options_default();
  o.media = ij_towers_media_options(towers);
  ij_attachments *a = open_with(&o);
  ij_prompt *p, *q;
  int n = 0;
  float *whole = ij__alloc_array(400 * HIDDEN, sizeof *whole);
  patience one = {.most = 2}, none = {0}, enough = {.most = 100};
  put_parts(&parts);
  CHECK_OK(attach(a, parts.data, &p, &err), err);
  const ij_rows *rows = ij_attachments_rows(a, &n);
  CHECK_INT(n, 3);
  CHECK(!rows[0].rows && !rows[1].rows && rows[1].n == 400);
  CHECK_INT(ij_attachments_encode(a, towers, while_patient, &one, &err), IJ_E_CANCELLED); /* the picture, and half of the sound */
  CHECK_INT(one.n_asked, 3);
  CHECK(rows[0].rows && rows[0].rows == rows[2].rows && !rows[1].rows);
  CHECK_OK(ij_attachments_encode(a, towers, while_patient, &enough, &err), err);
  CHECK_INT(enough.n_asked, 1);
  CHECK_OK(ij_attachments_encode(a, towers, while_patient, &none, &err), err); /* nothing is left */
  CHECK_INT(none.n_asked, 0);
  CHECK_OK(ij_towers_encode(towers, ij_attachments_media(a, 1), 0, 400, whole, &err), err);
  CHECK(memcmp(whole, rows[1].rows, 400 * HIDDEN * sizeof *whole) == 0);
  CHECK_OK(ij_towers_encode(towers, ij_attachments_media(a, 0), 0, 1, whole, &err), err);
  CHECK(memcmp(whole, rows[0].rows, HIDDEN * sizeof *whole) == 0);
  CHECK_OK(attach(a, "\"later\"," DATA(GIF) "," DATA(OTHER_GIF), &q, &err), err); /* what was encoded stays so */
  rows = ij_attachments_rows(a, &n);
  CHECK(n == 2 && rows[0].rows && !rows[1].rows && memcmp(whole, rows[0].rows, HIDDEN * sizeof *whole) == 0);
  ij_attachments_held(a, rows[1].first);
  CHECK_OK(ij_attachments_encode(a, towers, NULL, NULL, &err), err);
  CHECK(rows[1].rows && memcmp(rows[0].rows, rows[1].rows, HIDDEN * sizeof *whole) != 0);
  ij_prompt_close(&p);
  ij_prompt_close(&q);
  ij_attachments_close(&a);
  ij_towers_close(&towers);
  ij__free(whole);
  ij__buf_free(&parts);
}

static void attach_without_memory(void) {
  int64_t n = 1;
  for (bool failed = true; failed && n < 2000; n++) {
    ij_err err = {0};
    int n_media = 0;
    int64_t blocks = ij__alloc_blocks();
    ij_attachments *a = NULL;
    ij_prompt *p = NULL;
    ij_prompt_options o = ij_prompt_options_default();
    static const char json[] = "[{\"role\":\"user\",\"content\":[" DATA(GIF) "," DATA(OTHER_GIF) "]}]";
    ij__alloc_fail_after(n);
    ij_status s = ij_attachments_open(&a, NULL, &err);
    if (s == IJ_OK) s = ij_prompt_render(&p, tok, json, sizeof json - 1, NULL, 0, &o, &err);
    if (s == IJ_OK) s = ij_attachments_attach(a, p, &err);
    ij__alloc_fail_after(0);
    if (a) n_media = ij_attachments_n_media(a);
    failed = s != IJ_OK;
    if (failed && (s != IJ_E_NOMEM || n_media)) TEST_FAIL("allocation %lld: %s: %s: %s", (long long)n, ij_status_name(s), err.where, err.message);
    ij_prompt_close(&p);
    ij_attachments_close(&a);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
  CHECK(n > 10 && n < 2000);
}

int main(void) {
  tok = bytes_tokenizer(NULL);
  RUN(the_forms_of_a_part);
  RUN(sounds_too);
  RUN(refusals_name_the_part);
  RUN(limits);
  RUN(files_where_they_are_allowed);
  RUN(fetching_where_it_is_allowed);
  RUN(equal_parts_are_opened_once);
  RUN(keys_of_other_kinds_differ);
  RUN(encoding_without_towers);
  RUN(encoding_in_pieces);
  RUN(attach_without_memory);
  ij_tokenizer_close(&tok);
  return test_report();
}
