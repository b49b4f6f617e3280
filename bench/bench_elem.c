/* bench_elem.c: time of the entries other than matmul, at every level, on buffers that stay in the caches.
 *
 * Build: cc -O2 -Isrc -Iinclude bench/bench_elem.c build/release/src/libinkjet.a -lm -lpthread -o build/bench_elem
 * Usage: bench_elem [n]. Each figure is the best of five rounds of about 20 ms; the machine should be idle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/kernels.h"

enum { MAX_N = 1 << 16, D = 128, N_Q = 64 };

static _Alignas(64) float a[MAX_N], b[MAX_N], y[MAX_N], w[4 * MAX_N], v[IJ_ATTN_BLOCK * D], p[N_Q * IJ_ATTN_BLOCK], o[N_Q * D];
static int64_t n = 6144;
static volatile float sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_rms_norm(const ij_kernels *k) { k->rms_norm(y, a, b, 1e-6f, n); }
static void run_swiglu(const ij_kernels *k) { k->swiglu(y, a, b, n); }
static void run_axpy(const ij_kernels *k) { k->axpy(y, 1e-3f, a, n); }
static void run_dot(const ij_kernels *k) { sink = k->dot(a, b, n); }
static void run_widen_f16(const ij_kernels *k) { k->widen[IJ_DTYPE_F16](y, w, n); }
static void run_narrow_bf16(const ij_kernels *k) { k->narrow[IJ_DTYPE_BF16](y, a, n); }
static void run_vexp(const ij_kernels *k) { k->vexp(y, a, n); }
static void run_vlog(const ij_kernels *k) { k->vlog(y, b, n); }
static void run_vtanh(const ij_kernels *k) { k->vtanh(y, a, n); }
static void run_verf(const ij_kernels *k) { k->verf(y, a, n); }
static void run_vsigmoid(const ij_kernels *k) { k->vsigmoid(y, a, n); }
static void run_rel_bias(const ij_kernels *k) { k->rel_bias(y, a, w, IJ_ATTN_BLOCK, 16); }
static void run_attn_pv(const ij_kernels *k) { k->attn_pv(o, D, p, IJ_ATTN_BLOCK, v, D, N_Q, 0, IJ_ATTN_BLOCK, D); }
static void run_attn_pv_1(const ij_kernels *k) { k->attn_pv(o, D, p, IJ_ATTN_BLOCK, v, D, 1, 0, IJ_ATTN_BLOCK, D); }

static void run_short_conv(const ij_kernels *k) {
  const float *rows[4] = {a, b, a, b};
  k->short_conv(y, rows, w, n, 4, n);
}

static void run_attn_probs(const ij_kernels *k) {
  float max, sum;
  k->scale(y, a, 1.0f, IJ_ATTN_BLOCK);
  k->attn_probs(y, b, 0.125f, 1.0f, 0, IJ_ATTN_BLOCK, &max, &sum);
  sink = max + sum;
}

/* What a figure counts: thousands of values, blocks, or thousands of multiply-adds. */
enum { VALUES, BLOCK, PV, PV_1 };

static const struct {
  const char *name;
  void (*run)(const ij_kernels *);
  int unit;
} entries[] = {{"rms_norm", run_rms_norm, VALUES},     {"swiglu", run_swiglu, VALUES},       {"short_conv 4", run_short_conv, VALUES},
               {"axpy", run_axpy, VALUES},             {"dot", run_dot, VALUES},             {"widen f16", run_widen_f16, VALUES},
               {"narrow bf16", run_narrow_bf16, VALUES}, {"vexp", run_vexp, VALUES},         {"vlog", run_vlog, VALUES},
               {"vtanh", run_vtanh, VALUES},           {"verf", run_verf, VALUES},           {"vsigmoid", run_vsigmoid, VALUES},
               {"rel_bias 16", run_rel_bias, BLOCK},   {"attn_probs", run_attn_probs, BLOCK}, {"attn_pv 64 q", run_attn_pv, PV},
               {"attn_pv 1 q", run_attn_pv_1, PV_1}};

static double seconds_per_call(void (*run)(const ij_kernels *), const ij_kernels *k) {
  double best = 1e9;
  run(k);
  for (int round = 0; round < 5; round++) {
    int64_t n_call = 0;
    double start = now(), end = start;
    while (end - start < 0.02) {
      for (int i = 0; i < 16; i++) run(k);
      n_call += 16;
      end = now();
    }
    double each = (end - start) / (double)n_call;
    best = each < best ? each : best;
  }
  return best;
}

int main(int argc, char **argv) {
  if (argc > 1) n = strtoll(argv[1], NULL, 10);
  if (n < IJ_ATTN_BLOCK || n > MAX_N) return 2;
  for (int i = 0; i < MAX_N; i++) {
    a[i] = (float)((i * 37) % 1001) * 0.01f - 5.0f;
    b[i] = (float)((i * 53) % 997) * 0.002f + 0.01f;
  }
  for (int i = 0; i < 4 * MAX_N; i++) w[i] = 0.25f;
  for (int i = 0; i < IJ_ATTN_BLOCK * D; i++) v[i] = a[i];
  for (int i = 0; i < N_Q * IJ_ATTN_BLOCK; i++) p[i] = b[i];
  const double work[] = {(double)n / 1000, 1, N_Q * IJ_ATTN_BLOCK * D / 1000.0, IJ_ATTN_BLOCK * D / 1000.0};
  const char *const units[] = {"ns per 1000 values", "ns per block", "ns per 1000 multiply-adds", "ns per 1000 multiply-adds"};
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    if (k->level != (ij_level)level) continue;
    for (size_t e = 0; e < IJ_COUNT_OF(entries); e++) {
      double ns = 1e9 * seconds_per_call(entries[e].run, k) / work[entries[e].unit];
      printf("%-8s %-14s %10.2f %s\n", ij__level_name(k->level), entries[e].name, ns, units[entries[e].unit]);
    }
  }
  return 0;
}
