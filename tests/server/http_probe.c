/* http_probe.c: a server on http.h alone, for test_http.py: handlers that answer late, stream, stay silent, flood, or say nothing.
 *
 *     http_probe NAME=VALUE...     limits and lists of http_options; prints its port; ends when standard input does
 *
 * At the end it prints how many blocks of memory are left over, which must be 0.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "server/http.h"

static atomic_int n_gone, n_live, n_written;

static void pause_ms(int ms) {
  struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
  nanosleep(&t, NULL);
}

static int number(http_exchange *x, const char *key, int otherwise) {
  const char *s = http_query(x, key);
  return s ? atoi(s) : otherwise;
}

static void get_hello(void *context, http_exchange *x) {
  (void)context;
  http_reply(x, 200, "text/plain", "hello\n", 6);
}

/* Length and checksum of the body. */
static void post_echo(void *context, http_exchange *x) {
  (void)context;
  size_t n;
  const char *s = http_body(x, &n);
  unsigned sum = 0;
  for (size_t i = 0; i < n; i++) sum = sum * 31 + (unsigned char)s[i];
  char reply[64];
  int len = snprintf(reply, sizeof reply, "%zu %u\n", n, sum);
  http_reply(x, 200, "text/plain", reply, (size_t)len);
}

static void get_query(void *context, http_exchange *x) {
  (void)context;
  const char *q = http_query(x, "q"), *h = http_header(x, "x-TEST");
  char reply[200];
  int len = snprintf(reply, sizeof reply, "%s|%.60s|%.60s\n", http_path(x), q ? q : "", h ? h : "");
  http_reply(x, 200, "text/plain", reply, (size_t)len);
}

/* Keeps its thread busy, as parsing and rendering do. */
static void post_busy(void *context, http_exchange *x) {
  (void)context;
  pause_ms(number(x, "ms", 100));
  http_reply(x, 200, "text/plain", "done\n", 5);
}

static void get_nothing(void *context, http_exchange *x) {
  (void)context;
  (void)x;
}

static void get_stats(void *context, http_exchange *x) {
  http_stats s;
  http_get_stats(*(http_server **)context, &s);
  char reply[200];
  int len = snprintf(reply, sizeof reply, "{\"gone\":%d,\"live\":%d,\"written\":%d,\"connections\":%d,\"busy\":%d,\"shed\":%d,\"bodies\":%zu}\n",
                     atomic_load(&n_gone), atomic_load(&n_live), atomic_load(&n_written), s.n_connections, s.n_busy, (int)s.n_shed, s.body_bytes);
  http_reply(x, 200, "application/json", reply, (size_t)len);
}

/* ---- what is answered later, each by a thread of its own */

static void *wait_and_reply(void *user) {
  http_exchange *x = user;
  int ms = number(x, "ms", 100);
  for (int t = 0; t < ms && !http_gone(x); t += 10) pause_ms(10);
  if (http_gone(x)) atomic_fetch_add(&n_gone, 1);
  http_reply(x, 200, "text/plain", "late\n", 5);
  atomic_fetch_sub(&n_live, 1);
  http_release(x);
  return NULL;
}

static void *stream(void *user) {
  http_exchange *x = user;
  int n = number(x, "n", 3), ms = number(x, "ms", 50);
  http_stream_begin(x, 200, "text/event-stream");
  for (int i = 0; i < n; i++) {
    char event[32];
    int len = snprintf(event, sizeof event, "data: %d\n\n", i);
    for (int t = 0; t < ms && !http_gone(x); t += 10) pause_ms(10);
    if (http_stream_write(x, event, (size_t)len)) continue;
    atomic_fetch_add(&n_gone, 1);
    break;
  }
  http_stream_end(x);
  atomic_fetch_sub(&n_live, 1);
  http_release(x);
  return NULL;
}

/* As fast as it goes, until the server says that nobody reads. */
static void *flood(void *user) {
  static char block[65536];
  http_exchange *x = user;
  http_stream_begin(x, 200, "application/octet-stream");
  for (int i = 0; i < 4096 && http_stream_write(x, block, sizeof block); i++) atomic_fetch_add(&n_written, 1);
  http_stream_end(x);
  atomic_fetch_sub(&n_live, 1);
  http_release(x);
  return NULL;
}

/* Begins, writes a little, and forgets the stream. */
static void *forget(void *user) {
  http_exchange *x = user;
  http_stream_begin(x, 200, "text/plain");
  http_stream_write(x, "half", 4);
  atomic_fetch_sub(&n_live, 1);
  http_release(x);
  return NULL;
}

static void later(http_exchange *x, void *(*what)(void *)) {
  pthread_t thread;
  atomic_fetch_add(&n_live, 1);
  if (pthread_create(&thread, NULL, what, http_keep(x)) == 0) pthread_detach(thread);
}

static void get_wait(void *context, http_exchange *x) {
  (void)context;
  later(x, wait_and_reply);
}

static void get_stream(void *context, http_exchange *x) {
  (void)context;
  later(x, stream);
}

static void get_flood(void *context, http_exchange *x) {
  (void)context;
  later(x, flood);
}

static void get_forget(void *context, http_exchange *x) {
  (void)context;
  later(x, forget);
}

static const http_route routes[] = {
    {HTTP_GET, "/hello", true, get_hello},   {HTTP_POST, "/echo", false, post_echo},  {HTTP_GET, "/query/", false, get_query},
    {HTTP_GET, "/nothing", false, get_nothing}, {HTTP_GET, "/stats", true, get_stats}, {HTTP_GET, "/wait", false, get_wait},
    {HTTP_POST, "/busy", false, post_busy},
    {HTTP_POST, "/wait", false, get_wait},   {HTTP_GET, "/stream", false, get_stream}, {HTTP_GET, "/flood", false, get_flood},
    {HTTP_GET, "/forget", false, get_forget}, {HTTP_OTHER, NULL, false, NULL}};

/* One entry is enough for every list that is tested here. */
static const char *key[1], *origin[1], *host[1];

static bool set_option(http_options *o, char *text) {
  char *value = strchr(text, '=');
  if (!value) return false;
  *value++ = 0;
  const struct {
    const char *name;
    int *number;
    size_t *size;
    const char **string;
    int *count;
  } known[] = {{.name = "max_body", .size = &o->max_body},
               {.name = "max_header", .size = &o->max_header},
               {.name = "max_connections", .number = &o->max_connections},
               {.name = "max_per_address", .number = &o->max_per_address},
               {.name = "idle_seconds", .number = &o->idle_seconds},
               {.name = "request_seconds", .number = &o->request_seconds},
               {.name = "ping_seconds", .number = &o->ping_seconds},
               {.name = "host", .string = &o->host},
               {.name = "key", .string = key, .count = &o->n_api_keys},
               {.name = "origin", .string = origin, .count = &o->n_cors_origins},
               {.name = "allowed_host", .string = host, .count = &o->n_allowed_hosts}};
  for (size_t i = 0; i < IJ_COUNT_OF(known); i++) {
    if (strcmp(text, known[i].name) != 0) continue;
    if (known[i].number) *known[i].number = atoi(value);
    if (known[i].size) *known[i].size = (size_t)atoll(value);
    if (known[i].string) *known[i].string = value;
    if (known[i].count) *known[i].count = 1;
    return true;
  }
  return false;
}

int main(int argc, char **argv) {
  static const http_route *const tables[] = {routes};
  http_server *server = NULL;
  ij_err err = {0};
  http_options o = {.host = "127.0.0.1", .max_body = 1 << 20, .max_header = 16384, .max_connections = 64, .idle_seconds = 20,
                    .request_seconds = 10, .ping_seconds = 10, .api_keys = key, .cors_origins = origin, .allowed_hosts = host,
                    .routes = tables, .n_route_tables = 1, .context = &server};
  for (int i = 1; i < argc; i++) {
    if (set_option(&o, argv[i])) continue;
    fprintf(stderr, "http_probe: unknown option %s\n", argv[i]);
    return 2;
  }
  if (http_start(&server, &o, &err) != IJ_OK) {
    fprintf(stderr, "http_probe: %s: %s\n", err.where, err.message);
    return 1;
  }
  printf("%d\n", http_port(server));
  fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  http_stop(&server);
  for (int i = 0; i < 500 && atomic_load(&n_live) > 0; i++) pause_ms(10); /* the threads above see that their clients are gone */
  pause_ms(50);
  printf("%lld\n", (long long)ij__alloc_blocks());
  return 0;
}
