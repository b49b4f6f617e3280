/* api_grammars.c: see api_grammars.h.
 *
 * A short list under a lock, searched from end to end. The one unused for longest makes room; those in use beyond the bound are kept until
 * they are put back, and when they take too much memory nothing more is compiled. Compiling happens outside the lock: two requests may do it at once for one text, and the second result is dropped.
 */
#include "server/api_grammars.h"

#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/status.h"

#define MAX_KEPT 32
#define MAX_KEPT_BYTES ((size_t)64 << 20) /* beyond it those that nobody uses go too */
#define MAX_BYTES ((size_t)512 << 20)     /* of all, those in use too */

typedef struct kept_grammar {
  struct kept_grammar *next;
  ij_grammar *grammar;
  ij_grammar_kind kind;
  uint64_t hash;
  char *text;
  size_t n, bytes;             /* of text; of the grammar */
  int users;
  uint64_t used;               /* when, by the count of requests */
} kept_grammar;

struct ij_grammars {
  pthread_mutex_t lock;
  kept_grammar *list;
  int n;
  size_t bytes;
  uint64_t now;
};

ij_grammars *ij__grammars_open(void) {
  ij_grammars *g = ij__alloc_zero(1, sizeof *g);
  if (g && pthread_mutex_init(&g->lock, NULL) != 0) {
    ij__free(g);
    g = NULL;
  }
  return g;
}

static void free_kept(kept_grammar *k) {
  ij_grammar_close(&k->grammar);
  ij__free(k->text);
  ij__free(k);
}

void ij__grammars_close(ij_grammars **grammars) {
  if (!*grammars) return;
  for (kept_grammar *k = (*grammars)->list, *next; k; k = next) {
    next = k->next;
    free_kept(k);
  }
  pthread_mutex_destroy(&(*grammars)->lock);
  ij__free(*grammars);
  *grammars = NULL;
}

static kept_grammar *find(ij_grammars *g, const kept_grammar *like) {
  for (kept_grammar *k = g->list; k; k = k->next) {
    if (k->hash == like->hash && k->kind == like->kind && k->n == like->n && memcmp(k->text, like->text, k->n) == 0) return k;
  }
  return NULL;
}

/* Takes the one unused for longest out of the list, when the list is too long or too large; NULL: none. */
static kept_grammar *take_oldest(ij_grammars *g) {
  kept_grammar **oldest = NULL;
  if (g->n <= MAX_KEPT && g->bytes <= MAX_KEPT_BYTES) return NULL;
  for (kept_grammar **at = &g->list; *at; at = &(*at)->next) {
    if ((*at)->users == 0 && (!oldest || (*at)->used < (*oldest)->used)) oldest = at;
  }
  if (!oldest) return NULL;
  kept_grammar *k = *oldest;
  *oldest = k->next;
  g->n--;
  g->bytes -= k->bytes;
  return k;
}

/* The lock is held, and is given back. */
static void make_room(ij_grammars *g) {
  kept_grammar *gone = NULL;
  for (kept_grammar *k; (k = take_oldest(g)); gone = k) k->next = gone;
  pthread_mutex_unlock(&g->lock);
  for (kept_grammar *k = gone, *next; k; k = next) {
    next = k->next;
    free_kept(k);
  }
}

static ij_status compile(kept_grammar *k, const ij_tokenizer *tokenizer, ij_err *err) {
  ij_status status = k->kind == IJ_GRAMMAR_REGEX ? ij_grammar_regex(&k->grammar, tokenizer, k->text, k->n, err)
                                                 : ij_grammar_json(&k->grammar, tokenizer, k->n ? k->text : NULL, k->n, err);
  if (status == IJ_OK) k->bytes = ij_grammar_bytes(k->grammar);
  return status;
}

/* Puts a compiled grammar into the list, or drops it for the same one that came in between. */
static const ij_grammar *add(ij_grammars *g, kept_grammar *fresh) {
  pthread_mutex_lock(&g->lock);
  kept_grammar *k = find(g, fresh), *extra = k ? fresh : NULL;
  if (!k) {
    k = fresh;
    k->next = g->list;
    g->list = k;
    g->n++;
    g->bytes += k->bytes;
  }
  k->users++;
  k->used = ++g->now;
  make_room(g);
  if (extra) free_kept(extra);
  return k->grammar;
}

ij_status ij__grammars_get(ij_grammars *g, const ij_tokenizer *tokenizer, ij_grammar_kind kind, const char *text, size_t n,
                           const ij_grammar **out, ij_err *err) {
  kept_grammar *fresh = ij__alloc_zero(1, sizeof *fresh);
  *out = NULL;
  if (!fresh || !(fresh->text = ij__strndup(text ? text : "", n))) {
    ij__free(fresh);
    return ij__fail_nomem(err, "a grammar", n);
  }
  fresh->kind = kind;
  fresh->n = n;
  fresh->hash = ij__hash_bytes(fresh->text, n, kind);
  pthread_mutex_lock(&g->lock);
  kept_grammar *k = find(g, fresh);
  if (k) {
    k->users++;
    k->used = ++g->now;
    *out = k->grammar;
  }
  bool full = g->bytes > MAX_BYTES;
  pthread_mutex_unlock(&g->lock);
  ij_status status = IJ_OK;
  if (!k && full) {
    status = ij__fail(err, IJ_E_NOMEM, "a grammar", "the schemas of all requests together take more than %zu MB: try later, or with smaller bounds",
                      MAX_BYTES >> 20);
  } else if (!k) {
    status = compile(fresh, tokenizer, err);
  }
  if (k || status != IJ_OK) free_kept(fresh);
  else *out = add(g, fresh);
  return status;
}

void ij__grammars_put(ij_grammars *g, const ij_grammar **grammar) {
  if (!*grammar) return;
  pthread_mutex_lock(&g->lock);
  for (kept_grammar *k = g->list; k; k = k->next) {
    if (k->grammar == *grammar) {
      k->users--;
      break;
    }
  }
  make_room(g);
  *grammar = NULL;
}
