/* http_watch.c: the thread that looks, four times a second, at what no event tells: requests that take too long to arrive, clients that
 * left while nothing is written to them, streams that are quiet, and refused clients that still send.
 *
 * A client that has closed its sending side may have left, or may wait for its answer with half a connection: nothing tells which, until
 * something is written to it. So that is done: a comment in an event stream, "100 Continue" (which every HTTP/1.1 client must skip)
 * before a whole reply. Whoever has left answers with a reset, which the next look sees. HTTP/1.0 has no such thing: there it has left.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/os.h"
#include "server/http_inner.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static void send_now(int fd, const char *bytes, size_t n) {
  ssize_t sent = send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)sent; /* who cannot take it does not get it */
}

void ij__http_raw_error(int fd, int status, const char *code, const char *message) {
  char body[400], reply[700];
  int n_body = snprintf(body, sizeof body, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}\n", message,
                        status >= 500 ? "server_error" : "invalid_request_error", code);
  int n = snprintf(reply, sizeof reply,
                   "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s", status,
                   ij__http_reason(status), n_body, status == 503 ? "Retry-After: 1\r\n" : "", body);
  if (n > 0 && (size_t)n < sizeof reply) send_now(fd, reply, (size_t)n);
}

/* ----------------------------------------------------------------------------------------------------- clients that left */

typedef enum peer { PEER_THERE, PEER_HALF, PEER_GONE } peer;

static peer look_at_peer(int fd) {
#ifdef POLLRDHUP
  struct pollfd p = {.fd = fd, .events = POLLRDHUP};
  if (poll(&p, 1, 0) <= 0) return PEER_THERE;
  if (p.revents & (POLLERR | POLLHUP | POLLNVAL)) return PEER_GONE;
  return p.revents & POLLRDHUP ? PEER_HALF : PEER_THERE;
#else
  char byte;
  ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return PEER_THERE;
  if (got == 0) return PEER_HALF;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? PEER_THERE : PEER_GONE;
#endif
}

/* ----------------------------------------------------------------------------------------------------- slow requests */

static void check_deadline(http_server *server, http_conn *c, double now) {
  if (c->state != CONN_READING || now < c->deadline) return;
  ij__http_raw_error(c->fd, 408, "request_timeout", "the request did not arrive in time");
  c->linger = true;
  server->n_shed++;
  ij__http_doom(server, c);
}

/* A client that has hung up after part of a request, or between two, is seldom an event for the library: the end of what it sent came
 * together with the rest. Seen twice, a second apart, it is cut; once could be a request that is being taken in this moment. */
static void check_ends(http_server *server) {
  for (http_conn *c = server->conns; c; c = c->next) {
    int unread = 0;
    if (c->state != CONN_READING || look_at_peer(c->fd) == PEER_THERE || ioctl(c->fd, FIONREAD, &unread) != 0 || unread > 0) continue;
    if (c->hung_up) ij__http_doom(server, c);
    c->hung_up = true;
  }
}

/* x->lock is held. Between events only: a comment inside one would be part of it. */
static void comment(http_exchange *x, double now) {
  static const char text[] = ": keep-alive\n\n";
  if (!x->event_stream || x->ended || x->tail[0] != '\n' || x->tail[1] != '\n') return;
  ij__buf_append(&x->out, text, sizeof text - 1);
  x->out.failed = false; /* without memory there is no comment, and no harm */
  x->quiet_since = now;
  ij__http_wake(x);
}

static void check_peer(http_exchange *x, int fd, double now) {
  if (x->state != X_WAITING && x->state != X_STREAM) return;
  peer p = look_at_peer(fd);
  bool stream = x->state == X_STREAM;
  if (p == PEER_HALF && !stream && !x->http_1_1) p = PEER_GONE;
  if (p == PEER_GONE) {
    atomic_store(&x->gone, true);
  } else if (p == PEER_HALF && now - x->probed >= 0.9) {
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    x->probed = now;
    if (stream) comment(x, now);
    else send_now(fd, go_on, sizeof go_on - 1);
  } else if (stream && now - x->quiet_since >= x->server->options.ping_seconds) {
    comment(x, now);
  }
}

/* -------------------------------------------------------------------------------------------------------- lingering */

/* A connection that is closed while its client still sends is reset, and the reset can overtake the reply that says why. So what is
 * sent is read and thrown away for a moment. server->lock is held. */
void ij__http_linger(http_server *server, int fd) {
  if (server->n_lingering == HTTP_MAX_LINGERING || server->stopping) return;
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  server->lingering[server->n_lingering++] = (http_lingering){copy, ij__os_seconds() + HTTP_LINGER_S, (size_t)1 << 26};
}

static bool drain_some(http_lingering *l, double now) {
  static char sink[1 << 16]; /* of the watch thread alone; nobody reads it */
  size_t room = (size_t)1 << 23;
  while (room > 0 && l->left > 0) {
    ssize_t got = recv(l->fd, sink, sizeof sink, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) && now < l->until;
    room -= IJ_MIN(room, (size_t)got);
    l->left -= IJ_MIN(l->left, (size_t)got);
  }
  return l->left > 0 && now < l->until;
}

static void check_lingering(http_server *server, double now) {
  for (int i = 0; i < server->n_lingering;) {
    if (drain_some(&server->lingering[i], now) && !server->stopping) {
      i++;
      continue;
    }
    close(server->lingering[i].fd);
    server->lingering[i] = server->lingering[--server->n_lingering];
  }
}

/* ------------------------------------------------------------------------------------------------------------- the loop */

static void look_around(http_server *server) {
  double now = ij__os_seconds();
  if (++server->ticks % 4 == 0) check_ends(server);
  for (http_conn *c = server->conns; c; c = c->next) {
    check_deadline(server, c, now);
    if (c->state != CONN_BUSY || !c->exchange) continue;
    pthread_mutex_lock(&c->exchange->lock);
    check_peer(c->exchange, c->fd, now);
    pthread_mutex_unlock(&c->exchange->lock);
  }
  check_lingering(server, now);
}

void *ij__http_watch_thread(void *user) {
  http_server *server = user;
  pthread_mutex_lock(&server->lock);
  while (!server->stopping) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += HTTP_TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&server->tick, &server->lock, &until);
    look_around(server);
  }
  check_lingering(server, 0);
  pthread_mutex_unlock(&server->lock);
  return NULL;
}
