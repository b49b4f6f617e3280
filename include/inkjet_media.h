/* inkjet_media.h: pictures and sounds. The bytes of a file in, rows for the decoder out.
 *
 *     ij_media *media = NULL;
 *     ij_towers *towers = ij_model_towers(model);                       // NULL: this checkpoint has none
 *     ij_media_options options = ij_towers_media_options(towers);
 *     if (ij_media_open(&media, IJ_MEDIA_ANY, bytes, n_bytes, "cat.png", &options, &err) != IJ_OK) goto done;
 *     ij_media_info info;
 *     ij_media_get_info(media, &info);                                  // info.n_rows tokens
 *     if (ij_towers_encode(towers, media, 0, info.n_rows, rows, &err) != IJ_OK) goto done;
 *     ij_rows at = {.first = 3, .n = info.n_rows, .rows = rows, .digest = {info.digest[0], info.digest[1]}};
 *     if (ij_session_eval_rows(session, ids, n_ids, &at, 1, &err) != IJ_OK) goto done;  // ids 3 to 3 + n - 1 are placeholders
 *
 * Conventions are those of inkjet.h. A medium is decoded and prepared when it is opened: pixels after rotation and rescaling, or one
 * vector of dMel bins per 50 ms. It is immutable then; any thread. Nothing here opens a file or a URL.
 */
#ifndef INKJET_MEDIA_H
#define INKJET_MEDIA_H

#include "inkjet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------------------------- media */

typedef struct ij_media ij_media;

typedef enum ij_media_kind { IJ_MEDIA_ANY, IJ_MEDIA_IMAGE, IJ_MEDIA_AUDIO } ij_media_kind;

typedef struct ij_media_options {
  size_t struct_size;       /* set by the two functions that give options */
  int patch;                /* side of a patch in pixels; default 40, as in all published models */
  double rescale_frac;      /* rescale_image_frac of the processor: both sides times this; 0, the default: the size is kept */
  int rescale_long_edge;    /* rescale_image_max_upscaled_long_edge: the longer side does not grow beyond it; 0: no such limit */
  int max_long_edge;        /* before everything else, a longer side is reduced to this; 0, the default: off */
  int64_t max_pixels;       /* of the picture in the file and of the rescaled one, checked before memory is taken; default 2^26 */
  int64_t max_rows;         /* of one medium; default 32768 (a sound of 27 minutes) */
} ij_media_options;

IJ_API ij_media_options ij_media_options_default(void);

/* PNG, JPEG, WebP and GIF (its first frame); WAV, FLAC, MP3 and Ogg (Vorbis, Opus). kind: IJ_MEDIA_ANY goes by the first bytes; another
 * kind
 * refuses files that are not of it. name: for messages only. bytes are not kept. Errors: IJ_E_FORMAT (damaged, empty, no samples, values
 * that are not
 * finite), IJ_E_UNSUPPORTED (a kind of file that this build does not read, by name), IJ_E_RANGE (a limit of options, with both numbers),
 * IJ_E_NOMEM. */
IJ_API ij_status ij_media_open(ij_media **out, ij_media_kind kind, const void *bytes, size_t n_bytes, const char *name,
                               const ij_media_options *options, ij_err *err);

/* From pixels, [height][width][3] bytes red, green, blue. second: the next frame of a video, of the same size, or NULL for a still
 * picture. */
IJ_API ij_status ij_media_from_pixels(ij_media **out, const uint8_t *first, const uint8_t *second, int width, int height,
                                      const ij_media_options *options, ij_err *err);

/* From samples in [-1, 1], [n][channels], at `rate` per second. */
IJ_API ij_status ij_media_from_samples(ij_media **out, const float *samples, int64_t n, int channels, int rate,
                                       const ij_media_options *options, ij_err *err);

IJ_API void ij_media_close(ij_media **media);

typedef struct ij_media_info {
  ij_media_kind kind;          /* IMAGE or AUDIO */
  const char *format;          /* what the file was, such as "JPEG, CMYK, progressive" or "WAV, 24-bit"; static or owned by the medium */
  int64_t n_rows;              /* rows of the decoder: the tokens that it costs, without those of its frame in a message */
  int width, height;           /* of the picture as it is shown, after the orientation in its file */
  int used_width, used_height; /* after rescaling */
  int patch, grid_rows, grid_cols;
  bool pair;                   /* two frames of a video */
  int rate, channels;          /* of the sound in the file */
  double seconds;
  int64_t n_samples;           /* at 16 kHz */
  uint64_t digest[2];          /* of the prepared content: equal for equal rows, whatever file they came from */
} ij_media_info;
IJ_API void ij_media_get_info(const ij_media *media, ij_media_info *out);

/* What the towers read, for tools and tests. Rows [first, first + n). IJ_E_RANGE outside. Pictures: out is [n][2][patch][patch][3] (time,
 * y, x,
 * channel), normalized and rounded to bfloat16; sounds: IJ_E_ARGUMENT. */
IJ_API ij_status ij_media_patches(const ij_media *media, int64_t first, int64_t n, float *out, ij_err *err);
/* Sounds: [n_rows][80] dMel bins, 0 to 15, owned by the medium; NULL for pictures. */
IJ_API const uint8_t *ij_media_bins(const ij_media *media);

/* ------------------------------------------------------------------------------------------------------------- towers */

/* The hMLP vision tower and the dMel audio tower of a checkpoint: prepared media in, rows [n][hidden] out. */
typedef struct ij_towers ij_towers;

/* The towers of a model: those of its checkpoint, or of ij_model_options.mmproj. NULL: there are none. Owned by the model; they work with
 * its
 * threads, between its steps. */
IJ_API ij_towers *ij_model_towers(ij_model *model);
/* What is wrong with the tensors of towers in the checkpoint of a model, or with what its files say of them. Such a model has no towers, and
 * reads text as any other. NULL: nothing is wrong, or no tensor is of a tower. (Those of an mmproj were asked for: they must be right.) */
IJ_API const char *ij_model_towers_error(const ij_model *model);

/* Towers alone, without a decoder: of a checkpoint folder or file, or an mmproj GGUF file. Of options n_threads, cpu_mask, progress and
 * user count.
 * Errors as for ij_model_open; IJ_E_UNSUPPORTED when the file has no tower. */
IJ_API ij_status ij_towers_open(ij_towers **out, const char *path, const ij_model_options *options, ij_err *err);
IJ_API void ij_towers_close(ij_towers **towers); /* of ij_towers_open only */

typedef struct ij_towers_info {
  bool vision, audio;
  int hidden, patch;           /* patch: 0 without vision */
  int64_t n_params;
  double patch_fma;            /* multiply-adds for one patch of a still picture; 0 without vision */
  size_t weight_bytes;
  const char *source;          /* the path that they came from */
} ij_towers_info;
IJ_API void ij_towers_get_info(const ij_towers *towers, ij_towers_info *out);

/* How these towers want their media: patch of the tower, rescaling from processor_config.json; max_pixels as the plan of their model has room for,
 * one picture at a time. NULL: the defaults. */
IJ_API ij_media_options ij_towers_media_options(const ij_towers *towers);

/* Rows [first, first + n) of a medium, out [n][hidden] float32. The bits depend on nothing but the medium and the weights. Any thread;
 * calls
 * wait for each other and for the steps of the model. Errors: IJ_E_RANGE, IJ_E_UNSUPPORTED (no tower for this kind), IJ_E_ARGUMENT
 * (another patch
 * size), IJ_E_NUMERIC, IJ_E_NOMEM. */
IJ_API ij_status ij_towers_encode(ij_towers *towers, const ij_media *media, int64_t first, int64_t n, float *out, ij_err *err);

/* -------------------------------------------------------------------------------------------------------------- video */

/* Frames of a video, sampled by time and paired, and its sound; decoded in a process of its own (docs/media.md). */
typedef struct ij_video ij_video;

typedef struct ij_video_options {
  size_t struct_size;          /* set by ij_video_options_default */
  double fps;                  /* frames sampled per second of the video; default 2 */
  int max_frames;              /* default 32 */
  bool pairs;                  /* two frames in one block; default true; false: every frame is a still picture */
  bool sound;                  /* also the sound track, when there is one; default false */
  double max_seconds;          /* of the video; default 3600 */
  double timeout_s;            /* of the decoder; default 120 */
  const char *decoder;         /* path of the inkjet-video program; NULL: beside this program, then the place where it was installed */
  const ij_media_options *media; /* of its frames and sound; NULL: the defaults */
} ij_video_options;
IJ_API ij_video_options ij_video_options_default(void);

/* The decoder gets LD_LIBRARY_PATH (DYLD_LIBRARY_PATH) of this process and nothing else of its environment; where a file has to be made for
 * bytes, TMPDIR says where. path, or bytes when path is NULL. Errors as for ij_media_open; IJ_E_IO when the decoder cannot be started, dies or takes too long (this
 * call
 * fails, nothing else). */
IJ_API ij_status ij_video_open(ij_video **out, const char *path, const void *bytes, size_t n_bytes, const char *name,
                               const ij_video_options *options, ij_err *err);
IJ_API void ij_video_close(ij_video **video);
IJ_API int ij_video_n_blocks(const ij_video *video);
/* A block of frames, and the time of its first frame in seconds. Owned by the video. */
IJ_API const ij_media *ij_video_block(const ij_video *video, int index, double *seconds);
IJ_API const ij_media *ij_video_sound(const ij_video *video); /* NULL: there is none, or it was not asked for */

typedef struct ij_video_info {
  const char *format;          /* container and codec */
  int width, height;
  double seconds, fps;         /* of the file */
  int n_frames_total;          /* 0: unknown */
  int n_frames;                /* sampled */
  bool has_sound;              /* in the file */
  int64_t n_rows;              /* of all blocks and the sound */
} ij_video_info;
IJ_API void ij_video_get_info(const ij_video *video, ij_video_info *out);

#ifdef __cplusplus
}
#endif
#endif
