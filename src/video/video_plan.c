/* video_plan.c: see video_plan.h. A frame is found again by its time, not by counting, so nothing but its own group has to be decoded; when
 * it is shown before the key frame of its group it also refers to the group before. A plan that does not work out (a frame is not where it
 * was expected) costs a second decoding, never a wrong frame. */
#include "video/video_plan.h"

#include <stdlib.h>

#include "video/sampling.h"
#include "video/video_out.h"

void ij__video_plan_add(ij__video_plan *plan, const AVPacket *packet) {
  if (plan->n == plan->room) {
    plan->room = plan->room ? 2 * plan->room : 1024;
    plan->times = av_realloc_array(plan->times, (size_t)plan->room, sizeof *plan->times);
    plan->flags = av_realloc_array(plan->flags, (size_t)plan->room, sizeof *plan->flags);
    if (!plan->times || !plan->flags) ij__out_fail(IJ_E_NOMEM, "no memory for the times of %lld packets", (long long)plan->room);
  }
  const int key = packet->flags & AV_PKT_FLAG_KEY ? IJ_PACKET_KEY : 0, hidden = packet->flags & AV_PKT_FLAG_DISCARD ? IJ_PACKET_HIDDEN : 0;
  plan->times[plan->n] = packet->pts;
  plan->flags[plan->n++] = (uint8_t)(key | hidden);
}

/* Codecs whose packets are one shown frame each, with key frames from which decoding can begin. */
static bool packets_are_frames(enum AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_MJPEG:
    case AV_CODEC_ID_PRORES:
    case AV_CODEC_ID_FFV1: return true;
    default: return false;
  }
}

static int by_time(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The times of all shown frames in order; false when one has none or two have the same. */
static bool sort_times(ij__video_plan *plan, int64_t total) {
  int64_t n = 0;
  plan->order = av_malloc_array((size_t)total, sizeof *plan->order);
  if (!plan->order) ij__out_fail(IJ_E_NOMEM, "no memory for the times of %lld frames", (long long)total);
  for (int64_t i = 0; i < plan->n; i++) {
    if (plan->flags[i] & IJ_PACKET_HIDDEN) continue;
    if (plan->times[i] == AV_NOPTS_VALUE || n == total) return false;
    plan->order[n++] = plan->times[i];
  }
  if (n != total) return false;
  qsort(plan->order, (size_t)n, sizeof *plan->order, by_time);
  for (int64_t i = 1; i < n; i++)
    if (plan->order[i] == plan->order[i - 1]) return false;
  return true;
}

/* Marks a group, from its key frame up to the next one, and returns how many packets were not marked before. */
static int64_t mark_group(ij__video_plan *plan, int64_t key) {
  int64_t n = 0;
  for (int64_t i = key; i < plan->n && (i == key || !(plan->flags[i] & IJ_PACKET_KEY)); i++) {
    n += !(plan->flags[i] & IJ_PACKET_NEEDED);
    plan->flags[i] |= IJ_PACKET_NEEDED;
  }
  return n;
}

static bool is_sampled(const ij__video_plan *plan, int64_t time, int64_t total, int64_t n) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (plan->order[ij__video_sample(total, n, middle)] < time) low = middle + 1;
    else high = middle;
  }
  return low < n && plan->order[ij__video_sample(total, n, low)] == time;
}

bool ij__video_plan_make(ij__video_plan *plan, enum AVCodecID codec, int64_t total, int64_t n) {
  int64_t needed = 0, key = 0, before = 0;
  if (!packets_are_frames(codec) || plan->n == 0 || !(plan->flags[0] & IJ_PACKET_KEY) || !sort_times(plan, total)) return false;
  for (int64_t i = 0; i < plan->n; i++) {
    if (plan->flags[i] & IJ_PACKET_KEY) before = key, key = i;
    if (plan->flags[i] & IJ_PACKET_HIDDEN || !is_sampled(plan, plan->times[i], total, n)) continue;
    needed += mark_group(plan, key);
    if (plan->times[i] < plan->times[key]) needed += mark_group(plan, before);
  }
  return needed < plan->n - plan->n / 4;
}

void ij__video_plan_close(ij__video_plan *plan) {
  av_freep(&plan->times);
  av_freep(&plan->flags);
  av_freep(&plan->order);
  *plan = (ij__video_plan){0};
}
