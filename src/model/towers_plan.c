/* towers_plan.c: how the vision tower cuts a patch.
 *
 * Sizes that a layer could reach are the running products of the prime factors of the patch side, largest first, and then the temporal
 * size. The four layers take those nearest to equal steps of the logarithm of (side * time) between the first and the last. A vector of
 * a size has 3 values per pixel, rounded up to 64. For 40 pixels: 5, 10, 40 and 40 in both slices; 128, 320, 4800 wide.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/towers.h"

enum { MAX_SIZES = 16, WIDTH_UNIT = 64 };

typedef struct tower_size {
  int side, time;
} tower_size;

static int find_sizes(tower_size *sizes, int patch) {
  int factors[MAX_SIZES], n_factor = 0, n = 0, side = 1;
  for (int p = 2, rest = patch; rest > 1; p++) {
    for (; rest % p == 0; rest /= p) factors[n_factor++] = p;
  }
  while (n_factor > 0) {
    side *= factors[--n_factor];
    sizes[n++] = (tower_size){side, 1};
  }
  sizes[n++] = (tower_size){patch, IJ_TOWER_TIMES};
  return n;
}

static double log_size(tower_size s) { return log((double)s.side * s.time); }

/* The size not yet taken whose logarithm is nearest. */
static int nearest(const tower_size *sizes, int n, const bool *taken, double want) {
  int best = -1;
  double best_distance = 0;
  for (int i = 0; i < n; i++) {
    double distance = fabs(log_size(sizes[i]) - want);
    if (taken[i] || (best >= 0 && distance >= best_distance)) continue;
    best = i;
    best_distance = distance;
  }
  return best;
}

bool ij__tower_plan(ij_tower_plan *out, int patch, int64_t hidden, char *why, size_t size) {
  tower_size sizes[MAX_SIZES], from = {1, 1};
  bool taken[MAX_SIZES] = {false};
  memset(out, 0, sizeof *out);
  if (patch < 2 || patch > IJ_TOWER_MAX_PATCH) {
    snprintf(why, size, "expected 2 to %d, found %d", IJ_TOWER_MAX_PATCH, patch);
    return false;
  }
  int n = find_sizes(sizes, patch);
  if (n < IJ_TOWER_LAYERS) {
    snprintf(why, size, "a patch of %d pixels can be folded to %d sizes only, %d layers need as many", patch, n, IJ_TOWER_LAYERS);
    return false;
  }
  double first = log_size(sizes[0]), last = log_size(sizes[n - 1]);
  for (int i = 0; i < IJ_TOWER_LAYERS; i++) taken[nearest(sizes, n, taken, first + (last - first) * i / (IJ_TOWER_LAYERS - 1))] = true;
  out->patch = patch;
  int64_t channels = IJ_TOWER_CHANNELS;
  for (int i = 0, at = 0; i < n; i++) {
    if (!taken[i]) continue;
    ij_tower_layer *l = &out->layer[at++];
    l->space = sizes[i].side / from.side;
    l->time = sizes[i].time / from.time;
    l->in = channels * l->space * l->space * l->time;
    int64_t values = (int64_t)IJ_TOWER_CHANNELS * sizes[i].side * sizes[i].side;
    channels = l->out = at == IJ_TOWER_LAYERS ? hidden : (int64_t)ij__align_up((size_t)values, WIDTH_UNIT);
    l->n_vectors = (int64_t)(patch / sizes[i].side) * (patch / sizes[i].side) * (IJ_TOWER_TIMES / sizes[i].time);
    from = sizes[i];
  }
  return true;
}

double ij__towers_vision_fma(const ij_tower_plan *plan, bool still) {
  double n = 0;
  for (int i = 0; i < IJ_TOWER_LAYERS; i++) {
    const ij_tower_layer *l = &plan->layer[i];
    n += (double)l->n_vectors * (double)l->in * (double)l->out;
  }
  return still ? n / IJ_TOWER_TIMES : n; /* one slice less in all layers but the last, which is half as wide */
}
