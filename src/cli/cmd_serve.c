/* cmd_serve.c: `inkjet serve`: options, keys and the model, then the server does the rest until a signal ends it. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_plan.h"
#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"

#ifdef IJ_HAS_SERVER

#include "server/server.h"

enum { MAX_LIST = 64, BODIES = 8 /* of --max-body, that all requests together may take */ };
#define KEPT_BYTES ((size_t)96 << 20) /* of schemas from request to request, and what connections hold */

typedef struct list {
  char *text;                     /* cut into the items in place */
  const char *items[MAX_LIST];
  int n;
} list;

typedef struct serving {
  const cli_args *args;
  ij_model *model;
  list keys, origins, hosts;
  char *name;
  size_t cache_bytes, media_cache_bytes;
} serving;

/* Cuts text at any of the separators; empty items and, with comments, those after '#' do not count. */
static int cut(const cli_args *args, list *l, const char *separators, bool comments, const char *what) {
  char *rest = NULL;
  for (char *s = strtok_r(l->text, separators, &rest); s; s = strtok_r(NULL, separators, &rest)) {
    s += strspn(s, " \t");
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r", s[n - 1])) s[--n] = 0;
    if (!n || (comments && *s == '#')) continue;
    if (l->n == MAX_LIST) return say_misuse(args, "%s: more than %d entries", what, MAX_LIST);
    l->items[l->n++] = s;
  }
  return CLI_EXIT_OK;
}

static int read_keys(serving *s) {
  const char *path = s->args->v[OPT_API_KEY_FILE].text;
  size_t n = 0;
  if (!path) return CLI_EXIT_OK;
  int rc = read_input(path, &s->keys.text, &n);
  if (rc != CLI_EXIT_OK) return rc;
  if (strlen(s->keys.text) != n) return say_misuse(s->args, "--api-key-file: %s has a NUL byte", path);
  rc = cut(s->args, &s->keys, "\n", true, "--api-key-file");
  if (rc == CLI_EXIT_OK && s->keys.n == 0) return say_misuse(s->args, "--api-key-file: %s has no key in it", path);
  return rc;
}

static int read_list(serving *s, cli_option_id id, list *l, const char *what) {
  const char *text = s->args->v[id].text;
  if (!text) return CLI_EXIT_OK;
  l->text = ij__strdup(text);
  if (!l->text) return say_nomem(what, strlen(text));
  int rc = cut(s->args, l, ",", false, what);
  return rc == CLI_EXIT_OK && l->n == 0 ? say_misuse(s->args, "%s: nothing is named", what) : rc;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* The length of a name or address as it stands in a URL; IPv6 is in brackets. 0: it is none. */
static size_t host_length(const char *s, const char *letters) {
  if (*s != '[') return strspn(s, letters);
  size_t n = strspn(s + 1, DIGITS "abcdefABCDEF:.");
  return n && s[n + 1] == ']' ? n + 2 : 0;
}

/* As browsers write them: small letters, and no port where it is the one that the scheme has anyway. */
static bool is_origin(const char *s) {
  if (strcmp(s, "*") == 0 || strcmp(s, "null") == 0 || strcmp(s, "file://") == 0) return true;
  size_t n = strspn(s, LOWER) ? strspn(s, LOWER DIGITS "+-.") : 0;
  if (n == 0 || strncmp(s + n, "://", 3) != 0) return false;
  const char *host = s + n + 3;
  size_t n_host = host_length(host, LOWER DIGITS "-._");
  const char *port = host + n_host;
  if (n_host == 0 || *port == 0) return n_host > 0;
  bool usual = (strncmp(s, "http:", 5) == 0 && strcmp(port, ":80") == 0) || (strncmp(s, "https:", 6) == 0 && strcmp(port, ":443") == 0);
  size_t n_port = *port == ':' ? strspn(port + 1, DIGITS) : 0;
  return n_port > 0 && n_port < 6 && port[1] != '0' && port[1 + n_port] == 0 && atoi(port + 1) < 65536 && !usual;
}

static bool is_host(const char *s) {
  size_t n = host_length(s, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-._");
  return n > 0 && s[n] == 0;
}

/* What no Origin and no Host can equal would only look as if it allowed something. */
static int check_network(const serving *s) {
  for (int i = 0; i < s->origins.n; i++) {
    if (is_origin(s->origins.items[i])) continue;
    return say_misuse(s->args, "--cors-origin: '%s' is not accepted; expected *, null, file://, or what browsers send as Origin: SCHEME://HOST or "
                      "SCHEME://HOST:PORT in small letters, without a path and without the port that the scheme has anyway", s->origins.items[i]);
  }
  for (int i = 0; i < s->hosts.n; i++) {
    if (is_host(s->hosts.items[i])) continue;
    return say_misuse(s->args, "--allow-host: '%s' is not accepted; expected a name or address without a port, such as my.name or [::1]",
                      s->hosts.items[i]);
  }
  return CLI_EXIT_OK;
}

/* "models/inkling-small/" is called inkling-small, "a.gguf" a. */
static int name_model(serving *s, const char *path) {
  const char *given = s->args->v[OPT_MODEL_NAME].text;
  size_t n = strlen(given ? given : path);
  if (!given) {
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && !strchr("/:", path[from - 1])) from--;
    path += from;
    n -= from;
    static const char *const endings[] = {".gguf", ".safetensors"};
    for (size_t i = 0; i < IJ_COUNT_OF(endings); i++) {
      size_t e = strlen(endings[i]);
      if (n > e && memcmp(path + n - e, endings[i], e) == 0) n -= e;
    }
  }
  s->name = ij__strndup(given ? given : path, n);
  if (!s->name) return say_nomem("a name", n);
  for (const char *c = s->name; *c; c++) {
    if ((unsigned char)*c < 0x20) return say_misuse(s->args, "--model-name: control characters are not accepted");
  }
  return *s->name ? CLI_EXIT_OK : say_misuse(s->args, "--model-name: the name is empty");
}

/* What the worker has to say, such as a damaged file of the prefix cache; from its thread. */
static void on_log(void *user, const char *line) {
  (void)user;
  say("%s", line);
}

static ij_serve_options make_options(const serving *s) {
  const cli_value *v = s->args->v;
  ij_serve_options o = ij__serve_options_default();
  o.http.host = v[OPT_HOST].text;
  o.http.port = (int)v[OPT_PORT].i;
  o.http.max_body = (size_t)v[OPT_MAX_BODY].i << 20;
  o.http.max_header = (size_t)v[OPT_MAX_HEADER].i << 10;
  o.http.max_connections = (int)v[OPT_MAX_CONNECTIONS].i;
  o.http.max_per_address = (int)v[OPT_MAX_PER_ADDRESS].i;
  o.http.idle_seconds = (int)v[OPT_IDLE].i;
  o.http.request_seconds = (int)v[OPT_REQUEST_TIME].i;
  o.http.api_keys = s->keys.items;
  o.http.n_api_keys = s->keys.n;
  o.http.cors_origins = s->origins.items;
  o.http.n_cors_origins = s->origins.n;
  o.http.allowed_hosts = s->hosts.items;
  o.http.n_allowed_hosts = s->hosts.n;
  o.worker.n_parallel = (int)v[OPT_PARALLEL].i;
  o.worker.max_queue = (int)v[OPT_QUEUE].i;
  o.worker.kv_type = kv_type(s->args);
  if (v[OPT_CTX].set) o.worker.n_ctx = v[OPT_CTX].i;
  o.worker.cache_bytes = s->cache_bytes;
  o.worker.cache_dir = v[OPT_CACHE_DIR].text;
  o.worker.cache_dir_bytes = (size_t)v[OPT_CACHE_DIR_SIZE].i << 20;
  o.worker.log = on_log;
  o.model_name = s->name;
  o.verbose = v[OPT_VERBOSE].set;
  o.media_cache_bytes = s->media_cache_bytes;
  if (v[OPT_MAX_LONG_EDGE].set) o.max_long_edge = (int)v[OPT_MAX_LONG_EDGE].i;
  o.allow_remote_media = v[OPT_REMOTE_MEDIA].set;
  o.drain_seconds = (double)v[OPT_DRAIN].i;
  return o;
}

static void on_ready(void *user, int port) {
  const serving *s = user;
  const char *host = s->args->v[OPT_HOST].text;
  bool v6 = strchr(host, ':') != NULL;
  out_printf("http://%s%s%s:%d\n", v6 ? "[" : "", host, v6 ? "]" : "", port);
  out_flush();
  if (s->args->v[OPT_VERBOSE].set) say("ready after %.2f s", ij__os_seconds() - s->args->start);
}

/* ------------------------------------------------------------------------------------------------------------------ memory */

/* What the server takes besides its sessions: bodies of requests as many as it accepts at once, schemas that are kept, and rows of media in use. */
static size_t own_bytes(const serving *s, const cli_peek *peek) {
  const cli_value *v = s->args->v;
  size_t bodies = IJ_MAX(((size_t)v[OPT_MAX_BODY].i << 20) * BODIES, (size_t)64 << 20), n = ij__alloc_bytes() + bodies + KEPT_BYTES, rows = 0;
  int64_t n_ctx = v[OPT_CTX].set ? IJ_MIN(v[OPT_CTX].i, peek->info.max_context) : IJ_MIN((int64_t)8192, peek->info.max_context);
  if (!peek->towers) return n;
  bool fits = ij__mul_size((size_t)n_ctx * (size_t)v[OPT_PARALLEL].i, (size_t)peek->info.hidden * sizeof(float), &rows) &&
              ij__add_size(n, rows, &n) && ij__add_size(n, s->media_cache_bytes, &n);
  return fits ? n : SIZE_MAX;
}

/* Where experts are streamed, memory for caches is memory that experts do not get: unless their sizes are given, they take a small part. */
static int plan_server(serving *s, const char *path, cli_plan *plan) {
  const cli_value *v = s->args->v;
  cli_peek peek;
  int rc = peek_model(s->args, path, &peek);
  int64_t n_ctx = v[OPT_CTX].set ? v[OPT_CTX].i : 0;
  if (rc == CLI_EXIT_OK) rc = check_ctx(s->args, n_ctx, peek.info.max_context);
  if (rc != CLI_EXIT_OK) return rc;
  s->cache_bytes = (size_t)v[OPT_CACHE].i << 20;
  s->media_cache_bytes = (size_t)v[OPT_MEDIA_CACHE].i << 20;
  *plan = (cli_plan){.n_ctx = n_ctx, .n_sessions = (int)v[OPT_PARALLEL].i, .kept = s->cache_bytes, .other = own_bytes(s, &peek)};
  if (v[OPT_CACHE].set && v[OPT_MEDIA_CACHE].set) return CLI_EXIT_OK;
  ij_plan p = plan_try(s->args, path, plan);
  if (p.home == IJ_HOME_MAPPED || p.home == IJ_HOME_RESIDENT) return CLI_EXIT_OK;
  if (!v[OPT_CACHE].set) s->cache_bytes = IJ_MIN(s->cache_bytes, p.bound / 16);
  if (!v[OPT_MEDIA_CACHE].set) s->media_cache_bytes = IJ_MIN(s->media_cache_bytes, p.bound / 64);
  plan->kept = s->cache_bytes;
  plan->other = own_bytes(s, &peek);
  return CLI_EXIT_OK;
}

static int serve(serving *s) {
  const cli_args *a = s->args;
  const char *path;
  cli_plan plan;
  ij_err err = {0};
  int rc = model_path(a, &path);
  if (a->v[OPT_CACHE_DIR_SIZE].set && !a->v[OPT_CACHE_DIR].set) return say_misuse(a, "--cache-dir-size needs --cache-dir");
  if (a->v[OPT_CACHE_DIR].set && a->v[OPT_CACHE].i == 0) {
    return say_misuse(a, "--cache 0 keeps no state, and --cache-dir takes those that memory has no room for: leave one out");
  }
  if (rc == CLI_EXIT_OK) rc = name_model(s, path);
  if (rc == CLI_EXIT_OK) rc = read_keys(s);
  if (rc == CLI_EXIT_OK) rc = read_list(s, OPT_CORS_ORIGIN, &s->origins, "--cors-origin");
  if (rc == CLI_EXIT_OK) rc = read_list(s, OPT_ALLOW_HOST, &s->hosts, "--allow-host");
  if (rc == CLI_EXIT_OK) rc = check_network(s);
  if (rc == CLI_EXIT_OK) rc = plan_server(s, path, &plan);
  if (rc == CLI_EXIT_OK) rc = open_model(a, path, true, 0, &plan, &s->model);
  if (rc != CLI_EXIT_OK) return rc;
  raise_descriptors(a->v[OPT_MAX_CONNECTIONS].i); /* if it is not enough, the server says so */
  ij_serve_options options = make_options(s);
  return ij__serve(s->model, &options, interrupted_flag(), on_ready, s, &err) == IJ_OK ? CLI_EXIT_OK : say_failed(&err);
}

int cmd_serve(const cli_args *args) {
  serving s = {.args = args};
  int rc = serve(&s);
  close_model(args, &s.model);
  ij__free(s.keys.text);
  ij__free(s.origins.text);
  ij__free(s.hosts.text);
  ij__free(s.name);
  return rc;
}

#else

int cmd_serve(const cli_args *args) {
  (void)args;
  say("this program was built without libmicrohttpd, which the server needs: install its development package (Debian: "
      "libmicrohttpd-dev) and build again");
  return CLI_EXIT_FAILED;
}

#endif
