/* remote.c: see remote.h. The address is looked at when the socket is opened, after the name was resolved, so that a name which resolves to
 * something else a moment later gains nothing.
 */
#include "server/remote.h"

#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifdef IJ_HAS_CURL
#include <curl/curl.h>

#include "core/os.h"
#endif

static bool v4_is_public(const unsigned char a[4]) {
  static const struct {
    unsigned char net[4];
    int bits;
  } closed[] = {
    {{0, 0, 0, 0}, 8},      {{10, 0, 0, 0}, 8},      {{100, 64, 0, 0}, 10},  {{127, 0, 0, 0}, 8},     {{169, 254, 0, 0}, 16},
    {{172, 16, 0, 0}, 12},  {{192, 0, 0, 0}, 24},    {{192, 0, 2, 0}, 24},   {{192, 88, 99, 0}, 24},  {{192, 168, 0, 0}, 16},
    {{198, 18, 0, 0}, 15},  {{198, 51, 100, 0}, 24}, {{203, 0, 113, 0}, 24}, {{224, 0, 0, 0}, 3},
  };
  uint32_t all = (uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3];
  for (size_t i = 0; i < IJ_COUNT_OF(closed); i++) {
    const unsigned char *n = closed[i].net;
    uint32_t net = (uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3];
    if ((all ^ net) >> (32 - closed[i].bits) == 0) return false;
  }
  return true;
}

/* Global unicast is 2000::/3; of it, addresses that stand for IPv4 ones (6to4, Teredo) and for documentation are none. */
static bool v6_is_public(const unsigned char a[16]) {
  static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (memcmp(a, mapped, sizeof mapped) == 0) return v4_is_public(a + 12);
  if (a[0] >> 5 != 1) return false;
  if (a[0] == 0x20 && a[1] == 0x02) return false;
  if (a[0] == 0x20 && a[1] == 0x01 && (a[2] < 2 || (a[2] == 0x0d && a[3] == 0xb8))) return false;
  return true;
}

bool ij__remote_is_public(const struct sockaddr *address) {
  unsigned char a[16];
  if (address->sa_family == AF_INET) {
    memcpy(a, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    return v4_is_public(a);
  }
  if (address->sa_family != AF_INET6) return false;
  memcpy(a, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
  return v6_is_public(a);
}

#ifdef IJ_HAS_CURL

typedef struct fetching {
  char *bytes; /* malloc'd: it is given away */
  size_t n, cap;
  bool too_many, no_memory, closed_address, gone;
  double seconds;
  const ij_remote *remote;
} fetching;

static size_t on_bytes(char *data, size_t size, size_t count, void *user) {
  fetching *f = user;
  size_t n = size * count;
  f->too_many = n > f->remote->max_bytes - f->n;
  if (f->too_many) return 0;
  if (f->n + n > f->cap) {
    size_t cap = IJ_MIN(IJ_MAX(2 * f->cap, f->n + n), f->remote->max_bytes);
    char *bigger = realloc(f->bytes, cap);
    f->no_memory = !bigger;
    if (!bigger) return 0;
    f->bytes = bigger;
    f->cap = cap;
  }
  memcpy(f->bytes + f->n, data, n);
  f->n += n;
  return n;
}

static curl_socket_t on_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address) {
  fetching *f = user;
  (void)purpose;
  if (!f->remote->may_ask(&address->addr)) {
    f->closed_address = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype, address->protocol);
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now) {
  fetching *f = user;
  (void)total, (void)now, (void)up_total, (void)up_now;
  f->gone = f->remote->alive && !f->remote->alive(f->remote->user);
  return f->gone;
}

static bool set_up(CURL *c, const char *url, fetching *f) {
  bool ok = curl_easy_setopt(c, CURLOPT_URL, url) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075500
  ok = ok && curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
#else
  ok = ok && curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) == CURLE_OK;
#endif
  ok = ok && curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK && curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L) == CURLE_OK;
  ok = ok && curl_easy_setopt(c, CURLOPT_PROXY, "") == CURLE_OK && curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK;
  ok = ok && curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK && curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)ceil(f->seconds * 1000)) == CURLE_OK;
  ok = ok && curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 5000L) == CURLE_OK;
  ok = ok && curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK && curl_easy_setopt(c, CURLOPT_WRITEDATA, f) == CURLE_OK;
  ok = ok && curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket) == CURLE_OK && curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, f) == CURLE_OK;
  ok = ok && curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK && curl_easy_setopt(c, CURLOPT_XFERINFODATA, f) == CURLE_OK;
  return ok && curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) == CURLE_OK && curl_easy_setopt(c, CURLOPT_USERAGENT, "inkjet") == CURLE_OK;
}

/* What went wrong, in words that are the client's business. */
static ij_status explain(CURLcode code, long status, const fetching *f, ij_err *err) {
  static const char where[] = "the URL";
  if (f->gone) return ij__fail(err, IJ_E_CANCELLED, where, "nobody waits for it any more");
  if (f->no_memory) return ij__fail_nomem(err, where, f->cap);
  if (f->too_many) return ij__fail(err, IJ_E_ARGUMENT, where, "it has more than %zu bytes, which is the limit here", f->remote->max_bytes);
  if (f->closed_address) return ij__fail(err, IJ_E_ARGUMENT, where, "its address is not one of the public internet, and no other is asked");
  if (code == CURLE_OK && status >= 300) return ij__fail(err, IJ_E_ARGUMENT, where, "the other side redirects (%ld), which is not followed", status);
  if (code == CURLE_HTTP_RETURNED_ERROR) return ij__fail(err, IJ_E_ARGUMENT, where, "the other side answers %ld", status);
  if (code == CURLE_OK) return ij__fail(err, IJ_E_ARGUMENT, where, "the other side sends nothing");
  return ij__fail(err, IJ_E_ARGUMENT, where, "it cannot be fetched: %s", curl_easy_strerror(code));
}

bool ij__remote_is_there(void) {
  static bool tried, there; /* asked once, before there are threads */
  if (!tried) there = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  tried = true;
  return there;
}

ij_status ij__remote_fetch(const char *url, const ij_remote *remote, void **bytes, size_t *n_bytes, ij_err *err) {
  fetching f = {.remote = remote, .seconds = remote->seconds};
  long status = 0;
  *bytes = NULL;
  *n_bytes = 0;
  if (remote->until > 0) f.seconds = IJ_MIN(f.seconds, remote->until - ij__os_seconds());
  if (f.seconds <= 0) return ij__fail(err, IJ_E_ARGUMENT, "the URL", "those before it took all the time that one request has for fetching");
  CURL *c = curl_easy_init();
  if (!c || !set_up(c, url, &f)) {
    curl_easy_cleanup(c);
    return ij__fail(err, IJ_E_ARGUMENT, "the URL", "it cannot be read as one");
  }
  CURLcode code = curl_easy_perform(c);
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(c);
  if (code == CURLE_OK && status < 300 && f.n > 0) {
    *bytes = f.bytes;
    *n_bytes = f.n;
    return IJ_OK;
  }
  free(f.bytes);
  return explain(code, status, &f, err);
}

#else

bool ij__remote_is_there(void) { return false; }

ij_status ij__remote_fetch(const char *url, const ij_remote *remote, void **bytes, size_t *n_bytes, ij_err *err) {
  (void)url, (void)remote;
  *bytes = NULL;
  *n_bytes = 0;
  return ij__fail(err, IJ_E_UNSUPPORTED, "the URL", "this program was built without libcurl, which fetching needs");
}

#endif
