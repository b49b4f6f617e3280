/* api_turn.c: see api_turn.h.
 *
 * Content passes through one buffer on its way out. What might be the beginning of a stop string waits there until the next token decides;
 * what comes after a stop string never leaves. Pieces of a stream are cut here and nowhere else, and the whole text is their sum.
 */
#include "server/api_turn.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

static void on_event(void *user, const ij_event *event);

bool ij__turn_init(api_choice *c, api_run *run, int index, int prompt, api_error *e) {
  ij_err err;
  c->run = run;
  c->index = index;
  c->prompt = prompt;
  c->stop_hit = -1;
  c->finish = API_LENGTH;
  if (run->r.raw) return true;
  if (ij_parser_open(&c->parser, run->server->tokenizer, run->r.prompts[prompt].state, on_event, c, &err) == IJ_OK) return true;
  return ij__api_error_from(e, &err, "");
}

void ij__turn_free(api_choice *c) {
  ij_parser_close(&c->parser);
  for (int i = 0; i < c->n_items; i++) {
    ij__buf_free(&c->items[i].text);
    ij__buf_free(&c->items[i].name);
  }
  for (int i = 0; i < c->n_logprobs; i++) ij__free(c->logprobs[i].top);
  ij__free(c->items);
  ij__free(c->logprobs);
  ij__buf_free(&c->held);
}

/* --- items */

static void close_item(api_choice *c, bool cut) {
  if (!c->item_open) return;
  c->item_open = false;
  c->items[c->n_items - 1].cut = cut;
  if (c->run->r.stream) c->run->dialect->item_end(c, &c->items[c->n_items - 1]);
}

/* The open item of this kind, or a new one; NULL without memory (c->held.failed says so). */
static api_item *open_item(api_choice *c, api_item_kind kind) {
  if (c->item_open && c->items[c->n_items - 1].kind == kind && kind != API_CALL) return &c->items[c->n_items - 1];
  close_item(c, false);
  if (c->n_items == c->cap_items) {
    int cap = c->cap_items ? 2 * c->cap_items : 4;
    api_item *items = ij__realloc(c->items, (size_t)cap * sizeof *items);
    if (!items) {
      c->held.failed = true;
      return NULL;
    }
    c->items = items;
    c->cap_items = cap;
  }
  api_item *item = &c->items[c->n_items];
  *item = (api_item){.kind = kind, .index = c->n_items++};
  ij__api_random(c->run, item->id, 24);
  c->item_open = true;
  return item;
}

static void begin_item(api_choice *c, api_item *item) {
  if (c->run->r.stream) c->run->dialect->item_begin(c, item);
}

static void add_piece(api_choice *c, api_item_kind kind, const char *bytes, size_t n, int from, int to) {
  bool fresh = kind != API_CALL && (!c->item_open || c->items[c->n_items - 1].kind != kind);
  api_item *item = kind == API_CALL ? &c->items[c->n_items - 1] : open_item(c, kind);
  if (!item) return;
  if (fresh) begin_item(c, item);
  for (int i = from; i < to; i++) c->logprobs[i].item = item->index;
  ij__buf_append(&item->text, bytes, n);
  if (c->run->r.stream) c->run->dialect->delta(c, item, bytes, n, from, to);
}

/* --- content and stop strings */

/* The first place in the held text at which a stop string stands, or its length. *which: the stop string, -1. */
static size_t find_stop(const api_choice *c, int *which) {
  const api_request *r = &c->run->r;
  *which = -1;
  for (size_t at = 0; at < c->held.len; at++) {
    for (int i = 0; i < r->n_stops; i++) {
      if (r->stops[i].n > c->held.len - at || memcmp(c->held.data + at, r->stops[i].bytes, r->stops[i].n) != 0) continue;
      *which = i;
      return at;
    }
  }
  return c->held.len;
}

/* How much of the held text is no beginning of any stop string. */
static size_t safe_length(const api_choice *c) {
  const api_request *r = &c->run->r;
  for (size_t at = 0; at < c->held.len; at++) {
    for (int i = 0; i < r->n_stops; i++) {
      size_t n = c->held.len - at;
      if (n < r->stops[i].n && memcmp(c->held.data + at, r->stops[i].bytes, n) == 0) return at;
    }
  }
  return c->held.len;
}

/* Lets content out; all of it when the text is known to end here. */
static void release(api_choice *c, bool all) {
  int which = -1;
  if (c->held.len == 0) return;
  size_t n = find_stop(c, &which);
  if (which < 0 && !all) n = safe_length(c);
  if (n > 0) {
    int from = c->n_logprobs_out, to = from;
    while (to < c->n_logprobs && c->logprobs[to].start < c->n_content + n) to++;
    c->n_logprobs_out = to;
    add_piece(c, API_CONTENT, c->held.data, n, from, to);
    c->n_content += n;
    memmove(c->held.data, c->held.data + n, c->held.len - n);
    c->held.len -= n;
  }
  if (which < 0) return;
  c->stop_hit = which;
  c->turn_over = true;
  c->held.len = 0;
}

/* --- events of the parser */

static void begin_call(api_choice *c, const ij_event *event) {
  api_item *item = open_item(c, API_CALL);
  if (!item) return;
  item->call = event->call;
  ij__buf_append(&item->name, event->bytes, event->n_bytes);
  begin_item(c, item);
}

static void on_event(void *user, const ij_event *event) {
  api_choice *c = user;
  if (c->turn_over && c->stop_hit >= 0) return;
  if (event->kind == IJ_EVENT_CONTENT) {
    ij__buf_append(&c->held, event->bytes, event->n_bytes);
    return;
  }
  if (event->kind == IJ_EVENT_NOTE) {
    if (c->run->server->verbose) fprintf(stderr, "answer %s: %.*s\n", c->run->id, (int)event->n_bytes, event->bytes);
    return;
  }
  release(c, true); /* the run of content ends before anything else begins */
  if (c->stop_hit >= 0) return;
  if (event->kind == IJ_EVENT_REASONING) add_piece(c, API_REASONING, event->bytes, event->n_bytes, 0, 0);
  else if (event->kind == IJ_EVENT_CALL_BEGIN) begin_call(c, event);
  else if (!c->item_open || c->items[c->n_items - 1].kind != API_CALL) return; /* its begin found no memory */
  else if (event->kind == IJ_EVENT_CALL_ARGUMENTS) add_piece(c, API_CALL, event->bytes, event->n_bytes, 0, 0);
  else {
    c->items[c->n_items - 1].well_formed = event->well_formed;
    close_item(c, c->cutting);
  }
}

/* --- tokens */

static bool add_logprob(api_choice *c, const ij_job_token *token, size_t start, api_error *e) {
  if (c->n_logprobs == c->cap_logprobs) {
    int cap = c->cap_logprobs ? 2 * c->cap_logprobs : 64;
    api_logprob *list = ij__realloc(c->logprobs, (size_t)cap * sizeof *list);
    if (!list) return ij__api_no_memory(e);
    c->logprobs = list;
    c->cap_logprobs = cap;
  }
  api_logprob *p = &c->logprobs[c->n_logprobs];
  *p = (api_logprob){.choice = token->choice, .n_top = token->n_top, .start = start, .item = -1};
  p->top = ij__alloc_array((size_t)token->n_top + 1, sizeof *p->top);
  if (!p->top) return ij__api_no_memory(e);
  if (token->n_top > 0) memcpy(p->top, token->top, (size_t)token->n_top * sizeof *p->top);
  c->n_logprobs++;
  return true;
}

static bool push_raw(api_choice *c, int32_t id) {
  const char *bytes;
  size_t n;
  if (!ij_decode(c->run->server->tokenizer, id, false, &bytes, &n)) return true;
  if (!ij__buf_reserve(&c->held, 3 * (n + 3))) return true; /* held.failed: seen by the run */
  c->held.len += ij_text_stream_push(&c->text, bytes, n, c->held.data + c->held.len);
  c->held.data[c->held.len] = 0;
  return true;
}

bool ij__turn_push(api_choice *c, const ij_job_token *token, api_error *e) {
  const ij_tokenizer *t = c->run->server->tokenizer;
  int32_t id = token->choice.id;
  ij_err err;
  size_t start = c->n_content + c->held.len;
  if (c->turn_over) return true;
  bool content = !c->parser || ij_parser_in_content(c->parser);
  if (c->run->r.logprobs && content && !ij_is_special(t, id) && !add_logprob(c, token, start, e)) return false;
  if (!c->parser) push_raw(c, id);
  else if (ij_parser_push(c->parser, id, &err) != IJ_OK) return ij__api_error_from(e, &err, "");
  release(c, false);
  if (c->parser && ij_parser_done(c->parser)) c->turn_over = true;
  return true;
}

static api_finish finish_of(const api_choice *c, ij_job_end end) {
  if (c->stop_hit >= 0) return API_STOP_STRING;
  if (c->parser && ij_parser_done(c->parser)) return ij_parser_n_calls(c->parser) > 0 ? API_TOOL_CALLS : API_STOP;
  return end == IJ_JOB_EOS ? API_STOP : end == IJ_JOB_CONTEXT ? API_CONTEXT : API_LENGTH;
}

bool ij__turn_end(api_choice *c, ij_job_end end, api_error *e) {
  ij_err err;
  bool over = c->stop_hit >= 0;
  c->cutting = !over && end != IJ_JOB_EOS && !(c->parser && ij_parser_done(c->parser));
  if (!over && c->parser) {
    ij_turn_end how = ij_parser_done(c->parser) || end == IJ_JOB_EOS ? IJ_TURN_END : IJ_TURN_LENGTH;
    if (ij_parser_finish(c->parser, how, &err) != IJ_OK) return ij__api_error_from(e, &err, "");
  } else if (!over) {
    if (ij__buf_reserve(&c->held, 3)) c->held.len += ij_text_stream_flush(&c->text, c->held.data + c->held.len);
  }
  release(c, true);
  close_item(c, c->cutting && c->stop_hit < 0);
  c->finish = finish_of(c, end);
  if (c->parser) c->n_reasoning = ij_parser_n_reasoning(c->parser);
  c->ended = true;
  if (c->run->r.stream) c->run->dialect->choice_end(c);
  return true;
}
