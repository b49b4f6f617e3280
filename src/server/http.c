/* http.c: the server's life, its connections, and the way of a request from the library to a handler.
 *
 * libmicrohttpd runs with one thread over epoll (poll elsewhere). It costs a few kilobytes per idle connection, so thousands of them are
 * cheap; what is dear (bodies, handlers, generation) has bounds of its own. It limits idle time, and we limit the rest.
 */
#include "server/http.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "server/http_inner.h"

/* --------------------------------------------------------------------------------------------------------- connections */

static void link_first(http_server *s, http_conn *c) {
  c->prev = NULL;
  c->next = s->conns;
  if (c->next) c->next->prev = c;
  else s->conns_last = c;
  s->conns = c;
}

static void unlink_conn(http_server *s, http_conn *c) {
  if (c->prev) c->prev->next = c->next;
  else s->conns = c->next;
  if (c->next) c->next->prev = c->prev;
  else s->conns_last = c->prev;
}

static void set_state(http_server *s, http_conn *c, conn_state state, http_exchange *x) {
  c->state = state;
  c->exchange = x;
  c->hung_up = false;
  unlink_conn(s, c);
  link_first(s, c);
}

static void client_address(const struct sockaddr *a, unsigned char out[16]) {
  memset(out, 0, 16);
  if (a && a->sa_family == AF_INET6) {
    memcpy(out, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
  } else if (a && a->sa_family == AF_INET) {
    out[10] = out[11] = 0xff;
    memcpy(out + 12, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
  }
}

void ij__http_doom(http_server *s, http_conn *c) {
  c->state = CONN_DOOMED;
  s->n_conns--;
  shutdown(c->fd, SHUT_RDWR);
}

static bool same_address(const http_conn *a, const http_conn *b) { return memcmp(a->address, b->address, sizeof a->address) == 0; }

static int count_address(const http_server *s, const http_conn *like) {
  int n = 0;
  for (const http_conn *c = s->conns; c; c = c->next) n += c->state != CONN_DOOMED && same_address(c, like);
  return n;
}

/* A request that has arrived and is not read yet, because accepting comes first, is not idleness. */
static bool is_idle(const http_conn *c) {
  int unread = 0;
  return c->state == CONN_READING && !(ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0);
}

/* Room for `fresh`: the connection that has waited longest for a request goes; if all are at work, the new one does. */
static void make_room(http_server *s, http_conn *fresh) {
  bool crowded = s->options.max_per_address > 0 && count_address(s, fresh) > s->options.max_per_address;
  if (!crowded && s->n_conns <= s->options.max_connections) return;
  http_conn *victim = s->conns_last;
  while (victim != fresh && (!is_idle(victim) || (crowded && !same_address(victim, fresh)))) victim = victim->prev;
  if (victim == fresh) {
    ij__http_raw_error(fresh->fd, 503, "too_many_connections", "all connections of this server are in use");
    fresh->linger = true;
  }
  s->n_shed++;
  ij__http_doom(s, victim);
}

static void connection_begins(http_server *s, struct MHD_Connection *connection, void **slot) {
  const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  const union MHD_ConnectionInfo *from = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  http_conn *c = ij__alloc_zero(1, sizeof *c);
  *slot = c;
  if (!c || !fd) return; /* without a place in the list every request of it is refused */
  c->fd = fd->connect_fd;
  c->deadline = ij__os_seconds() + s->options.request_seconds;
  client_address(from ? from->client_addr : NULL, c->address);
  pthread_mutex_lock(&s->lock);
  link_first(s, c);
  s->n_conns++;
  make_room(s, c);
  pthread_mutex_unlock(&s->lock);
}

static void connection_ends(http_server *s, void **slot) {
  http_conn *c = *slot;
  *slot = NULL;
  if (!c) return;
  pthread_mutex_lock(&s->lock);
  int unread = 0;
  if (c->linger || (ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0)) ij__http_linger(s, c->fd);
  unlink_conn(s, c);
  if (c->state != CONN_DOOMED) s->n_conns--;
  pthread_mutex_unlock(&s->lock);
  ij__free(c);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **slot, enum MHD_ConnectionNotificationCode what) {
  if (what == MHD_CONNECTION_NOTIFY_STARTED) connection_begins(user, connection, slot);
  else connection_ends(user, slot);
}

static http_conn *conn_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

/* ------------------------------------------------------------------------------------------------------------ requests */

/* The request line is there: from here on the rest may take request_seconds. */
static void *on_request_line(void *user, const char *uri, struct MHD_Connection *connection) {
  http_server *s = user;
  http_conn *c = conn_of(connection);
  (void)uri;
  if (!c) return NULL;
  pthread_mutex_lock(&s->lock);
  if (c->state == CONN_READING) set_state(s, c, CONN_READING, NULL); /* not idle any more */
  c->deadline = IJ_MIN(c->deadline, ij__os_seconds() + s->options.request_seconds);
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **slot, enum MHD_RequestTerminationCode why) {
  http_server *s = user;
  http_exchange *x = *slot;
  http_conn *c = conn_of(connection);
  *slot = NULL;
  if (c) {
    pthread_mutex_lock(&s->lock);
    if (c->state == CONN_BUSY) set_state(s, c, CONN_READING, NULL);
    c->exchange = NULL;
    c->deadline = ij__os_seconds() + s->options.idle_seconds + s->options.request_seconds;
    pthread_mutex_unlock(&s->lock);
  }
  if (x) ij__http_detach(x, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* False when the watch has given up on the connection in this moment. */
static bool become_busy(http_server *s, http_exchange *x, bool linger) {
  pthread_mutex_lock(&s->lock);
  bool ok = x->conn->state != CONN_DOOMED;
  if (ok) {
    set_state(s, x->conn, CONN_BUSY, x);
    x->conn->linger = linger;
  }
  pthread_mutex_unlock(&s->lock);
  return ok;
}

static bool refuse_mid_body(http_server *s, http_exchange *x, int status, const char *code, const char *message) {
  pthread_mutex_lock(&s->lock);
  if (x->conn->state != CONN_DOOMED) {
    ij__http_raw_error(x->conn->fd, status, code, message);
    x->conn->linger = true;
  }
  pthread_mutex_unlock(&s->lock);
  return false;
}

/* Takes a piece of the body; false closes the connection. Bodies grow as they arrive: what a client announces costs nothing. */
static bool take_body(http_server *s, http_exchange *x, const char *bytes, size_t n) {
  if (x->state != X_READING) return true; /* refused already: the rest of it is read and dropped */
  size_t need = x->body.len + n, before = x->body.cap;
  if (need > s->options.max_body) return refuse_mid_body(s, x, 413, "body_too_large", "the body is larger than this server takes");
  if (need + 1 > before) {
    size_t most = x->declared == SIZE_MAX ? s->options.max_body : x->declared;
    size_t want = IJ_MAX(need, IJ_MIN(2 * need, most)) - x->body.len;
    size_t added = IJ_MAX(x->body.len + want + 1, 2 * before) - before; /* a buffer at least doubles */
    if (atomic_load(&s->body_bytes) + added > s->max_body_bytes) {
      return refuse_mid_body(s, x, 503, "overloaded", "too many large requests at once");
    }
    bool ok = ij__buf_reserve(&x->body, want);
    atomic_fetch_add(&s->body_bytes, x->body.cap - before);
    if (!ok) return refuse_mid_body(s, x, 503, "overloaded", "the server is out of memory");
  }
  ij__buf_append(&x->body, bytes, n);
  return true;
}

/* The connection sleeps until the handler, on a thread of its own, has an answer. Nothing goes to sleep once the end has begun. */
static bool hand_over(http_server *s, http_exchange *x) {
  pthread_mutex_lock(&s->lock);
  pthread_mutex_lock(&x->lock);
  bool ok = !s->stopping && !x->aborted;
  if (ok) {
    x->state = X_WAITING;
    x->suspended = true;
    MHD_suspend_connection(x->connection);
    http_keep(x);
    x->next_job = NULL;
    *s->jobs_tail = x;
    s->jobs_tail = &x->next_job;
    pthread_cond_broadcast(&s->work); /* not every thread takes every request */
  }
  pthread_mutex_unlock(&x->lock);
  pthread_mutex_unlock(&s->lock);
  return ok;
}

/* The path of a request's target, and the authority of one in absolute form (RFC 9112, 3.2.2). */
static bool take_target(http_exchange *x, const char *url) {
  size_t n_scheme = strncasecmp(url, "http://", 7) == 0 ? 7 : strncasecmp(url, "https://", 8) == 0 ? 8 : 0;
  if (n_scheme > 0) {
    url += n_scheme;
    size_t n = strcspn(url, "/");
    x->authority = ij__alloc(n + 1);
    if (!x->authority) return false;
    memcpy(x->authority, url, n);
    x->authority[n] = 0;
    url = url[n] ? url + n : "/";
  }
  x->path = ij__strdup(url);
  return x->path != NULL;
}

static bool begin_request(http_server *s, http_exchange *x, const char *url, const char *method, const char *version) {
  x->conn = conn_of(x->connection);
  x->http_1_1 = strcmp(version, "HTTP/1.0") != 0;
  if (!x->conn || !take_target(x, url)) return false;
  if (ij__http_check_head(x, method)) return true;
  bool has_body = x->declared > 0;
  if (x->declared <= HTTP_SMALL_BODY && !(has_body && http_header(x, "Expect"))) return true; /* the refusal waits for the end of the body */
  return become_busy(s, x, true) && ij__http_queue(x);
}

static bool end_request(http_server *s, http_exchange *x) {
  pthread_mutex_lock(&x->lock);
  exchange_state state = x->state;
  bool aborted = x->aborted;
  pthread_mutex_unlock(&x->lock);
  if (aborted) return false;
  if (state == X_WAITING) return true; /* a spurious call: the handler is still at work */
  if (x->conn->state != CONN_BUSY && !become_busy(s, x, false)) return false;
  if (state > X_TAKEN) return ij__http_queue(x);
  if (state == X_TAKEN) return hand_over(s, x);
  /* The library asks again at once. Put to sleep right now, it would wake up wanting to read, and a client that has closed its sending
   * side would be taken for gone before its answer is looked at. */
  pthread_mutex_lock(&x->lock);
  x->state = X_TAKEN;
  pthread_mutex_unlock(&x->lock);
  return true;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                  const char *upload, size_t *n_upload, void **slot) {
  http_server *s = user;
  http_exchange *x = *slot;
  bool ok;
  if (!x) {
    *slot = x = ij__http_exchange_new(s, connection);
    ok = x && begin_request(s, x, url, method, version);
  } else if (*n_upload > 0) {
    ok = take_body(s, x, upload, *n_upload);
    *n_upload = 0;
  } else {
    ok = end_request(s, x);
  }
  return ok ? MHD_YES : MHD_NO;
}

/* Percent escapes of paths and queries; one that stands for NUL stays as it is, so that no name is cut short by it. */
static size_t on_unescape(void *user, struct MHD_Connection *connection, char *s) {
  char *out = s;
  (void)user;
  (void)connection;
  for (const char *in = s; *in;) {
    unsigned value = 0;
    int digits = 0;
    for (; *in == '%' && digits < 2; digits++) {
      char c = in[1 + digits];
      int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (v < 0) break;
      value = value * 16 + (unsigned)v;
    }
    if (digits == 2 && value != 0) {
      *out++ = (char)value;
      in += 3;
    } else {
      *out++ = *in++;
    }
  }
  *out = 0;
  return (size_t)(out - s);
}

static http_exchange *take_job(http_server *s, bool only_quick) {
  http_exchange **at = &s->jobs;
  while (*at && only_quick && (*at)->method == HTTP_POST) at = &(*at)->next_job;
  http_exchange *x = *at;
  if (!x) return NULL;
  *at = x->next_job;
  if (!*at) s->jobs_tail = at;
  return x;
}

static void handle_jobs(http_server *s, bool only_quick) {
  pthread_mutex_lock(&s->lock);
  for (;;) {
    http_exchange *x;
    while (!(x = take_job(s, only_quick)) && !s->stopping) pthread_cond_wait(&s->work, &s->lock);
    if (!x) break;
    pthread_mutex_unlock(&s->lock);
    if (!http_gone(x)) x->route->handler(s->options.context, x);
    http_release(x);
    pthread_mutex_lock(&s->lock);
  }
  pthread_mutex_unlock(&s->lock);
}

static void *handler_thread(void *user) {
  handle_jobs(user, false);
  return NULL;
}

/* For what has no body to work on: /health and /metrics answer while all others are busy with large requests. */
static void *quick_thread(void *user) {
  handle_jobs(user, true);
  return NULL;
}

/* --------------------------------------------------------------------------------------------------------------- server */

static bool is_loopback(const struct sockaddr *a) {
  static const unsigned char one[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (a->sa_family == AF_INET) return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
  return a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, one, 16) == 0;
}

static int bound_port(int fd) {
  struct sockaddr_storage a;
  socklen_t n = sizeof a;
  if (getsockname(fd, (struct sockaddr *)&a, &n) != 0) return 0;
  if (a.ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)(const void *)&a)->sin6_port);
  return ntohs(((const struct sockaddr_in *)(const void *)&a)->sin_port);
}

static int listen_at(const struct addrinfo *a) {
  int fd = socket(a->ai_family, SOCK_STREAM, 0), on = 1;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bool ok = fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
            listen(fd, 4096) == 0;
  if (ok) return fd;
  int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

static ij_status open_socket(http_server *s, int *fd, ij_err *err) {
  const http_options *o = &s->options;
  char port[16], where[300];
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
  snprintf(port, sizeof port, "%d", o->port);
  snprintf(where, sizeof where, "%.250s port %d", o->host, o->port);
  int rc = getaddrinfo(o->host, port, &hints, &found);
  if (rc != 0) return ij__fail(err, IJ_E_ARGUMENT, where, "the address is not one of this machine: %s", gai_strerror(rc));
  *fd = -1;
  for (const struct addrinfo *a = found; a && *fd < 0; a = a->ai_next) {
    *fd = listen_at(a);
    s->loopback = is_loopback(a->ai_addr);
  }
  int reason = errno;
  freeaddrinfo(found);
  if (*fd < 0) return ij__fail_errno(err, reason, where, "cannot listen");
  s->port = bound_port(*fd);
  return IJ_OK;
}

static ij_status check_options(const http_options *o, ij_err *err) {
  struct rlimit files;
  size_t need = (size_t)IJ_MAX(o->max_connections, 0) + 3 * HTTP_SPARE_CONNECTIONS;
  if (!o->host || !o->routes || o->port < 0 || o->port > 65535 || o->max_connections < 1 || o->idle_seconds < 1 || o->request_seconds < 1 ||
      o->ping_seconds < 1 || o->max_header < 1024) {
    return ij__fail(err, IJ_E_ARGUMENT, "http_options", "host, port, routes or a limit is out of range");
  }
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY && files.rlim_cur < need) {
    return ij__fail(err, IJ_E_ARGUMENT, "max_connections", "%d connections need %zu file descriptors, and this process may have %llu (ulimit -n)",
                    o->max_connections, need, (unsigned long long)files.rlim_cur);
  }
  return IJ_OK;
}

static bool start_daemon(http_server *s, int fd) {
  const http_options *o = &s->options;
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
  flags |= MHD_is_feature_supported(MHD_FEATURE_EPOLL) == MHD_YES ? MHD_USE_EPOLL : MHD_USE_POLL;
  s->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
      (unsigned)(o->max_connections + HTTP_SPARE_CONNECTIONS), MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->idle_seconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, ij__align_up(o->max_header, 4096) + 16384, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
      MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_URI_LOG_CALLBACK, on_request_line, s, MHD_OPTION_UNESCAPE_CALLBACK,
      on_unescape, s, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  return s->daemon != NULL;
}

static bool start_threads(http_server *s) {
  s->has_watch = pthread_create(&s->watch, NULL, ij__http_watch_thread, s) == 0;
  s->has_quick = pthread_create(&s->quick, NULL, quick_thread, s) == 0;
  while (s->n_handlers < HTTP_HANDLER_THREADS && pthread_create(&s->handlers[s->n_handlers], NULL, handler_thread, s) == 0) s->n_handlers++;
  return s->has_watch && s->has_quick && s->n_handlers > 0;
}

ij_status http_start(http_server **out, const http_options *options, ij_err *err) {
  *out = NULL;
  int fd;
  ij_status status = check_options(options, err);
  if (status != IJ_OK) return status;
  http_server *s = ij__alloc_zero(1, sizeof *s);
  if (!s) return ij__fail_nomem(err, "the server", sizeof *s);
  s->options = *options;
  s->jobs_tail = &s->jobs;
  s->max_body_bytes = IJ_MAX(options->max_body * 8, (size_t)64 << 20);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->work, NULL);
  pthread_cond_init(&s->tick, NULL);
  *out = s; /* handlers may look for it as soon as there are threads */
  status = open_socket(s, &fd, err);
  if (status == IJ_OK && !start_threads(s)) {
    close(fd);
    status = ij__fail(err, IJ_E_NOMEM, "threads", "the system gives no more threads");
  } else if (status == IJ_OK && !start_daemon(s, fd)) {
    close(fd);
    status = ij__fail(err, IJ_E_IO, "libmicrohttpd", "the HTTP library does not start");
  }
  if (status != IJ_OK) http_stop(out);
  return status;
}

int http_port(const http_server *server) { return server->port; }

void http_get_stats(http_server *s, http_stats *out) {
  memset(out, 0, sizeof *out);
  pthread_mutex_lock(&s->lock);
  out->n_connections = s->n_conns;
  for (const http_conn *c = s->conns; c; c = c->next) out->n_busy += c->state == CONN_BUSY;
  out->n_shed = s->n_shed;
  pthread_mutex_unlock(&s->lock);
  out->n_requests = (int64_t)atomic_load(&s->next_id);
  out->body_bytes = atomic_load(&s->body_bytes);
}

void http_drain(http_server *s) {
  if (atomic_exchange(&s->draining, true)) return;
  int fd = MHD_quiesce_daemon(s->daemon);
  if (fd < 0) return;
  /* The library's thread may be about to accept on it: it is closed when that thread has ended. */
  shutdown(fd, SHUT_RDWR);
  s->drained_fd = fd;
  s->has_drained_fd = true;
}

static bool any_busy(http_server *s) {
  pthread_mutex_lock(&s->lock);
  bool busy = false;
  for (const http_conn *c = s->conns; c && !busy; c = c->next) busy = c->state == CONN_BUSY;
  pthread_mutex_unlock(&s->lock);
  return busy;
}

/* Nobody may be asleep in the library when it is stopped. */
static void abort_exchanges(http_server *s) {
  pthread_mutex_lock(&s->lock);
  for (http_conn *c = s->conns; c; c = c->next) {
    if (!c->exchange) continue;
    pthread_mutex_lock(&c->exchange->lock);
    c->exchange->aborted = true;
    atomic_store(&c->exchange->gone, true);
    ij__http_wake(c->exchange);
    pthread_mutex_unlock(&c->exchange->lock);
  }
  pthread_mutex_unlock(&s->lock);
}

static void stop_threads(http_server *s) {
  pthread_mutex_lock(&s->lock);
  s->stopping = true;
  pthread_cond_broadcast(&s->work);
  pthread_cond_broadcast(&s->tick);
  pthread_mutex_unlock(&s->lock);
  for (int i = 0; i < s->n_handlers; i++) pthread_join(s->handlers[i], NULL);
  if (s->has_quick) pthread_join(s->quick, NULL);
  if (s->has_watch) pthread_join(s->watch, NULL);
}

void http_stop(http_server **server) {
  http_server *s = *server;
  if (!s) return;
  if (s->daemon) {
    http_drain(s);
    for (double end = ij__os_seconds() + HTTP_FLUSH_S; any_busy(s) && ij__os_seconds() < end;) usleep(10000);
    abort_exchanges(s);
  }
  stop_threads(s);
  if (s->daemon) {
    abort_exchanges(s);
    MHD_stop_daemon(s->daemon);
  }
  if (s->has_drained_fd) close(s->drained_fd);
  *server = NULL; /* not before: handlers may look for it */
  pthread_cond_destroy(&s->tick);
  pthread_cond_destroy(&s->work);
  pthread_mutex_destroy(&s->lock);
  ij__free(s);
}
