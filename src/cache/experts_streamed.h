/* experts_streamed.h: the streamed home of experts from the inside. experts_layout.c knows where experts lie, in the files and in memory, and how
 * memory is divided; experts_slots.c reads one expert into its slot; experts_streamed.c decides which and when.
 *
 *     class   all layers whose experts take the same bytes share one pool of slots and one policy
 *     slot    | room of run 0 | room of run 1 | ...          whole pages; see ij__expert_runs and ij__read_room_max
 *     room    |<- offset in the file % 4096 ->| the run | |  so that every array keeps the alignment it has in the file
 *
 * Whoever needs a slot holds it in the policy, once for each reason: it is being read into, it is wanted by the announced step, it is leased. A
 * slot without a reason may be given to another expert at any time.
 */
#ifndef IJ_CACHE_EXPERTS_STREAMED_H
#define IJ_CACHE_EXPERTS_STREAMED_H

#include "cache/experts_int.h"
#include "cache/policy.h"
#include "io/reader.h"

#define IJ_EXPERT_ARRAYS 9 /* data, scales, biases of gate, up, down */

typedef struct streamed_run {
  int file;          /* of the reader */
  uint64_t offset;   /* of expert 0 */
  size_t n_bytes;
  int64_t stride;    /* to the next expert */
  size_t room;       /* where its room begins in a slot */
} streamed_run;

typedef struct streamed_layer {
  int i_class;       /* -1: a layer without experts */
  int n_run;
  int64_t first_key; /* of its expert 0 in the policy of the class */
  size_t n_bytes;    /* of one expert */
  streamed_run runs[IJ_EXPERT_MAX_RUNS];
  signed char run_of[IJ_EXPERT_ARRAYS]; /* in which run an array lies; -1: there is none */
  size_t at[IJ_EXPERT_ARRAYS];          /* and how far from its start */
} streamed_layer;

typedef enum slot_state { SLOT_EMPTY, SLOT_READING, SLOT_READY, SLOT_FAILED } slot_state;

typedef struct streamed_slot {
  int layer, expert;
  int n_out;         /* reads that the reader has */
  unsigned char state;
  bool wanted;       /* by the announced step, which holds it; a failed one waits here to be told about */
  bool guess;        /* read on a guess and not used yet */
  bool fresh;        /* read and not used yet */
} streamed_slot;

typedef struct streamed_class {
  size_t slot_bytes;
  int n_run;         /* most of any of its layers */
  int64_t n_key, n_slot, n_reading;
  ij_policy *policy;
  char *pages;
  size_t page_bytes;
  streamed_slot *slots; /* [n_slot] */
  ij_read *reads;       /* [n_slot][n_run] */
} streamed_class;

typedef struct streamed_home {
  ij_experts base;
  ij_reader *reader;
  streamed_layer *layers;  /* [n_layer] */
  streamed_class *classes;
  int n_class;
  int64_t n_reading;       /* slots being read into, of all classes */
  /* The step that was announced last: ids not yet handed out are [next_out, n_want), those not yet begun or held [next_in, n_want). */
  int want_layer, n_want, next_out, next_in;
  int *want_ids;           /* [n_expert] */
  int guess_layer, n_guess;
  int *guess_ids;          /* [n_expert] reads begun on a guess for guess_layer */
  int32_t *trace;
  int64_t n_trace, trace_room;
  ij_experts_stats stats;
  uint64_t reader_bytes0;  /* what the reader had done before */
  double reader_seconds0;
} streamed_home;

/* --- experts_layout.c */

/* Fills h->layers and h->classes (slot_bytes, n_run, n_key), and adds the files to the reader. */
ij_status ij__streamed_lay_out(streamed_home *h, const struct ij_ckpt *ckpt, ij_err *err);

/* Divides mem_bytes: n_slot of every class, and trace_room, for which at most trace_bytes and a 64th of the memory are taken. */
ij_status ij__streamed_divide(streamed_home *h, size_t mem_bytes, size_t trace_bytes, ij_err *err);

/* The views of an expert that lies in a slot. */
ij_expert_lease ij__streamed_lease(const streamed_home *h, int layer, int expert, const char *slot);

/* --- experts_slots.c */

static inline streamed_class *ij__streamed_class_of(const streamed_home *h, int layer) { return &h->classes[h->layers[layer].i_class]; }
static inline int64_t ij__streamed_key(const streamed_home *h, int layer, int expert) { return h->layers[layer].first_key + expert; }

/* The slot of an expert, NULL: it has none. */
streamed_slot *ij__expert_slot_find(const streamed_home *h, int layer, int expert);
int64_t ij__expert_slot_index(const streamed_class *c, const streamed_slot *s);

/* Gives an expert that has no slot one and begins to read it. False: all slots are held, or (guess) hold what is worth more. */
bool ij__expert_slot_begin(streamed_home *h, int layer, int expert, bool guess);

/* Wanted or no longer. A slot that failed is emptied when nobody wants it any more. */
void ij__expert_slot_want(streamed_home *h, streamed_slot *s);
void ij__expert_slot_unwant(streamed_home *h, streamed_slot *s);

/* Takes back what has not been read yet. Should somebody want the expert before the rest has come, it is read again. */
void ij__expert_slot_cancel(streamed_home *h, streamed_slot *s);

/* Takes in what the reader has finished; waits for the first of it if block is set. */
void ij__expert_slots_reap(streamed_home *h, bool block);

/* Why a failed slot failed, into home->error. */
ij_status ij__expert_slot_explain(streamed_home *h, const streamed_slot *s);

#endif
