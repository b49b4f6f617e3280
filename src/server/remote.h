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
/* *bytes is malloc'd. alive is asked several times a second. IJ_E_ARGUMENT: what the URL or the other side has wrong; IJ_E_CANCELLED. */
ij_status ij__remote_fetch(const char *url, size_t max_bytes, double seconds, bool (*alive)(void *user), void *user, void **bytes, size_t *n_bytes,
                           ij_err *err);
/* Whether an address is one of the public internet: not this machine, not a private, link-local or multicast network. */
bool ij__remote_is_public(const struct sockaddr *address);

#endif
