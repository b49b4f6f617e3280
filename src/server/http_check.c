/* http_check.c: what a request must be before anything of it is read or run: its framing, host, origin, key, path, method and size.
 *
 * All of this looks at the head alone, so that a client without a key cannot make the server read its body. A refusal becomes the
 * exchange's reply; http.c decides whether it goes out before the body or after it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/alloc.h"
#include "server/http_inner.h"

const char *ij__http_reason(int status) {
  switch (status) {
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 503: return "Service Unavailable";
    default: return "Error";
  }
}

/* ------------------------------------------------------------------------------------------------------------- framing */

static int count_header(const http_exchange *x, const char *name) {
  int n = 0;
  for (size_t at = 0; at < x->headers.len;) {
    const char *key = x->headers.data + at, *value = key + strlen(key) + 1;
    n += strcasecmp(key, name) == 0;
    at = (size_t)(value - x->headers.data) + strlen(value) + 1;
  }
  return n;
}

/* Two readers of one request must not disagree on where it ends: what is ambiguous is refused. */
static bool check_framing(http_exchange *x) {
  int lengths = count_header(x, "Content-Length"), encodings = count_header(x, "Transfer-Encoding");
  const char *length = http_header(x, "Content-Length"), *encoding = http_header(x, "Transfer-Encoding");
  x->declared = 0;
  if (encodings > 0) x->declared = SIZE_MAX;
  else if (length) x->declared = (size_t)strtoull(length, NULL, 10); /* the library has checked it */
  if (lengths > 1 || encodings > 1 || count_header(x, "Host") > 1) {
    ij__http_error(x, 400, "bad_framing", "the request has more than one Content-Length, Transfer-Encoding or Host");
  } else if (lengths && encodings) {
    ij__http_error(x, 400, "bad_framing", "the request has both Content-Length and Transfer-Encoding: only one of them can say where it ends");
  } else if (encodings && strcasecmp(encoding, "chunked") != 0) {
    ij__http_error(x, 501, "unsupported_transfer_encoding", "Transfer-Encoding may only be chunked");
  } else {
    return true;
  }
  return false;
}

/* --------------------------------------------------------------------------------------------------------------- host */

static bool is_loopback_name(const char *host, size_t n) {
  static const char local[] = "localhost";
  const size_t n_local = sizeof local - 1;
  if (n == 5 && strncmp(host, "[::1]", 5) == 0) return true;
  if (n >= n_local && strncasecmp(host + n - n_local, local, n_local) == 0) return n == n_local || host[n - n_local - 1] == '.';
  if (n < 7 || strncmp(host, "127.", 4) != 0) return false;
  for (size_t i = 0; i < n; i++) {
    if (host[i] != '.' && (host[i] < '0' || host[i] > '9')) return false;
  }
  return true;
}

/* The length of the name in "name:port" or "[v6]:port". */
static size_t host_name_length(const char *host) {
  if (*host == '[') {
    const char *end = strchr(host, ']');
    return end ? (size_t)(end - host + 1) : strlen(host);
  }
  return strcspn(host, ":");
}

static const char *host_of(const http_exchange *x) { return x->authority ? x->authority : http_header(x, "Host"); }

/* A web page can make its own name resolve to 127.0.0.1 and then talk to us as its own origin; but it cannot change the Host it sends. */
static bool check_host(http_exchange *x) {
  const http_options *o = &x->server->options;
  const char *host = host_of(x);
  if (!x->server->loopback || !host) return true;
  size_t n = strchr(host, '@') ? 0 : host_name_length(host); /* what stands before an @ is no part of the name */
  if (is_loopback_name(host, n)) return true;
  for (int i = 0; i < o->n_allowed_hosts; i++) {
    if (strlen(o->allowed_hosts[i]) == n && strncasecmp(o->allowed_hosts[i], host, n) == 0) return true;
  }
  ij__http_error(x, 421, "unknown_host", "this server listens on loopback and answers to localhost only; other names must be allowed (--allow-host)");
  return false;
}

/* -------------------------------------------------------------------------------------------------------------- origin */

static bool origin_is_listed(const http_options *o, const char *origin) {
  for (int i = 0; i < o->n_cors_origins; i++) {
    if (strcmp(o->cors_origins[i], "*") == 0 || strcmp(o->cors_origins[i], origin) == 0) return true;
  }
  return false;
}

static bool origin_is_ours(const http_exchange *x, const char *origin) {
  const char *host = host_of(x), *name = strstr(origin, "://");
  return host && name && strcasecmp(name + 3, host) == 0;
}

/* Browsers send simple POSTs of foreign pages without asking first; they do say where those come from. */
static bool check_origin(http_exchange *x, const char *method) {
  const char *origin = http_header(x, "Origin");
  if (!origin) return true;
  if (origin_is_listed(&x->server->options, origin)) {
    x->cors_origin = origin;
    return true;
  }
  if (strcmp(method, "POST") != 0 || origin_is_ours(x, origin)) return true;
  ij__http_error(x, 403, "origin_not_allowed", "pages of this origin may not use this server; the operator can allow it (--cors-origin)");
  return false;
}

/* A list of header names that a preflight may ask for is sent back: letters, digits, '-', ',' and blanks. */
static const char *safe_header_list(const char *list) {
  if (!list || strlen(list) > 1024) return NULL;
  for (const char *s = list; *s; s++) {
    bool ok = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr("-_, ", *s);
    if (!ok) return NULL;
  }
  return list;
}

void ij__http_cors_headers(const http_exchange *x, struct MHD_Response *r) {
  if (x->server->options.n_cors_origins > 0) MHD_add_response_header(r, "Vary", "Origin");
  if (!x->cors_origin) return;
  MHD_add_response_header(r, "Access-Control-Allow-Origin", x->cors_origin);
  if (x->method != HTTP_OPTIONS) return;
  const char *wanted = safe_header_list(http_header(x, "Access-Control-Request-Headers"));
  MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
  MHD_add_response_header(r, "Access-Control-Allow-Headers", wanted ? wanted : "Authorization, Content-Type, X-Api-Key");
  MHD_add_response_header(r, "Access-Control-Max-Age", "600");
}

/* ---------------------------------------------------------------------------------------------------------------- keys */

/* Takes the same time wherever the difference is. */
static bool same_key(const char *given, const char *key) {
  size_t n_given = strlen(given), n_key = strlen(key);
  unsigned differ = n_given != n_key;
  for (size_t i = 0; i < n_given; i++) differ |= (unsigned char)given[i] ^ (unsigned char)(n_key ? key[i % n_key] : 0);
  return differ == 0 && n_key > 0;
}

static bool check_key(http_exchange *x) {
  const http_options *o = &x->server->options;
  const char *given = http_header(x, "X-Api-Key"), *authorization = http_header(x, "Authorization");
  bool found = false;
  if (!o->n_api_keys || x->route->open) return true;
  if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0) given = authorization + 7 + strspn(authorization + 7, " ");
  for (int i = 0; given && i < o->n_api_keys; i++) found |= same_key(given, o->api_keys[i]);
  if (found) return true;
  http_reply_header(x, "WWW-Authenticate", "Bearer");
  ij__http_error(x, 401, "invalid_api_key",
                 given ? "the API key is not known to this server" : "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
  return false;
}

/* --------------------------------------------------------------------------------------------------------------- routes */

static bool path_matches(const char *route, const char *path) {
  size_t n = strlen(route);
  if (n > 1 && route[n - 1] == '/') return strncmp(route, path, n) == 0 && path[n];
  return strcmp(route, path) == 0;
}

/* The route of this path and method; `known` collects the methods that the path has. */
static const http_route *find_route(const http_options *o, const char *path, http_method method, unsigned *known) {
  const http_route *found = NULL;
  *known = 0;
  for (int t = 0; t < o->n_route_tables; t++) {
    for (const http_route *r = o->routes[t]; r->path; r++) {
      if (!path_matches(r->path, path)) continue;
      *known |= 1u << r->method;
      if (!found && r->method == method) found = r;
    }
  }
  return found;
}

static bool check_route(http_exchange *x, const char *method) {
  unsigned known;
  x->route = find_route(&x->server->options, x->path, x->method, &known);
  if (x->route) return true;
  if (!known) {
    ij__http_error(x, 404, "not_found", "there is nothing at this path");
    return false;
  }
  char allow[64];
  snprintf(allow, sizeof allow, "%s%sOPTIONS", known & 1u << HTTP_GET ? "GET, HEAD, " : "", known & 1u << HTTP_POST ? "POST, " : "");
  http_reply_header(x, "Allow", allow);
  if (x->method == HTTP_OPTIONS) {
    http_reply(x, 204, "", "", 0);
  } else {
    char shown[24];
    snprintf(shown, sizeof shown, "%s", method);
    ij__http_error(x, 405, "method_not_allowed", "%s is not for this path, which takes %s", shown, allow);
  }
  return false;
}

/* --------------------------------------------------------------------------------------------------------------- bodies */

static bool is_json_type(const char *type) {
  size_t n = strcspn(type, "; \t");
  return (n == 16 && strncasecmp(type, "application/json", n) == 0) || (n > 5 && strncasecmp(type + n - 5, "+json", 5) == 0);
}

static bool check_body(http_exchange *x) {
  const char *type = http_header(x, "Content-Type"), *coding = http_header(x, "Content-Encoding");
  size_t most = x->server->options.max_body;
  if (x->declared != SIZE_MAX && x->declared > most) {
    ij__http_error(x, 413, "body_too_large", "the body has %zu bytes and this server takes %zu", x->declared, most);
  } else if (x->method != HTTP_POST) {
    return true; /* a body, if any, is read and not looked at */
  } else if (!http_header(x, "Content-Length") && !http_header(x, "Transfer-Encoding")) {
    ij__http_error(x, 411, "length_required", "a POST needs a body with Content-Length or chunked encoding");
  } else if (coding && strcasecmp(coding, "identity") != 0) {
    ij__http_error(x, 415, "unsupported_content_encoding", "compressed bodies are not taken: leave Content-Encoding away");
  } else if (!type || !is_json_type(type)) {
    ij__http_error(x, 415, "unsupported_media_type", "the body must be JSON: send Content-Type: application/json");
  } else {
    return true;
  }
  return false;
}

static bool check_head_size(http_exchange *x) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  if (!info || info->header_size <= x->server->options.max_header) return true;
  ij__http_error(x, 431, "header_too_large", "the head of the request is longer than %zu bytes", x->server->options.max_header);
  return false;
}

bool ij__http_check_head(http_exchange *x, const char *method) {
  x->head = strcmp(method, "HEAD") == 0;
  if (x->head || strcmp(method, "GET") == 0) x->method = HTTP_GET;
  else if (strcmp(method, "POST") == 0) x->method = HTTP_POST;
  else if (strcmp(method, "OPTIONS") == 0) x->method = HTTP_OPTIONS;
  else x->method = HTTP_OTHER;
  if (!check_framing(x) || !check_head_size(x) || !check_host(x) || !check_origin(x, method)) return false;
  if (atomic_load(&x->server->draining)) {
    ij__http_error(x, 503, "shutting_down", "the server is shutting down");
    return false;
  }
  return check_route(x, method) && check_key(x) && check_body(x);
}
