/* video_file.c: see video_file.h. The formats that are read are listed here by name. What is not in the list is refused before it sees a
 * byte, above all playlists (HLS, DASH, concat), whose content is the names of other files. Damage is an error, never a guess: a decoder
 * that conceals would show the model what nobody filmed. */
#include "video/video_file.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "video/video_out.h"
#include "video/video_plan.h"

#define EXPECTED "MP4, Matroska, WebM, AVI, MPEG, FLV, Ogg, ASF or GIF"
enum { IO_BUFFER = 1 << 16 };

static const struct {
  const char *name, *spoken;
} containers[] = {
  {"mov,mp4,m4a,3gp,3g2,mj2", "MP4"}, {"matroska,webm", "Matroska"}, {"avi", "AVI"}, {"mpegts", "MPEG-TS"}, {"mpeg", "MPEG-PS"},
  {"flv", "FLV"}, {"ogg", "Ogg"}, {"asf", "ASF"}, {"nut", "NUT"}, {"ivf", "IVF"}, {"yuv4mpegpipe", "Y4M"}, {"gif", "GIF"}, {"apng", "APNG"},
  {"h264", "H.264 stream"}, {"hevc", "HEVC stream"}, {"m4v", "MPEG-4 stream"}, {"mpegvideo", "MPEG video stream"},
};

static int read_input(void *opaque, uint8_t *to, int n) {
  (void)opaque;
  ssize_t got;
  do got = read(STDIN_FILENO, to, (size_t)n);
  while (got < 0 && errno == EINTR);
  return got < 0 ? AVERROR(errno) : got == 0 ? AVERROR_EOF : (int)got;
}

static int64_t seek_input(void *opaque, int64_t offset, int whence) {
  (void)opaque;
  if (whence & AVSEEK_SIZE) {
    off_t here = lseek(STDIN_FILENO, 0, SEEK_CUR), end = lseek(STDIN_FILENO, 0, SEEK_END);
    return lseek(STDIN_FILENO, here, SEEK_SET) < 0 ? AVERROR(errno) : end;
  }
  off_t at = lseek(STDIN_FILENO, (off_t)offset, whence & ~AVSEEK_FORCE);
  return at < 0 ? AVERROR(errno) : at;
}

static int open_nothing(AVFormatContext *s, AVIOContext **pb, const char *url, int flags, AVDictionary **options) {
  (void)s, (void)pb, (void)url, (void)flags, (void)options;
  return AVERROR(EPERM);
}

/* A name out of a file may hold anything; formats of the library do not. */
static const char *container_of(const AVInputFormat *format) {
  for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++)
    if (strcmp(format->name, containers[i].name) == 0) return containers[i].spoken;
  ij__out_fail(IJ_E_UNSUPPORTED, "a file of the kind \"%s\" is not read as a video: expected " EXPECTED
               " (playlists, which name other files, are never read)", format->name);
}

/* The status of an error of the libraries. */
static ij_status status_of(int code) { return code == AVERROR(ENOMEM) ? IJ_E_NOMEM : IJ_E_FORMAT; }

static void open_format(ij__video_file *file) {
  if (lseek(STDIN_FILENO, 0, SEEK_SET) != 0) ij__out_fail(IJ_E_IO, "the file cannot seek: expected a regular file");
  unsigned char *buffer = av_malloc(IO_BUFFER);
  file->io = buffer ? avio_alloc_context(buffer, IO_BUFFER, 0, NULL, read_input, NULL, seek_input) : NULL;
  file->format = avformat_alloc_context();
  if (!file->io || !file->format) ij__out_fail(IJ_E_NOMEM, "no memory for opening the file");
  const AVInputFormat *kind = NULL;
  if (av_probe_input_buffer2(file->io, &kind, NULL, NULL, 0, 0) < 0 || !kind)
    ij__out_fail(IJ_E_FORMAT, "no kind of video that is known here: expected " EXPECTED);
  file->container = container_of(kind);
  file->format->pb = file->io;
  file->format->flags |= AVFMT_FLAG_CUSTOM_IO;
  file->format->io_open = open_nothing;
  file->format->error_recognition = AV_EF_CRCCHECK;
  AVDictionary *options = NULL;
  av_dict_set(&options, "protocol_whitelist", "none", 0);
  int code = avformat_open_input(&file->format, NULL, kind, &options);
  av_dict_free(&options);
  if (code < 0) ij__out_fail(status_of(code), "the %s file cannot be opened: %s", file->container, av_err2str(code));
  code = avformat_find_stream_info(file->format, NULL);
  if (code < 0) ij__out_fail(status_of(code), "the tracks of the %s file cannot be read: %s", file->container, av_err2str(code));
}

static void find_tracks(ij__video_file *file) {
  AVFormatContext *format = file->format;
  int picture = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
  int sound = av_find_best_stream(format, AVMEDIA_TYPE_AUDIO, -1, picture < 0 ? -1 : picture, NULL, 0);
  if (picture >= 0 && format->streams[picture]->disposition & AV_DISPOSITION_ATTACHED_PIC) picture = -1; /* the cover of a song */
  if (picture < 0) ij__out_fail(IJ_E_FORMAT, "the %s file holds no video track%s", file->container, sound >= 0 ? ", only sound" : "");
  file->tracks[IJ_TRACK_PICTURE] = format->streams[picture];
  file->tracks[IJ_TRACK_SOUND] = sound < 0 ? NULL : format->streams[sound];
}

/* The first decoder in software: others want devices. */
static const AVCodec *find_decoder(enum AVCodecID id) {
  const int not_these = AV_CODEC_CAP_HARDWARE | AV_CODEC_CAP_HYBRID | AV_CODEC_CAP_EXPERIMENTAL;
  void *position = NULL;
  for (const AVCodec *codec; (codec = av_codec_iterate(&position));)
    if (codec->id == id && av_codec_is_decoder(codec) && !(codec->capabilities & not_these)) return codec;
  return NULL;
}

/* Codecs that know for certain when something is wrong. From others one would hear of the frames that a cut in the stream left without
 * those they refer to, which is usual at the start of a recording. */
static bool has_checksums(enum AVCodecID codec) {
  return codec == AV_CODEC_ID_FFV1 || codec == AV_CODEC_ID_PNG || codec == AV_CODEC_ID_APNG || codec == AV_CODEC_ID_FLAC;
}

/* A decoder that conceals damage says so in its log, and in no other way that all of them share. */
static const void *watched;
static bool complained;

static void hear(void *about, int level, const char *fmt, va_list args) {
  (void)fmt, (void)args;
  if (about && about == watched && level <= AV_LOG_ERROR) complained = true;
}

static void open_decoder(ij__video_file *file, int64_t max_pixels) {
  const AVCodecParameters *par = file->stream->codecpar;
  const AVCodec *codec = find_decoder(par->codec_id);
  if (!codec)
    ij__out_fail(IJ_E_UNSUPPORTED, "there is no decoder here for %s in the %s file", avcodec_get_name(par->codec_id), file->container);
  if ((int64_t)par->width * par->height > max_pixels)
    ij__out_fail(IJ_E_RANGE, "the picture has %d x %d = %lld pixels, more than the limit of %lld", par->width, par->height,
                 (long long)par->width * par->height, (long long)max_pixels);
  file->decoder = avcodec_alloc_context3(codec);
  file->packet = av_packet_alloc();
  file->frame = av_frame_alloc();
  if (!file->decoder || !file->packet || !file->frame || avcodec_parameters_to_context(file->decoder, par) < 0)
    ij__out_fail(IJ_E_NOMEM, "no memory for the decoder");
  file->decoder->thread_count = 1;
  file->decoder->pkt_timebase = file->stream->time_base;
  file->decoder->flags |= AV_CODEC_FLAG_UNALIGNED; /* cropped where the file says, not where a vector would begin */
  file->decoder->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER;
  if (has_checksums(par->codec_id)) {
    file->decoder->err_recognition |= AV_EF_EXPLODE;
    watched = file->decoder;
  }
  av_log_set_callback(hear); /* which also keeps everything silent */
  if (par->codec_type == AVMEDIA_TYPE_VIDEO) file->decoder->max_pixels = max_pixels;
  int code = avcodec_open2(file->decoder, codec, NULL);
  if (code < 0) ij__out_fail(status_of(code), "the decoder of %s does not start: %s", codec->name, av_err2str(code));
}

void ij__video_file_open(ij__video_file *file, ij__track track, int64_t max_pixels) {
  *file = (ij__video_file){0};
  open_format(file);
  find_tracks(file);
  file->stream = file->tracks[track];
  for (unsigned i = 0; i < file->format->nb_streams; i++)
    if (file->format->streams[i] != file->stream) file->format->streams[i]->discard = AVDISCARD_ALL;
  open_decoder(file, max_pixels);
}

void ij__video_file_close(ij__video_file *file) {
  watched = NULL;
  complained = false;
  av_frame_free(&file->frame);
  av_packet_free(&file->packet);
  avcodec_free_context(&file->decoder);
  avformat_close_input(&file->format);
  if (file->io) av_freep(&file->io->buffer);
  avio_context_free(&file->io);
}

void ij__video_file_watch_all(ij__video_file *file) {
  for (unsigned i = 0; i < file->format->nb_streams; i++) file->format->streams[i]->discard = AVDISCARD_DEFAULT;
}

double ij__video_file_claim(const ij__video_file *file) {
  const AVFormatContext *format = file->format;
  if (file->stream->duration != AV_NOPTS_VALUE) return (double)file->stream->duration * av_q2d(file->stream->time_base);
  if (format->duration == AV_NOPTS_VALUE || format->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE) return 0;
  return (double)format->duration / AV_TIME_BASE;
}

static void note_end(ij__video_file *file) {
  const AVPacket *packet = file->packet;
  int64_t at = packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts;
  if (at == AV_NOPTS_VALUE || (unsigned)packet->stream_index >= file->format->nb_streams) return;
  const int64_t start = file->format->start_time;
  double end = ((double)at + (double)packet->duration) * av_q2d(file->format->streams[packet->stream_index]->time_base);
  if (start != AV_NOPTS_VALUE) end -= (double)start / AV_TIME_BASE;
  if (end > file->end) file->end = end;
}

bool ij__video_file_packet(ij__video_file *file) {
  for (;;) {
    av_packet_unref(file->packet);
    int code = av_read_frame(file->format, file->packet);
    if (code == AVERROR_EOF && file->io->error >= 0) return false;
    if (code < 0)
      ij__out_fail(IJ_E_FORMAT, "the %s file is damaged or cut short near byte %lld: %s", file->container, (long long)avio_tell(file->io),
                   av_err2str(code));
    note_end(file);
    if (file->packet->stream_index != file->stream->index) continue;
    if (file->packet->flags & AV_PKT_FLAG_CORRUPT)
      ij__out_fail(IJ_E_FORMAT, "the %s file is damaged or cut short near byte %lld", file->container, (long long)avio_tell(file->io));
    file->n_packets++;
    return true;
  }
}

/* The next packet that the plan needs, or simply the next one. */
static bool needed_packet(ij__video_file *file) {
  while (ij__video_file_packet(file)) {
    if (!file->flags) return true;
    if (file->n_packets <= file->n_flags && file->flags[file->n_packets - 1] & IJ_PACKET_NEEDED) return true;
    file->gap = true;
  }
  return false;
}

/* Gives the decoder its next packet; after a gap, first the order to give out what it holds. */
static int feed(ij__video_file *file) {
  bool more = needed_packet(file);
  if (more && file->gap && file->fed) {
    file->draining = true;
    return avcodec_send_packet(file->decoder, NULL);
  }
  file->gap = false;
  file->fed = true;
  return avcodec_send_packet(file->decoder, more ? file->packet : NULL);
}

static int feed_after_gap(ij__video_file *file) {
  avcodec_flush_buffers(file->decoder);
  file->draining = file->gap = false;
  return avcodec_send_packet(file->decoder, file->packet);
}

bool ij__video_file_frame(ij__video_file *file) {
  for (;;) {
    int code = avcodec_receive_frame(file->decoder, file->frame);
    if (complained) code = AVERROR_INVALIDDATA;
    if (code == 0) return true;
    if (code == AVERROR_EOF && !file->draining) return false;
    if (code == AVERROR_EOF) code = feed_after_gap(file);
    else if (code == AVERROR(EAGAIN)) code = feed(file);
    if (code >= 0) continue;
    if (file->flags) return false;
    ij__out_fail(status_of(code), "%s near byte %lld of the %s file cannot be decoded: %s",
                 avcodec_get_name(file->decoder->codec_id), (long long)avio_tell(file->io), file->container, av_err2str(code));
  }
}
