/* The decoder on the clips of make_clips.py, whose formulas are repeated here: frames come back in order, byte by byte, at their times;
 * sound as it was; what is damaged or forbidden is refused. Usage: test_video_clips DECODER FOLDER */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "media/media.h"
#include "media/video.h"
#include "test.h"

enum { W = 48, H = 34, RATE = 44100 };
static const char *decoder, *folder;

static int picture(int k, int x, int y, int c) { return (x * 5 + y * 11 + k * 37 + c * 83 + ((x * y * (k % 5)) >> 2)) & 255; }

static const char *clip_path(const char *name) {
  static char path[2][4096];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static ij_video_options every_frame(void) {
  ij_video_options o = ij_video_options_default();
  o.decoder = decoder;
  o.fps = 1e6;
  o.max_frames = 4096;
  o.pairs = false;
  return o;
}

static ij_video *open_clip(const char *name, const ij_video_options *o) {
  ij_video *v = NULL;
  ij_err err = {0};
  CHECK_OK(ij_video_open(&v, clip_path(name), NULL, 0, NULL, o, &err), err);
  return v;
}

static const uint8_t *pixels_of(const ij_video *v, int i, double *seconds) {
  const ij_media *m = ij_video_block(v, i, seconds);
  return m ? m->pixels[0] : NULL;
}

/* Frame i of the video is picture k of width w, every byte of it. */
static void check_picture(const char *name, const ij_video *v, int i, int k, double seconds) {
  double at = -1;
  const uint8_t *p = pixels_of(v, i, &at);
  int wrong = 0;
  for (int y = 0; p && y < H; y++)
    for (int x = 0; x < W; x++)
      for (int c = 0; c < 3; c++) wrong += p[(y * W + x) * 3 + c] != picture(k, x, y, c);
  if (!p || wrong) TEST_FAIL("%s: frame %d: %d bytes are not those of picture %d", name, i, p ? wrong : -1, k);
  if (!(fabs(at - seconds) < 0.0011)) TEST_FAIL("%s: frame %d is at %.6f s, expected %.6f", name, i, at, seconds);
}

/* ----------------------------------------------------------------------------------------------------------- pictures */

static void lossless_clips(void) {
  static const struct {
    const char *name, *format;
    int n;
    double fps;
  } clips[] = {{"ffv1.avi", "AVI, ffv1", 7, 10}, {"ffv1.mkv", "Matroska, ffv1", 7, 10}, {"raw.avi", "AVI, rawvideo", 7, 10},
               {"png.mkv", "Matroska, png", 7, 10}, {"png.mp4", "MP4, png", 7, 10}, {"h264.mp4", "MP4, h264", 7, 10},
               {"h264.ts", "MPEG-TS, h264", 7, 10}, {"h264.h264", "H.264 stream, h264", 7, 10}, {"vp9.webm", "Matroska, vp9", 7, 10},
               {"one.avi", "AVI, ffv1", 1, 10}, {"two.mp4", "MP4, h264", 2, 10}, {"live.mkv", "Matroska, ffv1", 7, 10}};
  const ij_video_options o = every_frame();
  for (size_t i = 0; i < IJ_COUNT_OF(clips); i++) {
    ij_video *v = open_clip(clips[i].name, &o);
    ij_video_info info;
    if (!v) continue;
    ij_video_get_info(v, &info);
    CHECK_STR(info.format, clips[i].format);
    if (info.n_frames_total != clips[i].n || info.n_frames != clips[i].n || ij_video_n_blocks(v) != clips[i].n)
      TEST_FAIL("%s: %d frames, %d blocks, expected %d", clips[i].name, info.n_frames_total, ij_video_n_blocks(v), clips[i].n);
    CHECK_INT(info.width, W);
    CHECK_INT(info.height, H);
    CHECK_NEAR(info.fps, clips[i].fps, 1e-9);
    CHECK_NEAR(info.seconds, clips[i].n / clips[i].fps, 1e-9);
    CHECK(!info.has_sound && !ij_video_sound(v));
    for (int k = 0; k < clips[i].n; k++) check_picture(clips[i].name, v, k, k, k / clips[i].fps);
    ij_video_close(&v);
  }
}

/* Few of many frames, with groups of pictures left out or not: the same frames. */
static void sampled_clips(void) {
  static const char *const names[] = {"groups.mp4", "open.mkv"};
  static const int wanted[] = {0, 19, 39, 59, 79, 99, 119, 139, 159, 179, 199, 219, 239, 259, 279, 299}, three[] = {0, 149, 299};
  for (int i = 0; i < 2; i++) {
    ij_video_options o = every_frame();
    o.fps = 2;
    o.max_frames = 16;
    ij_video *v = open_clip(names[i], &o);
    CHECK_INT(ij_video_n_blocks(v), 16);
    for (int k = 0; k < 16; k++) check_picture(names[i], v, k, wanted[k], wanted[k] / 30.0);
    ij_video_close(&v);
    o.max_frames = 3;
    v = open_clip(names[i], &o);
    CHECK_INT(ij_video_n_blocks(v), 3);
    for (int k = 0; k < 3; k++) check_picture(names[i], v, k, three[k], three[k] / 30.0);
    ij_video_close(&v);
    o = every_frame();
    v = open_clip(names[i], &o);
    CHECK_INT(ij_video_n_blocks(v), 300);
    for (int k = 0; k < 300; k += 7) check_picture(names[i], v, k, k, k / 30.0);
    ij_video_close(&v);
  }
}

static void variable_rate(void) {
  static const double times[] = {0, 0.1, 0.2, 1.2, 2.2};
  const ij_video_options o = every_frame();
  ij_video *v = open_clip("variable.mkv", &o);
  ij_video_info info;
  CHECK_INT(ij_video_n_blocks(v), 5);
  if (!v) return;
  ij_video_get_info(v, &info);
  CHECK_NEAR(info.fps, 4 / 2.2, 1e-6); /* of its times; what the container says of it is a guess */
  for (int k = 0; k < 5; k++) check_picture("variable.mkv", v, k, k, times[k]);
  ij_video_close(&v);
}

static void pairs_of_a_clip(void) {
  ij_video_options o = every_frame();
  o.pairs = true;
  ij_video *v = open_clip("ffv1.mkv", &o);
  CHECK_INT(ij_video_n_blocks(v), 4);
  for (int i = 0; i < ij_video_n_blocks(v); i++) {
    double at;
    const ij_media *m = ij_video_block(v, i, &at);
    CHECK_NEAR(at, 0.2 * i, 0.0011);
    CHECK(m->info.pair && m->pixels[1]);
    CHECK_INT(m->pixels[0][0], picture(2 * i, 0, 0, 0));
    CHECK_INT(m->pixels[1][0], picture(i < 3 ? 2 * i + 1 : 6, 0, 0, 0));
  }
  ij_video_close(&v);
}

/* The same from bytes as from a file; an odd shape of pixels is named. */
static void bytes_of_a_clip(void) {
  const ij_video_options o = every_frame();
  ij_err err = {0};
  char *bytes = NULL;
  size_t n = 0;
  ij_video *v = NULL;
  CHECK_OK(ij__os_read_file(clip_path("wide.mkv"), 1 << 20, &bytes, &n, &err), err);
  CHECK_OK(ij_video_open(&v, NULL, bytes, n, "wide", &o, &err), err);
  ij__free(bytes);
  for (int k = 0; v && k < 2; k++) check_picture("wide.mkv", v, k, k, k / 10.0);
  ij_video_info info = {0};
  if (v) ij_video_get_info(v, &info);
  CHECK_STR(v ? info.format : "", "Matroska, ffv1, pixels of 2:1 shown square");
  ij_video_close(&v);
}

/* Of what is shown, (x, y) comes from (xx x + xy y + x0, yx x + yy y + y0) of the frame. */
static void check_turn(const char *name, bool sideways, int xx, int xy, int x0, int yx, int yy, int y0) {
  const ij_video_options o = every_frame();
  ij_video *v = open_clip(name, &o);
  ij_video_info info;
  int wrong = 0;
  if (!v) return;
  ij_video_get_info(v, &info);
  CHECK_INT(info.width, sideways ? H : W);
  CHECK_INT(info.height, sideways ? W : H);
  for (int k = 0; k < 2 && info.width == (sideways ? H : W); k++) {
    const uint8_t *p = pixels_of(v, k, NULL);
    for (int y = 0; p && y < info.height; y++)
      for (int x = 0; x < info.width; x++)
        for (int c = 0; c < 3; c++) wrong += p[(y * info.width + x) * 3 + c] != picture(k, xx * x + xy * y + x0, yx * x + yy * y + y0, c);
  }
  if (wrong) TEST_FAIL("%s: %d bytes differ", name, wrong);
  ij_video_close(&v);
}

static void turned_clips(void) {
  check_turn("right.mp4", true, 0, 1, 0, -1, 0, H - 1);
  check_turn("left.mp4", true, 0, -1, W - 1, 1, 0, 0);
  check_turn("half.mp4", false, -1, 0, W - 1, 0, -1, H - 1);
  check_turn("mirror.mp4", false, -1, 0, W - 1, 0, 1, 0);
  check_turn("across.mp4", true, 0, 1, 0, 1, 0, 0);
}

/* ------------------------------------------------------------------------------------------------------------- colours */

static double clamp255(double v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

/* kr and kb of the matrix; the limited range has 219 steps of luma and 224 of chroma. */
static void check_colours(const char *name, double kr, double kb, bool full) {
  const ij_video_options o = every_frame();
  ij_video *v = open_clip(name, &o);
  double worst = 0;
  for (int k = 0; v && k < 2; k++) {
    const uint8_t *p = pixels_of(v, k, NULL);
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) {
        double luma = 16 + (x * 4 + y * 3 + k * 17) % 220, cb = 90 + (x + k * 5) % 77 - 128, cr = 90 + (y * 2 + k * 7) % 77 - 128;
        if (full) luma /= 255, cb /= 255, cr /= 255;
        else luma = (luma - 16) / 219, cb /= 224, cr /= 224;
        double r = luma + 2 * (1 - kr) * cr, b = luma + 2 * (1 - kb) * cb, g = (luma - kr * r - kb * b) / (1 - kr - kb);
        const double want[3] = {clamp255(255 * r), clamp255(255 * g), clamp255(255 * b)};
        for (int c = 0; c < 3; c++) worst = fmax(worst, fabs(p[(y * W + x) * 3 + c] - want[c]));
      }
  }
  if (worst > 1.01) TEST_FAIL("%s: a colour is off by %.2f", name, worst);
  ij_video_close(&v);
}

static void matrix_and_range(void) {
  check_colours("bt601.mkv", 0.299, 0.114, false);
  check_colours("bt709.mkv", 0.2126, 0.0722, false);
  check_colours("full709.mkv", 0.2126, 0.0722, true);
  check_colours("plain.mkv", 0.299, 0.114, false); /* small, and says nothing */
}

/* Lossy clips with halved chroma: every frame equal to what the program ffmpeg makes of it with its accurate conversion. */
static void as_ffmpeg_does(void) {
  static const char *const names[] = {"lossy.mp4", "lossy.avi", "lossy.webm"};
  const ij_video_options o = every_frame();
  const size_t frame = (size_t)W * H * 3;
  for (int i = 0; i < 3; i++) {
    char reference[64], *bytes = NULL;
    size_t n = 0;
    ij_err err = {0};
    ij_video *v = open_clip(names[i], &o);
    snprintf(reference, sizeof reference, "%s.rgb", names[i]);
    CHECK_OK(ij__os_read_file(clip_path(reference), 1 << 24, &bytes, &n, &err), err);
    CHECK_INT(ij_video_n_blocks(v), 50);
    CHECK_INT(n, 50 * frame);
    for (int k = 0; k < ij_video_n_blocks(v) && (size_t)(k + 1) * frame <= n; k++)
      if (memcmp(pixels_of(v, k, NULL), bytes + (size_t)k * frame, frame) != 0) TEST_FAIL("%s: frame %d differs", names[i], k);
    ij__free(bytes);
    ij_video_close(&v);
  }
}

/* --------------------------------------------------------------------------------------------------------------- sound */

static void sound_of_a_clip(void) {
  static const char *const names[] = {"sound.mkv", "sound.avi", "flac.mkv", "float.mkv"};
  const int n = (int)(0.7 * RATE);
  float *samples = ij__alloc_array((size_t)n * 2, sizeof *samples);
  ij_media *want = NULL;
  ij_err err = {0};
  for (int i = 0; i < n; i++) {
    samples[2 * i] = (float)((int64_t)i * 37 % 20001 - 10000) / 32768;
    samples[2 * i + 1] = (float)((int64_t)i * i / 64 % 10001 - 5000) / 32768;
  }
  CHECK_OK(ij_media_from_samples(&want, samples, n, 2, RATE, NULL, &err), err);
  for (int k = 0; want && k < 4; k++) {
    ij_video_options o = every_frame();
    ij_video_info info;
    ij_media_info sound, expected;
    o.sound = true;
    ij_video *v = open_clip(names[k], &o);
    if (!v || !ij_video_sound(v)) {
      TEST_FAIL("%s: no sound", names[k]);
      continue;
    }
    ij_video_get_info(v, &info);
    ij_media_get_info(ij_video_sound(v), &sound);
    ij_media_get_info(want, &expected);
    CHECK(info.has_sound);
    CHECK_INT(sound.rate, RATE);
    CHECK_INT(sound.channels, 2);
    CHECK_INT(sound.n_samples, expected.n_samples);
    CHECK_INT(sound.n_rows, 14);
    CHECK_INT(info.n_rows, 7 * 2 + 14);
    const uint8_t *bins = ij_media_bins(ij_video_sound(v));
    if (memcmp(bins, ij_media_bins(want), (size_t)expected.n_rows * IJ_MEL_BINS) != 0) TEST_FAIL("%s: other bins", names[k]);
    ij_video_close(&v);
    o.sound = false;
    v = open_clip(names[k], &o);
    if (v) ij_video_get_info(v, &info);
    CHECK(v && info.has_sound && !ij_video_sound(v));
    ij_video_close(&v);
  }
  ij_media_close(&want);
  ij__free(samples);
}

/* ------------------------------------------------------------------------------------------------------------- refusals */

static void must_fail(const char *name, const ij_video_options *o, ij_status status, const char *text) {
  ij_video *v = NULL;
  ij_err err = {0};
  const int64_t blocks = ij__alloc_blocks();
  ij_status s = ij_video_open(&v, clip_path(name), NULL, 0, name, o, &err);
  if (s != status || v || !strstr(err.message, text) || strcmp(err.where, name) != 0)
    TEST_FAIL("%s: %s: %s: %s; expected %s and \"%s\"", name, ij_status_name(s), err.where, err.message, ij_status_name(status), text);
  ij_video_close(&v);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

/* Feeds what the decoder says about a clip to the reader, which keeps the samples as they came. */
static void read_messages(ij__video_reader *r, const ij_video_options *o, const char *path) {
  char name[] = "inkjet-video", version[] = IJ_VIDEO_VERSION, fps[] = "412e848000000000", frames[] = "4096", pixels[] = "67108864",
       seconds[] = "40ac200000000000", yes[] = "1", cpu[] = "60";
  char *args[] = {name, version, fps, frames, pixels, seconds, yes, cpu, NULL};
  ij__video_process process;
  ij_err err = {0};
  char how[128];
  int file = -1;
  CHECK_OK(ij__video_reader_open(r, o, "clip", &err), err);
  CHECK_OK(ij__video_file(path, NULL, 0, "clip", &file, &err), err);
  ij_status s = ij__video_process_start(&process, decoder, args, file, &err);
  CHECK_OK(s, err);
  for (size_t got = 1; s == IJ_OK && !r->done && got > 0;) {
    s = ij__video_process_read(&process, r->place + r->have, r->want - r->have, ij__os_seconds() + 60, &got, &err);
    if (s == IJ_OK) s = ij__video_reader_take(r, got, &err);
  }
  CHECK_OK(s, err);
  CHECK(r->done);
  ij__video_process_stop(&process, true, how, sizeof how);
  close(file);
}

/* Lossy sound, bit for bit what ffmpeg decodes without the instructions that only some processors have. */
static void sound_of_any_processor(void) {
  ij_video_options o = every_frame();
  ij__video_reader r;
  size_t n = 0;
  char *want = NULL;
  ij_err err = {0};
  o.sound = true;
  read_messages(&r, &o, clip_path("aac.mkv"));
  CHECK_OK(ij__os_read_file(clip_path("aac.mkv.f32"), 1 << 24, &want, &n, &err), err);
  CHECK(n > 10000);
  CHECK_INT(r.n_floats * sizeof(float), n);
  if (want && r.n_floats * sizeof(float) == n) CHECK(memcmp(r.samples, want, n) == 0);
  ij__free(want);
  ij__video_reader_close(&r);
}

static void damaged_clips(void) {
  const ij_video_options o = every_frame();
  must_fail("cut_600_ffv1.avi", &o, IJ_E_FORMAT, "damaged or cut short");
  must_fail("cut_600_groups.mp4", &o, IJ_E_FORMAT, "cut short");
  must_fail("cut_995_groups.mp4", &o, IJ_E_FORMAT, "cut short");
  must_fail("cut_500_forty.mkv", &o, IJ_E_FORMAT, "cut short");
  must_fail("cut_900_h264.mp4", &o, IJ_E_FORMAT, "cannot be opened");
  must_fail("damaged_forty.mkv", &o, IJ_E_FORMAT, "cannot be decoded");
  must_fail("damaged_forty_png.mkv", &o, IJ_E_FORMAT, "cannot be decoded");
  must_fail("damaged_groups.mp4", &o, IJ_E_FORMAT, "damaged");
}

/* Files whose content is the names of others: nothing of them is opened, not even when the names are right. */
static void forbidden_files(void) {
  const ij_video_options o = every_frame();
  must_fail("list.m3u8", &o, IJ_E_UNSUPPORTED, "playlists, which name other files, are never read");
  must_fail("list.ffconcat", &o, IJ_E_UNSUPPORTED, "playlists, which name other files, are never read");
  must_fail("only_sound.mkv", &o, IJ_E_FORMAT, "holds no video track, only sound");
  must_fail("lossy.mp4.rgb", &o, IJ_E_FORMAT, "no kind of video that is known here");
  must_fail("askew.mp4", &o, IJ_E_UNSUPPORTED, "not a multiple of 90 degrees");
  must_fail("sheared.mp4", &o, IJ_E_UNSUPPORTED, "sheared");
}

static void limits(void) {
  ij_video_options o = every_frame();
  ij_media_options media = ij_media_options_default();
  o.max_seconds = 0.5;
  must_fail("ffv1.avi", &o, IJ_E_RANGE, "more than the limit of 0.5 s");
  o = every_frame();
  o.media = &media;
  media.max_pixels = W * H - 1;
  must_fail("ffv1.avi", &o, IJ_E_RANGE, "48 x 34 = 1632 pixels, more than the limit of 1631");
  media = ij_media_options_default();
  media.max_rows = 13;
  o.sound = true;
  must_fail("sound.mkv", &o, IJ_E_RANGE, "13");
}

/* ---------------------------------------------------------------------------------------------------------- the sandbox */

#ifdef __linux__
/* The value of "Name:\tvalue" of a file of /proc, or of "Name   value" up to two spaces. */
static void proc_value(pid_t pid, const char *file, const char *name, char out[64]) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
  FILE *f = fopen(path, "r");
  strcpy(out, "?");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), "%63s", out);
  if (f) fclose(f);
}

static int count_open(pid_t pid) {
  char path[64];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* A decoder whose output is not read stops in the middle of the first large frame: it can be looked at. */
static void what_it_may_do(void) {
  char fps[] = "412e848000000000", frames[] = "40", pixels[] = "67108864", seconds[] = "40ac200000000000", no[] = "0", cpu[] = "60";
  char one[] = "1";
  char *args[] = {fps, one, fps, frames, pixels, seconds, no, cpu, NULL}, value[64];
  ij__video_process p;
  ij_err err = {0};
  int file = -1;
  CHECK_OK(ij__video_file(clip_path("big.avi"), NULL, 0, "big", &file, &err), err);
  CHECK_OK(ij__video_process_start(&p, decoder, args, file, &err), err);
  close(file);
  struct pollfd at = {.fd = p.fd, .events = POLLIN};
  CHECK_INT(poll(&at, 1, 60000), 1);
  proc_value(p.pid, "status", "Seccomp:", value);
  CHECK_STR(value, "2");
  proc_value(p.pid, "status", "NoNewPrivs:", value);
  CHECK_STR(value, "1");
  proc_value(p.pid, "status", "Threads:", value);
  CHECK_STR(value, "1");
  proc_value(p.pid, "limits", "Max file size", value);
  CHECK_STR(value, "0");
  proc_value(p.pid, "limits", "Max core file size", value);
  CHECK_STR(value, "0");
  proc_value(p.pid, "limits", "Max processes", value);
  CHECK_STR(value, "0");
  proc_value(p.pid, "limits", "Max open files", value);
  CHECK_STR(value, "3");
  proc_value(p.pid, "limits", "Max cpu time", value);
  CHECK_STR(value, "60");
  proc_value(p.pid, "limits", "Max address space", value);
  CHECK_STR(value, "4294967296");
  CHECK_INT(count_open(p.pid), 3);
  ij__video_process_stop(&p, false, value, sizeof value);
  CHECK_HAS(value, "signal 9");
}

/* The decoder that this process has started, 0: there is none. Before it has become another program its parent waits for it, and stopping
 * it then would stop both. */
static pid_t find_child(void) {
  DIR *d = opendir("/proc");
  pid_t found = 0;
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    char path[300], value[64];
    if (e->d_name[0] < '1' || e->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "%s", e->d_name);
    proc_value((pid_t)atoi(path), "status", "PPid:", value);
    if (atoi(value) != (int)getpid()) continue;
    proc_value((pid_t)atoi(path), "status", "Name:", value);
    if (strcmp(value, "inkjet-video") == 0) found = (pid_t)atoi(path);
  }
  if (d) closedir(d);
  return found;
}

static void *send_signal(void *which) {
  const int number = *(const int *)which;
  for (int i = 0; i < 6000; i++) {
    pid_t child = find_child();
    if (child && kill(child, number) == 0) return NULL;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  return NULL;
}

static void struck(int number, double timeout_s, const char *text) {
  ij_video_options o = every_frame();
  ij_err err = {0};
  ij_video *v = NULL;
  pthread_t thread;
  o.timeout_s = timeout_s;
  CHECK(pthread_create(&thread, NULL, send_signal, &number) == 0);
  CHECK_INT(ij_video_open(&v, clip_path("groups.mp4"), NULL, 0, "clip", &o, &err), IJ_E_IO);
  CHECK_HAS(err.message, text);
  pthread_join(thread, NULL);
  CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
  v = open_clip("one.avi", &o); /* the next one is not touched */
  CHECK_INT(ij_video_n_blocks(v), 1);
  ij_video_close(&v);
}

static void killed_and_stopped(void) {
  struck(SIGKILL, 60, "was ended by signal 9");
  struck(SIGSTOP, 3, "took longer than the limit of 3 s and was ended");
}
#endif

/* Several at once, one of which fails. */
static void *open_one(void *name) {
  ij_video_options o = every_frame();
  ij_err err = {0};
  ij_video *v = NULL;
  ij_status s = ij_video_open(&v, name, NULL, 0, NULL, &o, &err);
  intptr_t n = s == IJ_OK ? ij_video_n_blocks(v) : -1;
  ij_video_close(&v);
  return (void *)n;
}

static void at_the_same_time(void) {
  static const char *const names[4] = {"ffv1.avi", "list.m3u8", "h264.mp4", "damaged_forty.mkv"};
  static const intptr_t want[4] = {7, -1, 7, -1};
  char paths[4][4096];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    snprintf(paths[i], sizeof paths[i], "%s", clip_path(names[i]));
    CHECK(pthread_create(&threads[i], NULL, open_one, paths[i]) == 0);
  }
  for (int i = 0; i < 4; i++) {
    void *got;
    pthread_join(threads[i], &got);
    CHECK_INT((intptr_t)got, want[i]);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  decoder = argv[1], folder = argv[2];
  RUN(lossless_clips);
  RUN(sampled_clips);
  RUN(variable_rate);
  RUN(pairs_of_a_clip);
  RUN(bytes_of_a_clip);
  RUN(turned_clips);
  RUN(matrix_and_range);
  RUN(as_ffmpeg_does);
  RUN(sound_of_a_clip);
  RUN(sound_of_any_processor);
  RUN(damaged_clips);
  RUN(forbidden_files);
  RUN(limits);
#ifdef __linux__
  RUN(what_it_may_do);
  RUN(killed_and_stopped);
#endif
  RUN(at_the_same_time);
  return test_report();
}
