/* chat_talk.c: the conversation on a terminal: read, answer, and nothing that goes wrong in between ends it.
 *
 * A message enters the history together with its answer: when nothing was answered, the message is taken back, so that the list of
 * messages never holds a question that the model has not seen. An answer that was stopped stays, as far as it came.
 */
#include <string.h>

#include "cli/chat.h"
#include "core/str.h"

typedef struct talk {
  chat *c;
  chat_edit *edit;               /* NULL: plain lines */
  ij_buf ahead;
} talk;

static chat_read next_line(void *user, const char *prompt, ij_buf *line) {
  talk *t = user;
  return t->edit ? chat_edit_line(t->edit, prompt, line) : chat_plain_line(&t->ahead, prompt, line);
}

static void greet(const talk *t, const char *why_plain) {
  ij_model_info info;
  ij_model_get_info(t->c->model, &info);
  chat_view_note(&t->c->view, "inkjet %s: %.3g billion parameters, %lld positions. /help lists the commands, Ctrl-D leaves.", ij_version(),
                 1e-9 * (double)info.n_params, (long long)t->c->cache.options.n_ctx);
  if (t->c->args->v[OPT_LOAD].set) chat_note_loaded(t->c, t->c->args->v[OPT_LOAD].text);
  if (!t->edit) chat_view_note(&t->c->view, "[plain lines without editing: %s]", why_plain);
}

static void after_answer(chat *c) {
  ij_buf id = {0}, name = {0};
  const chat_answer *a = &c->answer;
  chat_view_speed(&c->view, a);
  if (chat_answer_is_empty(a)) chat_view_note(&c->view, "[the answer is empty]");
  if (a->n_well_formed && chat_history_open_call(&c->history, &id, &name)) {
    chat_view_note(&c->view, "[%s waits: /result TEXT gives what it returned]", name.data);
  }
  ij__buf_free(&id);
  ij__buf_free(&name);
}

/* Answers the history. False: there was no answer, and why has been said. */
static bool answer(chat *c) {
  int rc = chat_answer_turn(c);
  bool got = (rc == CLI_EXIT_OK || rc == CLI_EXIT_INTERRUPTED) && c->answer.n_tokens > 0;
  if (got && !chat_history_add_answer(&c->history, &c->answer)) {
    say_nomem("the answer", c->answer.content.len);
    got = false;
  }
  if (got) after_answer(c);
  return got;
}

static bool answer_new(chat *c) {
  c->n_regenerated = 0;
  if (answer(c)) return true;
  chat_history_cut(&c->history, c->history.n - 1);
  chat_view_note(&c->view, "[there is no answer; the message is taken back]");
  return false;
}

/* With drawing, every round has a seed of its own; a greedy answer can only be the same again. */
static void answer_again(chat *c) {
  int last = IJ_MAX(chat_history_last(&c->history, CHAT_USER), chat_history_last(&c->history, CHAT_TOOL));
  bool had = last + 1 < c->history.n;
  chat_history before = {0};
  if (!chat_history_split(&c->history, last + 1, &before)) {
    say_nomem("the messages", sizeof *c->history.list);
    return;
  }
  uint64_t seed = c->sampling.seed;
  if (c->sampling.temperature > 0) {
    c->n_regenerated += had;
    c->sampling.seed += (uint64_t)c->n_regenerated;
    chat_view_note(&c->view, "[seed %llu]", (unsigned long long)c->sampling.seed);
  } else if (had) {
    chat_view_note(&c->view, "[greedy: the same messages give the same answer; --temp or --seed draws others]");
  }
  bool ok = answer(c);
  c->sampling.seed = seed;
  if (ok) {
    chat_history_cut(&before, 0);
    return;
  }
  if (!chat_history_append(&c->history, &before)) say_nomem("the messages", sizeof *c->history.list);
  chat_view_note(&c->view, had ? "[the earlier answer stays]" : "[there is no answer]");
}

static bool is_blank(const ij_buf *text) { return strspn(text->data, " \t\n") == text->len; }

/* A message or a command; false: the conversation is over. */
static bool take(talk *t, const ij_buf *text) {
  chat *c = t->c;
  const char *s = text->data;
  size_t n = text->len;
  if (t->edit) chat_edit_remember(t->edit, s);
  if (s[0] == '/' && s[1] != '/') {
    switch (chat_command(c, s)) {
      case CHAT_NEXT_LINE: break;
      case CHAT_NEXT_ANSWER: answer_new(c); break;
      case CHAT_NEXT_REGENERATE: answer_again(c); break;
      case CHAT_NEXT_LEAVE: return false;
    }
    return true;
  }
  if (s[0] == '/') {
    s++;
    n--;
  }
  if (chat_history_add_user(&c->history, c->pending.data, c->pending.len, s, n)) {
    ij_buf parts = c->pending;
    c->pending = (ij_buf){0};
    if (answer_new(c)) ij__buf_free(&parts);
    else c->pending = parts; /* with the message they are taken back to where they were */
  } else {
    say_nomem("the message", n);
  }
  return true;
}

int chat_talk(chat *c) {
  const char *why_plain = "";
  talk t = {.c = c};
  chat_source source = {next_line, &t};
  ij_buf text = {0};
  t.edit = chat_edit_open(&why_plain);
  greet(&t, why_plain);
  for (bool more = true; more && !interrupted_for_good() && out_flush();) {
    interrupt_forget();
    chat_read got = chat_read_message(&source, &text);
    if (got == CHAT_READ_END) break;
    if (got == CHAT_READ_CANCELLED) {
      if (!t.edit) say_plain("%s", ""); /* the next prompt begins a line */
      continue;
    }
    interrupt_forget();
    if (text.failed) {
      say_nomem("the message", text.len);
      ij__buf_free(&text);
    } else if (!is_blank(&text)) {
      more = take(&t, &text);
    }
  }
  chat_edit_close(&t.edit);
  ij__buf_free(&t.ahead);
  ij__buf_free(&text);
  return interrupted_for_good() ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}
