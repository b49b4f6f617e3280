/* fuzz_usage.c: any bytes as a file of the use of experts. A wrong checksum is put right, so that what lies behind it is reached.
 *
 * Whatever is accepted is sound (shares between 0 and 1 that sum to 1 or 0 per layer, counters that can be added up), comes back from its bytes the
 * same, and stays sound when a session is mixed in. The first byte chooses the sizes of the model it is read for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cache/usage.h"
#include "core/alloc.h"

enum { MAX_LAYER = 4, MAX_EXPERT = 9 };

static const uint64_t PRINT = 0x1234;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

/* The checksum of docs/formats/session.md over the first n bytes, put behind them. */
static void seal(unsigned char *bytes, size_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t at = 0; at <= n; at += 8) {
    uint64_t word = 0;
    memcpy(&word, bytes + at, n - at < 8 ? n - at : 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  memcpy(bytes + n, &h, 8);
}

static void is_sound(const ij_usage *u) {
  float prior[MAX_LAYER * MAX_EXPERT];
  must(u->n_sessions >= 0 && u->n_tokens >= u->n_sessions && u->weight >= 0 && u->weight <= IJ_USAGE_MEMORY);
  must(u->n_hit <= INT64_MAX && u->n_miss <= INT64_MAX && u->read_bytes <= INT64_MAX && isfinite(u->read_seconds) && u->read_seconds >= 0);
  ij__usage_prior(u, prior);
  for (int layer = 0; layer < u->n_layer; layer++) {
    double sum = 0, expected = 0;
    for (int e = 0; e < u->n_expert; e++) {
      int i = layer * u->n_expert + e;
      must(u->share[i] >= 0 && u->share[i] <= 1 && prior[i] >= 0 && prior[i] <= 1);
      sum += (double)u->share[i];
      expected += (double)prior[i];
    }
    must(sum == 0 ? expected == 0 : fabs(sum - 1) < 2e-3 && fabs(expected - 1) < 2e-3);
  }
}

/* Its bytes are those that were read, and read the same once more. */
static void comes_back(const ij_usage *u, const unsigned char *bytes, size_t size) {
  size_t n = 0;
  ij_usage again;
  void *mine = ij__usage_bytes(u, &n);
  must(mine && n == size && memcmp(mine, bytes, n) == 0);
  must(ij__usage_parse(&again, mine, n, "again", PRINT, u->n_layer, u->n_expert, NULL) == IJ_OK);
  must(memcmp(again.share, u->share, sizeof *u->share * (size_t)u->n_layer * (size_t)u->n_expert) == 0);
  ij__usage_free(&again);
  ij__free(mine);
}

static void one_more_session(ij_usage *u, uint8_t seed) {
  float heat[MAX_LAYER * MAX_EXPERT];
  ij_usage again;
  size_t n = 0;
  for (int i = 0; i < u->n_layer * u->n_expert; i++) heat[i] = (float)((i * 7 + seed) % 5);
  ij__usage_mix(u, &(ij_usage_session){.heat = heat, .n_tokens = (int64_t)1 << seed % 63, .n_hit = INT64_MAX, .read_seconds = 1e308});
  is_sound(u);
  void *bytes = ij__usage_bytes(u, &n);
  must(bytes && ij__usage_parse(&again, bytes, n, "mixed", PRINT, u->n_layer, u->n_expert, NULL) == IJ_OK); /* so the next start can read it */
  ij__usage_free(&again);
  ij__free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ij_err err = {0};
  ij_usage u;
  int64_t blocks = ij__alloc_blocks();
  if (size < 1 || size > 8192) return 0;
  int n_layer = data[0] % (MAX_LAYER + 1), n_expert = data[0] / 16 % (MAX_EXPERT + 1);
  size_t n = size - 1;
  unsigned char *bytes = malloc(n ? n : 1); /* exactly as large, so that a read past the end is seen */
  must(bytes != NULL);
  if (n) memcpy(bytes, data + 1, n);
  ij_status status = ij__usage_parse(&u, bytes, n, "fuzz", PRINT, n_layer, n_expert, &err);
  if (status != IJ_OK && n >= 8 && strstr(err.message, "checksum")) {
    seal(bytes, n - 8);
    status = ij__usage_parse(&u, bytes, n, "fuzz", PRINT, n_layer, n_expert, &err);
  }
  if (status == IJ_OK) {
    is_sound(&u);
    comes_back(&u, bytes, n);
    one_more_session(&u, data[0]);
  } else {
    must(status == IJ_E_FORMAT && err.message[0] && u.share == NULL);
  }
  ij__usage_free(&u);
  free(bytes);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
