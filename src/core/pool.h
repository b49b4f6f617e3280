/* pool.h: a pool of workers and a parallel loop.
 *
 * One caller at a time runs a loop (the owner of the pool serializes); the calling thread is worker 0 and works too.
 * Chunks are handed out dynamically, so which worker runs a chunk is not fixed: results must not depend on it. Workers spin
 * briefly between loops, because a token is hundreds of short loops, then sleep. A pool of one thread has no workers at all.
 */
#ifndef IJ_CORE_POOL_H
#define IJ_CORE_POOL_H

#include "core/base.h"
#include "core/status.h"

typedef struct ij_pool ij_pool;

/* Runs indices [i0, i1) on worker `worker` in [0, n_threads). It must not allocate. */
typedef void (*ij_pool_fn)(void *ctx, int worker, int64_t i0, int64_t i1);

ij_status ij__pool_open(ij_pool **out, int n_threads, ij_err *err);
void ij__pool_close(ij_pool **pool);
int ij__pool_threads(const ij_pool *pool);

/* Calls fn over [0, n) in chunks of at most `grain`, fewer and fewer towards the end, and returns when all are done. n is below 2^32. Never
 * allocates. A loop of at most `grain` indices runs in the calling thread alone. */
void ij__pool_run(ij_pool *pool, int64_t n, int64_t grain, ij_pool_fn fn, void *ctx);

#endif
