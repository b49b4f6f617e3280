/* api_completions.c: OpenAI's completions: raw prompts, as text or as ids, without any chat format. Text never becomes control tokens
 * unless parse_special asks for it; control tokens that the model writes have no text. */
#include <string.h>

#include "core/alloc.h"
#include "server/api.h"
#include "server/api_openai.h"

#define DEFAULT_MAX_TOKENS 16 /* as the original */

/* --- reading */

static bool encode(api_run *run, api_prompt *p, api_text text, api_error *e) {
  ij_err err;
  size_t n = 0, cap = text.n + 1, most = run->server->max_prompt_bytes; /* an id stands for at least one byte */
  if (most && text.n > most) return ij__api_too_much_text(run, "prompt", e);
  p->ids = ij__alloc_array(cap, sizeof *p->ids);
  if (!p->ids) return ij__api_no_memory(e);
  if (ij_encode(run->server->tokenizer, text.bytes, text.n, run->r.parse_special, p->ids, cap, &n, &err) != IJ_OK) {
    return ij__api_error_from(e, &err, "prompt");
  }
  p->n = (int64_t)n;
  if (run->r.echo) ij__buf_append(&p->text, text.bytes, text.n);
  return true;
}

static void decode_prompt(api_run *run, api_prompt *p) {
  ij_text_stream stream = {{0}, 0};
  for (int64_t i = 0; i < p->n; i++) {
    const char *bytes;
    size_t n;
    if (!ij_decode(run->server->tokenizer, p->ids[i], false, &bytes, &n) || !ij__buf_reserve(&p->text, 3 * (n + 3) + 3)) continue;
    p->text.len += ij_text_stream_push(&stream, bytes, n, p->text.data + p->text.len);
  }
  if (ij__buf_reserve(&p->text, 3)) p->text.len += ij_text_stream_flush(&stream, p->text.data + p->text.len);
}

static bool take_ids(api_run *run, api_prompt *p, ij_jv list, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv v;
  int32_t n_vocab = ij_tokenizer_size(run->server->tokenizer);
  p->ids = ij__alloc_array(ij__json_size(list.v) + 1, sizeof *p->ids);
  if (!p->ids) return ij__api_no_memory(e);
  while (ij__jv_next(list, &it, NULL, NULL, &v)) {
    int64_t id = -1;
    if (!ij__json_get_int(v.v, &id) || id < 0 || id >= n_vocab) return ij__api_expected(e, "prompt", "token ids of this vocabulary", v);
    p->ids[p->n++] = (int32_t)id;
  }
  if (run->r.echo) decode_prompt(run, p);
  return true;
}

static bool take_prompt(api_run *run, ij_jv v, api_error *e) {
  api_request *r = &run->r;
  api_prompt *p = &r->prompts[r->n_prompts++];
  api_text text;
  bool ok = ij__jv_string(v, &text.bytes, &text.n) ? encode(run, p, text, e) : take_ids(run, p, v, e);
  if (ok && p->n == 0) return ij__api_fail(e, 400, "invalid_value", "prompt", "prompt: expected at least one token, found none");
  if (ok && p->text.failed) return ij__api_no_memory(e);
  return ok;
}

/* After all other fields: echo and parse_special must be known. */
static bool read_prompt(api_run *run, api_error *e) {
  static const char expected[] = "a string, a list of strings, a list of token ids, or a list of such lists";
  api_request *r = &run->r;
  ij_jv v = ij__jv_member(r->body, "prompt"), first, one;
  ij_jv_iter it = {{0}, NULL}, peek = {{0}, NULL};
  bool list = ij__jv_type(v) == IJ_JSON_ARRAY, many = false;
  if (!list && ij__jv_type(v) != IJ_JSON_STRING) return ij__api_expected(e, "prompt", expected, v);
  if (list && !ij__jv_next(v, &peek, NULL, NULL, &first)) {
    return ij__api_fail(e, 400, "invalid_value", "prompt", "prompt: the list is empty");
  }
  ij_json_type kind = list ? ij__jv_type(first) : IJ_JSON_STRING;
  many = list && (kind == IJ_JSON_STRING || kind == IJ_JSON_ARRAY);
  size_t n = many ? ij__json_size(v.v) : 1;
  if (n > API_MAX_CHOICES) return ij__api_fail(e, 400, "invalid_value", "prompt", "prompt: at most %d in one request", API_MAX_CHOICES);
  r->prompts = ij__alloc_zero(n, sizeof *r->prompts);
  if (!r->prompts) return ij__api_no_memory(e);
  if (!many) return take_prompt(run, v, e);
  while (ij__jv_next(v, &it, NULL, NULL, &one)) {
    if (ij__jv_type(one) != kind) return ij__api_expected(e, "prompt", expected, one);
    if (!take_prompt(run, one, e)) return false;
  }
  return true;
}

static bool read_stop(api_run *run, ij_jv v, api_error *e) { return ij__api_read_stop(run, v, "stop", e); }

static bool read_logprobs(api_run *run, ij_jv v, api_error *e) {
  api_request *r = &run->r;
  if (!ij__json_get_int(v.v, &r->n_top) || r->n_top < 0 || r->n_top > IJ_MAX_TOP) {
    return ij__api_expected(e, "logprobs", "an integer from 0 to 20", v);
  }
  r->logprobs = true;
  return true;
}

#define AT(field) offsetof(api_request, field)
static const api_field completion_fields[] = {
  {"prompt", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_later},
  {"model", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_model},
  {"stream", API_F_BOOL, AT(stream), 0, 0, NULL, NULL},
  {"stream_options", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_stream_options},
  {"max_tokens", API_F_INT, AT(max_tokens), 0, 1e18, NULL, NULL},
  {"temperature", API_F_FLOAT, AT(sample.temperature), 0, 2, NULL, NULL},
  {"top_p", API_F_FLOAT, AT(sample.top_p), 1e-6, 1, NULL, NULL},
  {"min_p", API_F_FLOAT, AT(sample.min_p), 0, 1, NULL, NULL},
  {"top_k", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_top_k},
  {"presence_penalty", API_F_FLOAT, AT(sample.presence_penalty), -2, 2, NULL, NULL},
  {"frequency_penalty", API_F_FLOAT, AT(sample.frequency_penalty), -2, 2, NULL, NULL},
  {"repetition_penalty", API_F_FLOAT, AT(sample.repetition_penalty), 0.01, 10, NULL, NULL},
  {"seed", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_seed},
  {"n", API_F_INT, AT(n), 1, 16, NULL, NULL},
  {"best_of", API_F_ONLY, 0, 0, 0, "1", NULL},
  {"stop", API_F_CUSTOM, 0, 0, 0, NULL, read_stop},
  {"logit_bias", API_F_CUSTOM, 0, 0, 0, NULL, ij__api_read_bias},
  {"logprobs", API_F_CUSTOM, 0, 0, 0, NULL, read_logprobs},
  {"echo", API_F_BOOL, AT(echo), 0, 0, NULL, NULL},
  {"parse_special", API_F_BOOL, AT(parse_special), 0, 0, NULL, NULL},
  {"suffix", API_F_REFUSED, 0, 0, 0, "this model fills no gaps", NULL},
  {"user", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"metadata", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {NULL, 0, 0, 0, 0, NULL, NULL},
};

static bool read_completion(api_run *run, api_error *e) {
  api_request *r = &run->r;
  r->raw = true;
  r->max_tokens = DEFAULT_MAX_TOKENS;
  ij__api_random(run, run->id, 24);
  if (!ij__api_read_fields(run, r->body, "", completion_fields, e)) return false;
  if (r->echo && r->logprobs) {
    return ij__api_fail(e, 400, "unsupported_value", "echo",
                        "echo together with logprobs is not supported: the prompt's own log-probabilities are not kept");
  }
  return ij__openai_check_stream(run, e) && read_prompt(run, e);
}

/* --- writing */

static const char *finish_word(api_finish f) { return f == API_LENGTH || f == API_CONTEXT ? "length" : "stop"; }

static size_t count_chars(const char *bytes, size_t n) {
  size_t chars = 0;
  for (size_t i = 0; i < n; i++) chars += ((unsigned char)bytes[i] & 0xC0) != 0x80;
  return chars;
}

static void write_token_text(const api_choice *c, int32_t id, ij_buf *out) {
  const char *bytes = "";
  size_t n = 0;
  ij_decode(c->run->server->tokenizer, id, true, &bytes, &n);
  ij__jw_lossy(out, bytes, n);
}

/* text_offset counts characters from the beginning of the answer's text, the echo included. */
static void write_logprobs(const api_choice *c, int from, int to, ij_buf *out) {
  const api_prompt *p = &c->run->r.prompts[c->prompt];
  size_t chars = c->run->r.echo ? count_chars(p->text.data, p->text.len) : 0, at = 0;
  ij__buf_puts(out, "{\"tokens\":[");
  for (int i = from; i < to; i++) {
    if (i > from) ij__buf_puts(out, ",");
    write_token_text(c, c->logprobs[i].choice.id, out);
  }
  ij__buf_puts(out, "],\"token_logprobs\":[");
  for (int i = from; i < to; i++) {
    if (i > from) ij__buf_puts(out, ",");
    ij__jw_float(out, c->logprobs[i].choice.logprob);
  }
  ij__buf_puts(out, "],\"top_logprobs\":[");
  for (int i = from; i < to; i++) {
    const api_logprob *l = &c->logprobs[i];
    ij__buf_puts(out, i > from ? ",{" : "{");
    for (int j = 0; j < l->n_top; j++) {
      if (j > 0) ij__buf_puts(out, ",");
      write_token_text(c, l->top[j].id, out);
      ij__buf_puts(out, ":");
      ij__jw_float(out, l->top[j].logprob);
    }
    ij__buf_puts(out, "}");
  }
  ij__buf_puts(out, "],\"text_offset\":[");
  for (int i = from; i < to; i++) {
    size_t start = c->logprobs[i].start;
    chars += count_chars(c->items[0].text.data + at, start - at);
    at = start;
    ij__buf_printf(out, i > from ? ",%zu" : "%zu", chars);
  }
  ij__buf_puts(out, "]}");
}

static void write_head(const api_run *run, ij_buf *out) {
  ij__buf_printf(out, "{\"id\":\"cmpl-%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", run->id, (long long)run->created);
  ij__jw_cstring(out, run->server->model_name);
  ij__buf_printf(out, ",\"system_fingerprint\":\"inkjet-%s\",\"choices\":[", ij_version());
}

static void write_usage(const api_run *run, ij_buf *out) {
  int64_t n_prompt, n_cached, n_reasoning, n = ij__api_sum(run, &n_prompt, &n_cached, &n_reasoning);
  ij__buf_printf(out,
                 "{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
                 (long long)n_prompt, (long long)n, (long long)(n_prompt + n), (long long)n_cached);
}

static void chunk(api_choice *c, const char *bytes, size_t n, int from, int to, const char *finish) {
  ij_buf *out = &c->run->out;
  ij__buf_puts(out, "data: ");
  write_head(c->run, out);
  ij__buf_printf(out, "{\"index\":%d,\"text\":", c->index);
  ij__jw_string(out, bytes, n);
  ij__buf_puts(out, ",\"logprobs\":");
  if (to > from) write_logprobs(c, from, to, out);
  else ij__buf_puts(out, "null");
  ij__buf_puts(out, ",\"finish_reason\":");
  if (finish) ij__jw_cstring(out, finish);
  else ij__buf_puts(out, "null");
  ij__buf_puts(out, c->run->r.stream_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void completion_begin(api_run *run) {
  for (int i = 0; i < run->n_choices && run->r.echo; i++) {
    const api_prompt *p = &run->r.prompts[run->choices[i].prompt];
    chunk(&run->choices[i], p->text.data, p->text.len, 0, 0, NULL);
  }
}

static void completion_item(api_choice *c, api_item *item) { (void)c, (void)item; }

static void completion_delta(api_choice *c, api_item *item, const char *bytes, size_t n, int from, int to) {
  (void)item;
  chunk(c, bytes, n, from, to, NULL);
}

static void completion_choice_end(api_choice *c) { chunk(c, "", 0, 0, 0, finish_word(c->finish)); }

static void completion_end(api_run *run) {
  if (run->r.stream_usage) {
    ij__buf_puts(&run->out, "data: ");
    write_head(run, &run->out);
    ij__buf_puts(&run->out, "],\"usage\":");
    write_usage(run, &run->out);
    ij__buf_puts(&run->out, "}\n\n");
  }
  ij__buf_puts(&run->out, "data: [DONE]\n\n");
}

static void completion_whole(api_run *run, ij_buf *out) {
  write_head(run, out);
  for (int i = 0; i < run->n_choices; i++) {
    const api_choice *c = &run->choices[i];
    const api_prompt *p = &run->r.prompts[c->prompt];
    ij__buf_printf(out, "%s{\"index\":%d,\"text\":\"", i ? "," : "", i);
    if (run->r.echo) ij__jw_inner(out, p->text.data, p->text.len);
    if (c->n_items > 0) ij__jw_inner(out, c->items[0].text.data, c->items[0].text.len);
    ij__buf_puts(out, "\",\"logprobs\":");
    if (run->r.logprobs) write_logprobs(c, 0, c->n_logprobs_out, out);
    else ij__buf_puts(out, "null");
    ij__buf_printf(out, ",\"finish_reason\":\"%s\"}", finish_word(c->finish));
  }
  ij__buf_puts(out, "],\"usage\":");
  write_usage(run, out);
  ij__buf_puts(out, "}");
}

static const api_dialect completion_dialect = {
  .error = ij__openai_error, .whole = completion_whole, .begin = completion_begin, .item_begin = completion_item, .delta = completion_delta,
  .item_end = completion_item, .choice_end = completion_choice_end, .end = completion_end, .stream_error = ij__openai_stream_error,
};
const api_endpoint ij__api_completions = {"/v1/completions", &completion_dialect, read_completion};
