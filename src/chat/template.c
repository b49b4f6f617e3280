/* template.c: the Jinja template, and what another one is.
 *
 * A template is a program, and this library does not run it. What can be said honestly is whether it is ours, and otherwise which of the
 * known ones it looks like, by the markers and words in it: every other text is reported as different.
 */
#include "chat/template.h"

#include <string.h>

#include "inkjet_chat.h"

const char *ij_chat_template(size_t *n_bytes) {
  if (n_bytes) *n_bytes = ij__chat_template_size;
  return ij__chat_template_text;
}

/* --- the same */

typedef struct reader {
  const char *at, *begin, *end;
  bool dropping; /* the last tag ended in "-%}" or "-}}", which drops white space */
} reader;

static bool starts(const reader *r, const char *word) {
  size_t n = strlen(word);
  return (size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void skip_comment(reader *r) {
  while (r->at < r->end && !starts(r, "#}")) r->at++;
  r->at += r->at < r->end ? 2 : 0;
}

/* Skips what does not reach the output: comments, and white space beside a dash or at the end. */
static void skip_silent(reader *r) {
  for (;;) {
    reader ahead = *r;
    while (ahead.at < ahead.end && is_space(*ahead.at)) ahead.at++;
    bool silent = r->dropping || ahead.at == ahead.end || starts(&ahead, "{%-") || starts(&ahead, "{{-") || starts(&ahead, "{#-");
    if (silent) r->at = ahead.at;
    if (!starts(r, "{#")) return;
    skip_comment(r);
    r->dropping |= r->at[-1] == '}' && r->at[-3] == '-'; /* "-#}", or a text that ends within a comment */
  }
}

/* The next character that matters; -1 at the end. */
static int next_char(reader *r) {
  skip_silent(r);
  if (r->at < r->end && *r->at == '\r') r->at++;
  if (r->at == r->end) return -1;
  r->dropping = r->at - r->begin >= 2 && *r->at == '}' && (r->at[-1] == '%' || r->at[-1] == '}') && r->at[-2] == '-';
  return (unsigned char)*r->at++;
}

static bool same_program(const char *text, size_t n) {
  const char *own = ij__chat_template_text;
  reader a = {text, text, text + n, false}, b = {own, own, own + ij__chat_template_size, false};
  for (;;) {
    int x = next_char(&a), y = next_char(&b);
    if (x != y) return false;
    if (x < 0) return true;
  }
}

/* --- what differs */

static bool contains(const char *text, size_t n, const char *word) {
  reader r = {text, text, text + n, false};
  for (; r.at < r.end; r.at++) {
    if (starts(&r, word)) return true;
  }
  return false;
}

/* In this order: the first that applies is told. Markers may be put together from pieces, so only what is written whole everywhere is asked. */
static const struct feature {
  const char *word, *or_word;
  bool there; /* the finding is that one of them is there, or that none is */
  const char *note;
} features[] = {
    {"<|message_", NULL, false, "it is not of this family: it writes no <|message_...|>; the model was made with another format"},
    {"Thinking effort level", NULL, false, "it writes no block \"Thinking effort level\", which every conversation has here"},
    {"tool_declare", NULL, false, "it declares no tools; conversations without tools may be the same"},
    {"content_invoke_tool_json|>", NULL, false, "it writes no calls of tools; conversations without tools may be the same"},
    {"message_tool|>", "'tool'", false, "it writes no results of tools; conversations without tools may be the same"},
    {"content_thinking|>", NULL, false, "it leaves out the reasoning of earlier turns"},
    {"add_generation_prompt", NULL, false,
     "it looks like the TMLv0 template: no generation prompt, other efforts (minimal is 0, none given writes no effort), and calls of tools "
     "as they were written"},
    {"<|image|>", NULL, true,
     "it looks like llama.cpp's template: the same for ordinary text and tools; it writes a list of parts of a tool's result as JSON, leaves "
     "out parts of an unknown type, and has its own placeholders for media"},
    {"developer", NULL, false,
     "it looks like the checkpoint's own template: the same for ordinary requests; it writes efforts unrounded, an empty block for an empty "
     "text, and a list of parts of a tool's result as an empty text, and it refuses the role developer and arguments as text"},
    {"xhigh", NULL, false,
     "it looks like the checkpoint's own template with more roles: the same for ordinary requests; it refuses the effort xhigh and may write "
     "efforts unrounded and an empty block for an empty text"},
};

ij_template_verdict ij_template_check(const char *text, size_t n_bytes, const char **note) {
  const char *found = NULL;
  ij_template_verdict verdict = IJ_TEMPLATE_DIFFERS;
  if (!text || n_bytes == 0) verdict = IJ_TEMPLATE_NONE;
  else if (same_program(text, n_bytes)) verdict = IJ_TEMPLATE_SAME;
  for (size_t i = 0; verdict == IJ_TEMPLATE_DIFFERS && !found && i < IJ_COUNT_OF(features); i++) {
    const struct feature *f = &features[i];
    bool there = contains(text, n_bytes, f->word) || (f->or_word && contains(text, n_bytes, f->or_word));
    if (there == f->there) found = f->note;
  }
  if (verdict == IJ_TEMPLATE_DIFFERS && !found) {
    found = "it has all markers of this format and is another text than ij_chat_template; whether it says the same is not known";
  }
  if (note) *note = found;
  return verdict;
}
