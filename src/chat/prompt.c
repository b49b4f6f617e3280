/* prompt.c: a prompt as segments and as ids.
 *
 * The one rule that keeps framing safe: a control token enters only through ij__prompt_control, and everything that somebody wrote goes
 * through ij__prompt_text, which encodes it on its own with special tokens off. There is no step that parses a rendered string.
 */
#include <string.h>

#include "chat/chat_int.h"
#include "core/alloc.h"
#include "core/status.h"

/* --- building */

static ij_status add_segment(ij_prompt *p, ij_chat_segment **out, ij_err *err) {
  if (p->n_segments == INT32_MAX) return ij__fail(err, IJ_E_ARGUMENT, "messages", "more than 2^31 segments");
  if (p->n_segments == p->cap_segments) {
    size_t cap = IJ_MAX(2 * p->cap_segments, (size_t)64), n_bytes;
    ij_chat_segment *grown = ij__mul_size(cap, sizeof *grown, &n_bytes) ? ij__realloc(p->segments, n_bytes) : NULL;
    if (!grown) return ij__fail_nomem(err, "a prompt", cap * sizeof *grown);
    p->segments = grown;
    p->cap_segments = cap;
  }
  *out = &p->segments[p->n_segments++];
  **out = (ij_chat_segment){.id = -1, .first = (int64_t)p->n_ids, .n_ids = 1, .place.block = -1};
  return IJ_OK;
}

static ij_status reserve_ids(ij_prompt *p, size_t n_more, ij_err *err) {
  size_t need, n_bytes;
  if (!ij__add_size(p->n_ids, n_more, &need)) return ij__fail_nomem(err, "the tokens of a prompt", SIZE_MAX);
  if (need <= p->cap_ids) return IJ_OK;
  size_t cap = IJ_MAX(need, 2 * p->cap_ids);
  int32_t *grown = ij__mul_size(cap, sizeof *grown, &n_bytes) ? ij__realloc(p->ids, n_bytes) : NULL;
  if (!grown) return ij__fail_nomem(err, "the tokens of a prompt", cap);
  p->ids = grown;
  p->cap_ids = cap;
  return IJ_OK;
}

/* Copies bytes to the prompt's text and gives their place. */
static ij_status keep(ij_prompt *p, const char *bytes, size_t n, size_t *offset, ij_err *err) {
  *offset = p->text.len;
  ij__buf_append(&p->text, bytes, n);
  return p->text.failed ? ij__fail_nomem(err, "the text of a prompt", n) : IJ_OK;
}

static const char *need_of(ij_chat_control c) {
  switch (c) {
    case IJ_CHAT_XML: return "declarations of tools need";
    case IJ_CHAT_CALL: return "calls of tools need";
    case IJ_CHAT_TOOL: return "results of tools need";
    case IJ_CHAT_THINKING: return "reasoning needs";
    case IJ_CHAT_IMAGE:
    case IJ_CHAT_IMAGE_ROW: return "images need";
    case IJ_CHAT_AUDIO:
    case IJ_CHAT_AUDIO_END:
    case IJ_CHAT_AUDIO_ROW: return "audio needs";
    default: return "conversations need";
  }
}

static ij_status add_token(ij_prompt *p, ij_segment_kind kind, ij_chat_control c, ij_err *err) {
  if (p->controls[c] < 0) return ij__chat_fail_control(c, need_of(c), err);
  ij_chat_segment *segment = NULL;
  ij_status s = reserve_ids(p, 1, err);
  if (s == IJ_OK) s = add_segment(p, &segment, err);
  if (s != IJ_OK) return s;
  segment->kind = kind;
  segment->id = p->controls[c];
  segment->name = ij__chat_control_name(c);
  segment->n_bytes = strlen(segment->name);
  p->ids[p->n_ids++] = segment->id;
  return IJ_OK;
}

ij_status ij__prompt_control(ij_prompt *p, ij_chat_control c, ij_err *err) {
  if (c == IJ_CHAT_TEXT) p->state = IJ_TURN_TEXT;
  else if (c == IJ_CHAT_THINKING) p->state = IJ_TURN_THINK;
  else p->state = IJ_TURN_HEADER;
  return add_token(p, IJ_SEGMENT_CONTROL, c, err);
}

ij_status ij__prompt_text(ij_prompt *p, const char *bytes, size_t n, ij_err *err) {
  if (n == 0) return IJ_OK;
  p->n_text += n;
  if (p->max_text && p->n_text > p->max_text) {
    return ij__fail(err, IJ_E_CONTEXT, "messages", "the text has more than %zu bytes, and no context of tokens holds as much", p->max_text);
  }
  size_t offset, n_ids = 0, guess = n / 3 + 16;
  ij_status s = keep(p, bytes, n, &offset, err);
  for (; s == IJ_OK; guess = n_ids) { /* a second time only for text of which little is in the vocabulary */
    s = reserve_ids(p, guess, err);
    if (s == IJ_OK) s = ij_encode(p->tokenizer, bytes, n, false, p->ids + p->n_ids, p->cap_ids - p->n_ids, &n_ids, err);
    if (s != IJ_OK || n_ids <= p->cap_ids - p->n_ids) break;
  }
  ij_chat_segment *segment = NULL;
  if (s == IJ_OK) s = add_segment(p, &segment, err);
  if (s != IJ_OK) return s;
  segment->kind = IJ_SEGMENT_TEXT;
  segment->offset = offset;
  segment->n_bytes = n;
  segment->n_ids = (int64_t)n_ids;
  p->n_ids += n_ids;
  return IJ_OK;
}

ij_status ij__prompt_source(ij_prompt *p, const char *source, size_t n_source, size_t *offset, ij_err *err) {
  return keep(p, source, n_source, offset, err);
}

ij_status ij__prompt_medium(ij_prompt *p, bool audio, size_t source, size_t n_source, const ij_chat_place *place, ij_err *err) {
  ij_status s = add_token(p, audio ? IJ_SEGMENT_AUDIO : IJ_SEGMENT_IMAGE, audio ? IJ_CHAT_AUDIO_ROW : IJ_CHAT_IMAGE_ROW, err);
  if (s != IJ_OK) return s;
  ij_chat_segment *segment = &p->segments[p->n_segments - 1];
  segment->source = source;
  segment->n_source = n_source;
  segment->place = *place;
  return IJ_OK;
}

static bool is_medium(const ij_chat_segment *s) { return s->kind == IJ_SEGMENT_IMAGE || s->kind == IJ_SEGMENT_AUDIO; }

ij_status ij_prompt_set_rows(ij_prompt *prompt, int index, int64_t n_rows, ij_err *err) {
  const char *where = "ij_prompt_set_rows";
  if (!prompt || index < 0 || (size_t)index >= prompt->n_segments || !is_medium(&prompt->segments[index])) {
    return ij__fail(err, IJ_E_ARGUMENT, where, "segment %d is no picture and no sound", index);
  }
  ij_chat_segment *segment = &prompt->segments[index];
  if (segment->has_rows) return ij__fail(err, IJ_E_ARGUMENT, where, "segment %d has its rows already", index);
  if (n_rows < 1 || (uint64_t)n_rows > SIZE_MAX / 2) {
    return ij__fail(err, IJ_E_ARGUMENT, where, "expected at least 1 row for segment %d, found %lld", index, (long long)n_rows);
  }
  size_t more = (size_t)n_rows - 1, after = (size_t)segment->first + 1;
  ij_status s = reserve_ids(prompt, more, err);
  if (s != IJ_OK) return s;
  memmove(prompt->ids + after + more, prompt->ids + after, (prompt->n_ids - after) * sizeof *prompt->ids);
  for (size_t i = after; i < after + more; i++) prompt->ids[i] = segment->id;
  prompt->n_ids += more;
  segment->n_ids = n_rows;
  segment->has_rows = true;
  for (size_t i = (size_t)index + 1; i < prompt->n_segments; i++) prompt->segments[i].first += (int64_t)more;
  return IJ_OK;
}

/* --- reading */

void ij_prompt_close(ij_prompt **prompt) {
  if (!prompt || !*prompt) return;
  ij__free((*prompt)->segments);
  ij__free((*prompt)->ids);
  ij__buf_free(&(*prompt)->text);
  ij__free(*prompt);
  *prompt = NULL;
}

const int32_t *ij_prompt_ids(const ij_prompt *prompt) { return prompt->ids; }
int64_t ij_prompt_n_ids(const ij_prompt *prompt) { return (int64_t)prompt->n_ids; }
ij_turn_state ij_prompt_state(const ij_prompt *prompt) { return prompt->state; }
int ij_prompt_n_segments(const ij_prompt *prompt) { return (int)prompt->n_segments; }

ij_segment ij_prompt_segment(const ij_prompt *prompt, int index) {
  if (index < 0 || (size_t)index >= prompt->n_segments) return (ij_segment){.kind = IJ_SEGMENT_TEXT, .id = -1, .bytes = "", .block = -1};
  const ij_chat_segment *s = &prompt->segments[index];
  bool medium = is_medium(s);
  return (ij_segment){.kind = s->kind,
                      .id = s->id,
                      .bytes = s->name ? s->name : prompt->text.data + s->offset,
                      .n_bytes = s->n_bytes,
                      .first = s->first,
                      .n_ids = s->n_ids,
                      .source = medium ? prompt->text.data + s->source : NULL,
                      .n_source = s->n_source,
                      .block = s->place.block,
                      .video = s->place.video,
                      .message = (int)s->place.message,
                      .part = (int)s->place.part};
}
