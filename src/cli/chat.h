/* chat.h: the parts of `inkjet chat`, from the text outwards.
 *
 * A conversation is a list of messages in the form of OpenAI's chat completions, kept as JSON text. Every answer renders all of it
 * and evaluates only the ids that the session does not hold yet (chat_cache.c), so what is cached can never change an answer. Nothing
 * here knows the format of the family: that is inkjet_chat.h.
 */
#ifndef IJ_CLI_CHAT_H
#define IJ_CLI_CHAT_H

#include "cli/cli.h"
#include "cli/cli_media.h"
#include "core/str.h"
#include "inkjet_chat.h"
#include "io/json.h"

/* ---- text of a model on a terminal (chat_safe.c): control characters become visible, so that an answer cannot move the cursor, set
 * the title or paste into the input. Line ends and tabs stay. Also the bidirectional overrides, which make text read as it is not. */
typedef struct chat_safe {
  bool cr;                       /* a carriage return is held: before a line feed it is dropped */
} chat_safe;
void chat_safe_add(ij_buf *out, chat_safe *state, const char *bytes, size_t n); /* bytes: whole UTF-8 characters */
void chat_safe_end(ij_buf *out, chat_safe *state);

/* ---- JSON as text (chat_json.c) */
void chat_json_string(ij_buf *out, const char *bytes, size_t n); /* with quotes; what is not UTF-8 becomes U+FFFD */

/* The source text of a value in a document that ij__json_parse has accepted. */
typedef struct chat_span {
  const char *bytes;
  size_t n;
} chat_span;
bool chat_json_element(chat_span array, size_t *at, chat_span *element);           /* *at: 0 at first; false: no more */
bool chat_json_member(chat_span object, const char *key, chat_span *value);        /* false: none, or its key is written with escapes */

/* ---- an answer (chat_answer.c) */
typedef struct chat_call {
  ij_buf name, arguments;
  bool well_formed;
} chat_call;

typedef enum chat_end { CHAT_STOP, CHAT_LENGTH, CHAT_CONTEXT, CHAT_INTERRUPTED } chat_end;

typedef struct chat_answer {
  ij_buf content, reasoning;
  chat_call *calls;
  int n_calls, n_well_formed;
  bool failed;                   /* no memory: something is missing */
  chat_end end;
  int64_t n_prompt, n_cached, n_tokens, n_reasoning;
  double t_prompt, t_first, t_think, t_end; /* seconds: prompt begun, first id chosen, thinking over, last id chosen */
} chat_answer;
void chat_answer_add(chat_answer *a, const ij_event *event);
void chat_answer_clear(chat_answer *a);
bool chat_answer_is_empty(const chat_answer *a);
const char *chat_answer_finish(const chat_answer *a);  /* stop, length, tool_calls or interrupted */

/* ---- the messages (chat_history.c) */
typedef enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_TOOL, CHAT_OTHER } chat_role;
typedef struct chat_message {
  char *json;
  size_t n;
  chat_role role;
} chat_message;
typedef struct chat_history {
  chat_message *list;
  int n, cap;
} chat_history;

/* An array of messages, or an object with `messages`, whose other members are named in *left_out. On failure nothing changes. */
ij_status chat_history_read(chat_history *h, const char *bytes, size_t n, const char *where, ij_buf *left_out, ij_err *err);
/* parts: content parts with commas between them, which stand before the text; n_parts 0: none. False, here and below: no memory. */
bool chat_history_add_user(chat_history *h, const char *parts, size_t n_parts, const char *bytes, size_t n);
bool chat_history_add_answer(chat_history *h, const chat_answer *a);
bool chat_history_add_result(chat_history *h, const char *bytes, size_t n);       /* of the call that chat_history_open_call names */
bool chat_history_set_system(chat_history *h, const char *bytes, size_t n);       /* n 0: none */
bool chat_history_open_call(const chat_history *h, ij_buf *id, ij_buf *name);     /* the first call of the last answer without result */
int chat_history_last(const chat_history *h, chat_role role);                     /* index, -1: none */
bool chat_history_content(const chat_history *h, int index, ij_buf *text);        /* its content as text; media as [image_url] */
void chat_history_cut(chat_history *h, int n);                                    /* keeps the first n */
bool chat_history_split(chat_history *h, int n, chat_history *rest);              /* the others go to rest, which was empty */
bool chat_history_append(chat_history *h, chat_history *rest);                    /* and back */
void chat_history_json(const chat_history *h, int n, ij_buf *out);                /* the first n as an array, one message per line */

/* ---- the session behind a conversation (chat_cache.c) */
typedef struct chat_cache {
  ij_model *model;
  ij_session_options options;
  ij_session *session;
  ij_session *kept;              /* a copy at an earlier turn start, or NULL */
  int64_t turn_start;            /* position where the current exchange begins; 0: no copy is worth while */
  bool tried;                    /* in this turn a copy was made, found or refused */
  const int32_t *ids;            /* [n_ids] the prompt of this turn */
  int64_t n_ids;
  const ij_rows *rows;           /* [n_rows] its media */
  int n_rows;
  ij_rows *cut;                  /* [n_rows] room for a part of them */
  int hidden;
} chat_cache;
ij_status chat_cache_open(chat_cache *c, ij_model *model, int64_t n_ctx, ij_kv_type kv_type, int max_rollback, ij_err *err);
void chat_cache_close(chat_cache *c);
/* Brings the session to the longest start of ids that can be had without evaluating, leaving at least one id unless the logits after
 * all of them are there. *reused: how many. The next exchange begins at turn_start. ids and rows must live as long as the turn. */
ij_status chat_cache_rewind(chat_cache *c, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, int64_t turn_start,
                            int64_t *reused, ij_err *err);
ij_status chat_cache_eval(chat_cache *c, const int32_t *ids, int64_t n, ij_err *err);

/* ---- what an answer looks like while it comes (chat_view.c) */
typedef struct chat_view {
  bool talking;                  /* in a conversation reasoning goes to standard output too, when that is a terminal */
  bool quiet;                    /* nothing but reasoning and remarks, for --json */
  bool show_reasoning, fold;
  bool safe_out, safe_err;       /* these are terminals: control characters are made visible */
  bool dim_out, dim_err;         /* and may be told to dim */
  bool moves;                    /* the cursor may be moved, for the line of folded reasoning */
  int part;                      /* what is being printed */
  bool line_open;                /* the last character was no line end */
  chat_safe safe;
  ij_buf buf;
  double folded_since, drawn;
} chat_view;
void chat_view_open(chat_view *v, bool talking, bool show_thinking);
void chat_view_close(chat_view *v);
void chat_view_begin(chat_view *v);
void chat_view_event(chat_view *v, const ij_event *event);
void chat_view_count(chat_view *v, int64_t n_reasoning); /* after each token */
void chat_view_end(chat_view *v, const chat_answer *a);
void chat_view_text(chat_view *v, const char *bytes, size_t n);    /* foreign text as a paragraph on standard output */
void chat_view_reasoning(chat_view *v, const char *bytes, size_t n);
void chat_view_speed(chat_view *v, const chat_answer *a);
void chat_view_note(const chat_view *v, const char *fmt, ...) IJ_PRINTF(2, 3); /* dim, on standard error */

/* ---- messages from a terminal (chat_lines.c over chat_edit.c) */
typedef enum chat_read { CHAT_READ_LINE, CHAT_READ_CANCELLED, CHAT_READ_END } chat_read;
typedef struct chat_edit chat_edit;
/* NULL when there is no line editing here; *why (a static text) says the reason. */
chat_edit *chat_edit_open(const char **why);
void chat_edit_close(chat_edit **e);
chat_read chat_edit_line(chat_edit *e, const char *prompt, ij_buf *line); /* without its line end; pasted text may hold line ends */
void chat_edit_remember(chat_edit *e, const char *text);

/* One line from somewhere: the editor, or plain lines, or a test. */
typedef struct chat_source {
  chat_read (*line)(void *user, const char *prompt, ij_buf *line);
  void *user;
} chat_source;
chat_read chat_plain_line(void *user, const char *prompt, ij_buf *line); /* user: an ij_buf that keeps what was read ahead */
/* A whole message: lines that end in a backslash go on, and from """ to """ everything is taken as it is. */
chat_read chat_read_message(const chat_source *source, ij_buf *text);

/* ---- one answer (chat_turn.c) */
typedef struct chat {
  const cli_args *args;
  ij_model *model;
  ij_tokenizer *own_tokenizer;
  const ij_tokenizer *tokenizer;
  chat_history history;
  char *effort;                  /* NULL: the default */
  char *tools;                   /* JSON, or NULL */
  size_t n_tools_bytes;
  ij_json *tools_doc;            /* holds the names in guided */
  ij_guided_tool *guided;        /* [n_guided] */
  ij_grammar **tool_grammars;    /* [n_guided], NULL where a tool takes any object */
  int n_guided;
  ij_grammar *schema;
  ij_sample_options sampling;
  chat_cache cache;
  chat_view view;
  chat_answer answer;            /* the last one */
  int64_t n_turns, n_prompt, n_cached, n_tokens, n_reasoning; /* totals of the conversation */
  double s_prompt, s_decode;
  int n_regenerated;             /* of this answer: each draws with the next seed */
  ij_attachments *attachments;   /* the media of the conversation */
  ij_buf pending;                /* content parts for the next message, with commas between them */
} chat;

/* The conversation as ids, with one placeholder for each medium until chat_attach. Both say nothing; errors carry the field. */
ij_status chat_render(const chat *c, const chat_history *h, int n_messages, const char *effort, bool generation, ij_prompt **out,
                      ij_err *err);
ij_status chat_attach(const chat *c, ij_prompt *prompt, ij_err *err);
/* Answers the conversation into c->answer, showing it as it comes; does not change the history. Says what went wrong. */
int chat_answer_turn(chat *c);

/* ---- tools, schemas and conversations from files (chat_files.c). Each returns an exit code and has said what was wrong. */
int chat_load_tools(chat *c, const char *path);
int chat_load_schema(chat *c, const char *path);
int chat_load_messages(chat *c, const char *path);   /* on failure the conversation is as it was */
int chat_save_messages(const chat *c, const char *path);
void chat_free_files(chat *c);
/* Attaches a file to the next message, after it was opened and what it costs was said. kind: OPT_IMAGE, OPT_AUDIO or OPT_VIDEO. */
int chat_attach_file(chat *c, cli_option_id kind, const char *path);
ij_status chat_check_effort(const chat *c, const char *effort, ij_err *err);

/* ---- the conversation on a terminal (chat_talk.c) and its commands (chat_commands.c) */
int chat_talk(chat *c);
typedef enum chat_next { CHAT_NEXT_LINE, CHAT_NEXT_ANSWER, CHAT_NEXT_REGENERATE, CHAT_NEXT_LEAVE } chat_next;
chat_next chat_command(chat *c, const char *line);   /* line begins with a slash */
void chat_note_loaded(const chat *c, const char *path);

#endif
