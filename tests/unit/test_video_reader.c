/* The sampling rule with the examples of the convention, and the reader of the decoder's messages: what it accepts and every way to lie. */
#include "core/alloc.h"
#include "media/media.h"
#include "media/video.h"
#include "test.h"
#include "video/messages.h"

static void check_samples(int64_t total, double average, double fps, int64_t most, const int *want, int n_want) {
  int64_t n = ij__video_n_sampled(total, average, fps, most);
  CHECK_INT(n, n_want);
  for (int i = 0; i < n_want && i < n; i++) CHECK_INT(ij__video_sample(total, n, i), want[i]);
}

static void sampling_rule(void) {
  static const int sixteen[] = {0, 19, 39, 59, 79, 99, 119, 139, 159, 179, 199, 219, 239, 259, 279, 299}, four[] = {0, 33, 66, 99};
  static const int zero[] = {0}, all[] = {0, 1, 2, 3, 4};
  check_samples(300, 30, 2, 16, sixteen, 16);
  check_samples(7, 30, 2, 32, zero, 1);
  check_samples(100, 25, 1, 32, four, 4);
  check_samples(1, 30, 2, 32, zero, 1);
  check_samples(5, 10, 1000, 32, all, 5);
  check_samples(300, 30, 2, 1, zero, 1);
}

static void sampling_edges(void) {
  /* A rate above the video's own is all frames, also where binary64 would lose one: 61 / (30000 / 1001) * (30000 / 1001) < 61. */
  const double ntsc = 30000.0 / 1001;
  CHECK((int)(61 / ntsc * ntsc) == 60);
  CHECK_INT(ij__video_n_sampled(61, ntsc, 60, 4096), 61);
  CHECK_INT(ij__video_n_sampled(IJ_VIDEO_MAX_TOTAL, 1e-3, 1e6, 4096), 4096);
  CHECK_INT(ij__video_sample(IJ_VIDEO_MAX_TOTAL, 4096, 4095), IJ_VIDEO_MAX_TOTAL - 1);
  uint64_t seed = 1;
  for (int round = 0; round < 2000; round++) {
    int64_t total = 1 + (int64_t)(test_random(&seed) % 5000), most = 1 + (int64_t)(test_random(&seed) % 64);
    double average = 1 + (double)(test_random(&seed) % 6000) / 100, fps = 0.1 + (double)(test_random(&seed) % 400) / 100;
    int64_t n = ij__video_n_sampled(total, average, fps, most), before = -1;
    bool good = n >= 1 && n <= most && n <= total;
    for (int64_t i = 0; i < n; i++) {
      int64_t at = ij__video_sample(total, n, i);
      good = good && at > before && at < total;
      before = at;
    }
    if (!good || (n > 1 && before != total - 1)) TEST_FAIL("round %d: %lld frames, %lld sampled", round, (long long)total, (long long)n);
  }
}

/* Feeds bytes in steps of at most `step`. Stops at done or failure; *used: how many bytes were taken. */
static ij_status feed(ij__video_reader *r, const ij_buf *b, size_t step, size_t *used, ij_err *err) {
  size_t at = 0;
  ij_status s = IJ_OK;
  while (s == IJ_OK && !r->done && at < b->len) {
    size_t n = r->want - r->have;
    n = IJ_MIN(IJ_MIN(n, step), b->len - at);
    memcpy(r->place + r->have, b->data + at, n);
    at += n;
    s = ij__video_reader_take(r, n, err);
  }
  *used = at;
  return s;
}

static ij_video *read_all(const ij_buf *b, const ij_video_options *o, size_t step) {
  ij__video_reader r;
  ij_err err = {0};
  ij_video *video = NULL;
  size_t used;
  CHECK_OK(ij__video_reader_open(&r, o, "clip", &err), err);
  CHECK_OK(feed(&r, b, step, &used, &err), err);
  CHECK(r.done);
  CHECK_INT(used, b->len);
  if (r.done) CHECK_OK(ij__video_reader_finish(&r, &video, &err), err);
  ij__video_reader_close(&r);
  return video;
}

/* These bytes must fail with this status and a message that has `text`, or break off when status is IJ_OK. */
static void must_fail(const ij_buf *b, const ij_video_options *o, ij_status status, const char *text) {
  int64_t blocks = ij__alloc_blocks();
  for (size_t step = 1; step < 5000; step += 4098) {
    ij__video_reader r;
    ij_err err = {0};
    size_t used;
    CHECK_OK(ij__video_reader_open(&r, o, "clip", &err), err);
    ij_status s = feed(&r, b, step, &used, &err);
    CHECK_STR(ij_status_name(s), ij_status_name(status));
    CHECK(!r.done);
    CHECK_HAS(err.message, text);
    ij__video_reader_close(&r);
  }
  CHECK_INT(ij__alloc_blocks(), blocks);
}

static void check_block(const ij_video *v, int index, double seconds, unsigned first, int second) {
  double at = -1;
  const ij_media *m = ij_video_block(v, index, &at);
  if (!m) {
    TEST_FAIL("there is no block %d", index);
    return;
  }
  CHECK_NEAR(at, seconds, 1e-12);
  CHECK_INT(m->info.pair, second >= 0);
  CHECK_INT(m->pixels[0][1], (first + 1) & 255);
  CHECK_INT(m->pixels[0][89], (first + 89) & 255);
  CHECK((m->pixels[1] != NULL) == (second >= 0));
  if (second >= 0 && m->pixels[1]) CHECK_INT(m->pixels[1][89], (second + 89) & 255);
}

static void pairs_and_an_odd_frame(void) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  int64_t blocks = ij__alloc_blocks();
  o.fps = 100;
  put_three_frames(&b);
  for (size_t step = 1; step < 5000; step = 3 * step + 1) {
    ij_video *v = read_all(&b, &o, step);
    ij_video_info info;
    ij_video_get_info(v, &info);
    CHECK_INT(ij_video_n_blocks(v), 2);
    check_block(v, 0, 0, 0, 50);
    check_block(v, 1, 0.2, 100, 100);
    CHECK(ij_video_block(v, 2, NULL) == NULL && ij_video_block(v, -1, NULL) == NULL && ij_video_sound(v) == NULL);
    CHECK_STR(info.format, "AVI, ffv1");
    CHECK_NEAR(info.seconds, 0.3, 1e-12);
    CHECK_INT(info.n_frames, 3);
    CHECK_INT(info.n_frames_total, 3);
    CHECK_INT(info.n_rows, 2);
    ij_video_close(&v);
    ij_video_close(&v);
  }
  ij__buf_free(&b);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

static void stills(void) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  o.fps = 100;
  o.pairs = false;
  put_three_frames(&b);
  ij_video *v = read_all(&b, &o, 100);
  CHECK_INT(ij_video_n_blocks(v), 3);
  for (int i = 0; i < 3; i++) check_block(v, i, 0.1 * i, (unsigned)(50 * i), -1);
  ij_video_close(&v);
  ij__buf_free(&b);
}

/* A header in between makes what came before void. */
static void another_header(void) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  message_head four = usual_head(6, 5, 4, 4), two = usual_head(5, 6, 2, 2);
  o.fps = 100;
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  put_head(&b, &four);
  for (unsigned i = 0; i < 3; i++) put_frame(&b, i, 0.1 * i, 30, 9);
  two.across = 4, two.down = 3;
  put_head(&b, &two);
  for (unsigned i = 0; i < 2; i++) put_frame(&b, i, 0.1 * i, 30, 50 * i);
  put_done(&b, 2, 0);
  ij_video *v = read_all(&b, &o, 1000);
  CHECK_INT(ij_video_n_blocks(v), 1);
  check_block(v, 0, 0, 0, 50);
  ij_video_info info;
  ij_video_get_info(v, &info);
  CHECK_STR(info.format, "AVI, ffv1, pixels of 4:3 shown square");
  CHECK_INT(info.width, 5);
  ij_video_close(&v);
  b.len = 0;
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  for (int i = 0; i <= IJ_VIDEO_MAX_HEADS; i++) put_head(&b, &two);
  must_fail(&b, &o, IJ_E_IO, "a header where none may be");
  ij__buf_free(&b);
}

static void sound_after_frames(void) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  message_head head = usual_head(6, 5, 1, 1);
  o.sound = true;
  head.has_sound = 1;
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  put_head(&b, &head);
  put_frame(&b, 0, 0, 30, 0);
  put_sound(&b, 16000, 2, 1000);
  put_sound(&b, 16000, 2, 601);
  put_done(&b, 1, 1601);
  ij_video *v = read_all(&b, &o, 999);
  ij_media_info info;
  if (ij_video_sound(v)) {
    ij_media_get_info(ij_video_sound(v), &info);
    CHECK_INT(info.kind, IJ_MEDIA_AUDIO);
    CHECK_INT(info.n_rows, 3);
    CHECK_INT(info.channels, 2);
    CHECK_INT(info.n_samples, 1601);
  } else {
    TEST_FAIL("no sound");
  }
  ij_video_info whole;
  ij_video_get_info(v, &whole);
  CHECK_INT(whole.n_rows, 4);
  CHECK(whole.has_sound);
  ij_video_close(&v);

  ij_media_options media = ij_media_options_default();
  media.max_rows = 1;
  o.media = &media;
  must_fail(&b, &o, IJ_E_RANGE, "more than the limit of 1");
  ij__buf_free(&b);
}

/* ------------------------------------------------------------------------------------------------------------- lies */

static void lie_about_head(const message_head *head, ij_status status, const char *text) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  o.fps = 100;
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  put_head(&b, head);
  put_frame(&b, 0, 0, 30, 0);
  must_fail(&b, &o, status, text);
  ij__buf_free(&b);
}

#define LIE(field, value, status, text)           \
  do {                                            \
    message_head lie = usual_head(6, 5, 3, 3);    \
    lie.field = (value);                          \
    lie_about_head(&lie, status, text);           \
  } while (0)

static void lying_headers(void) {
  LIE(width, 0, IJ_E_IO, "a side of the picture");
  LIE(height, 0xffffffffu, IJ_E_IO, "a side of the picture");
  LIE(width, 1u << 24, IJ_E_RANGE, "more than the limit of 67108864");
  LIE(fps, NAN, IJ_E_IO, "the frames per second");
  LIE(fps, -1, IJ_E_IO, "the frames per second");
  LIE(fps, INFINITY, IJ_E_IO, "the frames per second");
  LIE(fps, 1e-5, IJ_E_RANGE, "more than the limit of 3600.0 s");
  LIE(total, 0, IJ_E_IO, "the number of frames");
  LIE(total, UINT64_MAX, IJ_E_IO, "the number of frames");
  LIE(n_frames, 4, IJ_E_IO, "the number of sampled frames");
  LIE(n_frames, 0, IJ_E_IO, "the number of sampled frames");
  LIE(has_sound, 2, IJ_E_IO, "a field of the header");
  LIE(across, 0, IJ_E_IO, "a field of the header");
  LIE(container, "", IJ_E_IO, "a field of the header");
  LIE(container, "\033[2J", IJ_E_IO, "a field of the header");
  LIE(codec, "a name of 48 bytes, which leaves no room for NUL", IJ_E_IO, "a field of the header");
}

static void lying_frames(void) {
  ij_video_options o = ij_video_options_default();
  const message_head head = usual_head(6, 5, 3, 3);
  static const struct {
    uint64_t index;
    double seconds;
    size_t n_pixels;
    const char *text;
  } lies[] = {{2, 0.2, 30, "a frame that was not to be sampled"}, {1, 0.05, 30, "the time of a frame"}, {1, NAN, 30, "the time of a frame"},
              {1, 1e300, 30, "the time of a frame"}, {1, 0.2, 29, "a message that may not be here"},
              {1, 0.2, 31, "a message that may not be here"}};
  o.fps = 100;
  for (size_t i = 0; i < IJ_COUNT_OF(lies); i++) {
    ij_buf b = {0};
    ij__buf_puts(&b, IJ_VIDEO_MAGIC);
    put_head(&b, &head);
    put_frame(&b, 0, 0.1, 30, 0);
    put_frame(&b, lies[i].index, lies[i].seconds, lies[i].n_pixels, 0);
    must_fail(&b, &o, IJ_E_IO, lies[i].text);
    ij__buf_free(&b);
  }
}

/* b after the header and all frames of a video with sound; which message may follow? */
static void after_frames(void (*add)(ij_buf *), bool has_sound, bool ask, const char *text) {
  ij_video_options o = ij_video_options_default();
  message_head head = usual_head(6, 5, 1, 1);
  ij_buf b = {0};
  head.has_sound = has_sound;
  o.sound = ask;
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  put_head(&b, &head);
  put_frame(&b, 0, 0, 30, 0);
  add(&b);
  must_fail(&b, &o, IJ_E_IO, text);
  ij__buf_free(&b);
}

static void add_frame(ij_buf *b) { put_frame(b, 0, 0, 30, 0); }
static void add_sound(ij_buf *b) { put_sound(b, 8000, 1, 10); }
static void add_done(ij_buf *b) { put_done(b, 1, 0); }
static void add_more_done(ij_buf *b) { put_done(b, 2, 0); }
static void add_other_rate(ij_buf *b) { add_sound(b), put_sound(b, 9000, 1, 10); }
static void add_no_rate(ij_buf *b) { put_sound(b, 0, 1, 10); }
static void add_channels(ij_buf *b) { put_sound(b, 8000, 65, 10); }
static void add_no_samples(ij_buf *b) { put_sound(b, 8000, 1, 0); }
static void add_wrong_count(ij_buf *b) { add_sound(b), put_done(b, 1, 9); }
static void add_head_after_sound(ij_buf *b) {
  message_head head = usual_head(6, 5, 1, 1);
  add_sound(b), put_head(b, &head);
}
static void add_half_sample(ij_buf *b) {
  uint8_t bytes[8 + 6] = {0};
  ij__video_put32(bytes, 8000);
  ij__video_put32(bytes + 4, 1);
  put_message(b, IJ_VIDEO_SOUN, bytes, sizeof bytes);
}
static void add_endless(ij_buf *b) {
  uint8_t bytes[12];
  ij__video_put32(bytes, IJ_VIDEO_SOUN);
  ij__video_put64(bytes + 4, UINT64_MAX);
  ij__buf_append(b, bytes, sizeof bytes);
}
static void add_unknown(ij_buf *b) { put_message(b, IJ_VIDEO_TYPE('N', 'O', 'N', 'E'), "", 0); }

static void lying_ends(void) {
  after_frames(add_frame, false, true, "may not be here");
  after_frames(add_sound, false, true, "may not be here");
  after_frames(add_sound, true, false, "may not be here");
  after_frames(add_done, true, true, "sound is missing");
  after_frames(add_more_done, false, false, "frames are missing");
  after_frames(add_other_rate, true, true, "the sound changes");
  after_frames(add_no_rate, true, true, "the kind of the sound");
  after_frames(add_channels, true, true, "the kind of the sound");
  after_frames(add_no_samples, true, true, "may not be here");
  after_frames(add_half_sample, true, true, "a part of a sample");
  after_frames(add_wrong_count, true, true, "sound is missing");
  after_frames(add_head_after_sound, true, true, "a header where none may be");
  after_frames(add_endless, true, true, "may not be here");
  after_frames(add_unknown, true, true, "may not be here");
}

static void other_programs(void) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  ij__buf_puts(&b, "INKJETV2 and more");
  must_fail(&b, &o, IJ_E_IO, "another version, or another program");
  b.len = 0;
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  put_done(&b, 0, 0);
  must_fail(&b, &o, IJ_E_IO, "may not be here");
  ij__buf_free(&b);
}

static void reported_failures(void) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  size_t start = b.len;
  put_fail(&b, (uint32_t)-IJ_E_FORMAT, "cut short \033[31m");
  must_fail(&b, &o, IJ_E_FORMAT, "cut short ?[31m");
  b.len = start;
  put_fail(&b, (uint32_t)-IJ_E_UNSUPPORTED, "");
  must_fail(&b, &o, IJ_E_UNSUPPORTED, "gave no reason");
  b.len = start;
  put_fail(&b, (uint32_t)-IJ_E_CANCELLED, "asked to stop");
  must_fail(&b, &o, IJ_E_IO, "an error without a meaning");
  b.len = start;
  put_fail(&b, 0x80000004u, "no");
  must_fail(&b, &o, IJ_E_IO, "an error without a meaning");
  ij__buf_free(&b);
}

/* Frames that are allowed one by one, and too much together. */
static void too_many_pixels(void) {
  ij_video_options o = ij_video_options_default();
  ij_media_options media = ij_media_options_default();
  ij_buf b = {0};
  media.max_pixels = 30;
  o.media = &media;
  o.fps = 100;
  message_head head = usual_head(6, 5, 7, 7);
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  put_head(&b, &head);
  for (unsigned i = 0; i < 7; i++) put_frame(&b, i, i, 30, 0);
  must_fail(&b, &o, IJ_E_RANGE, "more pixels than the limit of 120 for all frames together");
  ij__buf_free(&b);
}

/* A frame or a sound that the options refuse is named as the video that it is in. */
static void refusals_name_the_video(void) {
  ij_video_options o = ij_video_options_default();
  ij_media_options media = ij_media_options_default();
  ij_buf b = {0};
  message_head head = usual_head(6, 5, 1, 1);
  head.has_sound = 1;
  o.sound = true;
  o.media = &media;
  ij__buf_puts(&b, IJ_VIDEO_MAGIC);
  put_head(&b, &head);
  put_frame(&b, 0, 0, 30, 0);
  put_sound(&b, 16000, 1, 801);
  put_done(&b, 1, 801);
  for (int refused = 0; refused < 2; refused++) { /* the frame: 3 x 4 patches; the sound: 2 rows */
    ij__video_reader r;
    ij_err err = {0};
    ij_video *v = NULL;
    size_t used;
    media.patch = refused == 0 ? 2 : 40;
    media.max_rows = 1;
    CHECK_OK(ij__video_reader_open(&r, &o, "clip", &err), err);
    ij_status s = feed(&r, &b, 1000, &used, &err);
    if (s == IJ_OK) s = ij__video_reader_finish(&r, &v, &err);
    CHECK_STR(ij_status_name(s), "E_RANGE");
    CHECK_STR(err.where, "clip");
    CHECK_HAS(err.message, refused == 0 ? "pixels: the picture" : "samples: the sound");
    CHECK(v == NULL);
    ij__video_reader_close(&r);
  }
  ij__buf_free(&b);
}

static void without_memory(void) {
  ij_video_options o = ij_video_options_default();
  ij_buf b = {0};
  int64_t blocks;
  int failed = 0;
  o.fps = 100;
  put_three_frames(&b);
  blocks = ij__alloc_blocks();
  for (int64_t after = 1; after < 200; after++) {
    ij__video_reader r;
    ij_err err = {0};
    ij_video *v = NULL;
    size_t used;
    ij__alloc_fail_after(after);
    ij_status s = ij__video_reader_open(&r, &o, "clip", &err);
    if (s == IJ_OK) {
      s = feed(&r, &b, 1000, &used, &err);
      if (s == IJ_OK) s = ij__video_reader_finish(&r, &v, &err);
    }
    ij__alloc_fail_after(0);
    ij__video_reader_close(&r);
    ij_video_close(&v);
    failed += s == IJ_E_NOMEM;
    if (s == IJ_OK) break;
    CHECK_STR(ij_status_name(s), "E_NOMEM");
  }
  CHECK(failed > 4);
  CHECK_INT(ij__alloc_blocks(), blocks);
  ij__buf_free(&b);
}

static void refused_options(void) {
  ij_video *v = NULL;
  ij_err err = {0};
  ij_video_options o = ij_video_options_default();
  o.fps = 0;
  CHECK_INT(ij_video_open(&v, NULL, "x", 1, "clip", &o, &err), IJ_E_ARGUMENT);
  o = ij_video_options_default(), o.max_frames = 0;
  CHECK_INT(ij_video_open(&v, NULL, "x", 1, "clip", &o, &err), IJ_E_ARGUMENT);
  o = ij_video_options_default(), o.max_seconds = NAN;
  CHECK_INT(ij_video_open(&v, NULL, "x", 1, "clip", &o, &err), IJ_E_ARGUMENT);
  o = ij_video_options_default(), o.timeout_s = 0;
  CHECK_INT(ij_video_open(&v, NULL, "x", 1, "clip", &o, &err), IJ_E_ARGUMENT);
  o = ij_video_options_default(), o.struct_size = 4;
  CHECK_INT(ij_video_open(&v, NULL, "x", 1, "clip", &o, &err), IJ_E_ARGUMENT);
  ij_media_options media = ij_media_options_default();
  media.struct_size = 4; /* found before a decoder is looked for */
  o = ij_video_options_default(), o.media = &media, o.decoder = "tests/there-is-no-such-program";
  CHECK_INT(ij_video_open(&v, NULL, "x", 1, "clip", &o, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_video_open(&v, NULL, NULL, 0, "clip", NULL, &err), IJ_E_ARGUMENT);
  CHECK(v == NULL);
}

int main(void) {
  RUN(sampling_rule);
  RUN(sampling_edges);
  RUN(pairs_and_an_odd_frame);
  RUN(stills);
  RUN(another_header);
  RUN(sound_after_frames);
  RUN(lying_headers);
  RUN(lying_frames);
  RUN(lying_ends);
  RUN(other_programs);
  RUN(reported_failures);
  RUN(too_many_pixels);
  RUN(refusals_name_the_video);
  RUN(without_memory);
  RUN(refused_options);
  return test_report();
}
