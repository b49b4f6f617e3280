/* video_out.c: see video_out.h. A reader that has gone away ends the process: there is nobody to tell. */
#include "video/video_out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "video/protocol.h"

void ij__out_bytes(const void *bytes, size_t n) {
  for (const char *p = bytes; n;) {
    ssize_t written = write(STDOUT_FILENO, p, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(1);
    p += written;
    n -= (size_t)written;
  }
}

void ij__out_message(uint32_t type, uint64_t n_bytes) {
  uint8_t head[IJ_VIDEO_MESSAGE_BYTES];
  ij__video_put32(head, type);
  ij__video_put64(head + 4, n_bytes);
  ij__out_bytes(head, sizeof head);
}

void ij__out_fail(ij_status status, const char *fmt, ...) {
  char text[IJ_VIDEO_MAX_FAIL];
  uint8_t code[4];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text - sizeof code, fmt, args);
  va_end(args);
  ij__video_put32(code, (uint32_t)-status);
  ij__out_message(IJ_VIDEO_FAIL, sizeof code + strlen(text));
  ij__out_bytes(code, sizeof code);
  ij__out_bytes(text, strlen(text));
  _exit(1); /* no destructors of libraries behind the filter */
}
