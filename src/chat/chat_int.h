/* chat_int.h: what the files of chat/ share: the control tokens of the format, and a prompt while it is built.
 *
 * Control tokens are found by name in the vocabulary at hand, never by number, because a shortened vocabulary numbers them otherwise.
 */
#ifndef IJ_CHAT_CHAT_INT_H
#define IJ_CHAT_CHAT_INT_H

#include "core/base.h"
#include "core/str.h"
#include "inkjet_chat.h"

typedef enum ij_chat_control {
  IJ_CHAT_USER, IJ_CHAT_MODEL, IJ_CHAT_SYSTEM, IJ_CHAT_TOOL,           /* roles */
  IJ_CHAT_TEXT, IJ_CHAT_THINKING, IJ_CHAT_XML, IJ_CHAT_CALL,           /* kinds of blocks */
  IJ_CHAT_IMAGE, IJ_CHAT_AUDIO, IJ_CHAT_TOOL_ERROR, IJ_CHAT_CALL_TEXT,
  IJ_CHAT_END, IJ_CHAT_END_TURN, IJ_CHAT_END_OF_TEXT, IJ_CHAT_AUDIO_END,
  IJ_CHAT_IMAGE_ROW, IJ_CHAT_AUDIO_ROW,                                /* placeholders of media */
  IJ_CHAT_N_CONTROLS
} ij_chat_control;

const char *ij__chat_control_name(ij_chat_control c);

/* Its id in this vocabulary, or -1. */
int32_t ij__chat_find(const ij_tokenizer *tokenizer, ij_chat_control c);

/* IJ_E_ARGUMENT that names the token, for what it is needed, and what to do. */
ij_status ij__chat_fail_control(ij_chat_control c, const char *needed_for, ij_err *err);

/* --- a prompt while it is built */

/* Where a medium comes from. */
typedef struct ij_chat_place {
  size_t message, part;     /* messages[message].content[part] */
  bool video;
  int block;                /* of frames in a video, else -1 */
} ij_chat_place;

typedef struct ij_chat_segment {
  ij_segment_kind kind;
  int32_t id;
  const char *name;         /* of a control token; else NULL and the text is at text + offset */
  size_t offset, n_bytes;
  int64_t first, n_ids;
  size_t source, n_source;  /* in text, too */
  ij_chat_place place;      /* of a medium */
  bool has_rows;            /* ij_prompt_set_rows was called */
} ij_chat_segment;

struct ij_prompt {
  const ij_tokenizer *tokenizer; /* only while it is built */
  int32_t controls[IJ_CHAT_N_CONTROLS];
  ij_chat_segment *segments;
  size_t n_segments, cap_segments;
  int32_t *ids;
  size_t n_ids, cap_ids;
  ij_buf text;
  size_t n_text, max_text; /* bytes encoded, and how many may be; 0: any */
  ij_turn_state state;
};

ij_status ij__prompt_control(ij_prompt *p, ij_chat_control c, ij_err *err);
/* Text that is never read as control tokens, whatever it spells. Empty text is no segment. */
ij_status ij__prompt_text(ij_prompt *p, const char *bytes, size_t n, ij_err *err);
/* Keeps the JSON of a content part, once for all placeholders that stand for it. */
ij_status ij__prompt_source(ij_prompt *p, const char *source, size_t n_source, size_t *offset, ij_err *err);
/* A placeholder, with the JSON of the content part it stands for. */
ij_status ij__prompt_medium(ij_prompt *p, bool audio, size_t source, size_t n_source, const ij_chat_place *place, ij_err *err);

/* --- pieces of the renderer */

/* "0.9" for "high", and so on; NULL is the default. out: room for 8. */
ij_status ij__chat_effort(char *out, size_t size, const char *effort, ij_err *err);

/* White space as Python's str.strip() sees it, taken off both ends. */
void ij__chat_trim(const char **bytes, size_t *n);

#endif
