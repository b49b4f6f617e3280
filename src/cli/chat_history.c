/* chat_history.c: the messages of a conversation, each kept as the JSON text it came in or was made as.
 *
 * Text instead of fields: a file that was loaded is rendered and saved again with everything that it holds, also what nothing here
 * knows about; what the renderer cannot use, the renderer refuses by name.
 */
#include <string.h>

#include "cli/chat.h"
#include "core/alloc.h"
#include "core/status.h"

static chat_role role_of(const ij_json_value *role) {
  static const struct {
    const char *name;
    chat_role role;
  } roles[] = {{"system", CHAT_SYSTEM}, {"developer", CHAT_SYSTEM}, {"user", CHAT_USER}, {"assistant", CHAT_ASSISTANT},
               {"tool", CHAT_TOOL}};
  for (size_t i = 0; i < IJ_COUNT_OF(roles); i++) {
    if (ij__json_is(role, roles[i].name)) return roles[i].role;
  }
  return CHAT_OTHER;
}

static bool reserve(chat_history *h, int n_more) {
  int cap = IJ_MAX(IJ_MAX(h->cap, 16), h->n + n_more);
  if (h->n + n_more <= h->cap) return true;
  if (cap < 2 * h->cap) cap = 2 * h->cap;
  chat_message *grown = ij__realloc(h->list, (size_t)cap * sizeof *grown);
  if (!grown) return false;
  h->list = grown;
  h->cap = cap;
  return true;
}

/* Takes over json. */
static bool insert(chat_history *h, int at, char *json, size_t n, chat_role role) {
  if (!reserve(h, 1)) {
    ij__free(json);
    return false;
  }
  memmove(h->list + at + 1, h->list + at, (size_t)(h->n - at) * sizeof *h->list);
  h->list[at] = (chat_message){.json = json, .n = n, .role = role};
  h->n++;
  return true;
}

static bool insert_buf(chat_history *h, int at, ij_buf *b, chat_role role) {
  if (b->failed) {
    ij__buf_free(b);
    return false;
  }
  return insert(h, at, b->data, b->len, role);
}

void chat_history_cut(chat_history *h, int n) {
  while (h->n > n) ij__free(h->list[--h->n].json);
  if (h->n > 0) return;
  ij__free(h->list);
  *h = (chat_history){0};
}

static bool move_to_end(chat_history *to, chat_history *from, int first) {
  int n = from->n - first;
  if (n <= 0) return true;
  if (!reserve(to, n)) return false;
  memcpy(to->list + to->n, from->list + first, (size_t)n * sizeof *to->list);
  to->n += n;
  from->n = first;
  return true;
}

bool chat_history_split(chat_history *h, int n, chat_history *rest) { return move_to_end(rest, h, n); }

bool chat_history_append(chat_history *h, chat_history *rest) {
  bool ok = move_to_end(h, rest, 0);
  chat_history_cut(rest, 0);
  return ok;
}

/* ---------------------------------------------------------------------------------------------------------------- reading */

static ij_status read_message(chat_history *h, chat_span text, const ij_json_value *v, const char *where, ij_err *err) {
  if (ij__json_type_of(v) != IJ_JSON_OBJECT) {
    return ij__fail(err, IJ_E_FORMAT, where, "messages[%d]: expected an object, found %s", h->n, ij__json_type_name(ij__json_type_of(v)));
  }
  char *json = ij__strndup(text.bytes, text.n);
  if (!json || !insert(h, h->n, json, text.n, role_of(ij__json_member(v, "role")))) return ij__fail_nomem(err, "a message", text.n);
  return IJ_OK;
}

static ij_status read_messages(chat_history *h, chat_span text, const ij_json_value *array, const char *where, ij_err *err) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  chat_span element;
  size_t at = 0;
  ij_status s = IJ_OK;
  while (s == IJ_OK && ij__json_next(array, &it, NULL, NULL, &v)) {
    if (!chat_json_element(text, &at, &element)) return ij__fail(err, IJ_E_FORMAT, where, "messages[%d] was not found", h->n);
    s = read_message(h, element, v, where, err);
  }
  return s;
}

static void name_others(const ij_json_value *object, ij_buf *left_out) {
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  while (ij__json_next(object, &it, &key, &n, NULL)) {
    if (n == 8 && memcmp(key, "messages", 8) == 0) continue;
    if (left_out->len) ij__buf_puts(left_out, ", ");
    ij__buf_append(left_out, key, IJ_MIN(n, (size_t)60));
  }
}

static ij_status read_root(chat_history *h, chat_span text, const ij_json_value *root, const char *where, ij_buf *left_out, ij_err *err) {
  if (ij__json_type_of(root) == IJ_JSON_OBJECT) {
    const ij_json_value *messages = ij__json_member(root, "messages");
    if (!chat_json_member(text, "messages", &text)) messages = NULL;
    if (ij__json_type_of(messages) == IJ_JSON_ARRAY && left_out) name_others(root, left_out);
    root = messages;
  }
  if (ij__json_type_of(root) != IJ_JSON_ARRAY) {
    return ij__fail(err, IJ_E_FORMAT, where, "expected an array of messages, or an object with such an array as \"messages\"");
  }
  return read_messages(h, text, root, where, err);
}

ij_status chat_history_read(chat_history *h, const char *bytes, size_t n, const char *where, ij_buf *left_out, ij_err *err) {
  ij_json *doc = NULL;
  chat_history got = {0};
  ij_status s = ij__json_parse(&doc, bytes, n, where, err);
  if (s == IJ_OK) s = read_root(&got, (chat_span){bytes, n}, ij__json_root(doc), where, left_out, err);
  ij__json_free(&doc);
  if (s == IJ_OK) {
    chat_history_cut(h, 0);
    *h = got;
  } else {
    chat_history_cut(&got, 0);
  }
  return s;
}

/* ----------------------------------------------------------------------------------------------------------------- adding */

bool chat_history_add_user(chat_history *h, const char *parts, size_t n_parts, const char *bytes, size_t n) {
  ij_buf b = {0};
  ij__buf_puts(&b, "{\"role\":\"user\",\"content\":");
  if (n_parts) {
    ij__buf_puts(&b, "[");
    ij__buf_append(&b, parts, n_parts);
    if (n) ij__buf_puts(&b, ",{\"type\":\"text\",\"text\":");
  }
  if (n || !n_parts) chat_json_string(&b, bytes, n);
  if (n_parts) ij__buf_puts(&b, n ? "}]" : "]");
  ij__buf_puts(&b, "}");
  return insert_buf(h, h->n, &b, CHAT_USER);
}

bool chat_history_set_system(chat_history *h, const char *bytes, size_t n) {
  bool had = h->n > 0 && h->list[0].role == CHAT_SYSTEM;
  ij_buf b = {0};
  if (n > 0) {
    ij__buf_puts(&b, "{\"role\":\"system\",\"content\":");
    chat_json_string(&b, bytes, n);
    ij__buf_puts(&b, "}");
    if (!insert_buf(h, 0, &b, CHAT_SYSTEM)) return false;
  }
  if (!had) return true;
  int old = n > 0 ? 1 : 0;
  ij__free(h->list[old].json);
  memmove(h->list + old, h->list + old + 1, (size_t)(h->n - old - 1) * sizeof *h->list);
  h->n--;
  return true;
}

static void put_calls(ij_buf *b, const chat_history *h, const chat_answer *a) {
  ij__buf_puts(b, ",\"tool_calls\":[");
  for (int i = 0, n = 0; i < a->n_calls; i++) {
    const chat_call *call = &a->calls[i];
    if (!call->well_formed) continue;
    ij__buf_printf(b, "%s{\"id\":\"call_%d_%d\",\"type\":\"function\",\"function\":{\"name\":", n++ ? "," : "", h->n, i);
    chat_json_string(b, call->name.data, call->name.len);
    ij__buf_puts(b, ",\"arguments\":");
    chat_json_string(b, call->arguments.data, call->arguments.len);
    ij__buf_puts(b, "}}");
  }
  ij__buf_puts(b, "]");
}

/* A malformed call has no place in the format: what the model wrote stays in the conversation as text. */
static void content_with_malformed(ij_buf *text, const chat_answer *a) {
  ij__buf_append(text, a->content.data, a->content.len);
  for (int i = 0; i < a->n_calls; i++) {
    if (a->calls[i].well_formed) continue;
    if (text->len) ij__buf_puts(text, "\n");
    ij__buf_append(text, a->calls[i].name.data, a->calls[i].name.len);
    ij__buf_puts(text, " ");
    ij__buf_append(text, a->calls[i].arguments.data, a->calls[i].arguments.len);
  }
}

bool chat_history_add_answer(chat_history *h, const chat_answer *a) {
  ij_buf b = {0}, content = {0};
  content_with_malformed(&content, a);
  ij__buf_puts(&b, "{\"role\":\"assistant\",\"content\":");
  chat_json_string(&b, content.data, content.len);
  if (a->reasoning.len) {
    ij__buf_puts(&b, ",\"reasoning_content\":");
    chat_json_string(&b, a->reasoning.data, a->reasoning.len);
  }
  if (a->n_well_formed) put_calls(&b, h, a);
  ij__buf_puts(&b, "}");
  b.failed = b.failed || content.failed;
  ij__buf_free(&content);
  return insert_buf(h, h->n, &b, CHAT_ASSISTANT);
}

bool chat_history_add_result(chat_history *h, const char *bytes, size_t n) {
  ij_buf b = {0}, id = {0}, name = {0};
  if (!chat_history_open_call(h, &id, &name)) return false;
  ij__buf_puts(&b, "{\"role\":\"tool\",\"tool_call_id\":");
  chat_json_string(&b, id.data, id.len);
  ij__buf_puts(&b, ",\"name\":");
  chat_json_string(&b, name.data, name.len);
  ij__buf_puts(&b, ",\"content\":");
  chat_json_string(&b, bytes, n);
  ij__buf_puts(&b, "}");
  b.failed = b.failed || id.failed || name.failed;
  ij__buf_free(&id);
  ij__buf_free(&name);
  return insert_buf(h, h->n, &b, CHAT_TOOL);
}

/* ---------------------------------------------------------------------------------------------------------------- looking */

int chat_history_last(const chat_history *h, chat_role role) {
  for (int i = h->n - 1; i >= 0; i--) {
    if (h->list[i].role == role) return i;
  }
  return -1;
}

static ij_json *parse(const chat_message *m) {
  ij_json *doc = NULL;
  return ij__json_parse(&doc, m->json, m->n, "a message", NULL) == IJ_OK ? doc : NULL;
}

bool chat_history_content(const chat_history *h, int index, ij_buf *text) {
  ij_json *doc = parse(&h->list[index]);
  const ij_json_value *content = ij__json_member(ij__json_root(doc), "content"), *part;
  ij_json_iter it = {0};
  const char *s;
  size_t n;
  bool ok = ij__json_get_string(content, &s, &n);
  if (ok) ij__buf_append(text, s, n);
  while (ij__json_next(content, &it, NULL, NULL, &part)) {
    bool is_text = ij__json_get_string(part, &s, &n) || ij__json_get_string(ij__json_member(part, "text"), &s, &n);
    if (text->len) ij__buf_puts(text, " ");
    if (!is_text && !ij__json_get_string(ij__json_member(part, "type"), &s, &n)) continue;
    ij__buf_puts(text, is_text ? "" : "[");
    ij__buf_append(text, s, n);
    ij__buf_puts(text, is_text ? "" : "]");
    ok = true;
  }
  ij__json_free(&doc);
  return ok;
}

static bool has_result(const chat_history *h, int from, const char *id, size_t n_id) {
  bool found = false;
  for (int i = from; i < h->n && !found; i++) {
    ij_json *doc = h->list[i].role == CHAT_TOOL ? parse(&h->list[i]) : NULL;
    const char *s;
    size_t n;
    found = ij__json_get_string(ij__json_member(ij__json_root(doc), "tool_call_id"), &s, &n) && n == n_id && memcmp(s, id, n) == 0;
    ij__json_free(&doc);
  }
  return found;
}

bool chat_history_open_call(const chat_history *h, ij_buf *id, ij_buf *name) {
  int last = chat_history_last(h, CHAT_ASSISTANT);
  if (last < 0) return false;
  ij_json *doc = parse(&h->list[last]);
  const ij_json_value *calls = ij__json_member(ij__json_root(doc), "tool_calls"), *call;
  ij_json_iter it = {0};
  bool found = false;
  while (!found && ij__json_next(calls, &it, NULL, NULL, &call)) {
    const char *s, *t;
    size_t n, n_t;
    if (!ij__json_get_string(ij__json_member(call, "id"), &s, &n)) continue;
    if (!ij__json_get_string(ij__json_member(ij__json_member(call, "function"), "name"), &t, &n_t)) continue;
    found = !has_result(h, last + 1, s, n);
    if (found) ij__buf_append(id, s, n);
    if (found) ij__buf_append(name, t, n_t);
  }
  ij__json_free(&doc);
  return found;
}

void chat_history_json(const chat_history *h, int n, ij_buf *out) {
  ij__buf_puts(out, "[");
  for (int i = 0; i < n; i++) {
    ij__buf_puts(out, i ? ",\n" : "\n");
    ij__buf_append(out, h->list[i].json, h->list[i].n);
  }
  ij__buf_puts(out, n ? "\n]\n" : "]\n");
}
