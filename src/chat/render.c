/* render.c: messages and tools, as JSON, to a prompt.
 *
 * One walk over the messages writes the blocks in their order; nothing is collected first. What a message may hold is decided here and
 * nowhere else, and what is not understood is an error that names the field.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/chat_int.h"
#include "chat/part.h"
#include "core/alloc.h"
#include "core/status.h"
#include "io/json.h"

/* A call that has an id, for the results that only have the id. All bytes lie in the document. */
typedef struct known_call {
  const char *id, *name;
  size_t n_id, n_name;
  size_t message, place; /* the message it is in; its place among all calls */
} known_call;

typedef struct render {
  ij_prompt *p;
  const ij_prompt_options *opt;
  ij_err *err;
  ij_chat_control role;     /* of the message now written */
  bool leave_open;          /* it is the last one and is to be continued */
  size_t message;           /* its index */
  char effort[8];
  ij_buf scratch;
  known_call *calls;        /* of all messages, by id and place */
  size_t n_calls, cap_calls;
} render;

/* --- errors */

typedef struct field_path {
  char text[160];
} field_path;

static field_path field_of(const render *r, const char *name) {
  field_path f;
  snprintf(f.text, sizeof f.text, "messages[%zu].%s", r->message, name);
  return f;
}

static field_path element_of(const render *r, const char *list, size_t index, const char *name) {
  field_path f;
  snprintf(f.text, sizeof f.text, "messages[%zu].%s[%zu]%s", r->message, list, index, name);
  return f;
}

static ij_status fail_type(const render *r, const char *where, const char *expected, const ij_json_value *found) {
  return ij__fail(r->err, IJ_E_ARGUMENT, where, "expected %s, found %s", expected, ij__json_type_name(ij__json_type_of(found)));
}

static ij_status fail_value(const render *r, const char *where, const char *expected, const char *bytes, size_t n) {
  char shown[100];
  ij__json_show(shown, sizeof shown, bytes, n);
  return ij__fail(r->err, IJ_E_ARGUMENT, where, "expected %s, found %s", expected, shown);
}

/* Appends the canonical JSON of v to the scratch buffer. */
static ij_status canonical(render *r, const ij_json_value *v, const char *where) {
  if (ij__json_canonical(&r->scratch, v)) return IJ_OK;
  if (r->scratch.failed) return ij__fail_nomem(r->err, where, r->scratch.len);
  return ij__fail(r->err, IJ_E_ARGUMENT, where, "a number in it is beyond the largest that a double holds");
}

/* --- blocks */

static ij_status open_block(render *r, const char *author, size_t n_author, ij_chat_control kind) {
  ij_status s = ij__prompt_control(r->p, r->role, r->err);
  if (s == IJ_OK) s = ij__prompt_text(r->p, author, n_author, r->err);
  if (s == IJ_OK) s = ij__prompt_control(r->p, kind, r->err);
  return s;
}

static ij_status block(render *r, const char *author, size_t n_author, ij_chat_control kind, const char *body, size_t n_body, bool open) {
  ij_status s = open_block(r, author, n_author, kind);
  if (s == IJ_OK) s = ij__prompt_text(r->p, body, n_body, r->err);
  if (s == IJ_OK && !open) s = ij__prompt_control(r->p, IJ_CHAT_END, r->err);
  return s;
}

/* A content part in its place: the JSON that its placeholders point to. */
typedef struct part_source {
  size_t offset, n;
  ij_chat_place place;
} part_source;

static ij_status keep_source(render *r, const ij_json_value *part, size_t index, const char *where, part_source *out) {
  r->scratch.len = 0;
  *out = (part_source){.place = {.message = r->message, .part = index, .block = -1}};
  ij_status s = canonical(r, part, where);
  out->n = r->scratch.len;
  return s == IJ_OK ? ij__prompt_source(r->p, r->scratch.data, r->scratch.len, &out->offset, r->err) : s;
}

static ij_status medium_block(render *r, bool audio, const part_source *source) {
  ij_status s = open_block(r, NULL, 0, audio ? IJ_CHAT_AUDIO : IJ_CHAT_IMAGE);
  if (s == IJ_OK) s = ij__prompt_medium(r->p, audio, source->offset, source->n, &source->place, r->err);
  if (s == IJ_OK && audio) s = ij__prompt_control(r->p, IJ_CHAT_AUDIO_END, r->err);
  if (s == IJ_OK) s = ij__prompt_control(r->p, IJ_CHAT_END, r->err);
  return s;
}

/* "[2.5 s]", whatever the locale's decimal point is. */
static ij_status time_block(render *r, double seconds) {
  char number[40], text[48];
  int n = snprintf(number, sizeof number, "%.1f", seconds);
  size_t whole = strspn(number, "0123456789");
  if (!(seconds >= 0 && seconds < 1e9) || n < 3) return ij__fail(r->err, IJ_E_ARGUMENT, "video", "a block of frames has no time");
  n = snprintf(text, sizeof text, "[%.*s.%c s]", (int)whole, number, number[n - 1]);
  return block(r, NULL, 0, IJ_CHAT_TEXT, text, (size_t)n, false);
}

/* The convention of docs/media.md: a line of text, then the time and the frames of every block, then the sound. */
static ij_status video_blocks(render *r, const part_source *source, int n_blocks, const double *seconds, bool sound) {
  static const char label[] = "Video frames in time order:";
  part_source at = *source;
  at.place.video = true;
  ij_status s = block(r, NULL, 0, IJ_CHAT_TEXT, label, sizeof label - 1, false);
  for (int i = 0; i < n_blocks && s == IJ_OK; i++) {
    at.place.block = i;
    s = time_block(r, seconds[i]);
    if (s == IJ_OK) s = medium_block(r, false, &at);
  }
  at.place.block = -1;
  return s == IJ_OK && sound ? medium_block(r, true, &at) : s;
}

static ij_status render_medium(render *r, bool audio, const ij_json_value *part, size_t index, const char *where) {
  part_source source;
  ij_status s = keep_source(r, part, index, where, &source);
  return s == IJ_OK ? medium_block(r, audio, &source) : s;
}

static ij_status render_video(render *r, const ij_json_value *part, size_t index, const char *where) {
  int n_blocks = 0;
  const double *seconds = NULL;
  bool sound = false;
  part_source source;
  ij_status s = keep_source(r, part, index, where, &source);
  if (s != IJ_OK) return s;
  s = r->opt->video(r->opt->user, r->scratch.data, r->scratch.len, &n_blocks, &seconds, &sound, r->err);
  if (s == IJ_OK && (n_blocks < 1 || !seconds)) s = ij__fail(r->err, IJ_E_ARGUMENT, where, "the video has no frames");
  if (s == IJ_OK) s = video_blocks(r, &source, n_blocks, seconds, sound);
  return ij__part_fail(s, where, r->err);
}

static ij_status effort_block(render *r) {
  static const char label[] = "Thinking effort level: ";
  char text[sizeof label + sizeof r->effort];
  int n = snprintf(text, sizeof text, "%s%s", label, r->effort);
  r->role = IJ_CHAT_SYSTEM;
  return block(r, NULL, 0, IJ_CHAT_TEXT, text, (size_t)n, false);
}

/* --- content */

typedef enum part_kind { PART_TEXT, PART_IMAGE, PART_AUDIO, PART_VIDEO, PART_OTHER } part_kind;

static bool is_one_of(const char *bytes, size_t n, const char *const *words) {
  for (; *words; words++) {
    if (strlen(*words) == n && memcmp(*words, bytes, n) == 0) return true;
  }
  return false;
}

static part_kind kind_of(const char *type, size_t n) {
  static const char *const text[] = {"text", "input_text", NULL};
  static const char *const image[] = {"image", "input_image", "image_url", NULL};
  static const char *const audio[] = {"audio", "input_audio", "audio_url", NULL};
  static const char *const video[] = {"video", "video_url", NULL};
  if (is_one_of(type, n, text)) return PART_TEXT;
  if (is_one_of(type, n, image)) return PART_IMAGE;
  if (is_one_of(type, n, video)) return PART_VIDEO;
  return is_one_of(type, n, audio) ? PART_AUDIO : PART_OTHER;
}

/* What a part of a content list is, and its text. */
static ij_status read_part(const render *r, const ij_json_value *part, size_t index, part_kind *kind, const char **text, size_t *n) {
  *kind = PART_TEXT;
  *text = "";
  *n = 0;
  if (ij__json_get_string(part, text, n)) return IJ_OK;
  if (ij__json_type_of(part) != IJ_JSON_OBJECT) {
    return fail_type(r, element_of(r, "content", index, "").text, "a part: a string or an object", part);
  }
  const ij_json_value *type = ij__json_member(part, "type");
  const char *name = "text";
  size_t n_name = 4;
  if (!ij__json_get_string(type, &name, &n_name) && ij__json_type_of(type) > IJ_JSON_NULL) {
    return fail_type(r, element_of(r, "content", index, ".type").text, "a string", type);
  }
  *kind = kind_of(name, n_name);
  if (*kind == PART_OTHER) {
    return fail_value(r, element_of(r, "content", index, ".type").text,
                      "text, input_text, image, input_image, image_url, audio, input_audio, audio_url, video or video_url", name, n_name);
  }
  if (*kind == PART_VIDEO && !r->opt->video) {
    return ij__fail(r->err, IJ_E_UNSUPPORTED, element_of(r, "content", index, ".type").text,
                    "a video becomes pictures only where it can be opened, which is not done here");
  }
  if (*kind == PART_TEXT) ij__json_get_string(ij__json_member(part, "text"), text, n);
  return IJ_OK;
}

static ij_status render_parts(render *r, const ij_json_value *parts) {
  ij_json_iter it = {0};
  const ij_json_value *part;
  ij_status s = IJ_OK;
  while (s == IJ_OK && ij__json_next(parts, &it, NULL, NULL, &part)) {
    size_t index = it.index - 1, n;
    bool open = r->leave_open && it.index == ij__json_size(parts);
    const char *text;
    part_kind kind;
    s = read_part(r, part, index, &kind, &text, &n);
    if (s != IJ_OK) break;
    field_path where = element_of(r, "content", index, "");
    if (kind == PART_TEXT) s = block(r, NULL, 0, IJ_CHAT_TEXT, text, n, open);
    else if (open) s = ij__fail(r->err, IJ_E_ARGUMENT, where.text, "only text can be continued; the last part is a medium");
    else if (kind == PART_VIDEO) s = render_video(r, part, index, where.text);
    else s = render_medium(r, kind == PART_AUDIO, part, index, where.text);
  }
  return s;
}

static ij_status render_content(render *r, const ij_json_value *content) {
  const char *text;
  size_t n;
  switch (ij__json_type_of(content)) {
    case IJ_JSON_NONE:
    case IJ_JSON_NULL: return IJ_OK;
    case IJ_JSON_STRING:
      ij__json_get_string(content, &text, &n);
      return n ? block(r, NULL, 0, IJ_CHAT_TEXT, text, n, r->leave_open) : IJ_OK;
    case IJ_JSON_ARRAY: return render_parts(r, content);
    default: return fail_type(r, field_of(r, "content").text, "a string, a list of parts, or null", content);
  }
}

/* --- calls */

/* Arguments that are text: an object in it, or nothing. */
static ij_status text_arguments(render *r, const char *text, size_t n, const char *where) {
  ij__chat_trim(&text, &n);
  if (n == 0 || text[0] != '{') return ij__buf_puts(&r->scratch, "{}"), IJ_OK;
  ij_json *doc = NULL;
  ij_status s = ij__json_parse_exact(&doc, text, n, where, r->err);
  if (s == IJ_E_FORMAT && r->err) r->err->code = IJ_E_ARGUMENT;
  if (s != IJ_OK) return s == IJ_E_FORMAT ? IJ_E_ARGUMENT : s;
  s = canonical(r, ij__json_root(doc), where);
  ij__json_free(&doc);
  return s;
}

static ij_status put_arguments(render *r, const ij_json_value *arguments, size_t index) {
  const char *text;
  size_t n;
  field_path where = element_of(r, "tool_calls", index, ".function.arguments");
  switch (ij__json_type_of(arguments)) {
    case IJ_JSON_NONE:
    case IJ_JSON_NULL: return ij__buf_puts(&r->scratch, "{}"), IJ_OK;
    case IJ_JSON_OBJECT: return canonical(r, arguments, where.text);
    case IJ_JSON_STRING:
      ij__json_get_string(arguments, &text, &n);
      return text_arguments(r, text, n, where.text);
    default: return fail_type(r, where.text, "an object, or one as a string", arguments);
  }
}

/* A call whose function has no name (a string) is no call: the format says that it leaves nothing behind. */
static ij_status render_call(render *r, const ij_json_value *call, size_t index) {
  if (ij__json_type_of(call) != IJ_JSON_OBJECT) return fail_type(r, element_of(r, "tool_calls", index, "").text, "an object", call);
  const ij_json_value *function = ij__json_member(call, "function");
  const char *name;
  size_t n_name;
  if (!ij__json_get_string(ij__json_member(function, "name"), &name, &n_name)) return IJ_OK;
  r->scratch.len = 0;
  ij__buf_puts(&r->scratch, "{\"name\":");
  ij__json_quote(&r->scratch, name, n_name);
  ij__buf_puts(&r->scratch, ",\"args\":");
  ij_status s = put_arguments(r, ij__json_member(function, "arguments"), index);
  ij__buf_puts(&r->scratch, "}");
  if (s == IJ_OK && r->scratch.failed) s = ij__fail_nomem(r->err, "a call", r->scratch.len);
  return s == IJ_OK ? block(r, name, n_name, IJ_CHAT_CALL, r->scratch.data, r->scratch.len, false) : s;
}

static ij_status render_calls(render *r, const ij_json_value *calls) {
  ij_json_iter it = {0};
  const ij_json_value *call;
  ij_json_type type = ij__json_type_of(calls);
  if (type <= IJ_JSON_NULL) return IJ_OK;
  if (type != IJ_JSON_ARRAY) return fail_type(r, field_of(r, "tool_calls").text, "a list of calls", calls);
  if (it.index < ij__json_size(calls) && r->role != IJ_CHAT_MODEL) {
    return ij__fail(r->err, IJ_E_ARGUMENT, field_of(r, "tool_calls").text, "only an assistant message can call tools");
  }
  if (ij__json_size(calls) && r->leave_open) {
    return ij__fail(r->err, IJ_E_ARGUMENT, field_of(r, "tool_calls").text, "a message that calls tools cannot be continued");
  }
  ij_status s = IJ_OK;
  while (s == IJ_OK && ij__json_next(calls, &it, NULL, NULL, &call)) s = render_call(r, call, it.index - 1);
  return s;
}

/* --- messages by role */

/* The first of reasoning_content and its alias that is a string with something in it. */
static ij_status find_reasoning(const render *r, const ij_json_value *message, const char **text, size_t *n) {
  static const char *const names[] = {"reasoning_content", "reasoning"};
  *n = 0;
  for (size_t i = 0; i < IJ_COUNT_OF(names) && *n == 0; i++) {
    const ij_json_value *v = ij__json_member(message, names[i]);
    if (!ij__json_get_string(v, text, n) && ij__json_type_of(v) > IJ_JSON_NULL) {
      return fail_type(r, field_of(r, names[i]).text, "a string or null", v);
    }
  }
  return IJ_OK;
}

/* Whether content will give at least one block. */
static bool has_blocks(const ij_json_value *content) {
  const char *text;
  size_t n = 0;
  return ij__json_get_string(content, &text, &n) ? n > 0 : ij__json_size(content) > 0;
}

static ij_status render_assistant(render *r, const ij_json_value *message, bool keep_reasoning) {
  const ij_json_value *content = ij__json_member(message, "content");
  const char *reasoning = NULL;
  size_t n = 0, before = r->p->n_segments;
  ij_status s = find_reasoning(r, message, &reasoning, &n);
  if (s == IJ_OK && n > 0 && keep_reasoning) {
    s = block(r, NULL, 0, IJ_CHAT_THINKING, reasoning, n, r->leave_open && !has_blocks(content));
  }
  if (s == IJ_OK) s = render_content(r, content);
  if (s == IJ_OK) s = render_calls(r, ij__json_member(message, "tool_calls"));
  if (s != IJ_OK) return s;
  if (!r->leave_open) return r->p->n_segments > before ? ij__prompt_control(r->p, IJ_CHAT_END_TURN, r->err) : IJ_OK;
  if (r->p->n_segments > before) return IJ_OK;
  return ij__fail(r->err, IJ_E_ARGUMENT, field_of(r, "content").text,
                  "the last message is to be continued and has neither content nor reasoning; ask for an answer instead");
}

/* --- the calls that results answer: a sorted list, so that no choice of ids makes it slow */

static int compare_calls(const void *a, const void *b) {
  const known_call *x = a, *y = b;
  int c = memcmp(x->id, y->id, IJ_MIN(x->n_id, y->n_id));
  if (c) return c;
  if (x->n_id != y->n_id) return x->n_id < y->n_id ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

static ij_status collect_calls_of(render *r, const ij_json_value *message, size_t index) {
  ij_json_iter it = {0};
  const ij_json_value *call;
  while (ij__json_next(ij__json_member(message, "tool_calls"), &it, NULL, NULL, &call)) {
    known_call known = {.message = index, .place = r->n_calls};
    bool named = ij__json_get_string(ij__json_member(ij__json_member(call, "function"), "name"), &known.name, &known.n_name);
    if (!named || !ij__json_get_string(ij__json_member(call, "id"), &known.id, &known.n_id)) continue;
    if (r->n_calls == r->cap_calls) {
      size_t cap = IJ_MAX(2 * r->cap_calls, (size_t)16), n_bytes;
      known_call *grown = ij__mul_size(cap, sizeof *grown, &n_bytes) ? ij__realloc(r->calls, n_bytes) : NULL;
      if (!grown) return ij__fail_nomem(r->err, "the ids of calls", cap);
      r->calls = grown;
      r->cap_calls = cap;
    }
    r->calls[r->n_calls++] = known;
  }
  return IJ_OK;
}

/* The last call with that id in a message before the one at hand, or NULL. */
static const known_call *find_call(const render *r, const char *id, size_t n_id) {
  const known_call *found = NULL;
  size_t low = 0, high = r->n_calls;
  while (low < high) { /* the first one of that id that is not earlier */
    size_t mid = low + (high - low) / 2;
    const known_call *c = &r->calls[mid];
    int order = memcmp(c->id, id, IJ_MIN(c->n_id, n_id));
    if (order == 0) order = c->n_id < n_id ? -1 : c->n_id > n_id;
    if (order == 0 && c->message < r->message) found = c;
    if (order < 0 || found == c) low = mid + 1;
    else high = mid;
  }
  return found;
}

/* The name of a result's tool: its own, or that of the call it answers. */
static ij_status find_tool_name(const render *r, const ij_json_value *message, const char **name, size_t *n) {
  const ij_json_value *own = ij__json_member(message, "name"), *id = ij__json_member(message, "tool_call_id");
  const char *id_text;
  size_t n_id;
  *n = 0;
  if (!ij__json_get_string(own, name, n) && ij__json_type_of(own) > IJ_JSON_NULL) {
    return fail_type(r, field_of(r, "name").text, "a string or null", own);
  }
  if (*n > 0) return IJ_OK;
  if (!ij__json_get_string(id, &id_text, &n_id)) {
    return ij__json_type_of(id) > IJ_JSON_NULL ? fail_type(r, field_of(r, "tool_call_id").text, "a string or null", id) : IJ_OK;
  }
  const known_call *call = find_call(r, id_text, n_id);
  if (call) *name = call->name, *n = call->n_name;
  return IJ_OK;
}

static ij_status put_result_parts(render *r, const ij_json_value *parts) {
  ij_json_iter it = {0};
  const ij_json_value *part;
  while (ij__json_next(parts, &it, NULL, NULL, &part)) {
    part_kind kind;
    const char *text;
    size_t n, index = it.index - 1;
    ij_status s = read_part(r, part, index, &kind, &text, &n);
    if (s != IJ_OK) return s;
    if (kind != PART_TEXT) {
      return ij__fail(r->err, IJ_E_ARGUMENT, element_of(r, "content", index, ".type").text, "the result of a tool can only have parts of text");
    }
    ij__buf_append(&r->scratch, text, n);
  }
  return IJ_OK;
}

static ij_status render_result(render *r, const ij_json_value *message) {
  const ij_json_value *content = ij__json_member(message, "content");
  const char *name = NULL, *text;
  size_t n_name = 0, n;
  ij_status s = find_tool_name(r, message, &name, &n_name);
  if (s == IJ_OK) s = render_calls(r, ij__json_member(message, "tool_calls"));
  if (s != IJ_OK) return s;
  r->scratch.len = 0;
  switch (ij__json_type_of(content)) {
    case IJ_JSON_NONE:
    case IJ_JSON_NULL: break;
    case IJ_JSON_STRING:
      ij__json_get_string(content, &text, &n);
      return block(r, name, n_name, IJ_CHAT_TEXT, text, n, false);
    case IJ_JSON_ARRAY: s = put_result_parts(r, content); break;
    default: s = canonical(r, content, field_of(r, "content").text);
  }
  if (s == IJ_OK && r->scratch.failed) s = ij__fail_nomem(r->err, "the result of a tool", r->scratch.len);
  return s == IJ_OK ? block(r, name, n_name, IJ_CHAT_TEXT, r->scratch.data, r->scratch.len, false) : s;
}

static ij_status read_role(const ij_json_value *message, size_t index, ij_chat_control *role, ij_err *err) {
  static const struct {
    const char *name;
    ij_chat_control role;
  } roles[] = {{"system", IJ_CHAT_SYSTEM}, {"developer", IJ_CHAT_SYSTEM}, {"user", IJ_CHAT_USER}, {"assistant", IJ_CHAT_MODEL}, {"tool", IJ_CHAT_TOOL}};
  const ij_json_value *v = ij__json_member(message, "role");
  const char *text;
  size_t n;
  field_path where;
  const render at = {.message = index, .err = err};
  if (ij__json_type_of(message) != IJ_JSON_OBJECT) {
    snprintf(where.text, sizeof where.text, "messages[%zu]", index);
    return fail_type(&at, where.text, "a message: an object", message);
  }
  where = field_of(&at, "role");
  if (!ij__json_get_string(v, &text, &n)) return fail_type(&at, where.text, "a string", v);
  for (size_t i = 0; i < IJ_COUNT_OF(roles); i++) {
    if (strlen(roles[i].name) != n || memcmp(roles[i].name, text, n) != 0) continue;
    *role = roles[i].role;
    return IJ_OK;
  }
  return fail_value(&at, where.text, "system, developer, user, assistant or tool", text, n);
}

/* --- the conversation */

static ij_status put_text_or_default(render *r, const ij_json_value *v, const char *where, const char *otherwise) {
  if (ij__json_type_of(v) <= IJ_JSON_NULL) return ij__buf_puts(&r->scratch, otherwise), IJ_OK;
  return ij__json_type_of(v) == IJ_JSON_STRING ? canonical(r, v, where) : fail_type(r, where, "a string or null", v);
}

/* Exactly four keys, in this order; a tool without `function` is the function itself. */
static ij_status put_tool(render *r, const ij_json_value *tool, size_t index) {
  char where[64];
  int n = snprintf(where, sizeof where, "tools[%zu]", index);
  if (ij__json_type_of(tool) != IJ_JSON_OBJECT) return fail_type(r, where, "an object", tool);
  const ij_json_value *function = ij__json_member(tool, "function");
  if (ij__json_type_of(function) <= IJ_JSON_NULL) function = tool;
  else n += snprintf(where + n, sizeof where - (size_t)n, ".function");
  if (ij__json_type_of(function) != IJ_JSON_OBJECT) return fail_type(r, where, "an object", function);
  char *end = where + n;
  size_t room = sizeof where - (size_t)n;
  snprintf(end, room, ".description");
  ij__buf_puts(&r->scratch, "{\"description\":");
  ij_status s = put_text_or_default(r, ij__json_member(function, "description"), where, "\"\"");
  snprintf(end, room, ".name");
  ij__buf_puts(&r->scratch, ",\"name\":");
  if (s == IJ_OK) s = put_text_or_default(r, ij__json_member(function, "name"), where, "null");
  const ij_json_value *parameters = ij__json_member(function, "parameters");
  ij_json_type type = ij__json_type_of(parameters);
  snprintf(end, room, ".parameters");
  ij__buf_puts(&r->scratch, ",\"parameters\":");
  if (s == IJ_OK && type > IJ_JSON_NULL && type != IJ_JSON_OBJECT) s = fail_type(r, where, "an object or null", parameters);
  if (s == IJ_OK && type <= IJ_JSON_NULL) ij__buf_puts(&r->scratch, "{}");
  else if (s == IJ_OK) s = canonical(r, parameters, where);
  snprintf(where, sizeof where, "tools[%zu].type", index);
  ij__buf_puts(&r->scratch, ",\"type\":");
  if (s == IJ_OK) s = put_text_or_default(r, ij__json_member(tool, "type"), where, "\"function\"");
  ij__buf_puts(&r->scratch, "}");
  return s;
}

static ij_status render_tools(render *r, const ij_json_value *tools) {
  ij_json_iter it = {0};
  const ij_json_value *tool;
  if (ij__json_type_of(tools) <= IJ_JSON_NULL) return IJ_OK;
  if (ij__json_type_of(tools) != IJ_JSON_ARRAY) return fail_type(r, "tools", "a list of tools or null", tools);
  if (ij__json_size(tools) == 0) return IJ_OK;
  ij_status s = IJ_OK;
  r->scratch.len = 0;
  ij__buf_puts(&r->scratch, "[");
  while (s == IJ_OK && ij__json_next(tools, &it, NULL, NULL, &tool)) {
    if (it.index > 1) ij__buf_puts(&r->scratch, ",");
    s = put_tool(r, tool, it.index - 1);
  }
  ij__buf_puts(&r->scratch, "]");
  if (s == IJ_OK && r->scratch.failed) s = ij__fail_nomem(r->err, "the declaration of tools", r->scratch.len);
  r->role = IJ_CHAT_SYSTEM;
  static const char author[] = "tool_declare";
  return s == IJ_OK ? block(r, author, sizeof author - 1, IJ_CHAT_XML, r->scratch.data, r->scratch.len, false) : s;
}

/* Reads, and so checks, all roles: finds the last user message (-1: none) and collects the calls. */
static ij_status look_ahead(render *r, const ij_json_value *messages, int64_t *last_user) {
  ij_json_iter it = {0};
  const ij_json_value *message;
  *last_user = -1;
  while (ij__json_next(messages, &it, NULL, NULL, &message)) {
    ij_chat_control role;
    ij_status s = read_role(message, it.index - 1, &role, r->err);
    if (s == IJ_OK && role == IJ_CHAT_MODEL) s = collect_calls_of(r, message, it.index - 1);
    if (s != IJ_OK) return s;
    if (role == IJ_CHAT_USER) *last_user = (int64_t)it.index - 1;
  }
  if (r->n_calls) qsort(r->calls, r->n_calls, sizeof *r->calls, compare_calls);
  return IJ_OK;
}

static ij_status render_message(render *r, const ij_json_value *message, bool keep_reasoning) {
  if (r->leave_open && r->role != IJ_CHAT_MODEL) {
    return ij__fail(r->err, IJ_E_ARGUMENT, field_of(r, "role").text, "only an assistant message can be continued");
  }
  if (r->role == IJ_CHAT_MODEL) return render_assistant(r, message, keep_reasoning);
  if (r->role == IJ_CHAT_TOOL) return render_result(r, message);
  ij_status s = render_content(r, ij__json_member(message, "content"));
  return s == IJ_OK ? render_calls(r, ij__json_member(message, "tool_calls")) : s;
}

static ij_status render_all(render *r, const ij_json_value *messages, const ij_json_value *tools) {
  ij_json_iter it = {0};
  const ij_json_value *message;
  bool effort_done = false;
  int64_t last_user;
  if (ij__json_type_of(messages) != IJ_JSON_ARRAY) return fail_type(r, "messages", "a list of messages", messages);
  if (r->opt->continue_final_message && ij__json_size(messages) == 0) {
    return ij__fail(r->err, IJ_E_ARGUMENT, "messages", "there is no final message to continue");
  }
  ij_status s = ij__chat_effort(r->effort, sizeof r->effort, r->opt->effort, r->err);
  if (s == IJ_OK) s = look_ahead(r, messages, &last_user);
  if (s == IJ_OK) s = render_tools(r, tools);
  while (s == IJ_OK && ij__json_next(messages, &it, NULL, NULL, &message)) {
    ij_chat_control role = IJ_CHAT_SYSTEM;
    r->message = it.index - 1;
    s = read_role(message, r->message, &role, r->err);
    if (s == IJ_OK && role != IJ_CHAT_SYSTEM && !effort_done) s = effort_block(r), effort_done = true;
    r->role = role;
    r->leave_open = r->opt->continue_final_message && it.index == ij__json_size(messages);
    if (s == IJ_OK) s = render_message(r, message, r->opt->preserve_thinking || (int64_t)r->message > last_user);
  }
  if (s == IJ_OK && !effort_done) s = effort_block(r);
  if (s == IJ_OK && r->opt->add_generation_prompt && !r->opt->continue_final_message) s = ij__prompt_control(r->p, IJ_CHAT_MODEL, r->err);
  return s;
}

ij_prompt_options ij_prompt_options_default(void) {
  return (ij_prompt_options){.struct_size = sizeof(ij_prompt_options), .preserve_thinking = true, .add_generation_prompt = true};
}

static ij_status render_documents(render *r, const char *messages, size_t n_messages, const char *tools, size_t n_tools) {
  ij_json *messages_doc = NULL, *tools_doc = NULL;
  ij_status s = ij__json_parse_exact(&messages_doc, messages, n_messages, "messages", r->err);
  if (s == IJ_OK && tools) s = ij__json_parse_exact(&tools_doc, tools, n_tools, "tools", r->err);
  if (s == IJ_OK) s = render_all(r, ij__json_root(messages_doc), ij__json_root(tools_doc));
  ij__free(r->calls);
  ij__buf_free(&r->scratch);
  ij__json_free(&messages_doc);
  ij__json_free(&tools_doc);
  return s;
}

ij_status ij_prompt_render(ij_prompt **out, const ij_tokenizer *tokenizer, const char *messages, size_t n_messages_bytes, const char *tools,
                           size_t n_tools_bytes, const ij_prompt_options *options, ij_err *err) {
  const ij_prompt_options defaults = ij_prompt_options_default();
  if (!out || !messages) return ij__fail(err, IJ_E_ARGUMENT, "ij_prompt_render", "out and messages must not be NULL");
  *out = NULL;
  if (!tokenizer) return ij__fail(err, IJ_E_ARGUMENT, "ij_prompt_render", "there is no tokenizer (a checkpoint may come without one)");
  if (options && options->struct_size != sizeof *options) {
    return ij__fail(err, IJ_E_ARGUMENT, "options.struct_size", "expected %zu, found %zu; begin with ij_prompt_options_default", sizeof *options,
                    options->struct_size);
  }
  ij_prompt *p = ij__alloc_zero(1, sizeof *p);
  if (!p) return ij__fail_nomem(err, "a prompt", sizeof *p);
  p->tokenizer = tokenizer;
  for (int c = 0; c < IJ_CHAT_N_CONTROLS; c++) p->controls[c] = ij__chat_find(tokenizer, (ij_chat_control)c);
  render r = {.p = p, .opt = options ? options : &defaults, .err = err};
  p->max_text = r.opt->max_text_bytes;
  ij_status s = render_documents(&r, messages, n_messages_bytes, tools, n_tools_bytes);
  p->tokenizer = NULL;
  if (s == IJ_OK) *out = p;
  else ij_prompt_close(&p);
  return s;
}
