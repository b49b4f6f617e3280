/* inkjet_chat.h: conversations. Messages in, token ids out; sampled ids in, reasoning, content and tool calls out; and grammars that
 * keep an answer inside a JSON Schema, a regular expression, or the shape of a tool call.
 *
 *     ij_prompt *prompt = NULL;
 *     ij_parser *parser = NULL;
 *     if (ij_prompt_render(&prompt, tokenizer, messages, strlen(messages), NULL, 0, NULL, &err) != IJ_OK) goto done;
 *     if (ij_session_eval(session, ij_prompt_ids(prompt), ij_prompt_n_ids(prompt), &err) != IJ_OK) goto done;
 *     if (ij_parser_open(&parser, tokenizer, ij_prompt_state(prompt), on_event, user, &err) != IJ_OK) goto done;
 *     while (!ij_parser_done(parser)) { sample; ij_parser_push(parser, id, &err); evaluate }
 *     ij_parser_finish(parser, IJ_TURN_END, &err);
 *
 * Conventions are those of inkjet.h. Nothing here needs a model: a tokenizer is enough. Text of users never becomes a control token.
 */
#ifndef INKJET_CHAT_H
#define INKJET_CHAT_H

#include "inkjet.h"
#include "inkjet_media.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------ prompts */

typedef struct ij_prompt ij_prompt;

/* Where a parser begins: after the last control token of the prompt. */
typedef enum ij_turn_state { IJ_TURN_HEADER, IJ_TURN_TEXT, IJ_TURN_THINK } ij_turn_state;

typedef struct ij_prompt_options {
  size_t struct_size;            /* set by ij_prompt_options_default */
  const char *effort;            /* none minimal low medium high xhigh max, or a number in [0, 0.99] as text; NULL: high (0.9) */
  bool preserve_thinking;        /* false: reasoning of turns at or before the last user message is dropped; default true */
  bool add_generation_prompt;    /* default true */
  bool continue_final_message;   /* the last message is the assistant's and is left open; excludes a generation prompt */
  size_t max_text_bytes;         /* more text than this is IJ_E_CONTEXT before it is encoded; 0, the default: no limit */
  /* Called for every part of type "video_url" or "video" with its JSON, in order: how many blocks of frames it becomes (the caller knows
   * them from
   * ij_video_open), when each begins in seconds, and whether a sound follows. *seconds must live until the rendering returns. NULL: such
   * parts are
   * IJ_E_UNSUPPORTED. The convention of the expansion is in docs/media.md. */
  ij_status (*video)(void *user, const char *part, size_t n_part, int *n_blocks, const double **seconds, bool *sound, ij_err *err);
  void *user;
} ij_prompt_options;

IJ_API ij_prompt_options ij_prompt_options_default(void);

/* messages: a JSON array of messages in the form of OpenAI's chat completions (role, content as string or list of parts,
 * reasoning_content, tool_calls, tool_call_id, name); tools: a JSON array or NULL. Errors: IJ_E_FORMAT (not JSON),
 * IJ_E_ARGUMENT (a field, by path such as messages[2].content[0].type, what was expected and found), IJ_E_CONTEXT (max_text_bytes),
 * IJ_E_NOMEM. Any thread. */
IJ_API ij_status ij_prompt_render(ij_prompt **out, const ij_tokenizer *tokenizer, const char *messages, size_t n_messages_bytes,
                                  const char *tools, size_t n_tools_bytes, const ij_prompt_options *options, ij_err *err);
IJ_API void ij_prompt_close(ij_prompt **prompt);

/* Everything below is owned by the prompt. */
IJ_API const int32_t *ij_prompt_ids(const ij_prompt *prompt);
IJ_API int64_t ij_prompt_n_ids(const ij_prompt *prompt);
IJ_API ij_turn_state ij_prompt_state(const ij_prompt *prompt);

/* The prompt in segments: control tokens, text, and media placeholders (one id each, before the rows of the medium are known). */
typedef enum ij_segment_kind { IJ_SEGMENT_CONTROL, IJ_SEGMENT_TEXT, IJ_SEGMENT_IMAGE, IJ_SEGMENT_AUDIO } ij_segment_kind;
typedef struct ij_segment {
  ij_segment_kind kind;
  int32_t id;                    /* of a control token or placeholder; -1 for text */
  const char *bytes;             /* the text, or the name of the token; may hold NUL, is not NUL-terminated */
  size_t n_bytes;
  int64_t first;                 /* index in ids of its first token */
  int64_t n_ids;                 /* how many tokens it has: 1 for control tokens, for media 1 until ij_prompt_set_rows */
  const char *source;            /* of a medium: the JSON of its content part; else NULL */
  size_t n_source;
  int block;                     /* of a medium in a video: which block of frames; -1: not of a video, or its sound */
  bool video;                    /* source is a video part */
  int message, part;             /* of a medium: source is messages[message].content[part]; else 0 */
} ij_segment;
IJ_API int ij_prompt_n_segments(const ij_prompt *prompt);
IJ_API ij_segment ij_prompt_segment(const ij_prompt *prompt, int index);

/* The medium of this segment has n_rows >= 1 rows: its placeholder stands that many times, and `first` of what follows moves. Once per
 * segment.
 * Errors: IJ_E_ARGUMENT, IJ_E_NOMEM. */
IJ_API ij_status ij_prompt_set_rows(ij_prompt *prompt, int index, int64_t n_rows, ij_err *err);

/* The same rendering as a Jinja template, for other programs and to be shipped with checkpoints (chat_template.jinja). Static; ends in NUL,
 * which *n_bytes (may be NULL) does not count. */
IJ_API const char *ij_chat_template(size_t *n_bytes);

/* Whether a chat template that came with a checkpoint (ij_model_chat_template) says the same as this renderer, which does not run it.
 * SAME: it is ij_chat_template, comments and line ends apart. Any other text DIFFERS; *note (may be NULL) is a static sentence on what
 * its markers and constants tell about the difference, or NULL for SAME and NONE (no text). */
typedef enum ij_template_verdict { IJ_TEMPLATE_SAME, IJ_TEMPLATE_NONE, IJ_TEMPLATE_DIFFERS } ij_template_verdict;
IJ_API ij_template_verdict ij_template_check(const char *text, size_t n_bytes, const char **note);

/* -------------------------------------------------------------------------------------------------------------- media */

/* The media of a prompt: found in its parts, opened, counted, encoded. In three steps, so that a prompt that does not fit is refused
 * before the
 * costly part: find (before rendering, for videos), attach (opens everything and sets the rows of the prompt), encode. */
typedef struct ij_attach_options {
  size_t struct_size;            /* set by ij_attach_options_default */
  ij_media_options media;        /* of the model's towers */
  ij_video_options video;
  bool files;                    /* a URL may be a file: URL or a path; default false: data: URLs only */
  int max_media;                 /* media of one prompt, a video counting as one; default 64 */
  int64_t max_rows;              /* of all media of a prompt: more is IJ_E_CONTEXT, before more is opened; 0, the default: no limit */
  size_t max_bytes;              /* of one file; default 2^28 */
  /* Reads a remote URL for the caller who allows that; NULL: refused by name. *bytes is malloc'd, and freed by the library. */
  ij_status (*fetch)(void *user, const char *url, void **bytes, size_t *n_bytes, ij_err *err);
  void *user;
} ij_attach_options;
IJ_API ij_attach_options ij_attach_options_default(void);

typedef struct ij_attachments ij_attachments;
IJ_API ij_status ij_attachments_open(ij_attachments **out, const ij_attach_options *options, ij_err *err);
IJ_API void ij_attachments_close(ij_attachments **attachments);
/* For ij_prompt_options.video, with the attachments as its user. */
IJ_API ij_status ij_attachments_video(void *attachments, const char *part, size_t n_part, int *n_blocks, const double **seconds, bool *sound,
                                      ij_err *err);
/* Opens the media of all segments of the prompt and sets their rows. Errors name the part: messages[2].content[0]; the prompt can only be
 * closed then. Another prompt may follow, as in a conversation: what both have stays open and encoded, the rest is dropped. */
IJ_API ij_status ij_attachments_attach(ij_attachments *attachments, ij_prompt *prompt, ij_err *err);
/* The first n ids of the prompt are in a session already (ij_session_common): media that lie in them need no encoding. */
IJ_API void ij_attachments_held(ij_attachments *attachments, int64_t n_ids);
/* Encodes what is not yet encoded. alive: asked between pieces of work, false is IJ_E_CANCELLED; may be NULL. */
IJ_API ij_status ij_attachments_encode(ij_attachments *attachments, ij_towers *towers, bool (*alive)(void *user), void *user, ij_err *err);
/* For ij_session_eval_rows with the ids of the prompt: [*n], in their order, owned by the attachments; `rows` are NULL before the encoding,
 * and of media that were held. */
IJ_API const ij_rows *ij_attachments_rows(const ij_attachments *attachments, int *n);
/* One medium for each of those. */
IJ_API int ij_attachments_n_media(const ij_attachments *attachments);
IJ_API const ij_media *ij_attachments_media(const ij_attachments *attachments, int index);

/* --------------------------------------------------------------------------------------------------------------- turns */

/* What a model says in one turn, in the order in which it says it. Bytes are whole UTF-8 characters and live during the call only. */
typedef enum ij_event_kind {
  IJ_EVENT_REASONING,            /* bytes */
  IJ_EVENT_CONTENT,              /* bytes */
  IJ_EVENT_CALL_BEGIN,           /* call: its index in the turn, from 0; bytes: the function's name */
  IJ_EVENT_CALL_ARGUMENTS,       /* call; bytes: the next piece of the arguments' JSON text, verbatim */
  IJ_EVENT_CALL_END,             /* call; well_formed: the payload was JSON with an object of arguments */
  IJ_EVENT_NOTE                  /* bytes: something malformed was met and how it was read; for logs */
} ij_event_kind;

typedef struct ij_event {
  ij_event_kind kind;
  int call;
  bool well_formed;
  const char *bytes;
  size_t n_bytes;
} ij_event;
typedef void (*ij_on_event)(void *user, const ij_event *event);

typedef enum ij_turn_end { IJ_TURN_OPEN, IJ_TURN_END, IJ_TURN_LENGTH } ij_turn_end; /* LENGTH: a limit ended it */

typedef struct ij_parser ij_parser;

/* on_event is called from push and finish, on the caller's thread. The same ids give the same events however they are cut. */
IJ_API ij_status ij_parser_open(ij_parser **out, const ij_tokenizer *tokenizer, ij_turn_state state, ij_on_event on_event, void *user,
                                ij_err *err);
IJ_API void ij_parser_close(ij_parser **parser);
/* IJ_E_NOMEM, or IJ_E_ARGUMENT for an id outside the vocabulary. Ids after the end are ignored. */
IJ_API ij_status ij_parser_push(ij_parser *parser, int32_t id, ij_err *err);
/* The end came (IJ_TURN_END, when an end id was pushed) or a limit did (IJ_TURN_LENGTH): everything held comes out. */
IJ_API ij_status ij_parser_finish(ij_parser *parser, ij_turn_end end, ij_err *err);
IJ_API bool ij_parser_done(const ij_parser *parser);              /* an end id was pushed */
IJ_API bool ij_parser_in_content(const ij_parser *parser);        /* what comes next is content (stop strings apply) */
IJ_API int64_t ij_parser_n_reasoning(const ij_parser *parser);    /* ids inside thinking blocks, markers excluded */
IJ_API int ij_parser_n_calls(const ij_parser *parser);            /* well-formed ones */

/* ------------------------------------------------------------------------------------------------------------ grammars */

/* A language over bytes with the tokens of one vocabulary; immutable, any thread. The tokenizer must outlive its grammars. What they share
 * of a vocabulary (a tenth of a second of work at 200k tokens) lives as long as any grammar or guide of it: keep one open. */
typedef struct ij_grammar ij_grammar;

/* schema: JSON Schema (draft 2020-12 and the keywords of OpenAI's strict mode); keywords that cannot be enforced are IJ_E_UNSUPPORTED
 * with their path, never ignored. n_bytes 0: any JSON object. */
IJ_API ij_status ij_grammar_json(ij_grammar **out, const ij_tokenizer *tokenizer, const char *schema, size_t n_bytes, ij_err *err);
/* pattern: a regular expression over Unicode text, anchored at both ends (docs/grammar.md has the syntax). */
IJ_API ij_status ij_grammar_regex(ij_grammar **out, const ij_tokenizer *tokenizer, const char *pattern, size_t n_bytes, ij_err *err);
IJ_API void ij_grammar_close(ij_grammar **grammar);
/* Memory of the compiled rules, nearly: a few bytes of text can stand for megabytes ("maxLength": 100000). */
IJ_API size_t ij_grammar_bytes(const ij_grammar *grammar);

typedef enum ij_tool_choice { IJ_TOOLS_AUTO, IJ_TOOLS_NONE, IJ_TOOLS_REQUIRED } ij_tool_choice;

typedef struct ij_guided_tool {
  const char *name;
  size_t n_name;
  const ij_grammar *args;        /* of its argument object; NULL: any JSON object */
} ij_guided_tool;

/* The shape of a turn. The model may think first (unless no_thinking); a grammar begins with the first text block. */
typedef struct ij_guide_options {
  size_t struct_size;            /* set by ij_guide_options_default */
  ij_turn_state state;           /* of the prompt */
  const ij_grammar *content;     /* NULL: free text */
  ij_tool_choice tool_choice;    /* AUTO leaves calls as they come, but their JSON follows the tools when there are any */
  const ij_guided_tool *tools;   /* the tools that may be called: for one named function, that one with REQUIRED */
  int n_tools;
  bool parallel;                 /* several calls in a turn; default true */
  bool no_thinking;              /* thinking blocks are not allowed */
} ij_guide_options;

IJ_API ij_guide_options ij_guide_options_default(void);

/* The state of one turn under such options. Grammars and tools must outlive it. One thread at a time. */
typedef struct ij_guide ij_guide;
/* IJ_E_ARGUMENT: no_thinking in a prompt that ends inside thinking, REQUIRED without tools. */
IJ_API ij_status ij_guide_open(ij_guide **out, const ij_tokenizer *tokenizer, const ij_guide_options *options, ij_err *err);
IJ_API void ij_guide_close(ij_guide **guide);
/* Ids that may come next, as bits: id i is bit i % 32 of word i / 32, [(ij_tokenizer_size + 31) / 32] words, valid until the next
 * call; NULL: everything is allowed. There is always at least one. For ij_sample_options.allowed, with n_allowed = ij_tokenizer_size. */
IJ_API const uint32_t *ij_guide_mask(ij_guide *guide);
/* IJ_E_ARGUMENT when the id was not allowed: the state is unchanged. */
IJ_API ij_status ij_guide_accept(ij_guide *guide, int32_t id, ij_err *err);
/* The ids that must come next because nothing else may (at most cap), so that they need no sampling; they are not accepted yet. */
IJ_API int ij_guide_forced(ij_guide *guide, int32_t *ids, int cap);

#ifdef __cplusplus
}
#endif
#endif
