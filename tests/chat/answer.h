/* answer.h: collects the events of a parser into what an API would answer, and control tokens by name in a text into ids. */
#ifndef IJ_TESTS_ANSWER_H
#define IJ_TESTS_ANSWER_H

#include <string.h>

#include "core/str.h"
#include "inkjet_chat.h"

#define ANSWER_CALLS 16

typedef struct answer_call {
  ij_buf name, arguments;
  int n_begins, n_ends;
  bool well_formed;
} answer_call;

typedef struct answer {
  ij_buf reasoning, content, notes;
  answer_call calls[ANSWER_CALLS];
  int n_calls, n_notes, n_events;
  bool in_order;  /* every event of a call was of the last call, between its begin and its end */
} answer;

static inline void answer_event(void *user, const ij_event *e) {
  answer *a = user;
  answer_call *c = e->call < ANSWER_CALLS ? &a->calls[e->call] : NULL;
  a->n_events++;
  switch (e->kind) {
    case IJ_EVENT_REASONING: ij__buf_append(&a->reasoning, e->bytes, e->n_bytes); break;
    case IJ_EVENT_CONTENT: ij__buf_append(&a->content, e->bytes, e->n_bytes); break;
    case IJ_EVENT_NOTE:
      a->n_notes++;
      ij__buf_append(&a->notes, e->bytes, e->n_bytes);
      ij__buf_puts(&a->notes, "\n");
      break;
    case IJ_EVENT_CALL_BEGIN:
      a->in_order &= e->call == a->n_calls++;
      if (!c) return;
      c->n_begins++;
      ij__buf_append(&c->name, e->bytes, e->n_bytes);
      break;
    case IJ_EVENT_CALL_ARGUMENTS:
      a->in_order &= e->call == a->n_calls - 1 && (!c || c->n_ends == 0) && e->n_bytes > 0;
      if (c) ij__buf_append(&c->arguments, e->bytes, e->n_bytes);
      break;
    case IJ_EVENT_CALL_END:
      a->in_order &= e->call == a->n_calls - 1;
      if (!c) return;
      c->n_ends++;
      c->well_formed = e->well_formed;
      break;
  }
}

static inline void answer_free(answer *a) {
  ij__buf_free(&a->reasoning);
  ij__buf_free(&a->content);
  ij__buf_free(&a->notes);
  for (int i = 0; i < ANSWER_CALLS; i++) {
    ij__buf_free(&a->calls[i].name);
    ij__buf_free(&a->calls[i].arguments);
  }
  memset(a, 0, sizeof *a);
  a->in_order = true;
}

#endif
