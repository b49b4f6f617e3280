/* test_remote.c: fetching from another machine: which addresses may be asked, and what becomes of what comes back, from a server in this
 * program that answers by the path. Without libcurl only the addresses are looked at.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/os.h"
#include "server/remote.h"
#include "test.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* not everywhere; what it keeps away does not happen when all goes well */
#endif

/* ------------------------------------------------------------------------------------------------------------ addresses */

static bool is_public(const char *text) {
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) return ij__remote_is_public((const struct sockaddr *)(const void *)&v4);
  if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1) TEST_FAIL("%s is no address", text);
  return ij__remote_is_public((const struct sockaddr *)(const void *)&v6);
}

static void only_public_addresses_are_asked(void) {
  static const char *const open[] = {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.1.2.3", "128.0.0.1", "169.253.1.1", "172.15.255.255", "172.32.0.0",
                                     "192.167.1.1", "192.169.0.0", "198.17.0.1", "198.20.0.0", "223.255.255.254", "2606:4700::1111", "2a00::1", "2001:4860::8888", "::ffff:1.1.1.1"};
  static const char *const closed[] = {"0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "169.254.169.254", "172.16.0.1",
                                       "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.255.1", "198.18.0.1", "198.19.255.255", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255",
                                       "::", "::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::a00:1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1",
                                       "2002:a00:1::", "2001::1", "2001:db8::1", "100::1"};
  for (size_t i = 0; i < IJ_COUNT_OF(open); i++) {
    if (!is_public(open[i])) TEST_FAIL("%s counts as closed", open[i]);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(closed); i++) {
    if (is_public(closed[i])) TEST_FAIL("%s counts as public", closed[i]);
  }
  struct sockaddr other = {.sa_family = AF_UNIX};
  CHECK(!ij__remote_is_public(&other));
}


#ifdef IJ_HAS_CURL

/* -------------------------------------------------------------------------------------------------------------- fetching */

enum { LIMIT = 1000 };

static int listening, port;
static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz";

static void say(int fd, const char *text) {
  if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) TEST_FAIL("the client left before it heard %s", text);
}

static void answer(int fd, const char *request) {
  char head[200];
  if (strncmp(request, "GET /size/", 10) == 0) { /* that many bytes, said before or not */
    int n = atoi(request + 10), said = strstr(request, "/chunks") == NULL;
    snprintf(head, sizeof head, said ? "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" : "HTTP/1.0 200 OK\r\n\r\n", n);
    say(fd, head);
    for (int i = 0; i < n; i++) {
      if (send(fd, &alphabet[i % 26], 1, MSG_NOSIGNAL) < 0) break;
    }
  } else if (strncmp(request, "GET /redirect", 13) == 0) {
    snprintf(head, sizeof head, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/size/10\r\nContent-Length: 3\r\nConnection: close\r\n\r\nxyz", port);
    say(fd, head);
  } else if (strncmp(request, "GET /cut", 8) == 0) {
    say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
  } else if (strncmp(request, "GET /slow", 9) == 0) {
    say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    char rest;
    while (recv(fd, &rest, 1, 0) > 0) {} /* until the other side has had enough */
  } else {
    say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
  }
}

static void *serve(void *user) {
  (void)user;
  for (;;) {
    char request[4096];
    int fd = accept(listening, NULL, NULL);
    if (fd < 0) return NULL;
    ssize_t n = recv(fd, request, sizeof request - 1, 0);
    request[n > 0 ? n : 0] = 0;
    if (strncmp(request, "GET /end", 8) == 0) {
      close(fd);
      return NULL;
    }
    answer(fd, request);
    close(fd);
  }
}

static bool anybody(const struct sockaddr *address) { return address->sa_family == AF_INET; }
static bool left(void *user) {
  ++*(int *)user;
  return false;
}

static ij_status fetch(const char *path, const ij_remote *remote, void **bytes, size_t *n, ij_err *err) {
  char url[100];
  snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, path);
  return ij__remote_fetch(url, remote, bytes, n, err);
}

static void refuse(const char *path, const ij_remote *remote, ij_status status, const char *words) {
  void *bytes = &port;
  size_t n = 1;
  ij_err err = {0};
  CHECK_INT(fetch(path, remote, &bytes, &n, &err), status);
  CHECK(bytes == NULL && n == 0);
  CHECK_HAS(err.message, words);
}

static void what_comes_back(void) {
  ij_remote remote = {.max_bytes = LIMIT, .seconds = 30, .may_ask = anybody};
  static const char *const good[] = {"/size/1", "/size/700", "/size/1000", "/size/1000/chunks"};
  for (int i = 0; i < 4; i++) {
    void *bytes = NULL;
    size_t n = 0;
    ij_err err = {0};
    CHECK_OK(fetch(good[i], &remote, &bytes, &n, &err), err);
    CHECK_INT(n, atoi(good[i] + 6));
    for (size_t k = 0; bytes && k < n; k++) CHECK(((const char *)bytes)[k] == alphabet[k % 26]);
    free(bytes);
  }
  refuse("/size/1001", &remote, IJ_E_ARGUMENT, "more than 1000 bytes");
  refuse("/size/1001/chunks", &remote, IJ_E_ARGUMENT, "more than 1000 bytes");
  refuse("/size/0", &remote, IJ_E_ARGUMENT, "sends nothing");
  refuse("/redirect", &remote, IJ_E_ARGUMENT, "redirects (302)");
  refuse("/missing", &remote, IJ_E_ARGUMENT, "answers 404");
  refuse("/cut", &remote, IJ_E_ARGUMENT, "cannot be fetched");
}

static void who_waits_has_limits(void) {
  int asked = 0;
  ij_remote remote = {.max_bytes = LIMIT, .seconds = 0.3, .may_ask = anybody};
  refuse("/slow", &remote, IJ_E_ARGUMENT, "cannot be fetched");
  remote = (ij_remote){.max_bytes = LIMIT, .seconds = 30, .until = ij__os_seconds() + 0.3, .may_ask = anybody};
  double begin = ij__os_seconds();
  refuse("/slow", &remote, IJ_E_ARGUMENT, "cannot be fetched");
  CHECK(ij__os_seconds() - begin < 15);
  while (ij__os_seconds() <= remote.until) {}
  refuse("/size/10", &remote, IJ_E_ARGUMENT, "took all the time");
  remote = (ij_remote){.max_bytes = LIMIT, .seconds = 30, .may_ask = anybody, .alive = left, .user = &asked};
  refuse("/slow", &remote, IJ_E_CANCELLED, "nobody waits");
  CHECK(asked > 0);
}

static void this_machine_is_not_asked(void) {
  ij_remote remote = {.max_bytes = LIMIT, .seconds = 30, .may_ask = ij__remote_is_public};
  refuse("/size/10", &remote, IJ_E_ARGUMENT, "public internet");
  ij_err err = {0};
  void *bytes;
  size_t n;
  static const char *const others[] = {"ftp://127.0.0.1/", "file:///etc/hostname", "gopher://127.0.0.1/", "http:///", "", "dict://127.0.0.1/d:x"};
  for (int i = 0; i < 6; i++) CHECK_INT(ij__remote_fetch(others[i], &remote, &bytes, &n, &err), IJ_E_ARGUMENT);
}

static void with_a_server(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  pthread_t thread;
  listening = socket(AF_INET, SOCK_STREAM, 0);
  bool ok = listening >= 0 && bind(listening, (const struct sockaddr *)(const void *)&at, sizeof at) == 0 && listen(listening, 4) == 0;
  ok = ok && getsockname(listening, (struct sockaddr *)(void *)&at, &size) == 0 && pthread_create(&thread, NULL, serve, NULL) == 0;
  CHECK(ok);
  if (!ok) return;
  port = ntohs(at.sin_port);
  what_comes_back();
  who_waits_has_limits();
  this_machine_is_not_asked();
  ij_remote remote = {.max_bytes = LIMIT, .seconds = 30, .may_ask = anybody};
  refuse("/end", &remote, IJ_E_ARGUMENT, "");
  pthread_join(thread, NULL);
  close(listening);
}

#endif

int main(void) {
  RUN(only_public_addresses_are_asked);
#ifdef IJ_HAS_CURL
  CHECK(ij__remote_is_there());
  RUN(with_a_server);
#else
  CHECK(!ij__remote_is_there());
#endif
  return test_report();
}
