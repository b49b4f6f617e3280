/* chat_commands.c: what may follow a slash. One table drives the dispatch and /help.
 *
 * A command changes the list of messages or how it is shown, never the session: what the next answer can reuse is found by comparing.
 */
#include <stdio.h>
#include <string.h>

#include "cli/chat.h"
#include "core/alloc.h"

typedef struct chat_command_row {
  const char *name, *arg, *help;
  bool needs_arg;
  chat_next (*run)(chat *c, const char *arg);
} chat_command_row;

static chat_next do_help(chat *c, const char *arg);

static chat_next do_system(chat *c, const char *arg) {
  if (strcmp(arg, "-") == 0) {
    chat_history_set_system(&c->history, "", 0);
    chat_view_note(&c->view, "[there is no system text now]");
  } else if (*arg) {
    if (!chat_history_set_system(&c->history, arg, strlen(arg))) say_nomem("the system text", strlen(arg));
  } else {
    ij_buf text = {0};
    bool has = c->history.n > 0 && c->history.list[0].role == CHAT_SYSTEM && chat_history_content(&c->history, 0, &text);
    if (has) chat_view_text(&c->view, text.data, text.len);
    if (!has) chat_view_note(&c->view, "[there is no system text; /system TEXT sets it]");
    ij__buf_free(&text);
  }
  return CHAT_NEXT_LINE;
}

static chat_next do_effort(chat *c, const char *arg) {
  ij_err err = {0};
  if (!*arg) {
    chat_view_note(&c->view, "[effort: %s]", c->effort ? c->effort : "high (the default)");
    return CHAT_NEXT_LINE;
  }
  if (chat_check_effort(c, arg, &err) != IJ_OK) {
    say("/effort: %s", err.message);
    return CHAT_NEXT_LINE;
  }
  char *copy = ij__strdup(arg);
  if (!copy) {
    say_nomem("the effort", strlen(arg));
    return CHAT_NEXT_LINE;
  }
  ij__free(c->effort);
  c->effort = copy;
  return CHAT_NEXT_LINE;
}

/* A dash: what is attached is taken off again. */
static chat_next attach(chat *c, cli_option_id kind, const char *arg) {
  if (strcmp(arg, "-") == 0) {
    chat_view_note(&c->view, c->pending.len ? "[nothing is attached now]" : "[nothing was attached]");
    ij__buf_free(&c->pending);
  } else if (chat_attach_file(c, kind, arg) != CLI_EXIT_OK) {
    chat_view_note(&c->view, "[it is not attached]");
  }
  return CHAT_NEXT_LINE;
}

static chat_next do_image(chat *c, const char *arg) { return attach(c, OPT_IMAGE, arg); }
static chat_next do_audio(chat *c, const char *arg) { return attach(c, OPT_AUDIO, arg); }
static chat_next do_video(chat *c, const char *arg) { return attach(c, OPT_VIDEO, arg); }

static chat_next do_save(chat *c, const char *arg) {
  if (chat_save_messages(c, arg) == CLI_EXIT_OK) chat_view_note(&c->view, "[%d messages are in %s]", c->history.n, arg);
  return CHAT_NEXT_LINE;
}

void chat_note_loaded(const chat *c, const char *path) {
  bool waits = c->history.n > 0 && c->history.list[c->history.n - 1].role != CHAT_ASSISTANT;
  chat_view_note(&c->view, "[%d messages from %s%s]", c->history.n, path, waits ? "; /regen answers the last one" : "");
}

static chat_next do_load(chat *c, const char *arg) {
  if (chat_load_messages(c, arg) == CLI_EXIT_OK) chat_note_loaded(c, arg);
  return CHAT_NEXT_LINE;
}

static chat_next do_reset(chat *c, const char *arg) {
  (void)arg;
  int keep = 0;
  while (keep < c->history.n && c->history.list[keep].role == CHAT_SYSTEM) keep++;
  chat_history_cut(&c->history, keep);
  chat_view_note(&c->view, keep ? "[a new conversation with the same system text]" : "[a new conversation]");
  return CHAT_NEXT_LINE;
}

static chat_next do_undo(chat *c, const char *arg) {
  (void)arg;
  int last = chat_history_last(&c->history, CHAT_USER);
  ij_buf text = {0};
  if (last < 0) {
    chat_view_note(&c->view, "[there is nothing to take back]");
    return CHAT_NEXT_LINE;
  }
  if (!chat_history_content(&c->history, last, &text)) ij__buf_puts(&text, "(a message of several parts)");
  chat_history_cut(&c->history, last);
  chat_view_note(&c->view, "[taken back: %.*s%s]", (int)IJ_MIN(text.len, (size_t)200), text.data, text.len > 200 ? " ..." : "");
  ij__buf_free(&text);
  return CHAT_NEXT_LINE;
}

static chat_next do_regen(chat *c, const char *arg) {
  (void)arg;
  if (chat_history_last(&c->history, CHAT_USER) >= 0) return CHAT_NEXT_REGENERATE;
  chat_view_note(&c->view, "[there is no message to answer]");
  return CHAT_NEXT_LINE;
}

static chat_next do_result(chat *c, const char *arg) {
  ij_buf id = {0}, name = {0};
  if (!chat_history_open_call(&c->history, &id, &name)) {
    chat_view_note(&c->view, "[no call waits for a result]");
    return CHAT_NEXT_LINE;
  }
  ij__buf_free(&id);
  ij__buf_free(&name);
  if (!chat_history_add_result(&c->history, arg, strlen(arg))) {
    say_nomem("the result", strlen(arg));
    return CHAT_NEXT_LINE;
  }
  bool more = chat_history_open_call(&c->history, &id, &name);
  if (more) chat_view_note(&c->view, "[%s waits for its result, too]", name.data);
  ij__buf_free(&id);
  ij__buf_free(&name);
  return more ? CHAT_NEXT_LINE : CHAT_NEXT_ANSWER;
}

static chat_next do_think(chat *c, const char *arg) {
  (void)arg;
  c->view.fold = !c->view.fold;
  chat_view_note(&c->view, c->view.fold ? "[reasoning is folded]" : "[reasoning is shown]");
  if (!c->view.fold && c->answer.reasoning.len) chat_view_reasoning(&c->view, c->answer.reasoning.data, c->answer.reasoning.len);
  return CHAT_NEXT_LINE;
}

static chat_next do_stats(chat *c, const char *arg) {
  (void)arg;
  out_printf("answers     %lld\n", (long long)c->n_turns);
  out_printf("prompts     %lld tokens, of which %lld (%.0f %%) were cached; %.2f s\n", (long long)c->n_prompt, (long long)c->n_cached,
             c->n_prompt ? 100.0 * (double)c->n_cached / (double)c->n_prompt : 0.0, c->s_prompt);
  out_printf("generated   %lld tokens, of which %lld were reasoning; %.1f tokens/s\n", (long long)c->n_tokens, (long long)c->n_reasoning,
             c->s_decode > 0 ? (double)(c->n_tokens - c->n_turns) / c->s_decode : 0.0);
  out_printf("messages    %d\n", c->history.n);
  out_printf("context     %lld of %lld positions, %.1f MB reserved%s\n", (long long)ij_session_pos(c->cache.session),
             (long long)ij_session_n_ctx(c->cache.session), 1e-6 * (double)ij_session_bytes(c->cache.session) * (c->cache.kept ? 2 : 1),
             c->cache.kept ? ", half of it for the copy that /undo goes back to" : "");
  return CHAT_NEXT_LINE;
}

static chat_next do_exit(chat *c, const char *arg) {
  (void)c;
  (void)arg;
  return CHAT_NEXT_LEAVE;
}

static const chat_command_row rows[] = {
    {"help", "", "this list", false, do_help},
    {"system", "[TEXT]", "show the system text, or set it; - removes it", false, do_system},
    {"effort", "[E]", "show how much the model thinks, or set it: none, low, high, 0.5 ...", false, do_effort},
    {"think", "", "fold or unfold reasoning; unfolding shows that of the last answer", false, do_think},
    {"image", "FILE", "attach a picture to the next message; - takes off what is attached", true, do_image},
    {"audio", "FILE", "attach a sound", true, do_audio},
    {"video", "FILE", "attach a video", true, do_video},
    {"result", "TEXT", "what a tool gave, for the first call that waits", true, do_result},
    {"undo", "", "take back the last message and all that followed it", false, do_undo},
    {"regen", "", "answer the last message again", false, do_regen},
    {"reset", "", "a new conversation with the same system text", false, do_reset},
    {"save", "FILE", "write the messages as JSON", true, do_save},
    {"load", "FILE", "replace the conversation by that of a file", true, do_load},
    {"stats", "", "what was computed, and how fast", false, do_stats},
    {"exit", "", "leave, as Ctrl-D does", false, do_exit},
};

static chat_next do_help(chat *c, const char *arg) {
  (void)c;
  (void)arg;
  for (size_t i = 0; i < IJ_COUNT_OF(rows); i++) {
    char left[40];
    snprintf(left, sizeof left, "/%s %s", rows[i].name, rows[i].arg);
    out_printf("  %-16s %s\n", left, rows[i].help);
  }
  out_text("A backslash at the end of a line continues it; a block between \"\"\" and \"\"\" is taken as\n"
           "it is. A message that begins with a slash is written with two. Ctrl-C stops an answer.\n");
  return CHAT_NEXT_LINE;
}

chat_next chat_command(chat *c, const char *line) {
  const char *name = line + 1, *arg = name + strcspn(name, " \t\n");
  size_t n = (size_t)(arg - name);
  arg += strspn(arg, " \t\n");
  for (size_t i = 0; i < IJ_COUNT_OF(rows); i++) {
    const chat_command_row *row = &rows[i];
    if (strlen(row->name) != n || memcmp(row->name, name, n) != 0) continue;
    if (*arg && !*row->arg) {
      say("/%s takes nothing after it: %s", row->name, arg);
    } else if (row->needs_arg && !*arg) {
      say("/%s needs %s", row->name, row->arg);
    } else {
      return row->run(c, arg);
    }
    return CHAT_NEXT_LINE;
  }
  say("there is no command /%.*s; /help lists them, and a message that begins with a slash is written with two",
      (int)IJ_MIN(n, (size_t)40), name);
  return CHAT_NEXT_LINE;
}
