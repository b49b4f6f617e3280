/* messages.h: what a video decoder would say, put together by hand for the tests. */
#ifndef IJ_TEST_MESSAGES_H
#define IJ_TEST_MESSAGES_H

#include <string.h>

#include "core/str.h"
#include "video/protocol.h"
#include "video/sampling.h"

typedef struct message_head {
  uint32_t width, height;
  double fps;
  uint64_t total;
  uint32_t n_frames, has_sound, across, down;
  const char *container, *codec;
} message_head;

static inline message_head usual_head(uint32_t width, uint32_t height, uint64_t total, uint32_t n_frames) {
  return (message_head){width, height, 10, total, n_frames, 0, 1, 1, "AVI", "ffv1"};
}

static inline void put_message(ij_buf *b, uint32_t type, const void *bytes, size_t n) {
  uint8_t head[IJ_VIDEO_MESSAGE_BYTES];
  ij__video_put32(head, type);
  ij__video_put64(head + 4, n);
  ij__buf_append(b, head, sizeof head);
  ij__buf_append(b, bytes, n);
}

static inline void put_head(ij_buf *b, const message_head *h) {
  uint8_t bytes[IJ_VIDEO_HEAD_BYTES] = {0};
  ij__video_put32(bytes, h->width);
  ij__video_put32(bytes + 4, h->height);
  ij__video_put_real(bytes + 8, h->fps);
  ij__video_put64(bytes + 16, h->total);
  ij__video_put32(bytes + 24, h->n_frames);
  ij__video_put32(bytes + 28, h->has_sound);
  ij__video_put32(bytes + 32, h->across);
  ij__video_put32(bytes + 36, h->down);
  memcpy(bytes + 40, h->container, strlen(h->container));
  memcpy(bytes + 40 + IJ_VIDEO_NAME_BYTES, h->codec, strlen(h->codec));
  put_message(b, IJ_VIDEO_HEAD, bytes, sizeof bytes);
}

/* A frame whose bytes count up from `seed`. */
static inline void put_frame(ij_buf *b, uint64_t index, double seconds, size_t n_pixels, unsigned seed) {
  ij_buf whole = {0};
  uint8_t head[IJ_VIDEO_FRAME_BYTES];
  ij__video_put64(head, index);
  ij__video_put_real(head + 8, seconds);
  ij__buf_append(&whole, head, sizeof head);
  for (size_t i = 0; i < 3 * n_pixels; i++) ij__buf_append(&whole, &(uint8_t){(uint8_t)(seed + i)}, 1);
  put_message(b, IJ_VIDEO_FRAM, whole.data, whole.len);
  ij__buf_free(&whole);
}

/* n samples in each of `channels`, small and not silent. */
static inline void put_sound(ij_buf *b, uint32_t rate, uint32_t channels, size_t n) {
  ij_buf whole = {0};
  uint8_t head[IJ_VIDEO_SOUND_BYTES];
  ij__video_put32(head, rate);
  ij__video_put32(head + 4, channels);
  ij__buf_append(&whole, head, sizeof head);
  for (size_t i = 0; i < n * channels; i++) {
    float x = (float)((int)(i * 7 % 200) - 100) / 256.0f;
    uint32_t bits;
    uint8_t bytes[4];
    memcpy(&bits, &x, sizeof bits);
    ij__video_put32(bytes, bits);
    ij__buf_append(&whole, bytes, sizeof bytes);
  }
  put_message(b, IJ_VIDEO_SOUN, whole.data, whole.len);
  ij__buf_free(&whole);
}

static inline void put_done(ij_buf *b, uint64_t n_frames, uint64_t n_samples) {
  uint8_t bytes[IJ_VIDEO_DONE_BYTES];
  ij__video_put64(bytes, n_frames);
  ij__video_put64(bytes + 8, n_samples);
  put_message(b, IJ_VIDEO_DONE, bytes, sizeof bytes);
}

static inline void put_fail(ij_buf *b, uint32_t code, const char *text) {
  ij_buf whole = {0};
  uint8_t bytes[4];
  ij__video_put32(bytes, code);
  ij__buf_append(&whole, bytes, sizeof bytes);
  ij__buf_puts(&whole, text);
  put_message(b, IJ_VIDEO_FAIL, whole.data, whole.len);
  ij__buf_free(&whole);
}

/* Three of three frames of 6 x 5 pixels, with the magic before and DONE after. */
static inline void put_three_frames(ij_buf *b) {
  message_head head = usual_head(6, 5, 3, 3);
  ij__buf_puts(b, IJ_VIDEO_MAGIC);
  put_head(b, &head);
  for (unsigned i = 0; i < 3; i++) put_frame(b, i, 0.1 * i, 30, 50 * i);
  put_done(b, 3, 0);
}

#endif
