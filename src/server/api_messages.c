/* api_messages.c: the messages of chat completions, looked at before they are rendered.
 *
 * They go to the renderer as the client wrote them, and the renderer skips what it does not know. Here every member has to be known and of
 * its type, so that nothing of a conversation is lost without a word. What clients send back of an answer is taken, and so is what says
 * nothing: null everywhere, and in a message an empty string, list or object.
 */
#include <string.h>

#include "server/api.h"

typedef enum chat_role { ROLE_SYSTEM = 1, ROLE_USER = 2, ROLE_ASSISTANT = 4, ROLE_TOOL = 8, ROLE_ANY = 15 } chat_role;

/* 0: no role; the renderer refuses the message. */
static chat_role role_of(ij_jv role) {
  static const struct {
    const char *name;
    chat_role role;
  } roles[] = {{"system", ROLE_SYSTEM}, {"developer", ROLE_SYSTEM}, {"user", ROLE_USER}, {"assistant", ROLE_ASSISTANT}, {"tool", ROLE_TOOL}};
  for (size_t i = 0; i < IJ_COUNT_OF(roles); i++) {
    if (ij__jv_is(role, roles[i].name)) return roles[i].role;
  }
  return (chat_role)0;
}

static bool is_word_of(const char *list, ij_jv v) {
  const char *bytes;
  size_t n;
  return ij__jv_string(v, &bytes, &n) && ij__api_in_words(list, bytes, n);
}

static bool check_string(ij_jv v, const char *path, api_error *e) {
  api_text text;
  return ij__jv_absent(v) || ij__api_need_string(e, path, v, &text);
}

/* --- parts of content */

/* A medium and the members of its part that say where it is; the object in such a member has the second list. */
typedef struct medium_form {
  const char *types, *sources, *members;
} medium_form;

static const medium_form media[] = {
  {"image_url|input_image|image", "image_url|image|input_image|source|url|path", "url|data|path|type|media_type|detail"},
  {"input_audio|audio_url|audio", "input_audio|audio_url|audio|source|url|path", "url|data|path|type|media_type|format"},
  {"video_url|video", "video_url|video|input_video|source|url|path", "url|data|path|type|media_type"},
};

/* The member of a part that holds its place, or the member of the object there. More than one: all but one would be lost. */
static bool only_one(ij_jv object, const char *path, const char *names, ij_jv *out, api_path *at, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv v;
  const char *key;
  size_t n;
  *out = (ij_jv){NULL, NULL, 0};
  while (ij__jv_next(object, &it, &key, &n, &v)) {
    if (ij__jv_absent(v) || !ij__api_in_words(names, key, n)) continue;
    bool second = !ij__jv_absent(*out);
    *out = v;
    *at = ij__path("%s.%.*s", path, (int)n, key);
    if (second) return ij__api_fail(e, 400, "invalid_value", at->text, "%s: the part has its medium in another member already", at->text);
  }
  return true;
}

/* What is said of the kind changes nothing: the bytes decide. */
static bool check_source(ij_jv source, const char *path, const medium_form *form, api_error *e) {
  static const char *const texts[] = {"detail", "format", "type", "media_type"};
  ij_jv inner;
  api_path at;
  if (ij__jv_type(source) == IJ_JSON_STRING) return true;
  if (!ij__api_check_keys(source, path, form->members, e)) return false;
  if (!only_one(source, path, "url|data|path", &inner, &at, e)) return false;
  for (size_t i = 0; i < IJ_COUNT_OF(texts); i++) {
    if (!check_string(ij__jv_member(source, texts[i]), ij__path("%s.%s", path, texts[i]).text, e)) return false;
  }
  return true;
}

static bool check_medium(ij_jv part, const char *path, const medium_form *form, chat_role role, api_error *e) {
  api_path known = ij__path("type|detail|cache_control|prompt_cache_breakpoint|%s", form->sources), at;
  ij_jv source, type = ij__jv_member(part, "type");
  if (role == ROLE_ASSISTANT) {
    return ij__api_expected(e, ij__path("%s.type", path).text, "text, the only kind supported in messages of the assistant", type);
  }
  if (!ij__api_check_keys(part, path, known.text, e) || !only_one(part, path, form->sources, &source, &at, e)) return false;
  if (!check_string(ij__jv_member(part, "detail"), ij__path("%s.detail", path).text, e)) return false;
  return ij__jv_absent(source) || check_source(source, at.text, form, e); /* without one it is refused where it would be opened */
}

static bool check_part(ij_jv part, const char *path, chat_role role, api_error *e) {
  ij_jv type = ij__jv_member(part, "type");
  api_text text;
  if (ij__jv_type(part) == IJ_JSON_STRING) return true;
  if (ij__jv_type(part) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "a part: a string or an object", part);
  for (size_t i = 0; i < IJ_COUNT_OF(media); i++) {
    if (is_word_of(media[i].types, type)) return check_medium(part, path, &media[i], role, e);
  }
  if (!ij__jv_absent(type) && !is_word_of("text|input_text", type)) return true; /* the renderer refuses it, and says what there is */
  return ij__api_check_keys(part, path, "type|text|annotations|id|index|cache_control|prompt_cache_breakpoint", e) &&
         ij__api_need_member(e, path, part, "text", &text);
}

static bool check_content(ij_jv content, const char *path, chat_role role, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv part;
  if (ij__jv_type(content) != IJ_JSON_ARRAY) return true; /* the renderer knows what else there may be */
  for (int i = 0; ij__jv_next(content, &it, NULL, NULL, &part); i++) {
    if (!check_part(part, ij__path("%s[%d]", path, i).text, role, e)) return false;
  }
  return true;
}

/* --- calls */

/* parsed_arguments: a copy of the arguments, which SDKs put there. */
static bool check_call(ij_jv call, const char *path, api_error *e) {
  ij_jv type = ij__jv_member(call, "type"), function = ij__jv_member(call, "function");
  api_text name;
  if (ij__jv_type(call) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "an object", call);
  if (!ij__jv_absent(type) && !ij__jv_is(type, "function")) {
    return ij__api_expected(e, ij__path("%s.type", path).text, "\"function\", the only type supported here", type);
  }
  if (!ij__api_check_keys(call, path, "id|type|function|index|extra_content|provider_specific_fields", e)) return false;
  if (!check_string(ij__jv_member(call, "id"), ij__path("%s.id", path).text, e)) return false;
  api_path at = ij__path("%s.function", path);
  return ij__api_check_keys(function, at.text, "name|arguments|parsed_arguments", e) &&
         ij__api_need_member(e, at.text, function, "name", &name);
}

static bool check_calls(ij_jv calls, const char *path, chat_role role, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv call;
  (void)role;
  if (ij__jv_type(calls) != IJ_JSON_ARRAY) return ij__api_expected(e, path, "a list of calls", calls);
  for (int i = 0; ij__jv_next(calls, &it, NULL, NULL, &call); i++) {
    if (!check_call(call, ij__path("%s[%d]", path, i).text, e)) return false;
  }
  return true;
}

/* --- messages */

static bool check_text(ij_jv v, const char *path, chat_role role, api_error *e) {
  (void)role;
  return check_string(v, path, e);
}

/* roles: where a member may say something. check: NULL: its value changes nothing. */
static const struct chat_member {
  const char *name;
  unsigned roles;
  bool (*check)(ij_jv v, const char *path, chat_role role, api_error *e);
} members[] = {
  {"role", ROLE_ANY, NULL},
  {"content", ROLE_ANY, check_content},
  {"name", ROLE_ANY, check_text},
  {"tool_call_id", ROLE_TOOL, check_text},
  {"tool_calls", ROLE_ASSISTANT, check_calls},
  {"reasoning_content", ROLE_ASSISTANT, check_text},
  {"reasoning", ROLE_ASSISTANT, check_text},
  {"cache_control", ROLE_ANY, NULL},
  {"annotations", ROLE_ASSISTANT, NULL},
  {"parsed", ROLE_ASSISTANT, NULL}, /* a copy of the content, which SDKs put there */
  {"refusal", 0, NULL},
  {"audio", 0, NULL},
  {"function_call", 0, NULL},
};

static bool says_nothing(ij_jv v) {
  const char *bytes;
  size_t n = 1;
  if (ij__jv_string(v, &bytes, &n)) return n == 0;
  return (ij__jv_type(v) == IJ_JSON_ARRAY || ij__jv_type(v) == IJ_JSON_OBJECT) && ij__json_size(v.v) == 0;
}

static bool check_member(ij_jv v, const char *key, size_t n, const char *path, chat_role role, api_error *e) {
  const struct chat_member *m = members, *end = members + IJ_COUNT_OF(members);
  while (m < end && (strlen(m->name) != n || memcmp(m->name, key, n) != 0)) m++;
  if (m < end && m->roles & role) return !m->check || m->check(v, path, role, e);
  if (says_nothing(v)) return true;
  if (m == end) return ij__api_fail(e, 400, "unknown_parameter", path, "unknown parameter: %s", path);
  return ij__api_fail(e, 400, "unsupported_parameter", path, "%s is not supported%s", path, m->roles ? " in a message of this role" : " here");
}

/* One thing under two names, of which the renderer reads one. */
static bool check_reasoning(ij_jv message, const char *path, api_error *e) {
  api_text a = {"", 0}, b = {"", 0};
  ij__jv_string(ij__jv_member(message, "reasoning_content"), &a.bytes, &a.n);
  ij__jv_string(ij__jv_member(message, "reasoning"), &b.bytes, &b.n);
  if (a.n == 0 || b.n == 0 || (a.n == b.n && memcmp(a.bytes, b.bytes, a.n) == 0)) return true;
  api_path at = ij__path("%s.reasoning", path);
  return ij__api_fail(e, 400, "invalid_value", at.text, "%s: reasoning_content is the same field, and has another text", at.text);
}

static bool check_message(ij_jv message, const char *path, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv v;
  const char *key;
  size_t n;
  if (ij__jv_type(message) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "a message: an object", message);
  chat_role role = role_of(ij__jv_member(message, "role"));
  while (role && ij__jv_next(message, &it, &key, &n, &v)) {
    if (!ij__jv_absent(v) && !check_member(v, key, n, ij__api_member_path(path, key, n).text, role, e)) return false;
  }
  return role != ROLE_ASSISTANT || check_reasoning(message, path, e);
}

bool ij__api_read_messages(api_run *run, ij_jv v, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv message;
  if (ij__jv_type(v) != IJ_JSON_ARRAY) return ij__api_expected(e, "messages", "an array", v);
  if (ij__json_size(v.v) == 0) {
    return ij__api_fail(e, 400, "invalid_value", "messages", "messages: expected at least one message, found none");
  }
  for (int i = 0; ij__jv_next(v, &it, NULL, NULL, &message); i++) {
    if (!check_message(message, ij__path("messages[%d]", i).text, e)) return false;
  }
  ij__jw_raw(&run->r.messages, v);
  return true;
}
