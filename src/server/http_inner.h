/* http_inner.h: what the files behind http.h share: the server, its connections and its exchanges.
 *
 * Threads. One thread of the HTTP library does all reading and writing and never waits; a few handler threads run the handlers, and one
 * more only those of requests that are no POST; one watch thread looks after deadlines, clients that left, and quiet streams. While a
 * handler works, its connection is suspended in the library.
 * Locks: server->lock is taken before an exchange's lock, never after it. A connection's descriptor is valid while it is in the list.
 */
#ifndef IJ_SERVER_HTTP_INNER_H
#define IJ_SERVER_HTTP_INNER_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/str.h"
#include "server/http.h"

enum {
  HTTP_HANDLER_THREADS = 4,
  HTTP_TICK_MS = 250,             /* how often the watch looks */
  HTTP_LINGER_S = 2,              /* how long a refused client may go on sending before its connection is cut */
  HTTP_MAX_LINGERING = 64,
  HTTP_BACKLOG_BYTES = 8 << 20,   /* what a stream may hold for a client that does not read */
  HTTP_SPARE_CONNECTIONS = 64,    /* beyond the limit, for those on their way out */
  HTTP_SMALL_BODY = 1 << 16,      /* of a refused request: read first, so that the connection can go on */
  HTTP_FLUSH_S = 2                /* at the end: for replies that are on their way */
};

typedef enum conn_state { CONN_READING, CONN_BUSY, CONN_DOOMED } conn_state;

typedef struct http_conn {
  struct http_conn *prev, *next;
  int fd;
  conn_state state;
  bool linger;                    /* was refused with bytes on the way */
  bool hung_up;                   /* the watch has seen the end of what the client sends */
  double deadline;                /* of a complete request, while reading */
  unsigned char address[16];      /* of the client; IPv4 as ::ffff:a.b.c.d */
  http_exchange *exchange;        /* while busy */
} http_conn;

typedef enum exchange_state {
  X_READING,                      /* the body is arriving */
  X_TAKEN,                        /* it is there */
  X_WAITING,                      /* for the handler's reply */
  X_REPLY,                        /* a whole reply is there */
  X_STREAM                        /* a stream has begun */
} exchange_state;

struct http_exchange {
  atomic_int refs;
  pthread_mutex_t lock;
  http_server *server;            /* valid while `connection` is set */
  uint64_t id;

  /* The request: fixed once the handler runs. */
  http_method method;
  bool head, http_1_1;
  char *path;
  char *authority;                /* of a target in absolute form, GET http://authority/path; it counts, not Host */
  ij_buf headers, query;          /* name NUL value NUL ... */
  ij_buf body;
  size_t claimed;                 /* beside it, with the lock */
  size_t declared;                /* Content-Length, SIZE_MAX: chunked */
  const http_route *route;
  const char *cors_origin;        /* the client's, when it is allowed; in `headers` */

  /* The reply. */
  struct MHD_Connection *connection; /* NULL once the library is done with the request */
  http_conn *conn;
  exchange_state state;
  bool suspended, aborted, ended, queued;
  atomic_bool gone;
  int status;
  char *content_type;
  ij_buf reply_headers;
  ij_buf out;                     /* the reply, or what a stream has not sent yet */
  size_t taken;                   /* of out, by the library */
  char tail[2];                   /* the last bytes written to a stream */
  double quiet_since, probed;
  bool event_stream;
  http_exchange *next_job;
};

typedef struct http_lingering {
  int fd;
  double until;
  size_t left;
} http_lingering;

struct http_server {
  http_options options;           /* strings are the caller's */
  struct MHD_Daemon *daemon;
  int port;
  bool loopback;                  /* bound to a loopback address: Host is checked */
  pthread_mutex_t lock;
  pthread_cond_t work, tick;
  http_conn *conns, *conns_last;  /* the first has changed its state last */
  int n_conns;                    /* that are not doomed */
  http_exchange *jobs, **jobs_tail;
  pthread_t handlers[HTTP_HANDLER_THREADS], quick, watch;
  int n_handlers;
  bool has_quick, has_watch, stopping;
  atomic_bool draining;
  int drained_fd;              /* the socket that was listened on; open until the library has ended */
  bool has_drained_fd;
  atomic_size_t body_bytes;       /* held for bodies by all exchanges */
  size_t max_body_bytes;
  atomic_uint_fast64_t next_id;
  int64_t n_shed;
  http_lingering lingering[HTTP_MAX_LINGERING];
  int n_lingering;
  unsigned ticks;                 /* of the watch */
};

/* ---- http.c */
void ij__http_doom(http_server *server, http_conn *c); /* server->lock is held: the connection is on its way out */

/* ---- http_exchange.c */
http_exchange *ij__http_exchange_new(http_server *server, struct MHD_Connection *connection);
void ij__http_pairs_add(ij_buf *pairs, const char *name, const char *value);
const char *ij__http_pairs_find(const ij_buf *pairs, const char *name, bool any_case);
/* A JSON error in the form that clients of OpenAI's API understand. */
void ij__http_error(http_exchange *x, int status, const char *code, const char *fmt, ...) IJ_PRINTF(4, 5);
/* On the library's thread: hands over the reply or stream; false when that failed. */
bool ij__http_queue(http_exchange *x);
/* The library is done with the request. */
void ij__http_detach(http_exchange *x, bool clean);
/* x->lock is held: lets the library's thread go on with the exchange. */
void ij__http_wake(http_exchange *x);

/* ---- http_check.c */
/* Whether the request may go on to its handler, from its head alone; otherwise the refusal is the exchange's reply. */
bool ij__http_check_head(http_exchange *x, const char *method);
void ij__http_cors_headers(const http_exchange *x, struct MHD_Response *response);
const char *ij__http_reason(int status);

/* ---- http_watch.c */
void *ij__http_watch_thread(void *server);
/* A whole reply past the library, for clients that it is still reading from; server->lock or the exchange's is held. */
void ij__http_raw_error(int fd, int status, const char *code, const char *message);
void ij__http_linger(http_server *server, int fd);

#endif
