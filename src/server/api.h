/* api.h: what the API dialects share.
 *
 * A dialect is three things: a table of the fields it reads into the common request, one table of functions that write what comes back,
 * and a handler of a few lines. Everything between (rendering the prompt, grammars, jobs, parsing, stop strings, the client that leaves)
 * is api_run.c, once. What a model says arrives as items in order: reasoning, text, calls. A streamed reply writes pieces of items as they
 * come, a whole reply writes the items at the end, both from the same events, so that they cannot differ.
 */
#ifndef IJ_SERVER_API_H
#define IJ_SERVER_API_H

#include <pthread.h>

#include "core/str.h"
#include "inkjet_chat.h"
#include "server/api_json.h"
#include "server/server.h"

/* ---- errors */

typedef struct api_error {
  int status;                  /* HTTP */
  char code[48];               /* a word for programs, or "" */
  char param[200];             /* the field, by path, or "" */
  char message[1400];
} api_error;

/* Both fill e and return false. ij__api_error_from: the status and code that belong to an error of the library. */
bool ij__api_fail(api_error *e, int status, const char *code, const char *param, const char *fmt, ...) IJ_PRINTF(5, 6);
bool ij__api_error_from(api_error *e, const ij_err *err, const char *param);
bool ij__api_no_memory(api_error *e);

/* The name of a field, for messages. */
typedef struct api_path {
  char text[200];
} api_path;
api_path ij__path(const char *fmt, ...) IJ_PRINTF(1, 2);

/* ---- the request */

typedef struct api_text {
  const char *bytes;
  size_t n;
} api_text;

/* Whether arguments follow the schema: no; yes, or the request is refused; yes, unless the schema has what cannot be enforced. */
typedef enum api_strict { API_LOOSE, API_STRICT, API_STRICT_IF_POSSIBLE } api_strict;

typedef struct api_tool {
  api_text name;
  ij_jv parameters;            /* absent: any object */
  api_strict strict;
  bool allowed;                /* may be called in this turn */
} api_tool;

typedef enum api_format { API_FORMAT_TEXT, API_FORMAT_OBJECT, API_FORMAT_SCHEMA, API_FORMAT_REGEX } api_format;

typedef struct api_prompt {
  int32_t *ids;
  int64_t n;
  ij_turn_state state;
  ij_buf text;                 /* for echo */
  ij_rows *rows;               /* [n_rows] media among the ids */
  int n_rows;
  int64_t n_audio;             /* how many of the ids stand for sound */
} api_prompt;

/* Where the client put a medium that is now a part of the messages below, or the arguments of what is now a call in them. */
typedef struct api_place {
  int message, index;          /* among the parts, or the calls, of the message */
  bool call;
  api_path path;
} api_place;

#define API_MAX_CHOICES 64
#define API_MAX_STOPS 16
#define API_MAX_TOOLS 512

typedef struct api_request {
  ij_json *doc;                /* the body; text and values below lie in it or in the body */
  ij_jv body;
  ij_buf messages, tools_json; /* as ij_prompt_render wants them; tools_json is empty without tools */
  const char *messages_param;  /* what the dialect calls them */
  bool drafted;                /* they were put together here: places in them say nothing to the client, but for these: */
  api_place *places;           /* [n_places] */
  int n_places, cap_places;
  api_tool *tools;
  int n_tools;
  api_path (*schema_path)(int i_tool); /* what the dialect calls the schema of a tool */
  ij_tool_choice choice;
  bool parallel;
  char effort[48];             /* "": not given */
  const char *effort_param;
  bool no_thinking, continue_final;
  api_format format;
  ij_jv schema;                /* or the pattern */
  const char *schema_param;
  ij_sample_options sample;
  bool has_seed;
  int64_t seed;
  ij_logit_bias *bias;
  int n_bias;
  api_text stops[API_MAX_STOPS];
  int n_stops;
  int64_t n, max_tokens;       /* answers per prompt; -1: as many as fit */
  bool logprobs;
  int64_t n_top;
  bool stream, stream_usage;
  bool raw, echo, parse_special; /* raw: prompts are given, nothing is rendered or parsed */
  api_prompt *prompts;
  int n_prompts;
} api_request;

/* ---- fields of a request object: each is read by its rule; one that no rule names is an error by name. null counts as absent. */

typedef struct api_run api_run;

typedef enum api_field_kind {
  API_F_CUSTOM,                /* read */
  API_F_FLOAT, API_F_INT, API_F_BOOL, /* at offset in api_request: float within lo..hi, int64_t within lo..hi, bool */
  API_F_IGNORED,               /* does not change the answer */
  API_F_ONLY,                  /* text: the JSON texts that are accepted, separated by '|' */
  API_F_REFUSED                /* text: why */
} api_field_kind;

typedef struct api_field {
  const char *name;
  api_field_kind kind;
  size_t offset;
  double lo, hi;
  const char *text;
  bool (*read)(api_run *run, ij_jv v, api_error *e);
} api_field;

/* path: of the object, "" for the body. Rules end with name NULL. */
bool ij__api_read_fields(api_run *run, ij_jv object, const char *path, const api_field *rules, api_error *e);
/* For readers: "expected X, found Y at path". */
bool ij__api_expected(api_error *e, const char *path, const char *expected, ij_jv found);
bool ij__api_need_string(api_error *e, const char *path, ij_jv v, api_text *out);
bool ij__api_need_member(api_error *e, const char *path, ij_jv object, const char *name, api_text *out); /* a string */

/* Members of an object other than those listed (separated by '|') are an error, unless null. */
bool ij__api_check_keys(ij_jv object, const char *path, const char *known, api_error *e);
bool ij__api_in_words(const char *list, const char *word, size_t n); /* the list is separated by '|' */
api_path ij__api_member_path(const char *path, const char *name, size_t n); /* path.name, the name as it can be shown */

/* Readers that several dialects share (api_fields.c, api_messages.c). */
bool ij__api_read_stop(api_run *run, ij_jv v, const char *path, api_error *e);
bool ij__api_read_bias(api_run *run, ij_jv v, api_error *e);
bool ij__api_read_effort(api_run *run, ij_jv v, const char *path, api_error *e); /* path: a literal */
bool ij__api_read_messages(api_run *run, ij_jv v, api_error *e);
bool ij__api_add_tool(api_run *run, api_text name, ij_jv parameters, api_strict strict, const char *path, api_error *e);
bool ij__api_choose_tool(api_run *run, api_text name, const char *path, api_error *e); /* the one tool that must be called */

/* ---- the answer */

typedef enum api_item_kind { API_REASONING, API_CONTENT, API_CALL } api_item_kind;

typedef struct api_item {
  api_item_kind kind;
  int index;                   /* in the answer */
  int call;                    /* index among the calls */
  bool well_formed, cut;       /* cut: a limit ended it */
  ij_buf text;                 /* or the arguments of a call */
  ij_buf name;
  char id[40];                 /* 24 random characters; dialects put their prefix before it */
} api_item;

typedef struct api_logprob {
  ij_choice choice;
  ij_choice *top;
  int n_top;
  size_t start;                /* bytes of content before the token */
  int item;
} api_logprob;

typedef enum api_finish { API_STOP, API_STOP_STRING, API_LENGTH, API_CONTEXT, API_TOOL_CALLS } api_finish;

typedef struct api_choice {
  api_run *run;
  int index, prompt;
  ij_parser *parser;           /* NULL for raw prompts */
  ij_text_stream text;
  api_item *items;
  int n_items, cap_items;
  bool item_open;
  ij_buf held;                 /* content that may be the beginning of a stop string */
  size_t n_content;            /* bytes of content released */
  api_logprob *logprobs;
  int n_logprobs, cap_logprobs, n_logprobs_out;
  bool turn_over, ended, cutting;
  int stop_hit;                /* which stop string, -1 */
  api_finish finish;
  int64_t n_reasoning;
  ij_job_usage usage;
} api_choice;

typedef struct api_dialect {
  void (*error)(api_run *run, const api_error *e, ij_buf *out);        /* the body of an error reply */
  void (*whole)(api_run *run, ij_buf *out);
  /* of a stream; these append to run->out. delta: logprobs from..to belong to the piece. */
  void (*begin)(api_run *run);
  void (*item_begin)(api_choice *c, api_item *item);
  void (*delta)(api_choice *c, api_item *item, const char *bytes, size_t n, int from, int to);
  void (*item_end)(api_choice *c, api_item *item);
  void (*choice_end)(api_choice *c);
  void (*end)(api_run *run);
  void (*stream_error)(api_run *run, const api_error *e);
} api_dialect;

struct api_run {
  ij_server *server;
  http_exchange *x;
  const api_dialect *dialect;
  api_request r;
  void *extra;                 /* of the dialect, from ij__alloc; freed with the run */
  char id[40];
  int64_t created;
  uint64_t entropy, n_drawn;

  /* Media (api_media.h). */
  bool has_media, has_video, wants_rows;
  bool (*then)(api_run *run, api_error *e); /* what comes when they are ready */
  ij_prompt *prompt;           /* until then */
  struct ij_encoded_rows **held; /* [n_held] rows in use */
  int n_held;
  double fetch_until;          /* ij__os_seconds; 0: nothing was fetched */

  /* While jobs run: everything below is under the lock. */
  pthread_mutex_t lock;
  int refs;                    /* jobs that have not ended, and the handler */
  bool open;                   /* all jobs are accepted, the stream may be written */
  bool dead;                   /* nobody will read the answer */
  bool failed;
  api_error error;
  ij_buf out;
  api_choice *choices;
  int n_choices;
  const ij_grammar *content;
  const ij_grammar **args;     /* [n_tools] */
  ij_guided_tool *guided;
  int n_guided;
};

/* A run for a request whose body is JSON: on failure the error has been replied and NULL is returned. */
api_run *ij__api_open(ij_server *server, http_exchange *x, const api_dialect *dialect);
/* Replies the error, and the run is gone. */
void ij__api_refuse(api_run *run, const api_error *e);
/* Renders the prompt of a request that is read, unless r.raw. With media (run->has_media) it is not ready yet. */
bool ij__api_render(api_run *run, api_error *e);
/* Renders, gets media ready on another thread if there are any, and then calls `then`, which answers; or replies an error. */
void ij__api_go(api_run *run, bool wants_rows, bool (*then)(api_run *run, api_error *e));
bool ij__api_check_context(const api_run *run, api_error *e);
/* Returns false with e filled: more text than the context can hold, which is refused without being encoded. */
bool ij__api_too_much_text(const api_run *run, const char *param, api_error *e);
/* Submits the jobs; the reply comes from them. On failure nothing was replied and the run is the caller's. */
bool ij__api_start(api_run *run, api_error *e);
void ij__api_free(api_run *run);
/* Replies now, without jobs. */
void ij__api_reply(api_run *run, int status, ij_buf *body);

void ij__api_random(api_run *run, char *out, int n); /* n letters and digits, and a NUL */
int64_t ij__api_sum(const api_run *run, int64_t *n_prompt, int64_t *n_cached, int64_t *n_reasoning); /* returns the generated ids */

/* Tables of the endpoints, for the fuzz targets: a body into a request, without a model. */
typedef struct api_endpoint {
  const char *path;
  const api_dialect *dialect;
  bool (*read)(api_run *run, api_error *e);
} api_endpoint;
extern const api_endpoint ij__api_chat, ij__api_completions, ij__api_responses, ij__api_messages, ij__api_count;
/* Without an exchange; free the run in any case. */
bool ij__api_read_plain(api_run **out, ij_server *server, const api_endpoint *endpoint, const char *body, size_t n, api_error *e);
void ij__api_handle(const api_endpoint *endpoint, ij_server *server, http_exchange *x);

/* Errors in the form of OpenAI, shared by its three endpoints. */
void ij__openai_error(api_run *run, const api_error *e, ij_buf *out);

#endif
