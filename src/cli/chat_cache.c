/* chat_cache.c: one session for a whole conversation.
 *
 * Each turn brings the whole conversation as ids; what the session already holds is found by comparing them, never by remembering what
 * was done, so an edit anywhere (undo, another system text, an answer that renders differently from how it was sampled) costs exactly
 * what changed. A session can take back its last max_rollback ids only. Before an exchange grows beyond that, a copy is made
 * that stands where the exchange began: short answers, the usual case, pay nothing for it.
 */
#include <string.h>

#include "cli/chat.h"
#include "core/alloc.h"
#include "core/status.h"

ij_status chat_cache_open(chat_cache *c, ij_model *model, int64_t n_ctx, ij_kv_type kv_type, int max_rollback, ij_err *err) {
  ij_model_info info;
  ij_model_get_info(model, &info);
  *c = (chat_cache){.model = model, .options = ij_session_options_default(), .hidden = info.hidden};
  c->options.n_ctx = n_ctx;
  c->options.kv_type = kv_type;
  c->options.max_rollback = max_rollback;
  return ij_session_open(&c->session, model, &c->options, err);
}

void chat_cache_close(chat_cache *c) {
  ij_session_close(&c->kept);
  ij_session_close(&c->session);
  ij__free(c->cut);
}

/* How much of the prompt the session can serve: all of it only when the logits after it are still there. */
static int64_t usable(const chat_cache *c, const ij_session *s) {
  int64_t n = c->n_ids, same = ij_session_common(s, c->ids, n, c->rows, c->n_rows);
  bool complete = same == n && ij_session_pos(s) == n && ij_session_logits(s);
  return same == n && !complete ? n - 1 : same;
}

static bool rewind_to(ij_session *s, int64_t pos) { return ij_session_rollback(s, ij_session_pos(s) - pos, NULL) == IJ_OK; }

static ij_status take_prompt(chat_cache *c, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, ij_err *err) {
  ij_rows *cut = ij__realloc(c->cut, ((size_t)n_rows + 1) * sizeof *cut);
  if (!cut) return ij__fail_nomem(err, "the places of media", (size_t)n_rows * sizeof *cut);
  c->cut = cut;
  c->ids = ids;
  c->n_ids = n;
  c->rows = rows;
  c->n_rows = n_rows;
  return IJ_OK;
}

ij_status chat_cache_rewind(chat_cache *c, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, int64_t turn_start,
                            int64_t *reused, ij_err *err) {
  ij_status s = take_prompt(c, ids, n, rows, n_rows, err);
  if (s != IJ_OK) return s;
  int64_t same = usable(c, c->session), kept_same = c->kept ? usable(c, c->kept) : 0;
  *reused = same;
  c->tried = false;
  c->turn_start = turn_start;
  if (rewind_to(c->session, same)) return IJ_OK;
  *reused = 0;
  if (kept_same > 0 && rewind_to(c->kept, kept_same)) {
    ij_session_close(&c->session);
    c->session = c->kept;
    c->kept = NULL;
    *reused = kept_same;
    return IJ_OK;
  }
  return ij_session_rollback(c->session, ij_session_pos(c->session), err);
}

/* Copies are worth memory only while there is some: a refusal is no error, the next undo then reads the conversation again. */
static void keep_turn_start(chat_cache *c) {
  ij_session *copy = NULL;
  c->tried = true;
  if (c->kept && ij_session_pos(c->kept) == c->turn_start) { /* the session holds the beginning of the prompt: does the copy? */
    if (ij_session_common(c->kept, c->ids, c->n_ids, c->rows, c->n_rows) == c->turn_start) return;
  }
  ij_session_close(&c->kept);
  if (ij_session_fork(&copy, c->session, NULL) != IJ_OK) return;
  if (rewind_to(copy, c->turn_start)) {
    c->kept = copy;
  } else {
    ij_session_close(&copy);
  }
}

/* Positions of the session are those of the prompt, so its media are found by them. */
static ij_status evaluate(chat_cache *c, const int32_t *ids, int64_t n, ij_err *err) {
  int n_cut = media_cut(c->rows, c->n_rows, c->hidden, ij_session_pos(c->session), n, c->cut);
  return ij_session_eval_rows(c->session, ids, n, c->cut, n_cut, err);
}

ij_status chat_cache_eval(chat_cache *c, const int32_t *ids, int64_t n, ij_err *err) {
  int64_t pos = ij_session_pos(c->session), limit = c->turn_start + c->options.max_rollback;
  if (c->turn_start > 0 && !c->tried && pos + n > limit) {
    if (pos < c->turn_start) { /* a long message: up to its beginning first */
      int64_t first = c->turn_start - pos;
      ij_status s = evaluate(c, ids, first, err);
      if (s != IJ_OK) return s;
      ids += first;
      n -= first;
    }
    keep_turn_start(c);
    if (n == 0) return IJ_OK;
  }
  return evaluate(c, ids, n, err);
}
