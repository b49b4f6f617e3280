/* api_run.c: from a request that is read to its reply: prompt, jobs, and one way out for whatever happens.
 *
 * A run counts references: one of the handler, one of every job. Whoever drops the last one writes the end of the reply, so that no thread
 * ever waits for another. Until all jobs of a request are accepted their output is held back, because the reply may still become a 429.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/rng.h"
#include "server/api.h"
#include "server/api_guide.h"
#include "server/api_media.h"
#include "server/api_render.h"
#include "server/api_turn.h"
#include "server/tasks.h"

/* --- life of a run */

void ij__api_random(api_run *run, char *out, int n) {
  static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t bits = 0;
  for (int i = 0; i < n; i++) {
    if (i % 10 == 0) bits = ij__rng_bits(run->entropy, ++run->n_drawn);
    out[i] = letters[bits % 62];
    bits /= 62;
  }
  out[n] = 0;
}

static void free_request(api_request *r) {
  for (int i = 0; i < r->n_prompts; i++) {
    ij__free(r->prompts[i].ids);
    ij__free(r->prompts[i].rows);
    ij__buf_free(&r->prompts[i].text);
  }
  ij__free(r->prompts);
  ij__free(r->places);
  ij__free(r->tools);
  ij__free(r->bias);
  ij__buf_free(&r->messages);
  ij__buf_free(&r->tools_json);
  ij__json_free(&r->doc);
}

void ij__api_free(api_run *run) {
  for (int i = 0; i < run->n_choices; i++) ij__turn_free(&run->choices[i]);
  ij__guide_free(run);
  ij__media_free(run);
  ij__free(run->choices);
  ij__free(run->extra);
  ij__buf_free(&run->out);
  free_request(&run->r);
  if (run->x) http_release(run->x);
  pthread_mutex_destroy(&run->lock);
  ij__free(run);
}

static void set_defaults(api_request *r) {
  r->sample = ij_sample_options_default();
  r->sample.temperature = 1.0f;
  r->n = 1;
  r->max_tokens = -1;
  r->parallel = true;
  r->messages_param = "messages";
  r->schema_param = "response_format";
}

static api_run *new_run(ij_server *server, http_exchange *x, const api_dialect *dialect) {
  api_run *run = ij__alloc_zero(1, sizeof *run);
  if (!run) return NULL;
  run->server = server;
  run->dialect = dialect;
  run->refs = 1;
  pthread_mutex_init(&run->lock, NULL);
  set_defaults(&run->r);
  run->created = (int64_t)time(NULL);
  uint64_t now = (uint64_t)(ij__os_seconds() * 1e9);
  run->entropy = ij__rng_bits(now ^ (uint64_t)(uintptr_t)run, x ? http_id(x) : 0);
  run->x = x ? http_keep(x) : NULL;
  return run;
}

static bool is_json_type(const char *type) {
  static const char json[] = "application/json";
  if (!type || strncasecmp(type, json, sizeof json - 1) != 0) return false;
  char next = type[sizeof json - 1];
  return next == 0 || next == ';' || next == ' ';
}

/* The parsed body takes memory, too: little for text, many times the body for millions of small values. */
static bool claim_parsed(http_exchange *x, const char *body, size_t n, api_error *e) {
  http_claim_result claim = http_claim(x, ij__json_cost(body, n));
  if (claim == HTTP_CLAIM_TOO_LARGE) return ij__api_fail(e, 413, "body_too_large", "", "the body holds more values than this server has memory for");
  return claim == HTTP_CLAIM_OK || ij__api_fail(e, 503, "overloaded", "", "too many large requests at once");
}

static bool read_body(api_run *run, const char *body, size_t n, api_error *e) {
  ij_err err;
  if (run->x && !claim_parsed(run->x, body, n, e)) return false;
  if (n == 0) return ij__api_fail(e, 400, "invalid_json", "", "the body is empty: expected a JSON object");
  if (ij__json_parse(&run->r.doc, body, n, "the body", &err) != IJ_OK) {
    ij__api_error_from(e, &err, "");
    if (err.code == IJ_E_FORMAT) snprintf(e->code, sizeof e->code, "invalid_json");
    return false;
  }
  run->r.body = ij__jv_root(run->r.doc, body, n);
  if (ij__jv_type(run->r.body) == IJ_JSON_OBJECT) return true;
  ij__api_expected(e, "the body", "a JSON object", run->r.body);
  e->param[0] = 0; /* no field is meant */
  return false;
}

bool ij__api_read_plain(api_run **out, ij_server *server, const api_endpoint *endpoint, const char *body, size_t n, api_error *e) {
  *out = new_run(server, NULL, endpoint->dialect);
  if (!*out) return ij__api_no_memory(e);
  return read_body(*out, body, n, e) && endpoint->read(*out, e);
}

api_run *ij__api_open(ij_server *server, http_exchange *x, const api_dialect *dialect) {
  static const char plain[] = "{\"error\":{\"message\":\"no memory\",\"type\":\"server_error\",\"param\":null,\"code\":\"out_of_memory\"}}";
  api_error e;
  size_t n = 0;
  api_run *run = new_run(server, x, dialect);
  if (!run) {
    http_reply(x, 503, "application/json", plain, sizeof plain - 1);
    return NULL;
  }
  const char *type = http_header(x, "Content-Type"), *body = http_body(x, &n);
  bool ok = is_json_type(type);
  if (!ok) ij__api_fail(&e, 415, "unsupported_media_type", "", "expected a body with Content-Type: application/json");
  ok = ok && read_body(run, body, n, &e);
  if (ok) return run;
  ij__api_refuse(run, &e);
  return NULL;
}

void ij__api_handle(const api_endpoint *endpoint, ij_server *server, http_exchange *x) {
  api_error e;
  api_run *run = ij__api_open(server, x, endpoint->dialect);
  if (!run) return;
  if (endpoint->read(run, &e)) ij__api_go(run, true, ij__api_start);
  else ij__api_refuse(run, &e);
}

/* --- replies */

static void reply(api_run *run, int status, ij_buf *body) {
  if (body->failed) http_reply(run->x, 503, "application/json", "{}", 2);
  else http_reply(run->x, status, "application/json", body->data, body->len);
  run->dead = true;
}

static void reply_error(api_run *run, const api_error *e) {
  ij_buf body = {0};
  run->dialect->error(run, e, &body);
  if (e->status == 429 || e->status == 503) http_reply_header(run->x, "Retry-After", "1");
  reply(run, e->status, &body);
  ij__buf_free(&body);
}

static void flush(api_run *run) {
  if (!run->open || !run->r.stream || run->out.len == 0) return;
  if (!http_stream_write(run->x, run->out.data, run->out.len)) run->dead = true;
  run->out.len = 0;
}

/* The last reference is gone: nobody else touches the run. */
static void finish(api_run *run) {
  if (run->dead && !run->open) { /* refused; the reply is out */
    ij__api_free(run);
    return;
  }
  if (run->r.stream) {
    if (run->failed) run->dialect->stream_error(run, &run->error);
    else run->dialect->end(run);
    flush(run);
    http_stream_end(run->x);
  } else if (run->failed) {
    reply_error(run, &run->error);
  } else {
    ij_buf body = {0};
    run->dialect->whole(run, &body);
    reply(run, 200, &body);
    ij__buf_free(&body);
  }
  ij__api_free(run);
}

static void unref(api_run *run) {
  pthread_mutex_lock(&run->lock);
  bool last = --run->refs == 0;
  pthread_mutex_unlock(&run->lock);
  if (last) finish(run);
}

void ij__api_refuse(api_run *run, const api_error *e) {
  pthread_mutex_lock(&run->lock);
  reply_error(run, e);
  pthread_mutex_unlock(&run->lock);
  unref(run);
}

void ij__api_reply(api_run *run, int status, ij_buf *body) {
  pthread_mutex_lock(&run->lock);
  reply(run, status, body);
  pthread_mutex_unlock(&run->lock);
  unref(run);
}

static void fail_run(api_run *run, const api_error *e) {
  if (run->failed) return;
  run->failed = true;
  run->error = *e;
}

/* --- callbacks of jobs */

static void check_memory(api_choice *c) {
  api_error e;
  bool failed = c->run->out.failed || c->held.failed;
  if (c->n_items > 0) failed = failed || c->items[c->n_items - 1].text.failed || c->items[c->n_items - 1].name.failed;
  if (!failed) return;
  ij__api_no_memory(&e);
  c->run->out.failed = false;
  c->run->out.len = 0;
  fail_run(c->run, &e);
}

static bool on_token(void *user, const ij_job_token *token) {
  api_choice *c = user;
  api_run *run = c->run;
  api_error e;
  pthread_mutex_lock(&run->lock);
  bool go = !run->dead && !run->failed;
  if (go && !ij__turn_push(c, token, &e)) fail_run(run, &e);
  check_memory(c);
  flush(run);
  go = !c->turn_over && !run->dead && !run->failed;
  pthread_mutex_unlock(&run->lock);
  return go;
}

static bool on_alive(void *user) {
  api_run *run = ((api_choice *)user)->run;
  pthread_mutex_lock(&run->lock);
  bool alive = !run->dead && !run->failed;
  pthread_mutex_unlock(&run->lock);
  return alive && !http_gone(run->x);
}

static void on_end(void *user, ij_job_end end, const ij_job_usage *usage, const ij_err *err) {
  api_choice *c = user;
  api_run *run = c->run;
  api_error e;
  pthread_mutex_lock(&run->lock);
  if (usage) c->usage = *usage;
  if (end == IJ_JOB_FAILED) {
    ij__api_error_from(&e, err, "");
    fail_run(run, &e);
  } else if (end == IJ_JOB_CANCELLED) {
    ij__api_fail(&e, 503, "cancelled", "", "the generation was stopped: the server is shutting down, or the client left");
    fail_run(run, &e);
  } else if (!run->failed && !ij__turn_end(c, end, &e)) {
    fail_run(run, &e);
  }
  check_memory(c);
  flush(run);
  pthread_mutex_unlock(&run->lock);
  unref(run);
}

/* --- prompts */

bool ij__api_render(api_run *run, api_error *e) {
  const api_request *r = &run->r;
  ij_prompt *prompt = NULL;
  ij_err err;
  if (r->raw) return true;
  if (r->messages.failed || r->tools_json.failed) return ij__api_no_memory(e);
  ij_status s = ij__render(run, NULL, &prompt, &err);
  if (s != IJ_OK && run->has_video) return ij__media_notice_video(run, err.where, e);
  if (s != IJ_OK) return ij__render_error(run, e, &err);
  bool ok = ij__media_notice(run, prompt, e);
  if (ok && run->has_media) {
    run->prompt = prompt;
    return true;
  }
  ok = ok && ij__render_take(run, prompt, e);
  ij_prompt_close(&prompt);
  return ok;
}

static void finish_media(void *user) {
  api_run *run = user;
  api_error e;
  if (!ij__media_prepare(run, &e) || !run->then(run, &e)) ij__api_refuse(run, &e);
}

void ij__api_go(api_run *run, bool wants_rows, bool (*then)(api_run *run, api_error *e)) {
  api_error e;
  run->wants_rows = wants_rows;
  run->then = then;
  bool ok = ij__api_render(run, &e);
  if (ok && run->has_media) {
    if (ij__tasks_add(run->server->tasks, finish_media, run)) return;
    ok = ij__api_fail(&e, 429, "rate_limit_exceeded", "", "too many requests with pictures, sounds or videos wait already, or the server stops");
  } else {
    ok = ok && then(run, &e);
  }
  if (!ok) ij__api_refuse(run, &e);
}

/* --- start */

static bool submit(api_run *run, api_choice *c, api_error *e) {
  const api_request *r = &run->r;
  const api_prompt *p = &r->prompts[c->prompt];
  ij_job_request job = {.ids = p->ids, .n_ids = p->n, .max_tokens = r->max_tokens, .sample = r->sample, .n_top = (int)r->n_top,
                        .rows = p->rows, .n_rows = p->n_rows, .token = on_token,
                        .alive = on_alive, .end = on_end, .user = c};
  ij_err err;
  if (!ij__guide_make(run, p->state, &job.guide, e)) return false;
  job.sample.seed = (uint64_t)r->seed + (uint64_t)c->index;
  pthread_mutex_lock(&run->lock);
  run->refs++;
  pthread_mutex_unlock(&run->lock);
  if (ij__worker_submit(run->server->worker, &job, &err) == IJ_OK) return true;
  pthread_mutex_lock(&run->lock);
  run->refs--;
  pthread_mutex_unlock(&run->lock);
  ij_guide_close(&job.guide);
  return ij__api_error_from(e, &err, r->raw ? "prompt" : r->messages_param);
}

static bool make_choices(api_run *run, api_error *e) {
  api_request *r = &run->r;
  int64_t n = r->n * r->n_prompts;
  if (n > API_MAX_CHOICES) {
    return ij__api_fail(e, 400, "invalid_value", "n", "n: %lld answers in one request, at most %d", (long long)n, API_MAX_CHOICES);
  }
  run->choices = ij__alloc_zero((size_t)n, sizeof *run->choices);
  if (!run->choices) return ij__api_no_memory(e);
  run->n_choices = (int)n;
  for (int i = 0; i < run->n_choices; i++) {
    if (!ij__turn_init(&run->choices[i], run, i, i / (int)r->n, e)) return false;
  }
  return true;
}

/* All jobs are accepted: from here on the reply is a stream, or comes whole from the last of them. */
static void open_reply(api_run *run) {
  pthread_mutex_lock(&run->lock);
  if (run->r.stream && run->failed) run->r.stream = false; /* it failed already: a status says it better */
  run->open = true;
  if (run->r.stream) {
    http_stream_begin(run->x, 200, "text/event-stream");
  }
  flush(run);
  pthread_mutex_unlock(&run->lock);
  unref(run);
}

/* The worker refuses what does not fit; this is before grammars are compiled for it. */
bool ij__api_check_context(const api_run *run, api_error *e) {
  const api_request *r = &run->r;
  int64_t n_ctx = run->server->n_ctx;
  for (int i = 0; i < r->n_prompts; i++) {
    if (r->prompts[i].n <= n_ctx) continue;
    return ij__api_fail(e, 400, "context_length_exceeded", r->raw ? "prompt" : r->messages_param,
                        "the prompt's %lld tokens do not fit into the context of %lld", (long long)r->prompts[i].n, (long long)n_ctx);
  }
  return true;
}

bool ij__api_too_much_text(const api_run *run, const char *param, api_error *e) {
  const ij_server *s = run->server;
  return ij__api_fail(e, 400, "context_length_exceeded", param,
                      "%s: its text is longer than the %zu bytes that a context of %lld tokens can hold: shorten it, or give the server a "
                      "longer context (--ctx)",
                      param, s->max_prompt_bytes, (long long)s->n_ctx);
}

bool ij__api_start(api_run *run, api_error *e) {
  api_request *r = &run->r;
  if (!r->has_seed) r->seed = (int64_t)(ij__rng_bits(run->entropy, 0) >> 16);
  if (!ij__api_check_context(run, e) || !make_choices(run, e) || !ij__guide_compile(run, e)) return false;
  if (r->stream) run->dialect->begin(run);
  for (int i = 0; i < run->n_choices && r->max_tokens != 0; i++) {
    if (!submit(run, &run->choices[i], e)) return false;
  }
  if (r->max_tokens == 0) {
    for (int i = 0; i < run->n_choices; i++) ij__turn_end(&run->choices[i], IJ_JOB_LENGTH, e);
  }
  open_reply(run);
  return true;
}

int64_t ij__api_sum(const api_run *run, int64_t *n_prompt, int64_t *n_cached, int64_t *n_reasoning) {
  int64_t n = 0;
  *n_prompt = *n_cached = *n_reasoning = 0;
  for (int i = 0; i < run->n_choices; i++) {
    const api_choice *c = &run->choices[i];
    n += c->usage.n_generated;
    *n_reasoning += c->n_reasoning;
    if (i > 0 && run->choices[i - 1].prompt == c->prompt) continue; /* a prompt is counted once for all its answers */
    *n_prompt += run->r.prompts[c->prompt].n;
    *n_cached += c->usage.n_cached;
  }
  return n;
}
