/* chat_answer.c: the events of one turn, collected. */
#include <string.h>

#include "cli/chat.h"
#include "core/alloc.h"

static chat_call *call_of(chat_answer *a, int index) {
  if (index < a->n_calls) return &a->calls[index];
  chat_call *grown = ij__realloc(a->calls, (size_t)(index + 1) * sizeof *grown);
  if (!grown) {
    a->failed = true;
    return NULL;
  }
  memset(grown + a->n_calls, 0, (size_t)(index + 1 - a->n_calls) * sizeof *grown);
  a->calls = grown;
  a->n_calls = index + 1;
  return &a->calls[index];
}

void chat_answer_add(chat_answer *a, const ij_event *e) {
  chat_call *call = NULL;
  bool of_call = e->kind == IJ_EVENT_CALL_BEGIN || e->kind == IJ_EVENT_CALL_ARGUMENTS || e->kind == IJ_EVENT_CALL_END;
  if (of_call && !(call = call_of(a, e->call))) return;
  ij_buf *to = e->kind == IJ_EVENT_CONTENT ? &a->content : e->kind == IJ_EVENT_REASONING ? &a->reasoning : NULL;
  if (e->kind == IJ_EVENT_CALL_BEGIN) to = &call->name;
  if (e->kind == IJ_EVENT_CALL_ARGUMENTS) to = &call->arguments;
  if (e->kind == IJ_EVENT_CALL_END) {
    call->well_formed = e->well_formed;
    a->n_well_formed += e->well_formed;
  }
  if (!to) return;
  ij__buf_append(to, e->bytes, e->n_bytes);
  a->failed = a->failed || to->failed;
}

void chat_answer_clear(chat_answer *a) {
  ij__buf_free(&a->content);
  ij__buf_free(&a->reasoning);
  for (int i = 0; i < a->n_calls; i++) {
    ij__buf_free(&a->calls[i].name);
    ij__buf_free(&a->calls[i].arguments);
  }
  ij__free(a->calls);
  *a = (chat_answer){0};
}

bool chat_answer_is_empty(const chat_answer *a) { return a->content.len == 0 && a->reasoning.len == 0 && a->n_calls == 0; }

const char *chat_answer_finish(const chat_answer *a) {
  switch (a->end) {
    case CHAT_STOP: return a->n_well_formed > 0 ? "tool_calls" : "stop";
    case CHAT_INTERRUPTED: return "interrupted";
    default: return "length";
  }
}
