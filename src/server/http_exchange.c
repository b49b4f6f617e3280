/* http_exchange.c: one request and its reply, between the library's thread and everybody else.
 *
 * Every change of what the library will be asked to send happens under the exchange's lock, together with the decision to wake the
 * suspended connection, so that a wake-up can neither be lost nor come twice.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/alloc.h"
#include "core/os.h"
#include "server/http_inner.h"

/* ------------------------------------------------------------------------------------------------------------- pairs */

void ij__http_pairs_add(ij_buf *pairs, const char *name, const char *value) {
  ij__buf_append(pairs, name, strlen(name) + 1);
  ij__buf_append(pairs, value ? value : "", (value ? strlen(value) : 0) + 1);
}

const char *ij__http_pairs_find(const ij_buf *pairs, const char *name, bool any_case) {
  for (size_t at = 0; at < pairs->len;) {
    const char *key = pairs->data + at, *value = key + strlen(key) + 1;
    if (any_case ? strcasecmp(key, name) == 0 : strcmp(key, name) == 0) return value;
    at = (size_t)(value - pairs->data) + strlen(value) + 1;
  }
  return NULL;
}

/* --------------------------------------------------------------------------------------------------------- life and end */

static enum MHD_Result add_pair(void *user, enum MHD_ValueKind kind, const char *name, const char *value) {
  (void)kind;
  ij__http_pairs_add(user, name, value);
  return MHD_YES;
}

http_exchange *ij__http_exchange_new(http_server *server, struct MHD_Connection *connection) {
  http_exchange *x = ij__alloc_zero(1, sizeof *x);
  if (!x) return NULL;
  if (pthread_mutex_init(&x->lock, NULL) != 0) {
    ij__free(x);
    return NULL;
  }
  atomic_init(&x->refs, 1);
  atomic_init(&x->gone, false);
  x->server = server;
  x->connection = connection;
  x->id = atomic_fetch_add(&server->next_id, 1) + 1;
  x->quiet_since = ij__os_seconds();
  MHD_get_connection_values(connection, MHD_HEADER_KIND, add_pair, &x->headers);
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_pair, &x->query);
  if (x->headers.failed || x->query.failed) {
    http_release(x);
    return NULL;
  }
  return x;
}

static void exchange_free(http_exchange *x) {
  pthread_mutex_destroy(&x->lock);
  ij__buf_free(&x->headers);
  ij__buf_free(&x->query);
  ij__buf_free(&x->body);
  ij__buf_free(&x->reply_headers);
  ij__buf_free(&x->out);
  ij__free(x->path);
  ij__free(x->authority);
  ij__free(x->content_type);
  ij__free(x);
}

http_exchange *http_keep(http_exchange *x) {
  atomic_fetch_add(&x->refs, 1);
  return x;
}

/* With the library's own reference as the only one left nobody can answer any more: the exchange answers for itself. */
static void answer_orphan(http_exchange *x) {
  bool unanswered;
  pthread_mutex_lock(&x->lock);
  unanswered = x->connection && x->state == X_WAITING;
  if (x->connection && x->state == X_STREAM && !x->ended) {
    x->aborted = true;
    ij__http_wake(x);
  }
  pthread_mutex_unlock(&x->lock);
  if (unanswered) ij__http_error(x, 500, "no_answer", "the server has no answer to this request");
}

void http_release(http_exchange *x) {
  if (!x) return;
  int refs = atomic_load(&x->refs);
  while (refs != 2 && !atomic_compare_exchange_weak(&x->refs, &refs, refs - 1)) continue;
  if (refs == 2) { /* ours keeps it alive over this: the library may drop its own meanwhile */
    answer_orphan(x);
    refs = atomic_fetch_sub(&x->refs, 1);
  }
  if (refs == 1) exchange_free(x);
}

void ij__http_detach(http_exchange *x, bool clean) {
  http_server *server = x->server;
  pthread_mutex_lock(&x->lock);
  x->connection = NULL;
  if (!clean) atomic_store(&x->gone, true);
  size_t held = x->body.cap + x->claimed;
  pthread_mutex_unlock(&x->lock);
  atomic_fetch_sub(&server->body_bytes, held);
  http_release(x);
}

void ij__http_wake(http_exchange *x) {
  if (!x->suspended || !x->connection) return;
  x->suspended = false;
  MHD_resume_connection(x->connection);
}

/* ------------------------------------------------------------------------------------------------------------- request */

http_method http_method_of(const http_exchange *x) { return x->method; }
const char *http_path(const http_exchange *x) { return x->path; }
const char *http_header(const http_exchange *x, const char *name) { return ij__http_pairs_find(&x->headers, name, true); }
const char *http_query(const http_exchange *x, const char *key) { return ij__http_pairs_find(&x->query, key, false); }
uint64_t http_id(const http_exchange *x) { return x->id; }
bool http_gone(const http_exchange *x) { return atomic_load(&x->gone); }

http_claim_result http_claim(http_exchange *x, size_t n) {
  http_server *s = x->server;
  http_claim_result result = HTTP_CLAIM_BUSY;
  if (n > s->max_body_bytes - IJ_MIN(x->body.cap, s->max_body_bytes)) return HTTP_CLAIM_TOO_LARGE;
  pthread_mutex_lock(&x->lock);
  size_t held = atomic_load(&s->body_bytes);
  while (x->connection && held <= s->max_body_bytes && n <= s->max_body_bytes - held && result != HTTP_CLAIM_OK) {
    if (atomic_compare_exchange_weak(&s->body_bytes, &held, held + n)) result = HTTP_CLAIM_OK;
  }
  if (result == HTTP_CLAIM_OK) x->claimed += n;
  pthread_mutex_unlock(&x->lock);
  return result;
}

const char *http_body(const http_exchange *x, size_t *n) {
  *n = x->body.len;
  return x->body.data ? x->body.data : "";
}

/* --------------------------------------------------------------------------------------------------------------- reply */

void http_reply_header(http_exchange *x, const char *name, const char *value) {
  pthread_mutex_lock(&x->lock);
  if (x->state <= X_WAITING) ij__http_pairs_add(&x->reply_headers, name, value);
  pthread_mutex_unlock(&x->lock);
}

void http_reply(http_exchange *x, int status, const char *content_type, const void *bytes, size_t n) {
  static const char no_memory[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,\"code\":\"out_of_memory\"}}";
  pthread_mutex_lock(&x->lock);
  if (x->state <= X_WAITING) {
    ij__buf_append(&x->out, bytes, n);
    x->content_type = ij__strdup(content_type);
    x->status = status;
    if (x->out.failed || !x->content_type) {
      x->status = 500;
      x->out.len = 0;
      x->out.failed = false;
      ij__buf_append(&x->out, no_memory, sizeof no_memory - 1);
    }
    x->state = X_REPLY;
    ij__http_wake(x);
  }
  pthread_mutex_unlock(&x->lock);
}

static void json_escaped(ij_buf *out, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\') ij__buf_printf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f) ij__buf_printf(out, "\\u%04x", c);
    else ij__buf_append(out, s + i, 1);
  }
}

static const char *error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

void ij__http_error(http_exchange *x, int status, const char *code, const char *fmt, ...) {
  char message[512], text[3 * (sizeof message + 3)]; /* text: whole characters, also where the message was cut */
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  ij_buf body = {0};
  ij_text_stream stream = {0};
  size_t n = ij_text_stream_push(&stream, message, strlen(message), text);
  n += ij_text_stream_flush(&stream, text + n);
  ij__buf_puts(&body, "{\"error\":{\"message\":\"");
  json_escaped(&body, text, n);
  ij__buf_printf(&body, "\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}\n", error_type(status), code);
  http_reply(x, status, "application/json", body.data ? body.data : "", body.len);
  ij__buf_free(&body);
}

/* -------------------------------------------------------------------------------------------------------------- streams */

void http_stream_begin(http_exchange *x, int status, const char *content_type) {
  pthread_mutex_lock(&x->lock);
  if (x->state <= X_WAITING) {
    x->content_type = ij__strdup(content_type);
    x->event_stream = strncmp(content_type, "text/event-stream", 17) == 0;
    x->status = status;
    x->state = X_STREAM;
    x->quiet_since = ij__os_seconds();
    x->tail[0] = x->tail[1] = '\n';
    ij__http_wake(x);
  }
  pthread_mutex_unlock(&x->lock);
}

bool http_stream_write(http_exchange *x, const void *bytes, size_t n) {
  pthread_mutex_lock(&x->lock);
  bool ok = x->state == X_STREAM && x->connection && !x->ended && !x->aborted && !atomic_load(&x->gone);
  if (ok && n > 0) {
    if (x->taken == x->out.len) x->taken = x->out.len = 0;
    ok = x->out.len - x->taken + n <= HTTP_BACKLOG_BYTES;
    if (ok) ij__buf_append(&x->out, bytes, n);
    if (!ok || x->out.failed) {
      ok = false;
      x->aborted = true;
      atomic_store(&x->gone, true);
    } else {
      const char *s = bytes;
      x->tail[0] = n > 1 ? s[n - 2] : x->tail[1];
      x->tail[1] = s[n - 1];
      x->quiet_since = ij__os_seconds();
    }
    ij__http_wake(x);
  }
  pthread_mutex_unlock(&x->lock);
  return ok;
}

void http_stream_end(http_exchange *x) {
  pthread_mutex_lock(&x->lock);
  x->ended = true;
  ij__http_wake(x);
  pthread_mutex_unlock(&x->lock);
}

/* The library asks for bytes of a stream. None now: its connection sleeps until somebody writes. */
static ssize_t read_stream(void *user, uint64_t pos, char *out, size_t room) {
  (void)pos;
  http_exchange *x = user;
  pthread_mutex_lock(&x->lock);
  size_t n = IJ_MIN(room, x->out.len - x->taken);
  ssize_t result = (ssize_t)n;
  if (x->aborted) {
    result = MHD_CONTENT_READER_END_WITH_ERROR;
  } else if (n > 0) {
    memcpy(out, x->out.data + x->taken, n);
    x->taken += n;
    if (x->taken > x->out.len / 2) {
      memmove(x->out.data, x->out.data + x->taken, x->out.len - x->taken);
      x->out.len -= x->taken;
      x->taken = 0;
    }
  } else if (x->ended) {
    result = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    x->suspended = true;
    MHD_suspend_connection(x->connection);
  }
  pthread_mutex_unlock(&x->lock);
  return result;
}

static void free_bytes(void *user) { ij__free(user); }

/* The exchange outlives a stream's response: the library says that it is done before it lets go of the response. */
static struct MHD_Response *make_response(http_exchange *x) {
  static char nothing[1];
  if (x->state == X_STREAM) return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, x, NULL);
  if (!x->out.data) return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
  struct MHD_Response *r = MHD_create_response_from_buffer_with_free_callback(x->out.len, x->out.data, free_bytes);
  if (r) x->out = (ij_buf){0}; /* the response's now */
  return r;
}

static void add_headers(http_exchange *x, struct MHD_Response *r) {
  if (x->content_type && *x->content_type) MHD_add_response_header(r, "Content-Type", x->content_type);
  MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
  if (x->event_stream) {
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    MHD_add_response_header(r, "X-Accel-Buffering", "no"); /* proxies: pass events on at once */
  }
  for (size_t at = 0; at < x->reply_headers.len;) {
    const char *name = x->reply_headers.data + at, *value = name + strlen(name) + 1;
    MHD_add_response_header(r, name, value);
    at = (size_t)(value - x->reply_headers.data) + strlen(value) + 1;
  }
  ij__http_cors_headers(x, r);
  if (atomic_load(&x->server->draining)) MHD_add_response_header(r, "Connection", "close");
}

bool ij__http_queue(http_exchange *x) {
  struct MHD_Response *r = make_response(x);
  if (!r) return false;
  add_headers(x, r);
  bool ok = MHD_queue_response(x->connection, (unsigned)x->status, r) == MHD_YES;
  x->queued = ok;
  MHD_destroy_response(r);
  return ok;
}
