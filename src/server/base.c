/* base.c: the endpoints that belong to no dialect: health, metrics, models, and text to ids and back.
 *
 * /v1/models answers in one object that has the fields of both OpenAI's and Anthropic's lists. Unknown fields of a request are refused by
 * name: a setting that does nothing would be the worse answer.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "io/json.h"
#include "server/encoded.h"
#include "server/http_inner.h"
#include "server/server.h"

static void reply_json(http_exchange *x, int status, ij_buf *body) {
  if (body->failed) ij__http_error(x, 500, "out_of_memory", "the server is out of memory");
  else http_reply(x, status, "application/json", body->data, body->len);
  ij__buf_free(body);
}

/* Whole UTF-8 characters as a JSON string, quotes included. */
static void put_string(ij_buf *out, const char *s, size_t n) {
  ij__buf_puts(out, "\"");
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\') ij__buf_printf(out, "\\%c", c);
    else if (c == '\n') ij__buf_puts(out, "\\n");
    else if (c < 0x20) ij__buf_printf(out, "\\u%04x", c);
    else ij__buf_append(out, s + i, 1);
  }
  ij__buf_puts(out, "\"");
}

/* -------------------------------------------------------------------------------------------------------------- health */

static void get_health(void *context, http_exchange *x) {
  (void)context;
  static const char body[] = "{\"status\":\"ok\"}\n";
  http_reply(x, 200, "application/json", body, sizeof body - 1);
}

/* ------------------------------------------------------------------------------------------------------------- metrics */

static void metric(ij_buf *b, const char *name, const char *type, const char *help, double value) {
  ij__buf_printf(b, "# HELP inkjet_%s %s\n# TYPE inkjet_%s %s\ninkjet_%s %.17g\n", name, help, name, type, name, value);
}

static double resident_bytes(void) {
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  if (fscanf(f, "%*s %ld", &pages) != 1) pages = 0;
  fclose(f);
  return (double)pages * (double)ij__os_page_size();
}

static void worker_metrics(ij_buf *b, const ij_worker_stats *w) {
  metric(b, "jobs_total", "counter", "Generation jobs that were accepted.", (double)w->n_jobs);
  metric(b, "jobs_failed_total", "counter", "Jobs that ended with an error.", (double)w->n_failed);
  metric(b, "jobs_cancelled_total", "counter", "Jobs whose client left, whose answer had no memory, or that the end of the server cut.", (double)w->n_cancelled);
  metric(b, "jobs_refused_total", "counter", "Jobs refused because the queue was full.", (double)w->n_refused);
  metric(b, "jobs_running", "gauge", "Jobs that are being computed.", w->n_running);
  metric(b, "jobs_waiting", "gauge", "Jobs in the queue.", w->n_waiting);
  metric(b, "prompt_tokens_total", "counter", "Tokens of the prompts of jobs.", (double)w->n_prompt);
  metric(b, "prompt_tokens_cached_total", "counter", "Tokens of prompts that came from the prefix cache.", (double)w->n_cached);
  metric(b, "generated_tokens_total", "counter", "Tokens generated.", (double)w->n_generated);
  metric(b, "prefill_seconds_total", "counter", "Time in steps with rows of prompts.", w->prefill_s);
  metric(b, "decode_seconds_total", "counter", "Time in steps with generated tokens only.", w->decode_s);
  metric(b, "prefix_cache_bytes", "gauge", "Memory held by the prefix cache.", (double)w->cache_bytes);
  metric(b, "prefix_cache_entries", "gauge", "States in the prefix cache.", w->cache_entries);
  metric(b, "prefix_cache_hits_total", "counter", "Jobs that began from a cached state.", (double)w->cache_hits);
  metric(b, "prefix_cache_misses_total", "counter", "Jobs that began from nothing.", (double)w->cache_misses);
}

static void http_metrics(ij_buf *b, const http_stats *h) {
  metric(b, "http_requests_total", "counter", "HTTP requests whose head arrived.", (double)h->n_requests);
  metric(b, "http_connections", "gauge", "Open connections.", h->n_connections);
  metric(b, "http_connections_busy", "gauge", "Connections with a request that is being answered.", h->n_busy);
  metric(b, "http_connections_shed_total", "counter", "Connections closed to make room or for slowness, or refused.", (double)h->n_shed);
  metric(b, "http_body_bytes", "gauge", "Memory held for request bodies.", (double)h->body_bytes);
}

static void media_metrics(ij_buf *b, ij_encoded *encoded) {
  ij_encoded_stats s = ij__encoded_get_stats(encoded);
  metric(b, "media_encoded_total", "counter", "Pictures and sounds encoded by the towers.", (double)s.n_encoded);
  metric(b, "media_rows_encoded_total", "counter", "Their rows, which are tokens.", (double)s.n_rows);
  metric(b, "media_cache_hits_total", "counter", "Pictures and sounds whose rows were there already.", (double)s.n_hits);
  metric(b, "media_cache_bytes", "gauge", "Memory held by encoded rows.", (double)s.bytes);
}

/* Only for experts that are read from disk: elsewhere nothing is counted. */
static void expert_metrics(ij_buf *b, ij_model *model) {
  ij_streaming_info s;
  ij_model_get_streaming(model, &s);
  if (strcmp(s.home, "streamed") != 0) return;
  metric(b, "experts_room", "gauge", "Experts that memory has room for.", (double)s.n_slots);
  metric(b, "expert_hits_total", "counter", "Experts that were in memory when they were asked for.", (double)s.n_hit);
  metric(b, "expert_misses_total", "counter", "Experts that had to be read.", (double)s.n_miss);
  metric(b, "expert_guesses_total", "counter", "Experts whose reading began on a guess.", (double)s.n_guess);
  metric(b, "expert_guesses_used_total", "counter", "Of these, those that were then used.", (double)s.n_guess_used);
  metric(b, "expert_guesses_cancelled_total", "counter", "Of these, those that were taken back.", (double)s.n_guess_cancelled);
  metric(b, "expert_read_bytes_total", "counter", "Bytes read for experts, alignment included.", (double)s.read_bytes);
  metric(b, "expert_read_seconds_total", "counter", "Time in which experts were being read.", s.read_seconds);
  metric(b, "expert_wait_seconds_total", "counter", "Time in which computing waited for experts.", s.wait_seconds);
  metric(b, "evaluated_tokens_total", "counter", "Tokens evaluated, of prompts and answers.", (double)s.n_tokens);
}

static void get_metrics(void *context, http_exchange *x) {
  const ij_server *server = context;
  ij_buf b = {0};
  ij_worker_stats w;
  http_stats h;
  ij__worker_stats(server->worker, &w);
  http_get_stats(server->http, &h);
  worker_metrics(&b, &w);
  http_metrics(&b, &h);
  if (server->encoded) media_metrics(&b, server->encoded);
  expert_metrics(&b, server->model);
  metric(&b, "uptime_seconds", "gauge", "Time since the server began.", difftime(time(NULL), (time_t)server->created));
  metric(&b, "heap_bytes", "gauge", "Memory on the heap: not the pages of caches, step buffers and copies of weights.", (double)ij__alloc_bytes());
  double resident = resident_bytes();
  if (resident > 0) metric(&b, "resident_memory_bytes", "gauge", "Resident memory of the process.", resident);
  if (b.failed) ij__http_error(x, 500, "out_of_memory", "the server is out of memory");
  else http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
  ij__buf_free(&b);
}

/* -------------------------------------------------------------------------------------------------------------- models */

static void put_model(ij_buf *b, const ij_server *server) {
  ij_model_info info;
  char day[32] = "1970-01-01T00:00:00Z";
  time_t created = (time_t)server->created;
  struct tm utc;
  if (gmtime_r(&created, &utc)) strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ", &utc);
  ij_model_get_info(server->model, &info);
  ij__buf_puts(b, "{\"id\":");
  put_string(b, server->model_name, strlen(server->model_name));
  ij__buf_printf(b, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"inkjet\",\"type\":\"model\",\"display_name\":",
                 (long long)server->created);
  put_string(b, server->model_name, strlen(server->model_name));
  ij__buf_printf(b, ",\"created_at\":\"%s\",\"meta\":{\"n_params\":%lld,\"vocab\":%d,\"max_context\":%lld,\"images\":%s,\"audio\":%s}}", day,
                 (long long)info.n_params, info.unpadded_vocab, (long long)info.max_context, server->towers_info.vision ? "true" : "false",
                 server->towers_info.audio ? "true" : "false");
}

static void get_models(void *context, http_exchange *x) {
  const ij_server *server = context;
  ij_buf b = {0};
  ij__buf_puts(&b, "{\"object\":\"list\",\"data\":[");
  put_model(&b, server);
  ij__buf_puts(&b, "],\"has_more\":false,\"first_id\":");
  put_string(&b, server->model_name, strlen(server->model_name));
  ij__buf_puts(&b, ",\"last_id\":");
  put_string(&b, server->model_name, strlen(server->model_name));
  ij__buf_puts(&b, "}\n");
  reply_json(x, 200, &b);
}

static void get_model(void *context, http_exchange *x) {
  const ij_server *server = context;
  if (strcmp(http_path(x) + strlen("/v1/models/"), server->model_name) != 0) {
    ij__http_error(x, 404, "model_not_found", "there is no such model here: see /v1/models");
    return;
  }
  ij_buf b = {0};
  put_model(&b, server);
  ij__buf_puts(&b, "\n");
  reply_json(x, 200, &b);
}

/* ------------------------------------------------------------------------------------------------------- text and ids */

/* The body as a JSON object whose members are all in `known`; otherwise the exchange is answered and NULL returned. */
static ij_json *read_object(http_exchange *x, const char *const *known) {
  size_t n;
  const char *bytes = http_body(x, &n);
  ij_json *doc = NULL;
  ij_err err = {0};
  http_claim_result claim = http_claim(x, ij__json_cost(bytes, n));
  if (claim == HTTP_CLAIM_TOO_LARGE) ij__http_error(x, 413, "body_too_large", "the body holds more values than this server has memory for");
  if (claim == HTTP_CLAIM_BUSY) ij__http_error(x, 503, "overloaded", "too many large requests at once");
  if (claim != HTTP_CLAIM_OK) return NULL;
  if (n == 0 || ij__json_parse(&doc, bytes, n, "the request", &err) != IJ_OK) {
    ij__http_error(x, 400, "invalid_json", "the body is not JSON: %s", n == 0 ? "it is empty" : err.message);
    return NULL;
  }
  const ij_json_value *root = ij__json_root(doc);
  bool ok = ij__json_type_of(root) == IJ_JSON_OBJECT;
  if (!ok) ij__http_error(x, 400, "invalid_type", "the body must be an object, found %s", ij__json_type_name(ij__json_type_of(root)));
  const char *key;
  size_t n_key;
  for (ij_json_iter it = {0}; ok && ij__json_next(root, &it, &key, &n_key, NULL);) {
    bool found = false;
    for (int i = 0; known[i] && !found; i++) found = strlen(known[i]) == n_key && memcmp(known[i], key, n_key) == 0;
    if (found) continue;
    char shown[64];
    ij__json_show(shown, sizeof shown, key, n_key);
    ij__http_error(x, 400, "unknown_field", "unknown field %s", shown);
    ok = false;
  }
  if (!ok) ij__json_free(&doc);
  return doc;
}

/* False when the member is there and is no boolean; the exchange is answered then. */
static bool read_bool(http_exchange *x, const ij_json_value *root, const char *key, bool *out) {
  const ij_json_value *v = ij__json_member(root, key);
  if (!v || ij__json_get_bool(v, out)) return true;
  ij__http_error(x, 400, "invalid_type", "%s must be true or false, found %s", key, ij__json_type_name(ij__json_type_of(v)));
  return false;
}

static void reply_ids(http_exchange *x, const ij_tokenizer *tokenizer, const char *text, size_t n, bool special) {
  ij_err err = {0};
  size_t cap = n + 16, n_ids = 0; /* an id stands for a byte at least */
  int32_t *ids = ij__alloc_array(cap, sizeof *ids);
  if (!ids || ij_encode(tokenizer, text, n, special, ids, cap, &n_ids, &err) != IJ_OK || n_ids > cap) {
    ij__http_error(x, 500, "tokenizer", "%s", ids ? err.message : "the server is out of memory");
  } else {
    ij_buf b = {0};
    ij__buf_printf(&b, "{\"count\":%zu,\"tokens\":[", n_ids);
    for (size_t i = 0; i < n_ids; i++) ij__buf_printf(&b, "%s%d", i ? "," : "", (int)ids[i]);
    ij__buf_puts(&b, "]}\n");
    reply_json(x, 200, &b);
  }
  ij__free(ids);
}

static void post_tokenize(void *context, http_exchange *x) {
  static const char *const known[] = {"content", "parse_special", NULL};
  const ij_server *server = context;
  ij_json *doc = read_object(x, known);
  if (!doc) return;
  const ij_json_value *root = ij__json_root(doc), *content = ij__json_member(root, "content");
  const char *text;
  size_t n;
  bool special = false;
  if (!ij__json_get_string(content, &text, &n)) {
    ij__http_error(x, 400, "invalid_type", "content must be a string, found %s", ij__json_type_name(ij__json_type_of(content)));
  } else if (read_bool(x, root, "parse_special", &special)) {
    reply_ids(x, server->tokenizer, text, n, special);
  }
  ij__json_free(&doc);
}

/* Appends the text of one id; false for an id that there is not. */
static bool put_id(ij_buf *text, ij_text_stream *stream, const ij_tokenizer *tokenizer, int64_t id) {
  const char *bytes;
  size_t n;
  if (id < 0 || id > INT32_MAX || !ij_decode(tokenizer, (int32_t)id, true, &bytes, &n)) return false;
  if (!ij__buf_reserve(text, 3 * (n + 3) + 3)) return true; /* remembered as failed */
  if (ij_is_special(tokenizer, (int32_t)id)) text->len += ij_text_stream_flush(stream, text->data + text->len);
  text->len += ij_text_stream_push(stream, bytes, n, text->data + text->len);
  return true;
}

static void reply_text(http_exchange *x, const ij_tokenizer *tokenizer, const ij_json_value *tokens) {
  ij_buf text = {0}, b = {0};
  ij_text_stream stream = {0};
  const ij_json_value *v;
  size_t index = 0;
  bool ok = true;
  for (ij_json_iter it = {0}; ok && ij__json_next(tokens, &it, NULL, NULL, &v); index++) {
    int64_t id = -1;
    ok = ij__json_get_int(v, &id) && put_id(&text, &stream, tokenizer, id);
  }
  if (!ok) {
    ij__http_error(x, 400, "invalid_token", "tokens[%zu] is not an id of this model's vocabulary", index - 1);
  } else if (ij__buf_reserve(&text, 3)) {
    text.len += ij_text_stream_flush(&stream, text.data + text.len);
    ij__buf_puts(&b, "{\"content\":");
    put_string(&b, text.data, text.len);
    ij__buf_puts(&b, "}\n");
    b.failed |= text.failed;
    reply_json(x, 200, &b);
  } else {
    ij__http_error(x, 500, "out_of_memory", "the server is out of memory");
  }
  ij__buf_free(&text);
}

static void post_detokenize(void *context, http_exchange *x) {
  static const char *const known[] = {"tokens", NULL};
  const ij_server *server = context;
  ij_json *doc = read_object(x, known);
  if (!doc) return;
  const ij_json_value *tokens = ij__json_member(ij__json_root(doc), "tokens");
  if (ij__json_type_of(tokens) == IJ_JSON_ARRAY) reply_text(x, server->tokenizer, tokens);
  else ij__http_error(x, 400, "invalid_type", "tokens must be an array, found %s", ij__json_type_name(ij__json_type_of(tokens)));
  ij__json_free(&doc);
}

const http_route ij__routes_base[] = {
    {HTTP_GET, "/health", true, get_health},
    {HTTP_GET, "/metrics", false, get_metrics},
    {HTTP_GET, "/v1/models", false, get_models},
    {HTTP_GET, "/v1/models/", false, get_model},
    {HTTP_POST, "/tokenize", false, post_tokenize},
    {HTTP_POST, "/detokenize", false, post_detokenize},
    {HTTP_OTHER, NULL, false, NULL}};
