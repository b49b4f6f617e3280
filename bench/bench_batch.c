/* bench_batch.c: decode throughput of N sessions stepped together beside that of one, each id sampled, as a server does it.
 *
 *     bench_batch MODEL [N] [STEPS] [PROMPT] [THREADS] [LEVEL]
 *
 * The two are measured in turns, step by step, because machines are shared and their speed drifts: the ratio is of medians of the same
 * time. With one thread the ratio of processor time is given as well, which holds on a machine that others use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/alloc.h"
#include "core/os.h"
#include "inkjet.h"

#define MAX_N 64

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return x[n / 2];
}

static void need(ij_status status, const ij_err *err) {
  if (status == IJ_OK) return;
  fprintf(stderr, "%s: %s\n", err->where, err->message);
  exit(1);
}

/* Seconds, and seconds of processor time, to evaluate one id in each session and to choose the next. */
static double step(ij_model *m, ij_session **s, int32_t *ids, int n, double *processor) {
  ij_step_item items[MAX_N];
  ij_err err;
  clock_t cpu = clock();
  double begin = ij__os_seconds();
  for (int i = 0; i < n; i++) items[i] = (ij_step_item){.session = s[i], .ids = &ids[i], .n = 1};
  need(ij_step(m, items, n, &err), &err);
  for (int i = 0; i < n; i++) {
    ij_choice c;
    need(ij_session_sample(s[i], NULL, &c, &err), &err);
    ids[i] = c.id;
  }
  *processor = (double)(clock() - cpu) / CLOCKS_PER_SEC;
  return ij__os_seconds() - begin;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_batch MODEL [N] [STEPS] [PROMPT] [THREADS] [LEVEL]\n");
    return 2;
  }
  int n = argc > 2 ? atoi(argv[2]) : 8, n_step = argc > 3 ? atoi(argv[3]) : 20, n_prompt = argc > 4 ? atoi(argv[4]) : 32;
  int n_thread = argc > 5 ? atoi(argv[5]) : 0;
  if (n < 1 || n > MAX_N || n_step < 1 || n_prompt < 1) return 2;
  ij_model *m = NULL;
  ij_err err;
  ij_model_options mo = ij_model_options_default();
  mo.tokenizer = false;
  mo.n_threads = n_thread;
  mo.cpu_mask = argc > 6 ? argv[6] : NULL;
  need(ij_model_open(&m, argv[1], &mo, &err), &err);
  ij_model_info info;
  ij_model_get_info(m, &info);
  ij_session *s[MAX_N + 1] = {NULL};
  int32_t ids[MAX_N + 1];
  int32_t *prompt = ij__alloc_array((size_t)n_prompt, sizeof *prompt);
  double *times = ij__alloc_array(4 * (size_t)n_step, sizeof *times);
  if (!prompt || !times) return 1;
  double *one = times, *many = one + n_step, *one_cpu = many + n_step, *many_cpu = one_cpu + n_step;
  for (int i = 0; i <= n; i++) { /* every session says something else, so that they meet other experts */
    ij_session_options o = ij_session_options_default();
    o.n_ctx = n_prompt + n_step + 8;
    need(ij_session_open(&s[i], m, &o, &err), &err);
    for (int k = 0; k < n_prompt; k++) prompt[k] = (int32_t)(((uint32_t)(k * (n + 1) + i) * 2654435761u >> 8) % (uint32_t)info.unpadded_vocab);
    need(ij_session_eval(s[i], prompt, n_prompt, &err), &err);
    ids[i] = prompt[0];
  }
  for (int k = -1; k < n_step; k++) { /* the first one of each is not counted */
    double ca, cb, a = step(m, s, ids, 1, &ca), b = step(m, s + 1, ids + 1, n, &cb);
    if (k >= 0) one[k] = a, many[k] = b, one_cpu[k] = ca, many_cpu[k] = cb;
  }
  double t1 = median(one, n_step), tn = median(many, n_step);
  printf("one session %.1f ms/token (%.2f tokens/s); %d sessions %.1f ms/step (%.2f tokens/s): %.2f times\n", t1 * 1e3, 1 / t1, n, tn * 1e3,
         n / tn, n * t1 / tn);
  if (n_thread == 1) {
    t1 = median(one_cpu, n_step);
    tn = median(many_cpu, n_step);
    printf("processor time: %.1f ms/token, %.1f ms/step: %.2f times\n", t1 * 1e3, tn * 1e3, n * t1 / tn);
  }
  for (int i = 0; i <= n; i++) ij_session_close(&s[i]);
  ij__free(prompt);
  ij__free(times);
  ij_model_close(&m);
  return 0;
}
