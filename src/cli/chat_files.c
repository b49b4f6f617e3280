/* chat_files.c: what a conversation reads from files and writes to them: tools, a schema, messages. Everything is tried on the renderer
 * or the grammar at once, so that a wrong file is refused before anything is answered with it.
 */
#include <string.h>

#include "cli/chat.h"
#include "core/alloc.h"
#include "core/out_file.h"
#include "core/status.h"

/* An error inside a file: the file's name in front, and the exit code of a bad input whatever kind of error it is. */
static int say_in_file(const char *path, const ij_err *err) {
  if (err->code == IJ_E_NOMEM) return say_failed(err);
  if (strcmp(err->where, path) == 0 || !err->where[0]) {
    say("%s: %s", path, err->message);
  } else {
    say("%s: %s: %s", path, err->where, err->message);
  }
  return CLI_EXIT_BAD_INPUT;
}

static int read_file(const char *path, char **bytes, size_t *n) {
  if (strcmp(path, "-") != 0) return read_input(path, bytes, n);
  say("-: standard input is for the message: give a file");
  return CLI_EXIT_MISUSE;
}

/* The renderer's opinion on one user message under these options. */
static ij_status try_render(const chat *c, const char *effort, ij_err *err) {
  chat_history one = {0};
  ij_prompt *prompt = NULL;
  if (!chat_history_add_user(&one, NULL, 0, "x", 1)) return ij__fail_nomem(err, "a message", 1);
  ij_status s = chat_render(c, &one, 1, effort, true, &prompt, err);
  ij_prompt_close(&prompt);
  chat_history_cut(&one, 0);
  return s;
}

ij_status chat_check_effort(const chat *c, const char *effort, ij_err *err) { return try_render(c, effort, err); }

/* ------------------------------------------------------------------------------------------------------------------ tools */

static chat_span function_of(chat_span tool) {
  chat_span f;
  return chat_json_member(tool, "function", &f) ? f : tool;
}

/* Arguments that cannot be held to their schema stay any object, and that is said. */
static int add_tool(chat *c, const char *path, chat_span text, const ij_json_value *v) {
  ij_err err = {0};
  const ij_json_value *f = ij__json_member(v, "function");
  if (!f) f = v;
  ij_guided_tool *tool = &c->guided[c->n_guided];
  if (!ij__json_get_string(ij__json_member(f, "name"), &tool->name, &tool->n_name)) {
    say("%s: tools[%d]: expected a tool with a name", path, c->n_guided);
    return CLI_EXIT_BAD_INPUT;
  }
  chat_span schema;
  if (chat_json_member(function_of(text), "parameters", &schema) && schema.bytes[0] == '{') {
    ij_status s = ij_grammar_json(&c->tool_grammars[c->n_guided], c->tokenizer, schema.bytes, schema.n, &err);
    if (s == IJ_E_NOMEM) return say_failed(&err);
    if (s != IJ_OK) {
      say("warning: %s: the arguments of %.*s may be any object: %s: %s", path, (int)IJ_MIN(tool->n_name, (size_t)100), tool->name,
          err.where, err.message);
    }
  }
  tool->args = c->tool_grammars[c->n_guided];
  c->n_guided++;
  return CLI_EXIT_OK;
}

static int add_tools(chat *c, const char *path) {
  const ij_json_value *root = ij__json_root(c->tools_doc), *v;
  size_t n = ij__json_size(root), at = 0;
  c->guided = ij__alloc_zero(n + 1, sizeof *c->guided);
  c->tool_grammars = ij__alloc_zero(n + 1, sizeof *c->tool_grammars);
  if (!c->guided || !c->tool_grammars) return say_nomem("the tools", n * sizeof *c->guided);
  ij_json_iter it = {0};
  chat_span element, all = {c->tools, c->n_tools_bytes};
  int rc = CLI_EXIT_OK;
  while (rc == CLI_EXIT_OK && ij__json_next(root, &it, NULL, NULL, &v) && chat_json_element(all, &at, &element)) {
    rc = add_tool(c, path, element, v);
  }
  return rc;
}

int chat_load_tools(chat *c, const char *path) {
  ij_err err = {0};
  int rc = read_file(path, &c->tools, &c->n_tools_bytes);
  if (rc != CLI_EXIT_OK) return rc;
  ij_status s = ij__json_parse(&c->tools_doc, c->tools, c->n_tools_bytes, path, &err);
  if (s == IJ_OK && ij__json_type_of(ij__json_root(c->tools_doc)) != IJ_JSON_ARRAY) {
    s = ij__fail(&err, IJ_E_FORMAT, path, "expected an array of tools");
  }
  if (s == IJ_OK) s = try_render(c, c->effort, &err);
  return s == IJ_OK ? add_tools(c, path) : say_in_file(path, &err);
}

int chat_load_schema(chat *c, const char *path) {
  ij_err err = {0};
  char *bytes;
  size_t n;
  int rc = read_file(path, &bytes, &n);
  if (rc != CLI_EXIT_OK) return rc;
  ij_status s = n ? ij_grammar_json(&c->schema, c->tokenizer, bytes, n, &err) : ij__fail(&err, IJ_E_FORMAT, path, "the file is empty");
  ij__free(bytes);
  return s == IJ_OK ? CLI_EXIT_OK : say_in_file(path, &err);
}

void chat_free_files(chat *c) {
  for (int i = 0; i < c->n_guided; i++) ij_grammar_close(&c->tool_grammars[i]);
  ij__free(c->tool_grammars);
  ij__free(c->guided);
  ij__json_free(&c->tools_doc);
  ij__free(c->tools);
  ij_grammar_close(&c->schema);
}

/* --------------------------------------------------------------------------------------------------------------- messages */

static ij_status try_messages(const chat *c, const chat_history *h, ij_err *err) {
  ij_prompt *prompt = NULL;
  ij_status s = chat_render(c, h, h->n, c->effort, true, &prompt, err);
  if (s == IJ_OK) s = chat_attach(c, prompt, err);
  ij_prompt_close(&prompt);
  return s;
}

int chat_load_messages(chat *c, const char *path) {
  ij_err err = {0};
  chat_history got = {0};
  ij_buf left_out = {0};
  char *bytes;
  size_t n;
  int rc = read_file(path, &bytes, &n);
  if (rc != CLI_EXIT_OK) return rc;
  ij_status s = chat_history_read(&got, bytes, n, path, &left_out, &err);
  if (s == IJ_OK && got.n > 0) s = try_messages(c, &got, &err);
  if (s == IJ_OK) {
    chat_history_cut(&c->history, 0);
    c->history = got;
    if (left_out.len) say("%s: only the messages are used, not %s", path, left_out.data);
  } else {
    chat_history_cut(&got, 0);
  }
  ij__buf_free(&left_out);
  ij__free(bytes);
  return s == IJ_OK ? CLI_EXIT_OK : say_in_file(path, &err);
}

static void note_cost(void *user, const char *line) {
  const chat *c = user;
  chat_view_note(&c->view, "[%s; it goes with the next message]", line);
}

/* The conversation as it would be with this message, so that what is open stays open, and nothing is attached that could not be read. */
static ij_status try_parts(chat *c, const ij_buf *parts, ij_err *err) {
  ij_prompt *prompt = NULL;
  int n = c->history.n;
  if (!chat_history_add_user(&c->history, parts->data, parts->len, "", 0)) return ij__fail_nomem(err, "a message", parts->len);
  ij_status s = chat_render(c, &c->history, c->history.n, c->effort, true, &prompt, err);
  if (s == IJ_OK) s = chat_attach(c, prompt, err);
  if (s == IJ_OK) {
    int last = ij_prompt_n_segments(prompt) - 1;
    while (last > 0 && !ij_prompt_segment(prompt, last).source) last--;
    media_costs(c->attachments, prompt, ij_prompt_segment(prompt, last).first, note_cost, c);
  }
  ij_prompt_close(&prompt);
  chat_history_cut(&c->history, n);
  return s;
}

int chat_attach_file(chat *c, cli_option_id kind, const char *path) {
  ij_buf parts = {0};
  ij_err err = {0};
  ij__buf_append(&parts, c->pending.data, c->pending.len);
  if (parts.len) ij__buf_puts(&parts, ",");
  int rc = media_part(kind, path, &parts);
  if (rc == CLI_EXIT_OK && try_parts(c, &parts, &err) != IJ_OK) rc = say_bad_input(&err);
  if (rc != CLI_EXIT_OK) {
    ij__buf_free(&parts);
    return rc;
  }
  ij__buf_free(&c->pending);
  c->pending = parts;
  return CLI_EXIT_OK;
}

int chat_save_messages(const chat *c, const char *path) {
  ij_err err = {0};
  ij_buf json = {0};
  chat_history_json(&c->history, c->history.n, &json);
  ij_status s = json.failed ? ij__fail_nomem(&err, "the messages", json.len) : ij__out_write(path, json.data, json.len, &err);
  ij__buf_free(&json);
  return s == IJ_OK ? CLI_EXIT_OK : say_failed(&err);
}
