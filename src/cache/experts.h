/* experts.h: routed experts behind a lease.
 *
 * The network never holds a pointer to a routed expert; it asks for one, uses it and gives it back:
 *
 *     int got = ij__experts_acquire(home, layer, ids, n, leases);   // 1 <= got <= n, or a negative ij_status
 *     ... use leases[0..got) ...
 *     ij__experts_release(home, leases, got);
 *
 * `ids` are distinct and ascending. A home may hand out fewer than asked (its memory is bounded): process those, release, ask for
 * the rest. A leased view stays valid and unchanged until released, exactly once. Three homes stand behind this contract, and nothing above
 * can tell them apart: mapped (views into the checkpoint's mapping), resident (a copy in memory of our own) and streamed (slots that are read
 * when they are needed). Called from one thread at a time per home; acquire, release and want allocate nothing.
 */
#ifndef IJ_CACHE_EXPERTS_H
#define IJ_CACHE_EXPERTS_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/status.h"

typedef struct ij_expert_lease {
  int layer, expert;          /* what this is: asserted at use */
  ij_weight gate, up, down;   /* [I, H], [I, H], [H, I] */
} ij_expert_lease;

/* One of the three matrices for all experts of a layer: that of expert e lies e * stride bytes after that of expert 0, its side arrays
 * (split types) e * side_stride bytes after theirs. */
typedef struct ij_bank_part {
  ij_weight first;
  int64_t stride, side_stride;
  const float *factors;       /* [n_expert] multiplied into first.factor, or NULL; borrowed, outlives the home */
} ij_bank_part;

typedef struct ij_expert_bank {
  ij_bank_part gate, up, down;
} ij_expert_bank;

typedef struct ij_experts ij_experts;

/* What all homes are made of. banks: n_layer entries, copied; entries with gate.first.data NULL are layers without experts. */
typedef struct ij_expert_banks {
  const ij_expert_bank *banks;
  int n_layer, n_expert;
} ij_expert_banks;

ij_status ij__experts_open_mapped(ij_experts **out, const ij_expert_banks *banks, ij_err *err);

struct ij_ckpt;
struct ij_reader;

/* The same for a model that is larger than memory: the system is told that experts are not read in order, and with each want which will be
 * read. Owns no memory but its table either. */
ij_status ij__experts_open_advised(ij_experts **out, const ij_expert_banks *banks, const struct ij_ckpt *ckpt, ij_err *err);

/* Bytes of one expert of a layer in the checkpoint (its parts, gaps between rows of others left out), and of the memory that a streamed home takes
 * for one: the same with each part rounded up to whole pages. 0: a layer without experts. */
size_t ij__expert_bytes(const ij_expert_bank *bank);
size_t ij__expert_slot_bytes(const ij_expert_bank *bank);

typedef struct ij_streamed_options {
  const struct ij_ckpt *ckpt; /* the mapping that the banks point into: gives files and offsets; never read through */
  struct ij_reader *reader;   /* borrowed; nobody else uses it while the home is open. Files are added to it */
  size_t mem_bytes;           /* for slots and tables, never exceeded; at least ij__experts_streamed_least */
  const float *prior;         /* [n_layer * n_expert] from earlier sessions, see policy.h; NULL: none; copied */
  bool keep_trace;            /* remember the accesses, for ij__experts_trace */
} ij_streamed_options;

/* The least and the most memory that makes sense: one expert at a time (of the largest layer, times the expert sizes that occur), and all. */
size_t ij__experts_streamed_least(const ij_expert_banks *banks);
size_t ij__experts_streamed_most(const ij_expert_banks *banks);
ij_status ij__experts_open_streamed(ij_experts **out, const ij_expert_banks *banks, const ij_streamed_options *options, ij_err *err);

/* The resident home: every expert read once into memory of our own, at open. progress may be NULL; false cancels. */
ij_status ij__experts_open_resident(ij_experts **out, const ij_expert_banks *banks, const struct ij_ckpt *ckpt, struct ij_reader *reader,
                                    bool (*progress)(void *user, double fraction), void *user, ij_err *err);

void ij__experts_close(ij_experts **home); /* no lease may be live */

int ij__experts_acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases);
void ij__experts_release(ij_experts *home, const ij_expert_lease *leases, int n);
int64_t ij__experts_live(const ij_experts *home); /* leases not yet released */

/* Why the last acquire returned a negative status: file, offset, what to do. */
const ij_err *ij__experts_error(const ij_experts *home);

/* Says early what will be acquired, so that reading can begin; ids distinct and ascending. SURE: the router has spoken; the next acquire of
 * this layer asks for exactly these, and guesses for it that are not among them are taken back. GUESS: a prediction for a later layer; it
 * takes only what is idle, and never displaces what is worth more. The mapped home passes it on to the system. Never fails: what could not
 * be begun is read by acquire. */
typedef enum ij_want { IJ_WANT_SURE, IJ_WANT_GUESS } ij_want;
void ij__experts_want(ij_experts *home, int layer, const int *ids, int n, ij_want want);

/* Whether guesses can be of any use to this home. */
bool ij__experts_can_guess(const ij_experts *home);

typedef struct ij_experts_stats {
  const char *home;            /* "mapped", "resident", "streamed": static */
  const char *reader;          /* how it reads: "io_uring", "pread threads"; "": it does not */
  bool direct;                 /* every file past the page cache */
  int64_t n_slots;             /* experts that fit; mapped and resident: all */
  size_t slot_bytes;           /* memory of the slots */
  int64_t n_hit, n_miss;       /* experts acquired that were there, and that had to be read for it, be it on a guess */
  int64_t n_guess, n_guess_used, n_guess_cancelled; /* reads begun on a guess; of these used by the next acquire; taken back */
  uint64_t expert_bytes;       /* bytes of the experts read, as they lie in the files */
  uint64_t read_bytes;         /* bytes read for them, alignment included */
  double read_seconds;         /* during which reads were under way */
  double wait_seconds;         /* during which acquire waited for them */
} ij_experts_stats;
void ij__experts_get_stats(const ij_experts *home, ij_experts_stats *out);

/* Decayed number of uses of each expert, [n_layer * n_expert], this session only; see policy.h. False: this home does not count. */
bool ij__experts_heat(const ij_experts *home, float *out);

/* The accesses so far, as keys layer * n_expert + expert in order, each step of a layer ascending; valid until the next acquire. 0: no trace was
 * asked for, or it has outgrown its fixed room (the first accesses are kept). */
int64_t ij__experts_trace(const ij_experts *home, const int32_t **keys);

#endif
