/* sandbox.h: what the decoder gives up before it looks at the first byte of a file. */
#ifndef IJ_VIDEO_SANDBOX_H
#define IJ_VIDEO_SANDBOX_H

#include <stdint.h>

/* Limits of the process (memory, processor time, no files, no processes) and, on Linux, a filter of system calls that leaves reading
 * descriptor 0, writing descriptor 1, and memory. NULL, or what went wrong, with errno: nothing may be read then. */
const char *ij__sandbox_enter(unsigned cpu_seconds);

#endif
