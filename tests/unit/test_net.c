/* test_net.c: identities of the network on hand-made weights: what zero, one and equal values must give, seen through the public API.
 */
#include "tiny.h"

static const int32_t some[] = {1, 4, 2, 9, 16, 3, 3, 11, 0, 7, 5, 8};
#define N_IDS 12
#define H 8

/* One layer, global unless said otherwise, dense or with experts. */
static void one_layer(tiny *t, bool sliding, bool dense, const char *edits) {
  cw_dims d = {H, 1, 2, 1, 1, 4, 2, 4, 6, 4, 16, 8, 4, 2, 20, {sliding}, {dense}};
  tiny_build(t, &d, IJ_DTYPE_F32, edits);
}

static float *layer(tiny *t, const char *name) {
  char full[96];
  snprintf(full, sizeof full, "model.llm.layers.0.%s", name);
  return tiny_values(t, full);
}

static void fill(tiny *t, const char *name, float value) {
  char full[96];
  snprintf(full, sizeof full, "model.llm.layers.0.%s", name);
  tiny_fill(t, full, value);
}

/* Residual stream of the ids: out[0..n) after the embedding, out[n..2n) after the layer; and all logits when wanted. */
static void run(const tiny *t, const int32_t *ids, int n, float *out, float *logits) {
  ij_model *m = tiny_open(t, 2, 16);
  ij_session *s = tiny_session(m, 64, 4);
  ij_err err;
  ij_step_item item = {.session = s, .ids = ids, .n = n, .trace = out, .logits_all = logits};
  CHECK_OK(ij_step(m, &item, 1, &err), err);
  ij_session_close(&s);
  ij_model_close(&m);
}

static void no_attention(tiny *t) { fill(t, "attn.wo_ud.weight", 0); }
static void no_mlp(tiny *t) { fill(t, "mlp.global_scale", 0); }

/* A dense layer whose scale is 0 and whose attention gives nothing is the identity, whatever its convolutions hold. */
static void a_layer_of_zeros_is_the_identity(void) {
  tiny t;
  float h[2 * N_IDS * H];
  one_layer(&t, false, true, "");
  no_attention(&t);
  no_mlp(&t);
  run(&t, some, N_IDS, h, NULL);
  for (int i = 0; i < N_IDS * H; i++) CHECK(h[i] == h[N_IDS * H + i]); /* as numbers: -0 plus 0 is 0 */
  tiny_free(&t);
}

/* The convolution behind attention: zero taps leave the value, the last tap doubles it, the first adds the value three rows back. */
static void taps_of_the_short_convolution(void) {
  tiny t;
  float zero[2 * N_IDS * H], last[2 * N_IDS * H], first[2 * N_IDS * H];
  one_layer(&t, false, true, "");
  no_mlp(&t);
  fill(&t, "attn_sconv.weight", 0);
  run(&t, some, N_IDS, zero, NULL);
  for (int c = 0; c < H; c++) layer(&t, "attn_sconv.weight")[4 * c + 3] = 1;
  run(&t, some, N_IDS, last, NULL);
  fill(&t, "attn_sconv.weight", 0);
  for (int c = 0; c < H; c++) layer(&t, "attn_sconv.weight")[4 * c] = 1;
  run(&t, some, N_IDS, first, NULL);
  double largest = 0;
  for (int i = 0; i < N_IDS * H; i++) {
    double h = (double)zero[i], a = (double)zero[N_IDS * H + i] - h; /* what attention adds */
    double back = i >= 3 * H ? (double)zero[N_IDS * H + i - 3 * H] - (double)zero[i - 3 * H] : 0;
    largest = fmax(largest, fabs(a));
    CHECK_NEAR((double)last[N_IDS * H + i] - h, 2 * a, 1e-5);
    CHECK_NEAR((double)first[N_IDS * H + i] - h, a + back, 1e-5);
  }
  CHECK(largest > 0.1);
  tiny_free(&t);
}

/* With keys, bias and convolutions at zero every visible key weighs the same: attention is the mean of the values it sees, which the
 * difference between consecutive rows makes visible as the window. */
static void zero_scores_attend_evenly(void) {
  for (int sliding = 0; sliding <= 1; sliding++) {
    tiny t;
    float one[2 * H], all[2 * N_IDS * H];
    one_layer(&t, sliding, true, "text.log_scaling_n_floor=3\n");
    no_mlp(&t);
    fill(&t, "attn.q_norm.weight", 0);
    fill(&t, "attn.rel_logits_proj.proj", 0);
    fill(&t, "attn.v_sconv.weight", 0);
    fill(&t, "attn_sconv.weight", 0);
    run(&t, some, N_IDS, all, NULL);
    double value[N_IDS][H]; /* attention of a token alone: its own value through the output matrix */
    for (int p = 0; p < N_IDS; p++) {
      run(&t, some + p, 1, one, NULL);
      for (int c = 0; c < H; c++) value[p][c] = (double)one[H + c] - (double)one[c];
    }
    for (int p = 0; p < N_IDS; p++) {
      int from = sliding && p >= 4 ? p - 3 : 0; /* a window of 4 with the query itself */
      for (int c = 0; c < H; c++) {
        double mean = 0;
        for (int s = from; s <= p; s++) mean += value[s][c] / (p - from + 1);
        CHECK_NEAR((double)all[(N_IDS + p) * H + c] - (double)all[p * H + c], mean, 1e-5);
      }
    }
    tiny_free(&t);
  }
}

static void later_tokens_do_not_matter(void) {
  tiny t;
  cw_dims d = cw_usual();
  float a[N_IDS * 18], b[N_IDS * 18], trace[7 * N_IDS * H];
  tiny_build(&t, &d, IJ_DTYPE_F32, "");
  run(&t, some, N_IDS, trace, a);
  for (int at = 1; at < N_IDS; at++) {
    int32_t other[N_IDS];
    for (int i = 0; i < N_IDS; i++) other[i] = i < at ? some[i] : (some[i] + 5) % 18;
    run(&t, other, N_IDS, trace, b);
    CHECK(memcmp(a, b, (size_t)at * 18 * sizeof *a) == 0);
    CHECK(memcmp(a + at * 18, b + at * 18, 18 * sizeof *a) != 0);
  }
  tiny_free(&t);
}

/* ----------------------------------------------------------------------------------------------------------------- router */

/* What the experts of the only layer add to the last of the ids. */
static void experts(tiny *t, float add[H]) {
  float h[2 * H];
  run(t, some, 1, h, NULL);
  for (int c = 0; c < H; c++) add[c] = h[H + c] - h[c];
}

static void with_experts(tiny *t) {
  one_layer(t, false, false, "");
  no_attention(t);
  fill(t, "mlp_sconv.weight", 0);
  fill(t, "mlp.gate.global_scale", 0.5f);
}

/* All experts made equal, whatever the router says: the weights sum to route_scale * global_scale, so the result cannot change. */
static void routing_weights_sum_to_the_scales(void) {
  tiny t;
  float even[H], uneven[H], low[H], half[H];
  with_experts(&t);
  for (int e = 1; e < 4; e++) {
    memcpy(layer(&t, "mlp.experts.w13_weight") + e * 16 * H, layer(&t, "mlp.experts.w13_weight"), 16 * H * sizeof(float));
    memcpy(layer(&t, "mlp.experts.w2_weight") + e * H * 8, layer(&t, "mlp.experts.w2_weight"), H * 8 * sizeof(float));
  }
  for (int e = 0; e < 2; e++) {
    memcpy(layer(&t, "mlp.shared_experts.shared_w13_weight") + e * 16 * H, layer(&t, "mlp.experts.w13_weight"), 16 * H * sizeof(float));
    memcpy(layer(&t, "mlp.shared_experts.shared_w2_weight") + e * H * 8, layer(&t, "mlp.experts.w2_weight"), H * 8 * sizeof(float));
  }
  experts(&t, uneven);
  fill(&t, "mlp.gate.weight", 0);
  experts(&t, even);
  fill(&t, "mlp.gate.weight", -100); /* logits far below where a sigmoid underflows, or far above */
  experts(&t, low);
  fill(&t, "mlp.gate.global_scale", 0.25f);
  experts(&t, half);
  double largest = 0;
  for (int c = 0; c < H; c++) {
    largest = fmax(largest, fabs((double)even[c]));
    CHECK_NEAR(uneven[c], even[c], 1e-5 * (1 + fabs((double)even[c])));
    CHECK_NEAR(low[c], even[c], 1e-5 * (1 + fabs((double)even[c])));
    CHECK_NEAR(2 * half[c], even[c], 1e-5 * (1 + fabs((double)even[c])));
  }
  CHECK(largest > 0.05);
  tiny_free(&t);
}

/* The bias selects and does nothing else: a constant on all changes no bit; with every choice forced, only the set matters. */
static void the_bias_only_selects(void) {
  tiny t;
  float plain[H], shifted[H], forced[H], strongly[H];
  with_experts(&t);
  fill(&t, "mlp.gate.bias", 0);
  experts(&t, plain);
  fill(&t, "mlp.gate.bias", 4);
  experts(&t, shifted);
  CHECK(memcmp(plain, shifted, sizeof plain) == 0);
  bool changed = false;
  for (int pair = 0; pair < 2; pair++) { /* two of the four experts are used */
    fill(&t, "mlp.gate.bias", 0);
    for (int e = 0; e < 2; e++) layer(&t, "mlp.gate.bias")[2 * pair + e] = 2;
    experts(&t, forced);
    for (int e = 0; e < 2; e++) layer(&t, "mlp.gate.bias")[2 * pair + e] = 50.0f + (float)e;
    experts(&t, strongly);
    CHECK(memcmp(forced, strongly, sizeof forced) == 0);
    changed = changed || memcmp(forced, plain, sizeof plain) != 0;
  }
  CHECK(changed);
  tiny_free(&t);
}

/* ------------------------------------------------------------------------------------------------------------------- head */

static void the_head_divides_and_drops_padding(void) {
  static const char *const edits[] = {"text.logits_mup_width_multiplier=1", "text.logits_mup_width_multiplier=8"};
  float h[2 * N_IDS * H], logits[2][N_IDS * 18 + 2];
  for (int i = 0; i < 2; i++) {
    tiny t;
    one_layer(&t, true, true, edits[i]);
    logits[i][N_IDS * 18] = 77; /* rows have 18 logits, not 20 */
    run(&t, some, N_IDS, h, logits[i]);
    CHECK(logits[i][N_IDS * 18] == 77);
    tiny_free(&t);
  }
  for (int i = 0; i < N_IDS * 18; i++) CHECK(logits[0][i] == 8 * logits[1][i]); /* a power of two rounds nothing */
}

int main(void) {
  RUN(a_layer_of_zeros_is_the_identity);
  RUN(taps_of_the_short_convolution);
  RUN(zero_scores_attend_evenly);
  RUN(later_tokens_do_not_matter);
  RUN(routing_weights_sum_to_the_scales);
  RUN(the_bias_only_selects);
  RUN(the_head_divides_and_drops_padding);
  return test_report();
}
