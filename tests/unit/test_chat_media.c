/* test_chat_media.c: media in prompts, before anything is opened: rows for placeholders, and the blocks that a video becomes. */
#include "chat/bytes_tokenizer.h"
#include "chat/request.h"
#include "core/alloc.h"
#include "test.h"

static ij_tokenizer *tok; /* every byte is a token */

static const char messages[] =
    "[{\"role\":\"user\",\"content\":[\"ab\",{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}},{\"type\":\"input_audio\"},\"c\"]}]";

static ij_prompt *render(const char *text, const ij_prompt_options *options, ij_err *err) {
  ij_prompt *p = NULL;
  CHECK_OK(ij_prompt_render(&p, tok, text, strlen(text), NULL, 0, options, err), *err);
  return p;
}

static int find(const ij_prompt *p, ij_segment_kind kind, int from) {
  for (int i = from; i < ij_prompt_n_segments(p); i++) {
    if (ij_prompt_segment(p, i).kind == kind) return i;
  }
  return -1;
}

/* Segments follow each other without gaps, and the ids are theirs. */
static void check_whole(const ij_prompt *p) {
  int64_t at = 0;
  for (int i = 0; i < ij_prompt_n_segments(p); i++) {
    ij_segment s = ij_prompt_segment(p, i);
    CHECK_INT(s.first, at);
    for (int64_t k = 0; k < s.n_ids && at < ij_prompt_n_ids(p); k++, at++) {
      int32_t want = s.kind == IJ_SEGMENT_TEXT ? (unsigned char)s.bytes[k] : s.id;
      if (ij_prompt_ids(p)[at] != want) TEST_FAIL("segment %d: id %lld is %d, expected %d", i, (long long)k, ij_prompt_ids(p)[at], want);
    }
  }
  CHECK_INT(at, ij_prompt_n_ids(p));
}

static void rows_take_their_places(void) {
  for (int order = 0; order < 2; order++) {
    ij_err err = {0};
    ij_prompt *p = render(messages, NULL, &err);
    if (!p) return;
    int64_t n = ij_prompt_n_ids(p);
    int image = find(p, IJ_SEGMENT_IMAGE, 0), audio = find(p, IJ_SEGMENT_AUDIO, 0);
    check_whole(p);
    CHECK_INT(ij_prompt_segment(p, image).n_ids, 1);
    CHECK_INT(ij_prompt_segment(p, image).block, -1);
    CHECK(!ij_prompt_segment(p, image).video);
    CHECK_OK(ij_prompt_set_rows(p, order ? audio : image, order ? 7 : 300, &err), err);
    check_whole(p);
    CHECK_OK(ij_prompt_set_rows(p, order ? image : audio, order ? 300 : 7, &err), err);
    check_whole(p);
    CHECK_INT(ij_prompt_segment(p, image).n_ids, 300);
    CHECK_INT(ij_prompt_segment(p, audio).n_ids, 7);
    CHECK_INT(ij_prompt_n_ids(p), n + 299 + 6);
    ij_prompt_close(&p);
  }
}

static void rows_are_set_once_and_where_there_are_media(void) {
  ij_err err = {0};
  ij_prompt *p = render(messages, NULL, &err);
  if (!p) return;
  int image = find(p, IJ_SEGMENT_IMAGE, 0), text = find(p, IJ_SEGMENT_TEXT, 0);
  int64_t n = ij_prompt_n_ids(p);
  CHECK_INT(ij_prompt_set_rows(NULL, 0, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_prompt_set_rows(p, -1, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_prompt_set_rows(p, ij_prompt_n_segments(p), 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_prompt_set_rows(p, text, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_prompt_set_rows(p, 0, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_prompt_set_rows(p, image, 0, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "at least 1 row");
  CHECK_INT(ij_prompt_set_rows(p, image, -1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_prompt_set_rows(p, image, INT64_MAX, &err), IJ_E_NOMEM);
  ij__alloc_fail_after(1);
  CHECK_INT(ij_prompt_set_rows(p, image, 1000, &err), IJ_E_NOMEM);
  ij__alloc_fail_after(0);
  CHECK_INT(ij_prompt_n_ids(p), n);
  CHECK_OK(ij_prompt_set_rows(p, image, 1, &err), err);
  CHECK_INT(ij_prompt_set_rows(p, image, 1, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "already");
  check_whole(p);
  ij_prompt_close(&p);
}

/* --- videos */

typedef struct film {
  int n_blocks, n_asked;
  const double *seconds;
  bool sound;
  ij_status status;
  char part[200];
} film;

static ij_status on_video(void *user, const char *part, size_t n_part, int *n_blocks, const double **seconds, bool *sound, ij_err *err) {
  film *f = user;
  f->n_asked++;
  snprintf(f->part, sizeof f->part, "%.*s", (int)n_part, part);
  *n_blocks = f->n_blocks;
  *seconds = f->seconds;
  *sound = f->sound;
  if (f->status != IJ_OK && err) {
    *err = (ij_err){.code = f->status};
    snprintf(err->where, sizeof err->where, "film.mp4");
    snprintf(err->message, sizeof err->message, "it burned");
  }
  return f->status;
}

static ij_prompt_options with(film *f) {
  ij_prompt_options o = ij_prompt_options_default();
  o.video = on_video;
  o.user = f;
  return o;
}

static const char one_video[] = "[{\"role\":\"user\",\"content\":[\"a\",{\"video_url\":{\"url\":\"v\"},\"type\":\"video_url\"},{\"type\":\"text\",\"text\":\"b\"}]}]";

static void a_video_becomes_times_and_pictures(void) {
  static const double seconds[] = {0, 1.04, 59.96, 3599.25};
  static const char *const times[] = {"[0.0 s]", "[1.0 s]", "[60.0 s]", "[3599.2 s]"};
  for (int sound = 0; sound < 2; sound++) {
    film f = {.n_blocks = 4, .seconds = seconds, .sound = sound != 0};
    ij_prompt_options o = with(&f);
    ij_err err = {0};
    ij_prompt *p = render(one_video, &o, &err);
    ij_buf got = {0}, want = {0};
    if (!p) return;
    CHECK_INT(f.n_asked, 1);
    CHECK_STR(f.part, "{\"type\":\"video_url\",\"video_url\":{\"url\":\"v\"}}");
    rendered_text(&got, p);
#define BLOCK "<|message_user|><|content_text|>"
    ij__buf_puts(&want, "<|message_system|><|content_text|>Thinking effort level: 0.9<|end_message|>" BLOCK "a<|end_message|>"
                        BLOCK "Video frames in time order:<|end_message|>");
    for (int i = 0; i < 4; i++) {
      ij__buf_printf(&want, BLOCK "%s<|end_message|><|message_user|><|content_image|><|unused_200054|><|end_message|>", times[i]);
    }
    if (sound) ij__buf_puts(&want, "<|message_user|><|content_audio_input|><|unused_200053|><|audio_end|><|end_message|>");
    ij__buf_puts(&want, BLOCK "b<|end_message|><|message_model|>");
    CHECK_STR(got.data, want.data);
    for (int i = find(p, IJ_SEGMENT_IMAGE, 0), block = 0; i >= 0; i = find(p, IJ_SEGMENT_IMAGE, i + 1), block++) {
      ij_segment s = ij_prompt_segment(p, i);
      CHECK(s.video && s.block == block && s.n_source == strlen(f.part) && memcmp(s.source, f.part, s.n_source) == 0);
    }
    int audio = find(p, IJ_SEGMENT_AUDIO, 0);
    CHECK_INT(audio >= 0, sound);
    if (audio >= 0) CHECK(ij_prompt_segment(p, audio).video && ij_prompt_segment(p, audio).block == -1);
    check_whole(p);
    ij__buf_free(&got);
    ij__buf_free(&want);
    ij_prompt_close(&p);
  }
}

static void bad_videos_are_refused_with_their_part(void) {
  static const double good[] = {0.5}, bad[] = {-1}, nan_[] = {NAN};
  static const struct {
    film film;
    ij_status status;
    const char *where, *message;
  } cases[] = {
      {{.n_blocks = 1, .seconds = good, .status = IJ_E_FORMAT}, IJ_E_FORMAT, "messages[0].content[1]", "film.mp4: it burned"},
      {{.n_blocks = 1, .seconds = good, .status = IJ_E_IO}, IJ_E_IO, "messages[0].content[1]", "film.mp4: it burned"},
      {{.n_blocks = 0, .seconds = good, .sound = true}, IJ_E_ARGUMENT, "messages[0].content[1]", "no frames"},
      {{.n_blocks = 1}, IJ_E_ARGUMENT, "messages[0].content[1]", "no frames"},
      {{.n_blocks = 1, .seconds = bad}, IJ_E_ARGUMENT, "messages[0].content[1]", "no time"},
      {{.n_blocks = 1, .seconds = nan_}, IJ_E_ARGUMENT, "messages[0].content[1]", "no time"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    film f = cases[i].film;
    ij_prompt_options o = with(&f);
    ij_prompt *p = NULL;
    ij_err err = {0};
    CHECK_INT(ij_prompt_render(&p, tok, one_video, sizeof one_video - 1, NULL, 0, &o, &err), cases[i].status);
    CHECK(!p && err.code == cases[i].status);
    CHECK_STR(err.where, cases[i].where);
    CHECK_HAS(err.message, cases[i].message);
  }
}

static void without_a_decoder_there_are_no_videos(void) {
  static const char *const types[] = {"video", "video_url"};
  for (size_t i = 0; i < IJ_COUNT_OF(types); i++) {
    char text[200];
    ij_prompt *p = NULL;
    ij_err err = {0};
    snprintf(text, sizeof text, "[{\"role\":\"user\",\"content\":[{\"type\":\"%s\",\"%s\":\"v\"}]}]", types[i], types[i]);
    CHECK_INT(ij_prompt_render(&p, tok, text, strlen(text), NULL, 0, NULL, &err), IJ_E_UNSUPPORTED);
    CHECK_STR(err.where, "messages[0].content[0].type");
    film f = {.n_blocks = 1, .seconds = (const double[]){0}};
    ij_prompt_options o = with(&f);
    p = render(text, &o, &err);
    CHECK(p && find(p, IJ_SEGMENT_IMAGE, 0) > 0);
    ij_prompt_close(&p);
  }
}

static void a_video_is_no_result_and_cannot_be_continued(void) {
  film f = {.n_blocks = 1, .seconds = (const double[]){0}};
  ij_prompt_options o = with(&f);
  ij_prompt *p = NULL;
  ij_err err = {0};
  static const char result[] = "[{\"role\":\"tool\",\"content\":[{\"type\":\"video\",\"video\":\"v\"}]}]";
  CHECK_INT(ij_prompt_render(&p, tok, result, sizeof result - 1, NULL, 0, &o, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "parts of text");
  static const char open[] = "[{\"role\":\"assistant\",\"content\":[{\"type\":\"video\",\"video\":\"v\"}]}]";
  o.add_generation_prompt = false;
  o.continue_final_message = true;
  CHECK_INT(ij_prompt_render(&p, tok, open, sizeof open - 1, NULL, 0, &o, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "only text can be continued");
  CHECK_INT(f.n_asked, 0);
}

static void videos_without_memory(void) {
  static const double seconds[] = {0, 1};
  int64_t n = 1;
  for (bool failed = true; failed && n < 1000; n++) {
    film f = {.n_blocks = 2, .seconds = seconds, .sound = true};
    ij_prompt_options o = with(&f);
    ij_prompt *p = NULL;
    ij_err err = {0};
    int64_t blocks = ij__alloc_blocks();
    ij__alloc_fail_after(n);
    ij_status s = ij_prompt_render(&p, tok, one_video, sizeof one_video - 1, NULL, 0, &o, &err);
    ij__alloc_fail_after(0);
    failed = s != IJ_OK;
    if (failed && (s != IJ_E_NOMEM || p)) TEST_FAIL("allocation %lld: status %d", (long long)n, (int)s);
    ij_prompt_close(&p);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
  CHECK(n > 5 && n < 1000);
}

int main(void) {
  tok = bytes_tokenizer(NULL);
  RUN(rows_take_their_places);
  RUN(rows_are_set_once_and_where_there_are_media);
  RUN(a_video_becomes_times_and_pictures);
  RUN(bad_videos_are_refused_with_their_part);
  RUN(without_a_decoder_there_are_no_videos);
  RUN(a_video_is_no_result_and_cannot_be_continued);
  RUN(videos_without_memory);
  ij_tokenizer_close(&tok);
  return test_report();
}
