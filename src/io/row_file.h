/* row_file.h: a matrix of which single rows are needed here and there, read from its file row by row: an embedding table, when memory and the page cache
 * are for other things. Nothing of it is mapped, so that a file that shrinks or a drive that fails is an error and not a signal.
 *
 * Rows may be read from several threads at once. Nothing is allocated after open.
 */
#ifndef IJ_IO_ROW_FILE_H
#define IJ_IO_ROW_FILE_H

#include "core/dtype.h"
#include "io/ckpt.h"

typedef struct ij_row_file ij_row_file;

/* `w` lies in the mapping of `ckpt`. Of files in memory *out is NULL: their rows are where they are. */
ij_status ij__row_file_open(ij_row_file **out, const ij_ckpt *ckpt, const ij_weight *w, ij_err *err);
void ij__row_file_close(ij_row_file **f);

size_t ij__row_file_room(const ij_row_file *f); /* bytes that one row takes, with its side arrays */

/* Reads a row into room (aligned to 64) and makes *out a matrix of that row alone. False: it cannot be read, or the file has been written to since it
 * was opened; ij__row_file_explain says why. */
bool ij__row_file_read(ij_row_file *f, int64_t row, char *room, ij_weight *out);

/* Why the last row that failed did. IJ_E_IO. */
ij_status ij__row_file_explain(const ij_row_file *f, ij_err *err);

#endif
