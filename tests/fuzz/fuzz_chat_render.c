/* fuzz_chat_render.c: any bytes as messages and tools. Whatever is accepted keeps the promises of inkjet_chat.h, above all that control
 * tokens come from the renderer alone. */
#include <stdlib.h>

#include "chat/bytes_tokenizer.h"
#include "core/alloc.h"
#include "inkjet_chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

/* Text is text, control tokens are control tokens, and the segments cover the ids. */
static void check_segments(const ij_tokenizer *t, const ij_prompt *p) {
  const int32_t *ids = ij_prompt_ids(p);
  int64_t n_ids = ij_prompt_n_ids(p);
  for (int i = 0, n = ij_prompt_n_segments(p); i < n; i++) {
    ij_segment s = ij_prompt_segment(p, i);
    int64_t end = i + 1 < n ? ij_prompt_segment(p, i + 1).first : n_ids;
    must(s.first < end && s.n_bytes > 0);
    must(s.n_ids == end - s.first && (s.kind == IJ_SEGMENT_TEXT ? s.n_ids == (int64_t)s.n_bytes : s.n_ids >= 1)); /* a token is a byte here */
    for (int64_t k = s.first; k < end; k++) {
      must(ij_is_special(t, ids[k]) == (s.kind != IJ_SEGMENT_TEXT));
      must(s.kind == IJ_SEGMENT_TEXT ? ids[k] == (unsigned char)s.bytes[k - s.first] : ids[k] == s.id);
    }
  }
}

/* Every video has three blocks and, when its part is long, a sound. */
static ij_status on_video(void *user, const char *part, size_t n_part, int *n_blocks, const double **seconds, bool *sound, ij_err *err) {
  static const double times[] = {0, 0.5, 1e6};
  (void)user;
  (void)err;
  must(n_part > 1 && part[0] == '{' && part[n_part - 1] == '}');
  *n_blocks = 3;
  *seconds = times;
  *sound = n_part > 40;
  return IJ_OK;
}

/* Media get one to five rows. */
static void set_rows(const ij_tokenizer *t, ij_prompt *p) {
  ij_err err = {0};
  for (int i = ij_prompt_n_segments(p) - 1; i >= 0; i--) {
    ij_segment s = ij_prompt_segment(p, i);
    bool medium = s.kind == IJ_SEGMENT_IMAGE || s.kind == IJ_SEGMENT_AUDIO;
    must((ij_prompt_set_rows(p, i, 1 + i % 5, &err) == IJ_OK) == medium);
  }
  check_segments(t, p);
}

/* The first byte chooses options; a line of its own, "~", parts messages from tools. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const efforts[] = {NULL, "none", "0.5", "junk"};
  static ij_tokenizer *t;
  if (!t) t = bytes_tokenizer(NULL);
  if (size == 0) return 0;
  ij_prompt_options o = ij_prompt_options_default();
  o.effort = efforts[data[0] & 3];
  o.preserve_thinking = data[0] & 4;
  o.add_generation_prompt = data[0] & 8;
  o.continue_final_message = data[0] & 16;
  o.video = data[0] & 32 ? on_video : NULL;
  const char *messages = (const char *)data + 1, *tools = NULL;
  size_t n = size - 1, n_tools = 0;
  for (size_t i = 0; i + 3 <= n && !tools; i++) {
    if (memcmp(messages + i, "\n~\n", 3) == 0) tools = messages + i + 3, n_tools = n - i - 3, n = i;
  }
  ij_prompt *p = NULL;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  ij_status s = ij_prompt_render(&p, t, messages, n, tools, n_tools, &o, &err);
  must((s == IJ_OK) == (p != NULL));
  bool refused = s == IJ_E_FORMAT || s == IJ_E_ARGUMENT || (s == IJ_E_UNSUPPORTED && !o.video);
  must(s == IJ_OK || (refused && err.code == s && err.where[0] && err.message[0]));
  if (p) check_segments(t, p);
  if (p) set_rows(t, p);
  ij_prompt_close(&p);
  must(ij__alloc_blocks() == blocks);
  const char *note;
  ij_template_verdict verdict = ij_template_check((const char *)data, size, &note);
  must((verdict == IJ_TEMPLATE_DIFFERS) == (note != NULL));
  return 0;
}
