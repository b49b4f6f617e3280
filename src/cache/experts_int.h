/* experts_int.h: a home of experts from the inside. experts.c checks what callers ask and counts leases; each experts_*.c is one home. */
#ifndef IJ_CACHE_EXPERTS_INT_H
#define IJ_CACHE_EXPERTS_INT_H

#include "cache/experts.h"

/* Optional entries are NULL. */
typedef struct ij_experts_ops {
  void (*close)(ij_experts *home);
  /* Fills leases[0..got); ids are checked. 1 <= got <= n, or a negative ij_status with home->error filled. */
  int (*acquire)(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases);
  void (*release)(ij_experts *home, const ij_expert_lease *leases, int n);                 /* optional */
  void (*want)(ij_experts *home, int layer, const int *ids, int n, ij_want want);          /* optional */
  void (*stats)(const ij_experts *home, ij_experts_stats *out);                            /* out is zero */
  bool (*heat)(const ij_experts *home, float *out);                                        /* optional */
  int64_t (*trace)(const ij_experts *home, const int32_t **keys);                          /* optional */
  bool can_guess;
} ij_experts_ops;

/* The beginning of every home, which is one block of ij__alloc. */
struct ij_experts {
  const ij_experts_ops *ops;
  int n_layer, n_expert;
  int64_t n_live;
  ij_expert_bank *banks;   /* [n_layer], a copy */
  unsigned char *leased;   /* [n_layer * n_expert] 1: leased now; asserts hold callers to the contract */
  ij_err error;
};

/* Allocates a home of `size` >= sizeof(ij_experts) bytes, zeroed, with the fields above filled; freed by ij__experts_close after ops->close. */
ij_status ij__experts_begin(ij_experts **out, size_t size, const ij_experts_ops *ops, const ij_expert_banks *banks, ij_err *err);

/* The matrix of one expert, at its place in the mapping. */
ij_weight ij__expert_view(const ij_bank_part *part, int expert);

/* All three of them, for homes in which a bank lies as in the file. */
static inline ij_expert_lease ij__expert_lease_of(const ij_expert_bank *bank, int layer, int expert) {
  return (ij_expert_lease){.layer = layer, .expert = expert, .gate = ij__expert_view(&bank->gate, expert),
                           .up = ij__expert_view(&bank->up, expert), .down = ij__expert_view(&bank->down, expert)};
}

/* The stretches of the mapping that expert 0 of a bank takes; those of expert e lie e * stride further. Parts that touch are one. At most
 * IJ_EXPERT_MAX_RUNS; returns their number. */
#define IJ_EXPERT_MAX_RUNS 9
typedef struct ij_expert_run {
  const char *data;
  size_t n_bytes;
  int64_t stride;
} ij_expert_run;
int ij__expert_runs(const ij_expert_bank *bank, ij_expert_run runs[IJ_EXPERT_MAX_RUNS]);

#endif
