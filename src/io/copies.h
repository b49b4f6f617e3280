/* copies.h: parts of a checkpoint read into memory of our own, so that they are there for good and the page cache keeps nothing of them.
 *
 *     ij__copies_open(&copies, ckpt, &err);
 *     ij__copies_add(copies, tensor, n_bytes, &err);                         // as many as there are, in any order; they may overlap
 *     ij__copies_read(copies, reader, progress, user, &err);
 *     const void *now = ij__copies_find(copies, tensor);                     // the same bytes, valid until ij__copies_close
 *
 * All lie in one reservation of pages, in the order of the files, each at its alignment in the file. It is locked into memory when the limits allow it.
 */
#ifndef IJ_IO_COPIES_H
#define IJ_IO_COPIES_H

#include "io/ckpt.h"
#include "io/reader.h"

typedef struct ij_copies ij_copies;

ij_status ij__copies_open(ij_copies **out, const ij_ckpt *ckpt, ij_err *err);
void ij__copies_close(ij_copies **copies);

/* Bytes of the mapping that are to be copied; data NULL: nothing. Bytes of files in memory stay where they are. */
ij_status ij__copies_add(ij_copies *copies, const void *data, size_t n_bytes, ij_err *err);

/* Memory that what was added takes. */
size_t ij__copies_bytes(ij_copies *copies);

/* Reads everything. progress may be NULL; false cancels (IJ_E_CANCELLED). Nothing may be added afterwards. */
ij_status ij__copies_read(ij_copies *copies, ij_reader *reader, bool (*progress)(void *user, double fraction), void *user, ij_err *err);

/* Where an added byte of the mapping is now; one that was not copied is where it was. */
const void *ij__copies_find(const ij_copies *copies, const void *data);

bool ij__copies_locked(const ij_copies *copies);

#endif
