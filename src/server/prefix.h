/* prefix.h: the prefix cache: sessions that jobs have left behind, found again by the ids and media they hold.
 *
 * An entry is a whole session. A new prompt takes the entry that saves it most: the session itself where it only goes on, a copy, taken
 * back, where it diverges within what a session can take back. Both are exact, so an answer has the same bits with any state of the cache.
 * Only the worker's thread uses it. Entries leave by the time of their last use, when their bytes are over the bound.
 */
#ifndef IJ_SERVER_PREFIX_H
#define IJ_SERVER_PREFIX_H

#include "inkjet.h"
#include "server/worker.h"

#define IJ_PREFIX_MIN 16 /* ids that are worth the copy of a session */

typedef struct ij_prefix ij_prefix;

typedef struct ij_prefix_options {
  ij_model *model;
  ij_session_options session;  /* of every session here */
  size_t max_bytes;
  const char *dir;             /* NULL: what is pushed out is gone */
  size_t max_dir_bytes;
  void (*log)(void *user, const char *line); /* may be NULL */
  void *log_user;
} ij_prefix_options;

ij_status ij__prefix_open(ij_prefix **out, const ij_prefix_options *options, ij_err *err);
/* With a folder, what is in memory goes there. */
void ij__prefix_close(ij_prefix **cache);

/* A prompt that looks for a beginning. */
typedef struct ij_prefix_query {
  const int32_t *ids;
  int64_t n_ids;
  const ij_rows *rows;         /* [n_rows] media among them; their floats are not looked at */
  int n_rows;
  const int64_t *marks;        /* positions to which later prompts are expected to come back, ascending */
  int n_marks;
  bool covered[8];             /* out, [n_marks]: an entry from which that position can be had stays in the cache */
} ij_prefix_query;

/* How many ids of the query the best entry saves; nothing changes. */
int64_t ij__prefix_find(const ij_prefix *cache, const ij_prefix_query *query);
/* The session for the query, now the caller's, at the position that is returned; NULL and 0: there is none. When all of the prompt is there
 * the session has its logits. */
int64_t ij__prefix_take(ij_prefix *cache, ij_prefix_query *query, ij_session **out);
/* Keeps a session, which is the cache's from then on. */
void ij__prefix_put(ij_prefix *cache, ij_session **session);
/* Keeps a copy of a session that goes on; without the memory nothing is kept. */
void ij__prefix_copy(ij_prefix *cache, const ij_session *session);
/* Pushes out the entry that has not been used for longest. False: there is none. */
bool ij__prefix_push_out(ij_prefix *cache);

typedef struct ij_prefix_stats {
  size_t bytes, dir_bytes;
  int n_entries, n_files;
} ij_prefix_stats;
ij_prefix_stats ij__prefix_get_stats(const ij_prefix *cache);

#endif
