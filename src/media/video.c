/* video.c: ij_video_*: from a file to blocks of frames. The file is never looked at here: the program inkjet-video does that, shut in, and
 * this finds it, feeds its messages to the reader, and turns whatever happens to it into one error. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "media/video.h"
#include "video/sampling.h"

#ifndef IJ_HAS_VIDEO
#define IJ_HAS_VIDEO 0
#endif

#define PROGRAM "inkjet-video"
enum { PATH_SIZE = 4096 };

ij_video_options ij_video_options_default(void) {
  return (ij_video_options){
    .struct_size = sizeof(ij_video_options), .fps = 2, .max_frames = 32, .pairs = true, .max_seconds = 3600, .timeout_s = 120};
}

static ij_status check_options(const ij_video_options *o, const char *name, ij_err *err) {
  if (o->struct_size != sizeof *o)
    return ij__fail(err, IJ_E_ARGUMENT, name, "ij_video_options.struct_size is %zu, expected %zu: start from ij_video_options_default",
                    o->struct_size, sizeof *o);
  if (o->media && o->media->struct_size != sizeof *o->media)
    return ij__fail(err, IJ_E_ARGUMENT, name, "ij_media_options.struct_size is %zu, expected %zu: start from ij_media_options_default",
                    o->media->struct_size, sizeof *o->media);
  if (!(o->fps > 0 && o->fps <= IJ_VIDEO_MAX_FPS))
    return ij__fail(err, IJ_E_ARGUMENT, name, "fps is %g, expected more than 0 and at most %g", o->fps, IJ_VIDEO_MAX_FPS);
  if (o->max_frames < 1 || o->max_frames > IJ_VIDEO_MAX_SAMPLED)
    return ij__fail(err, IJ_E_ARGUMENT, name, "max_frames is %d, expected 1 to %d", o->max_frames, IJ_VIDEO_MAX_SAMPLED);
  if (!(o->max_seconds > 0)) return ij__fail(err, IJ_E_ARGUMENT, name, "max_seconds is %g, expected more than 0", o->max_seconds);
  if (!(o->timeout_s > 0 && o->timeout_s <= 1e6))
    return ij__fail(err, IJ_E_ARGUMENT, name, "timeout_s is %g, expected more than 0 and at most 1e6", o->timeout_s);
  return IJ_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the decoder */

/* The folder of the running program with a slash, or "". */
static void own_folder(char *out) {
  out[0] = 0;
#if defined(__linux__)
  ssize_t n = readlink("/proc/self/exe", out, PATH_SIZE - 1);
  out[n > 0 && n < PATH_SIZE - 1 ? n : 0] = 0;
#elif defined(__APPLE__)
  uint32_t size = PATH_SIZE;
  if (_NSGetExecutablePath(out, &size) != 0) out[0] = 0;
#endif
  char *slash = strrchr(out, '/');
  if (slash) slash[1] = 0;
  else out[0] = 0;
}

static ij_status find_decoder(const char *wanted, char *out, const char *name, ij_err *err) {
  char beside[PATH_SIZE];
  if (wanted) {
    if (strlen(wanted) >= PATH_SIZE) return ij__fail(err, IJ_E_ARGUMENT, name, "the path of the video decoder is too long");
    strcpy(out, wanted);
    return IJ_OK;
  }
  own_folder(beside);
  if (beside[0] && snprintf(out, PATH_SIZE, "%s" PROGRAM, beside) < PATH_SIZE && access(out, X_OK) == 0) return IJ_OK;
  snprintf(out, PATH_SIZE, "%s", IJ_VIDEO_INSTALLED);
  if (access(out, X_OK) == 0) return IJ_OK;
  if (!IJ_HAS_VIDEO)
    return ij__fail(err, IJ_E_UNSUPPORTED, name, "this build of inkjet reads no video: it was made without the ffmpeg libraries "
                    "(libavformat, libavcodec, libswscale, libavutil; 5.1 or later), from which its program " PROGRAM " is built");
  return ij__fail(err, IJ_E_IO, name, "the program " PROGRAM ", which reads videos, was found neither in %s nor as %s",
                  beside[0] ? beside : "the folder of this program", out);
}

/* ---------------------------------------------------------------------------------------------------------------- video */

static void real_text(char out[17], double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  snprintf(out, 17, "%016llx", (unsigned long long)bits);
}

static ij_status start(ij__video_process *process, const ij__video_reader *r, char *program, int file, ij_err *err) {
  const ij_video_options *o = &r->options;
  char fps[17], max_frames[16], max_pixels[24], max_seconds[17], cpu[16];
  char name[] = PROGRAM, version[] = IJ_VIDEO_VERSION, yes[] = "1", no[] = "0";
  real_text(fps, o->fps);
  real_text(max_seconds, o->max_seconds);
  snprintf(max_frames, sizeof max_frames, "%d", o->max_frames);
  snprintf(max_pixels, sizeof max_pixels, "%lld", (long long)r->media.max_pixels);
  snprintf(cpu, sizeof cpu, "%d", (int)ceil(o->timeout_s) + 1);
  char *args[] = {name, version, fps, max_frames, max_pixels, max_seconds, o->sound ? yes : no, cpu, NULL};
  return ij__video_process_start(process, program, args, file, err);
}

/* Feeds the reader until it is done, fails, or there is nothing more to come. */
static ij_status pump(ij__video_process *process, ij__video_reader *r, double deadline, bool *ended, ij_err *err) {
  while (!r->done) {
    size_t got = 0;
    ij_status s = ij__video_process_read(process, r->place + r->have, r->want - r->have, deadline, &got, err);
    if (s != IJ_OK) return s;
    if (got == 0) {
      *ended = true;
      return IJ_OK;
    }
    s = ij__video_reader_take(r, got, err);
    if (s != IJ_OK) return s;
  }
  return IJ_OK;
}

static ij_status decode(ij__video_reader *r, char *program, int file, ij_err *err) {
  ij__video_process process;
  ij_err inner = {0};
  char how[128];
  bool ended = false;
  const double deadline = ij__os_seconds() + r->options.timeout_s;
  ij_status s = start(&process, r, program, file, err);
  if (s != IJ_OK) return s;
  s = pump(&process, r, deadline, &ended, &inner);
  ij__video_process_stop(&process, ended, how, sizeof how);
  if (s != IJ_OK && !inner.where[0]) {
    if (ij__os_seconds() < deadline) return ij__fail(err, s, r->name, "%s", inner.message);
    return ij__fail(err, IJ_E_IO, r->name, "the video decoder took longer than the limit of %g s and was ended", r->options.timeout_s);
  }
  if (s != IJ_OK) return ij__fail(err, s, inner.where, "%s", inner.message);
  if (!r->done) return ij__fail(err, IJ_E_IO, r->name, "the video decoder %s before it had sent everything", how);
  return IJ_OK;
}

ij_status ij_video_open(ij_video **out, const char *path, const void *bytes, size_t n_bytes, const char *name,
                        const ij_video_options *options, ij_err *err) {
  const ij_video_options usual = ij_video_options_default();
  char program[PATH_SIZE];
  ij__video_reader reader = {0};
  int file = -1;
  if (!out) return ij__fail(err, IJ_E_ARGUMENT, name, "out is NULL");
  *out = NULL;
  if (!options) options = &usual;
  if (!name) name = path ? path : "video";
  if (!path && !bytes) return ij__fail(err, IJ_E_ARGUMENT, name, "neither a path nor bytes were given");
  ij_status s = check_options(options, name, err);
  if (s == IJ_OK) s = find_decoder(options->decoder, program, name, err);
  if (s == IJ_OK) s = ij__video_file(path, bytes, n_bytes, name, &file, err);
  if (s == IJ_OK) s = ij__video_reader_open(&reader, options, name, err);
  if (s == IJ_OK) s = decode(&reader, program, file, err);
  if (s == IJ_OK) s = ij__video_reader_finish(&reader, out, err);
  ij__video_reader_close(&reader);
  if (file >= 0) close(file);
  return s;
}

void ij_video_close(ij_video **video) {
  if (!video || !*video) return;
  ij_video *v = *video;
  for (int i = 0; i < v->n_blocks; i++) ij_media_close(&v->blocks[i]);
  ij_media_close(&v->sound);
  ij__free(v->blocks);
  ij__free(v->times);
  ij__free(v);
  *video = NULL;
}

int ij_video_n_blocks(const ij_video *video) { return video ? video->n_blocks : 0; }

const ij_media *ij_video_block(const ij_video *video, int index, double *seconds) {
  if (!video || index < 0 || index >= video->n_blocks) return NULL;
  if (seconds) *seconds = video->times[index];
  return video->blocks[index];
}

const ij_media *ij_video_sound(const ij_video *video) { return video ? video->sound : NULL; }

void ij_video_get_info(const ij_video *video, ij_video_info *out) { *out = video->info; }
