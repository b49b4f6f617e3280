/* video_sound.c: see video_sound.h. Samples become floats by one exact scaling (an integer of b bits over 2^(b-1)), as a reader of WAV
 * files does it; rate and channels stay what they are, since the library resamples all sounds in one way. */
#include "video/video_sound.h"

#include <libavutil/frame.h>
#include <libavutil/samplefmt.h>
#include <stdbool.h>

#include "video/protocol.h"
#include "video/video_out.h"

enum { CHUNK_FLOATS = 16384 };

static float sample_at(const uint8_t *from, enum AVSampleFormat format, size_t i) {
  switch (format) {
    case AV_SAMPLE_FMT_U8: return (float)(from[i] - 128) / 128.0f;
    case AV_SAMPLE_FMT_S16: return (float)((const int16_t *)(const void *)from)[i] / 32768.0f;
    case AV_SAMPLE_FMT_S32: return (float)((const int32_t *)(const void *)from)[i] / 2147483648.0f;
    case AV_SAMPLE_FMT_S64: return (float)((const int64_t *)(const void *)from)[i] / 9223372036854775808.0f;
    case AV_SAMPLE_FMT_FLT: return ((const float *)(const void *)from)[i];
    case AV_SAMPLE_FMT_DBL: return (float)((const double *)(const void *)from)[i];
    default: ij__out_fail(IJ_E_UNSUPPORTED, "sound samples of a kind that is not known here");
  }
}

static void send_chunk(const AVFrame *frame, int first, int n, int channels) {
  static uint8_t bytes[CHUNK_FLOATS * 4];
  const enum AVSampleFormat packed = av_get_packed_sample_fmt(frame->format);
  const bool planar = av_sample_fmt_is_planar(frame->format);
  uint8_t head[IJ_VIDEO_SOUND_BYTES], *to = bytes;
  for (int i = first; i < first + n; i++)
    for (int c = 0; c < channels; c++, to += 4) {
      float x = planar ? sample_at(frame->extended_data[c], packed, (size_t)i)
                       : sample_at(frame->extended_data[0], packed, (size_t)i * (size_t)channels + (size_t)c);
      uint32_t bits;
      memcpy(&bits, &x, sizeof bits);
      ij__video_put32(to, bits);
    }
  ij__video_put32(head, (uint32_t)frame->sample_rate);
  ij__video_put32(head + 4, (uint32_t)channels);
  ij__out_message(IJ_VIDEO_SOUN, sizeof head + (uint64_t)(to - bytes));
  ij__out_bytes(head, sizeof head);
  ij__out_bytes(bytes, (size_t)(to - bytes));
}

int64_t ij__video_sound_send(const AVFrame *frame, int *rate, int *channels) {
  const int n_channels = frame->ch_layout.nb_channels;
  if (*rate == 0) *rate = frame->sample_rate, *channels = n_channels;
  if (n_channels < 1 || n_channels > IJ_VIDEO_MAX_CHANNELS || frame->sample_rate < 1 || frame->sample_rate > IJ_VIDEO_MAX_RATE)
    ij__out_fail(IJ_E_UNSUPPORTED, "the sound has %d channels at %d samples per second", n_channels, frame->sample_rate);
  if (*rate != frame->sample_rate || *channels != n_channels)
    ij__out_fail(IJ_E_UNSUPPORTED, "the sound changes within the file, from %d channels at %d per second to %d at %d: expected one kind",
                 *channels, *rate, n_channels, frame->sample_rate);
  const int step = CHUNK_FLOATS / n_channels;
  for (int first = 0; first < frame->nb_samples; first += step)
    send_chunk(frame, first, frame->nb_samples - first < step ? frame->nb_samples - first : step, n_channels);
  return frame->nb_samples;
}
