/* inkjet_video.c: the program inkjet-video: a video file in, the messages of protocol.h out. It is a process of its own so that the
 * libraries that take files apart, which are large and often repaired, hold nothing but one file while they do so, and so that their
 * licence stays with them. It enters the sandbox before it reads, and it opens the file anew for each pass: seeking back is not exact in
 * all formats, and reading is cheap beside decoding.
 *
 * Passes: the packets are counted, since the claims of a container about its frames are often absent and sometimes wrong; the frames are
 * decoded, where possible only the groups of pictures in which a sampled one lies, and the sampled ones sent; the sound is decoded. Should
 * a sampled frame not come, everything is decoded; should the decoder give another number of frames than there were packets (some codecs
 * have packets that show nothing), the frames are sampled once more, from what it gives.
 */
#include <errno.h>
#include <fcntl.h>
#include <libavutil/cpu.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "video/protocol.h"
#include "video/sampling.h"
#include "video/sandbox.h"
#include "video/video_file.h"
#include "video/video_out.h"
#include "video/video_picture.h"
#include "video/video_plan.h"
#include "video/video_sound.h"

typedef struct request {
  double fps, max_seconds;
  int64_t max_frames, max_pixels;
  bool sound;
  unsigned cpu_seconds;
} request;

/* What the first pass finds out, and what follows for the second. */
typedef struct timeline {
  int64_t total, n_sampled;
  double average;
  ij__video_plan plan;
  bool planned;
} timeline;

/* ------------------------------------------------------------------------------------------------------ the command line */

static double parse_real(const char *text) {
  char *end;
  uint8_t bytes[8];
  errno = 0;
  ij__video_put64(bytes, strtoull(text, &end, 16));
  return errno || *end || end == text ? NAN : ij__video_get_real(bytes);
}

static int64_t parse_count(const char *text, int64_t most) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  return errno || *end || end == text || n < 0 || n > most ? -1 : n;
}

static bool parse_request(request *r, int argc, char **argv) {
  if (argc != 8 || strcmp(argv[1], IJ_VIDEO_VERSION) != 0) return false;
  int64_t sound = parse_count(argv[6], 1), cpu = parse_count(argv[7], 1 << 24);
  *r = (request){.fps = parse_real(argv[2]), .max_frames = parse_count(argv[3], IJ_VIDEO_MAX_SAMPLED),
                 .max_pixels = parse_count(argv[4], INT64_MAX), .max_seconds = parse_real(argv[5]), .sound = sound == 1,
                 .cpu_seconds = (unsigned)cpu};
  return r->fps > 0 && r->fps <= IJ_VIDEO_MAX_FPS && r->max_seconds > 0 && r->max_frames > 0 && r->max_pixels > 0 && sound >= 0 && cpu > 0;
}

/* ------------------------------------------------------------------------------------------------------------ the passes */

static void too_long(double seconds, const request *r) {
  ij__out_fail(IJ_E_RANGE, "the video is %.1f s long or longer, more than the limit of %.1f s", seconds, r->max_seconds);
}

/* The container's average where the times of the packets bear it out, else theirs. */
static double average_of(const AVStream *stream, int64_t total, int64_t first, int64_t last) {
  const double span = (double)(last - first) * av_q2d(stream->time_base);
  const AVRational claims[2] = {stream->avg_frame_rate, stream->r_frame_rate};
  for (int i = 0; i < 2; i++) {
    double claimed = claims[i].num > 0 && claims[i].den > 0 ? av_q2d(claims[i]) : 0;
    if (!(claimed > 0) || claimed > IJ_VIDEO_MAX_FPS) continue;
    double expected = (double)(total - 1) / claimed;
    if (span <= 0 || fabs(span - expected) <= 0.002 + 0.02 * expected) return claimed;
  }
  return span > 0 && total > 1 ? fmin((double)(total - 1) / span, IJ_VIDEO_MAX_FPS) : 1;
}

static void set_total(timeline *t, int64_t total, const request *r) {
  t->total = total;
  t->n_sampled = ij__video_n_sampled(total, t->average, r->fps, r->max_frames);
  if ((double)total / t->average > r->max_seconds) too_long((double)total / t->average, r);
}

static timeline count_frames(const request *r) {
  timeline t = {0};
  ij__video_file file;
  ij__video_file_open(&file, IJ_TRACK_PICTURE, r->max_pixels);
  int64_t total = 0, first = INT64_MAX, last = INT64_MIN;
  ij__video_file_watch_all(&file);
  while (ij__video_file_packet(&file)) {
    ij__video_plan_add(&t.plan, file.packet);
    if (file.packet->flags & AV_PKT_FLAG_DISCARD) continue;
    if (++total > IJ_VIDEO_MAX_TOTAL) ij__out_fail(IJ_E_RANGE, "the video has more than %lld frames", (long long)IJ_VIDEO_MAX_TOTAL);
    int64_t at = file.packet->pts != AV_NOPTS_VALUE ? file.packet->pts : file.packet->dts;
    if (at == AV_NOPTS_VALUE || at > INT64_MAX / 4 || at < INT64_MIN / 4) continue;
    if (at < first) first = at;
    if (at > last) last = at;
    const double seconds = (double)(last - first) * av_q2d(file.stream->time_base);
    if (seconds > r->max_seconds) too_long(seconds, r);
  }
  if (total == 0) ij__out_fail(IJ_E_FORMAT, "the video track of the %s file holds no frame", file.container);
  t.average = average_of(file.stream, total, last < first ? 0 : first, last < first ? 0 : last);
  /* The last packet often does not say how long it is shown. */
  const double claim = ij__video_file_claim(&file);
  if (claim > file.end + 0.1 + 0.02 * claim + 1.5 / t.average)
    ij__out_fail(IJ_E_FORMAT, "the %s file is cut short: it claims to be %.1f s long, and ends after %.1f s", file.container, claim,
                 file.end);
  set_total(&t, total, r);
  t.planned = ij__video_plan_make(&t.plan, file.stream->codecpar->codec_id, total, t.n_sampled);
  ij__video_file_close(&file);
  return t;
}

static void send_head(const ij__video_file *file, const ij__video_picture *picture, const timeline *t) {
  uint8_t head[IJ_VIDEO_HEAD_BYTES] = {0};
  AVRational shape = av_guess_sample_aspect_ratio(file->format, file->stream, file->frame);
  if (shape.num <= 0 || shape.den <= 0) shape = (AVRational){1, 1};
  if (picture->turn[0] == 0) shape = av_inv_q(shape);
  ij__video_put32(head, (uint32_t)picture->width);
  ij__video_put32(head + 4, (uint32_t)picture->height);
  ij__video_put_real(head + 8, t->average);
  ij__video_put64(head + 16, (uint64_t)t->total);
  ij__video_put32(head + 24, (uint32_t)t->n_sampled);
  ij__video_put32(head + 28, file->tracks[IJ_TRACK_SOUND] != NULL);
  ij__video_put32(head + 32, (uint32_t)shape.num);
  ij__video_put32(head + 36, (uint32_t)shape.den);
  snprintf((char *)head + 40, IJ_VIDEO_NAME_BYTES, "%s", file->container);
  snprintf((char *)head + 40 + IJ_VIDEO_NAME_BYTES, IJ_VIDEO_NAME_BYTES, "%s", avcodec_get_name(file->decoder->codec_id));
  ij__out_message(IJ_VIDEO_HEAD, sizeof head);
  ij__out_bytes(head, sizeof head);
}

static void send_frame(const ij__video_picture *picture, int64_t index, double seconds) {
  uint8_t head[IJ_VIDEO_FRAME_BYTES];
  size_t n = (size_t)picture->width * (size_t)picture->height * 3;
  ij__video_put64(head, (uint64_t)index);
  ij__video_put_real(head + 8, seconds);
  ij__out_message(IJ_VIDEO_FRAM, sizeof head + n);
  ij__out_bytes(head, sizeof head);
  ij__out_bytes(picture->pixels, n);
}

/* When a frame is shown: the time in the file, counted from the first frame, or what its index says. */
static double seconds_of(const AVStream *stream, int64_t at, int64_t start, double by_index) {
  if (at == AV_NOPTS_VALUE || start == AV_NOPTS_VALUE || fabs((double)at - (double)start) > 1e18) return by_index;
  return (double)(at - start) * av_q2d(stream->time_base);
}

/* Sends the sampled frames and returns how many frames there were in all: the sending was for nothing when this is not t->total. By the
 * plan only some frames are decoded: a sampled one is known by its time, and 0 is returned when one did not come. */
static int64_t send_frames(const request *r, const timeline *t) {
  ij__video_file file;
  ij__video_picture picture = {0};
  int64_t index = 0, sent = 0, start = 0;
  double seconds = 0;
  ij__video_file_open(&file, IJ_TRACK_PICTURE, r->max_pixels);
  if (t->planned) file.flags = t->plan.flags, file.n_flags = t->plan.n;
  for (; ij__video_file_frame(&file); index++) {
    const int64_t at = file.frame->best_effort_timestamp;
    if (index == 0) {
      ij__video_picture_open(&picture, file.stream, file.frame, r->max_pixels);
      send_head(&file, &picture, t);
      start = at;
    }
    if (sent == t->n_sampled) {
      if (t->planned) break;
      continue;
    }
    const int64_t wanted = ij__video_sample(t->total, t->n_sampled, sent);
    if (t->planned && (file.frame->pts == AV_NOPTS_VALUE || file.frame->pts > t->plan.order[wanted])) break;
    if (t->planned ? file.frame->pts != t->plan.order[wanted] : index != wanted) continue;
    const double now = seconds_of(file.stream, at, start, (double)wanted / t->average);
    if (now > seconds) seconds = now; /* times never go back */
    ij__video_picture_convert(&picture, file.frame);
    send_frame(&picture, wanted, seconds);
    sent++;
  }
  ij__video_picture_close(&picture);
  ij__video_file_close(&file);
  if (!t->planned) return index;
  return sent == t->n_sampled ? t->total : 0;
}

/* With the plain C code of its decoder: the vector code for floats adds in another order on each kind of processor. Sound is cheap, and
 * pictures are integers, which come out alike. */
static int64_t send_sound(const request *r) {
  ij__video_file file;
  int rate = 0, channels = 0;
  int64_t n = 0;
  av_force_cpu_flags(0);
  ij__video_file_open(&file, IJ_TRACK_SOUND, r->max_pixels);
  while (ij__video_file_frame(&file)) n += ij__video_sound_send(file.frame, &rate, &channels);
  if (n == 0) ij__out_fail(IJ_E_FORMAT, "the sound track of the %s file holds no samples", file.container);
  ij__video_file_close(&file);
  return n;
}

static bool has_sound(const request *r) {
  ij__video_file file;
  ij__video_file_open(&file, IJ_TRACK_PICTURE, r->max_pixels);
  bool has = file.tracks[IJ_TRACK_SOUND] != NULL;
  ij__video_file_close(&file);
  return has;
}

static void decode(const request *r) {
  timeline t = count_frames(r);
  int64_t n = send_frames(r, &t);
  if (t.planned && n == 0) {
    t.planned = false;
    n = send_frames(r, &t);
  }
  if (n != t.total) {
    if (n == 0) ij__out_fail(IJ_E_FORMAT, "none of the %lld frames of the video can be decoded", (long long)t.total);
    t.planned = false;
    set_total(&t, n, r);
    if (send_frames(r, &t) != n) ij__out_fail(IJ_E_FORMAT, "the video does not decode to the same number of frames twice");
  }
  ij__video_plan_close(&t.plan);
  int64_t n_samples = r->sound && has_sound(r) ? send_sound(r) : 0;
  uint8_t done[IJ_VIDEO_DONE_BYTES];
  ij__video_put64(done, (uint64_t)t.n_sampled);
  ij__video_put64(done + 8, (uint64_t)n_samples);
  ij__out_message(IJ_VIDEO_DONE, sizeof done);
  ij__out_bytes(done, sizeof done);
}

int main(int argc, char **argv) {
  request r;
  if (!parse_request(&r, argc, argv)) {
    fprintf(stderr, "inkjet-video: takes videos apart for inkjet, which starts it; it has no options of its own\n");
    return 2;
  }
  for (int fd = 3; fd < 1024; fd++) close(fd); /* whatever was let through */
  const char *wrong = ij__sandbox_enter(r.cpu_seconds);
  int error = errno;
  ij__out_bytes(IJ_VIDEO_MAGIC, 8);
  if (wrong) ij__out_fail(IJ_E_IO, "the decoder could not be shut in (%s: %s): no video is read without that", wrong, strerror(error));
  av_log_set_level(AV_LOG_QUIET); /* also what is said before a decoder is open */
  decode(&r);
  _exit(0); /* no destructors of libraries behind the filter */
}
