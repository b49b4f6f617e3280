/* remote.h: reads a picture, sound or video from another machine, for a server that was told to do so (--allow-remote-media).
 *
 * What a stranger may make the server ask for is small: http and https, the names' public addresses only, no redirects, no proxies or
 * credentials of this machine, and bounds on bytes and time.
 */
#ifndef IJ_SERVER_REMOTE_H
#define IJ_SERVER_REMOTE_H

#include "core/base.h"
#include "core/status.h"

struct sockaddr;

/* Whether this build can fetch at all. */
bool ij__remote_is_there(void);
typedef struct ij_remote {
  size_t max_bytes;
  double seconds;              /* for this one */
  double until;                /* ij__os_seconds at which there is no more time for any of a request; 0: no such limit */
  bool (*may_ask)(const struct sockaddr *address); /* ij__remote_is_public, but for tests */
  bool (*alive)(void *user);   /* asked about once a second; may be NULL */
  void *user;
} ij_remote;
/* *bytes is malloc'd. IJ_E_ARGUMENT: what the URL or the other side has wrong; IJ_E_CANCELLED; IJ_E_UNSUPPORTED: no libcurl. */
ij_status ij__remote_fetch(const char *url, const ij_remote *remote, void **bytes, size_t *n_bytes, ij_err *err);
/* Whether an address is one of the public internet: not this machine, not a private, link-local or multicast network. */
bool ij__remote_is_public(const struct sockaddr *address);

#endif
