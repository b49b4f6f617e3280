/* http.h: bytes <-> HTTP. The one door to the HTTP library; handlers see exchanges, never sockets.
 *
 * An exchange is one request and its reply. The body has been read in full, within the limits, before a handler is called on a thread of
 * the HTTP side. A handler answers at once (http_reply), or begins a stream and lets other threads write to it until http_stream_end. An
 * exchange that is answered later must be kept with http_keep and given back with http_release, because the client may leave meanwhile.
 */
#ifndef IJ_SERVER_HTTP_H
#define IJ_SERVER_HTTP_H

#include "core/base.h"
#include "inkjet.h"

typedef struct http_server http_server;
typedef struct http_exchange http_exchange;

typedef enum http_method { HTTP_GET, HTTP_POST, HTTP_OPTIONS, HTTP_OTHER } http_method;

/* How many clients there are, for /metrics. */
typedef struct http_stats {
  int n_connections, n_busy;   /* busy: with a request that is being answered */
  int64_t n_requests, n_shed;  /* shed: connections closed to make room, or refused */
  size_t body_bytes;           /* held for bodies now */
} http_stats;

typedef void (*http_handler)(void *context, http_exchange *x);

typedef struct http_route {
  http_method method;
  const char *path;            /* exact, or a prefix when it ends in '/' and is not "/" */
  bool open;                   /* needs no API key */
  http_handler handler;
} http_route;

typedef struct http_options {
  const char *host;            /* address to listen on */
  int port;                    /* 0: any free one; http_port tells */
  size_t max_body, max_header; /* bytes; beyond: 413, 431 */
  int max_connections, max_per_address; /* beyond: the one that has been idle longest makes room; none is idle: 503 */
  int idle_seconds;            /* a connection without progress is closed */
  int request_seconds;         /* a request must have arrived in full by then: 408 */
  int ping_seconds;            /* an event stream that is quiet for so long gets a comment line */
  const char *const *api_keys; /* NULL: none needed */
  int n_api_keys;
  const char *const *cors_origins; /* "*" or exact origins; none: no CORS headers at all */
  int n_cors_origins;
  const char *const *allowed_hosts; /* names beside localhost that Host may have when the address is a loopback one */
  int n_allowed_hosts;
  const http_route *const *routes; /* tables that end with path NULL; the first that matches wins */
  int n_route_tables;
  void *context;               /* given to handlers */
} http_options;

ij_status http_start(http_server **out, const http_options *options, ij_err *err);
int http_port(const http_server *server);
void http_get_stats(http_server *server, http_stats *out);
void http_drain(http_server *server);        /* refuses new connections; streams go on */
void http_stop(http_server **server);        /* ends everything; waits for its threads */

/* ---- the request; strings live as long as the exchange */
http_method http_method_of(const http_exchange *x);
const char *http_path(const http_exchange *x);
const char *http_header(const http_exchange *x, const char *name);       /* any case; NULL: absent */
const char *http_query(const http_exchange *x, const char *key);         /* decoded; NULL: absent */
const char *http_body(const http_exchange *x, size_t *n);
/* Counts n bytes that a handler takes to read the body among those of all bodies, until the connection is done with the request. */
typedef enum http_claim_result { HTTP_CLAIM_OK, HTTP_CLAIM_BUSY /* not now, or the client has left */, HTTP_CLAIM_TOO_LARGE } http_claim_result;
http_claim_result http_claim(http_exchange *x, size_t n);
uint64_t http_id(const http_exchange *x);                                /* a number of its own, for logs and ids */

/* ---- the reply */
void http_reply(http_exchange *x, int status, const char *content_type, const void *bytes, size_t n); /* copies */
void http_reply_header(http_exchange *x, const char *name, const char *value); /* before the reply */
void http_stream_begin(http_exchange *x, int status, const char *content_type);
/* Any thread. False when the client has left (or the stream's backlog is over its bound, which counts as having left). */
bool http_stream_write(http_exchange *x, const void *bytes, size_t n);
void http_stream_end(http_exchange *x);
bool http_gone(const http_exchange *x);      /* the client has left: seen within a second, also while nothing is written */
http_exchange *http_keep(http_exchange *x);
void http_release(http_exchange *x);

#endif
