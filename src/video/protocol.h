/* protocol.h: what inkjet-video writes to its standard output, and how it is told what to do. Shared by the decoder and by the library,
 * which have no other code in common.
 *
 * The decoder is started as `inkjet-video 1 FPS MAX_FRAMES MAX_PIXELS MAX_SECONDS SOUND CPU_SECONDS` with the video, a file that can seek,
 * as descriptor 0. FPS and MAX_SECONDS are the 16 hexadecimal digits of a binary64, which no locale can spell differently; SOUND is 0
 * or 1. It answers with 8 bytes, IJ_VIDEO_MAGIC, and then messages: a type (u32), the number of bytes that follow (u64), these bytes. All
 * numbers are little-endian; f64 and f32 are IEEE 754.
 *
 *     HEAD   u32 width, height (as shown, after rotation); f64 frames per second; u64 frames in all; u32 frames that will follow;
 *            u32 has sound; u32 x, y of the shape of a pixel; 48 bytes container, 48 bytes codec (ASCII, NUL-padded)
 *     FRAM   u64 index of the frame; f64 its time in seconds; [height][width][3] bytes red, green, blue
 *     SOUN   u32 rate; u32 channels (the same in every message); f32 [any number][channels]
 *     DONE   u64 frames sent; u64 sound samples sent, per channel
 *     FAIL   u32 the ij_status, negated; a text
 *
 * One HEAD, the FRAM in order, the SOUN, then DONE. Another HEAD before the first SOUN, at most IJ_VIDEO_MAX_HEADS in all, says that a way
 * of reading did not work out or that the file holds another number of frames: what was sent before is void. FAIL may come at any place and
 * ends everything.
 */
#ifndef IJ_VIDEO_PROTOCOL_H
#define IJ_VIDEO_PROTOCOL_H

#include <stdint.h>
#include <string.h>

#define IJ_VIDEO_MAGIC "INKJETV1"
#define IJ_VIDEO_VERSION "1"
#define IJ_VIDEO_TYPE(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

enum {
  IJ_VIDEO_MESSAGE_BYTES = 12,
  IJ_VIDEO_NAME_BYTES = 48,
  IJ_VIDEO_HEAD_BYTES = 40 + 2 * IJ_VIDEO_NAME_BYTES,
  IJ_VIDEO_FRAME_BYTES = 16,   /* before the pixels */
  IJ_VIDEO_SOUND_BYTES = 8,    /* before the samples */
  IJ_VIDEO_DONE_BYTES = 16,
  IJ_VIDEO_MAX_FAIL = 3000,    /* bytes of a FAIL */
  IJ_VIDEO_MAX_HEADS = 3,
  IJ_VIDEO_MAX_SOUND = 1 << 20, /* bytes of the samples of one SOUN */
  IJ_VIDEO_MAX_CHANNELS = 64,
  IJ_VIDEO_MAX_RATE = 768000
};

#define IJ_VIDEO_HEAD IJ_VIDEO_TYPE('H', 'E', 'A', 'D')
#define IJ_VIDEO_FRAM IJ_VIDEO_TYPE('F', 'R', 'A', 'M')
#define IJ_VIDEO_SOUN IJ_VIDEO_TYPE('S', 'O', 'U', 'N')
#define IJ_VIDEO_DONE IJ_VIDEO_TYPE('D', 'O', 'N', 'E')
#define IJ_VIDEO_FAIL IJ_VIDEO_TYPE('F', 'A', 'I', 'L')

static inline void ij__video_put32(uint8_t *to, uint32_t v) {
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * i);
}

static inline void ij__video_put64(uint8_t *to, uint64_t v) {
  for (int i = 0; i < 8; i++) to[i] = (uint8_t)(v >> 8 * i);
}

static inline void ij__video_put_real(uint8_t *to, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  ij__video_put64(to, bits);
}

static inline uint32_t ij__video_get32(const uint8_t *from) {
  return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t ij__video_get64(const uint8_t *from) {
  return (uint64_t)ij__video_get32(from) | (uint64_t)ij__video_get32(from + 4) << 32;
}

static inline double ij__video_get_real(const uint8_t *from) {
  uint64_t bits = ij__video_get64(from);
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

#endif
