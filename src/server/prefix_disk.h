/* prefix_disk.h: the part of the prefix cache that lies in a folder: one file per state that was pushed out of memory.
 *
 * A file is a head (what it is of, its ids, and where media stand among them) and the payload of ij_session_save, each with a checksum. It
 * appears under its name when it is complete. A file that cannot be used is a miss and a line in the log, never an error: the prompt is evaluated instead.
 */
#ifndef IJ_SERVER_PREFIX_DISK_H
#define IJ_SERVER_PREFIX_DISK_H

#include "server/prefix.h"

typedef struct ij_prefix_disk ij_prefix_disk;

/* Makes the folder if need be, and lists what is there. IJ_E_IO when it cannot be used; IJ_E_NOMEM. */
ij_status ij__prefix_disk_open(ij_prefix_disk **out, const ij_prefix_options *options, ij_err *err);
void ij__prefix_disk_close(ij_prefix_disk **disk);
void ij__prefix_disk_save(ij_prefix_disk *disk, const ij_session *session);
/* The session of the file that saves clearly more of the query than n_have ids, at the position that is returned; *out NULL: there is none. */
int64_t ij__prefix_disk_load(ij_prefix_disk *disk, const ij_prefix_query *query, int64_t n_have, ij_session **out);
void ij__prefix_disk_stats(const ij_prefix_disk *disk, size_t *n_bytes, int *n_files);

#endif
