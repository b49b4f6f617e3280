/* page.c: GET /, the web page. One file that asks nothing of anyone but this server; its source is web/.
 *
 * It needs no API key, since it holds nothing but itself; what it asks for does. Browsers keep it, but ask each time whether it is still
 * the same, so that a newer program shows its own page at once.
 */
#include "server/page.h"

#include <string.h>

#include "server/server.h"

/* Whether one of the tags of If-None-Match is ours. A weak mark before it does not matter here (RFC 9110, 13.1.2). */
static bool known_to_client(const char *header) {
  if (!header) return false;
  while (*header == ' ' || *header == '\t') header++;
  if (strcmp(header, "*") == 0) return true;
  const size_t n = strlen(ij__page_tag);
  for (const char *at = strstr(header, ij__page_tag); at; at = strstr(at + n, ij__page_tag)) {
    const char after = at[n];
    if (after == '\0' || after == ',' || after == ' ' || after == '\t') return true;
  }
  return false;
}

static void get_page(void *context, http_exchange *x) {
  (void)context;
  http_reply_header(x, "ETag", ij__page_tag);
  http_reply_header(x, "Cache-Control", "no-cache");
  http_reply_header(x, "Content-Security-Policy", ij__page_policy);
  http_reply_header(x, "Referrer-Policy", "no-referrer");
  http_reply_header(x, "Cross-Origin-Opener-Policy", "same-origin");
  http_reply_header(x, "Cross-Origin-Resource-Policy", "same-origin");
  http_reply_header(x, "Permissions-Policy", "camera=(), geolocation=(), microphone=()");
  if (known_to_client(http_header(x, "If-None-Match"))) {
    http_reply(x, 304, "", "", 0);
    return;
  }
  http_reply(x, 200, "text/html; charset=utf-8", ij__page, ij__page_n);
}

const http_route ij__routes_page[] = {{HTTP_GET, "/", true, get_page}, {HTTP_OTHER, NULL, false, NULL}};
