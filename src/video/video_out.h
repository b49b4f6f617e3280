/* video_out.h: writing the messages of protocol.h to descriptor 1. */
#ifndef IJ_VIDEO_VIDEO_OUT_H
#define IJ_VIDEO_VIDEO_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "inkjet_status.h"

void ij__out_bytes(const void *bytes, size_t n);
void ij__out_message(uint32_t type, uint64_t n_bytes); /* the bytes follow by ij__out_bytes */

/* The one way to give up: the message, and the process ends. */
_Noreturn void ij__out_fail(ij_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
