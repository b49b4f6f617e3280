/* test_engine.c: the public API's contract on a tiny model: what is refused and what that changes, why a generation ends, where broken
 * weights are found, and what happens when every single allocation fails.
 */
#include "core/os.h"
#include "tape.h"
#include "tiny.h"

static tiny t; /* six layers, the last one global, the first two dense; 18 ids, 17 ends a generation */
static ij_model *m;
static const int32_t some[] = {1, 4, 2, 9, 16, 3, 3, 11, 0, 7};

/* ------------------------------------------------------------------------------------------------------------ arguments */

static void null_arguments_are_refused(void) {
  ij_err err = {0};
  ij_model *none = m;
  ij_session *s = tiny_session(m, 16, 4), *f = s;
  CHECK_INT(ij_model_open(NULL, t.folder, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_model_open(&none, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK(none == NULL);
  CHECK_INT(ij_session_open(NULL, m, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_open(&f, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_eval(NULL, some, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_eval(s, NULL, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_eval(s, some, 0, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_eval(s, some, -1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_fork(NULL, s, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_fork(&f, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_rollback(NULL, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_save(s, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_save(NULL, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_restore(s, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_restore(NULL, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_step(NULL, NULL, 0, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_step(m, NULL, 1, &err), IJ_E_ARGUMENT);
  ij_step_item item = {.ids = some, .n = 1};
  CHECK_INT(ij_step(m, &item, 0, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_step(m, &item, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(item.status, IJ_E_ARGUMENT);
  CHECK_INT(ij_generate(NULL, 1, NULL, NULL, NULL, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_generate(s, -1, NULL, NULL, NULL, NULL, NULL, &err), IJ_E_ARGUMENT);
  ij_machine machine;
  CHECK_INT(ij_measure_machine(NULL, 1, &machine, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_measure_machine(m, 0, &machine, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_measure_machine(m, NAN, &machine, &err), IJ_E_ARGUMENT);
  ij_tensor_info info;
  CHECK_INT(ij_model_get_tensor(m, -1, &info), IJ_E_RANGE);
  CHECK_INT(ij_model_get_tensor(m, 1 << 20, &info), IJ_E_RANGE);
  CHECK_INT(ij_model_get_tensor(m, 0, NULL), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_eval(s, some, 0, NULL), IJ_E_ARGUMENT); /* an error that nobody wants to read */
  ij_session_close(&s);
}

static void closing_nothing_does_nothing(void) {
  ij_model *no_model = NULL;
  ij_session *no_session = NULL;
  ij_tokenizer *no_tokenizer = NULL;
  ij_model_close(NULL);
  ij_model_close(&no_model);
  ij_session_close(NULL);
  ij_session_close(&no_session);
  ij_tokenizer_close(NULL);
  ij_tokenizer_close(&no_tokenizer);
  ij_session *s = tiny_session(m, 16, 4);
  ij_session_close(&s);
  CHECK(s == NULL);
  ij_session_close(&s);
}

static void refuse_model(ij_model_options o, const char *name) {
  ij_err err = {0};
  ij_model *out = m;
  CHECK_INT(ij_model_open(&out, t.folder, &o, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.where, name);
  CHECK(out == NULL);
}

static void refuse_session(ij_session_options o, const char *name) {
  ij_err err = {0};
  ij_session *out = NULL;
  if (o.n_ctx == ij_session_options_default().n_ctx) o.n_ctx = 16; /* the default is beyond this model's limit */
  CHECK_INT(ij_session_open(&out, m, &o, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.where, name);
  CHECK(out == NULL);
}

#define REFUSE(kind, field, value)                          \
  do {                                                      \
    ij_##kind##_options o = ij_##kind##_options_default();  \
    o.field = value;                                        \
    refuse_##kind(o, #field);                               \
  } while (0)

static void bad_options_are_named(void) {
  REFUSE(model, struct_size, 0);
  REFUSE(model, n_threads, -1);
  REFUSE(model, n_threads, 1 << 20);
  REFUSE(model, max_batch, 0);
  REFUSE(model, max_batch, 1 << 24);
  REFUSE(model, cpu_mask, "pentium");
  REFUSE(session, struct_size, 1);
  REFUSE(session, n_ctx, 0);
  REFUSE(session, n_ctx, 4097); /* the model's limit is 4096 */
  REFUSE(session, kv_type, (ij_kv_type)3);
  REFUSE(session, max_rollback, -1);
  REFUSE(session, max_rollback, 1 << 24);
}

static bool stop_at(void *user, double fraction) {
  double *limit = user;
  CHECK(fraction >= 0 && fraction <= 1);
  return fraction < *limit;
}

static void opening_can_be_cancelled_anywhere(void) {
  static double limits[] = {0, 0.2, 0.5, 1};
  int64_t blocks = ij__alloc_blocks();
  for (int i = 0; i < 4; i++) {
    ij_model_options o = ij_model_options_default();
    ij_model *out = m;
    ij_err err = {0};
    o.progress = stop_at;
    o.user = &limits[i];
    CHECK_INT(ij_model_open(&out, t.folder, &o, &err), IJ_E_CANCELLED);
    CHECK(out == NULL);
  }
  CHECK_INT(ij__alloc_blocks(), blocks);
}

static void description_of_the_model(void) {
  ij_model_info info;
  ij_model_get_info(m, &info);
  CHECK_INT(info.n_layer, 6);
  CHECK_INT(info.n_layer_sliding, 5);
  CHECK_INT(info.n_layer_dense, 2);
  CHECK_INT(info.unpadded_vocab, 18);
  CHECK_INT(info.n_tensors, t.file.n);
  CHECK_INT(info.n_threads, 2);
  int64_t n = 0;
  for (int i = 0; i < info.n_tensors; i++) {
    ij_tensor_info x;
    CHECK_INT(ij_model_get_tensor(m, i, &x), IJ_OK);
    CHECK(x.used);
    int64_t values = 1;
    for (int d = 0; d < x.n_dims; d++) values *= x.dims[d];
    CHECK_INT(values, cw_find(&t.file, x.name)->n);
    n += values;
  }
  CHECK_INT(info.n_params, n);
  CHECK(ij_model_is_eos(m, 17));
  CHECK(!ij_model_is_eos(m, 16));
  CHECK(ij_model_tokenizer(m) == NULL);
}

static void chat_template_beside_the_checkpoint(void) {
  static const char text[] = "{{ messages }}";
  ij_err err = {0};
  ij_model *with = NULL;
  size_t n = 1;
  CHECK(ij_model_chat_template(m, &n) == NULL);
  CHECK_INT(n, 0);
  char *path = ij__os_join(t.folder, "chat_template.jinja");
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(text, 1, sizeof text - 1, f) == sizeof text - 1 && fclose(f) == 0);
  CHECK_OK(ij_model_open(&with, t.folder, NULL, &err), err);
  const char *got = ij_model_chat_template(with, &n);
  CHECK(got && n == sizeof text - 1 && memcmp(got, text, n) == 0);
  CHECK(ij_model_chat_template(with, NULL) == got);
  ij_model_close(&with);
  remove(path);
  ij__free(path);
}

/* ------------------------------------------------------------------------------------------------- positions and context */

static void refused_tokens_change_nothing(void) {
  ij_err err = {0};
  ij_session *s = tiny_session(m, 10, 4);
  CHECK(ij_session_logits(s) == NULL);
  CHECK_OK(ij_session_eval(s, some, 8, &err), err);
  float before[18];
  memcpy(before, ij_session_logits(s), sizeof before);
  static const int32_t bad[] = {3, 18}, negative[] = {-1};
  CHECK_INT(ij_session_eval(s, bad, 2, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "token 1 is 18; this model has ids 0 to 17");
  CHECK_INT(ij_session_eval(s, negative, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_eval(s, some, 3, &err), IJ_E_CONTEXT);
  CHECK_HAS(err.message, "3 tokens after the 8 already there do not fit into a context of 10");
  CHECK_INT(ij_session_eval(s, some, INT64_MAX, NULL), IJ_E_CONTEXT); /* and does not read as many */
  CHECK_INT(ij_session_pos(s), 8);
  CHECK(memcmp(ij_session_ids(s), some, 8 * sizeof *some) == 0);
  CHECK(ij_session_logits(s) && memcmp(ij_session_logits(s), before, sizeof before) == 0);
  CHECK_OK(ij_session_eval(s, some + 8, 2, &err), err);
  CHECK_INT(ij_session_pos(s), 10);
  CHECK_INT(ij_session_eval(s, some, 1, &err), IJ_E_CONTEXT);
  CHECK_OK(ij_session_rollback(s, 0, &err), err);
  CHECK(ij_session_logits(s) != NULL); /* nothing was taken back */
  CHECK_OK(ij_session_rollback(s, 1, &err), err);
  CHECK(ij_session_logits(s) == NULL);
  CHECK_OK(ij_session_eval(s, some, 1, &err), err);
  ij_session_close(&s);
}

static void sessions_of_another_model_are_refused(void) {
  ij_err err = {0};
  ij_model *other = NULL;
  CHECK_OK(tiny_try_open(&t, 1, 4, &other, &err), err);
  ij_session *s = tiny_session(other, 8, 4);
  ij_step_item item = {.session = s, .ids = some, .n = 1};
  CHECK_INT(ij_step(m, &item, 1, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "another model");
  CHECK_INT(ij_session_pos(s), 0);
  ij_session_close(&s);
  ij_model_close(&other);
}

/* ----------------------------------------------------------------------------------------------------------- generation */

typedef struct heard {
  int n, limit;
  int32_t ids[64];
} heard;

static bool hear(void *user, const ij_choice *choice) {
  heard *h = user;
  h->ids[h->n++] = choice->id;
  return h->n != h->limit;
}

/* A bias that leaves one id only. */
static ij_sample_options only(ij_logit_bias bias[18], int32_t id) {
  ij_sample_options o = ij_sample_options_default();
  for (int i = 0; i < 18; i++) bias[i] = (ij_logit_bias){i, i == id ? 0 : -INFINITY};
  o.logit_bias = bias;
  o.n_logit_bias = 18;
  return o;
}

static void expect_stop(int64_t n_ctx, int64_t n, int32_t id, int limit, ij_stop stop, int64_t n_heard, int64_t pos) {
  ij_err err = {0};
  ij_session *s = tiny_session(m, n_ctx, 4);
  ij_logit_bias bias[18];
  ij_sample_options o = only(bias, id);
  heard h = {.limit = limit};
  int64_t n_out = -1;
  ij_stop why = (ij_stop)-1;
  CHECK_OK(ij_session_eval(s, some, 2, &err), err);
  CHECK_OK(ij_generate(s, n, &o, hear, &h, &n_out, &why, &err), err);
  CHECK_INT(why, stop);
  CHECK_INT(n_out, n_heard);
  CHECK_INT(h.n, n_heard);
  CHECK_INT(ij_session_pos(s), pos);
  for (int i = 0; i < h.n; i++) CHECK_INT(h.ids[i], id);
  ij_session_close(&s);
}

static void reasons_to_stop(void) {
  expect_stop(16, 5, 6, 0, IJ_STOP_LENGTH, 5, 7);
  expect_stop(16, 0, 6, 0, IJ_STOP_LENGTH, 0, 2);
  expect_stop(16, 5, 17, 0, IJ_STOP_EOS, 1, 2);      /* handed out, not evaluated */
  expect_stop(16, 5, 6, 3, IJ_STOP_CALLER, 3, 4);    /* the third is not evaluated */
  expect_stop(16, 5, 17, 1, IJ_STOP_CALLER, 1, 2);
  expect_stop(6, 50, 6, 0, IJ_STOP_CONTEXT, 5, 6);   /* the fifth has no room */
  expect_stop(6, 4, 6, 0, IJ_STOP_LENGTH, 4, 6);
  expect_stop(6, 50, 17, 0, IJ_STOP_EOS, 1, 2);
}

/* Every id alone, then none. */
static void a_mask_decides_what_may_be_chosen(void) {
  ij_err err = {0};
  ij_session *s = tiny_session(m, 16, 4);
  ij_sample_options o = ij_sample_options_default();
  ij_choice c = {0};
  CHECK_OK(ij_session_eval(s, some, 2, &err), err);
  for (int32_t id = 0; id < 18; id++) {
    uint32_t mask = (uint32_t)1 << id;
    o.allowed = &mask;
    o.n_allowed = 18;
    for (int warm = 0; warm < 2; warm++) {
      o.temperature = warm ? 1.5f : 0.0f;
      CHECK_OK(ij_session_sample(s, &o, &c, &err), err);
      CHECK_INT(c.id, id);
    }
  }
  uint32_t none = 0, all = UINT32_MAX;
  o.temperature = 0;
  o.allowed = &none;
  o.n_allowed = 18;
  CHECK_INT(ij_session_sample(s, &o, &c, &err), IJ_E_ARGUMENT);
  o.allowed = &all;
  ij_choice free_choice = {0};
  CHECK_OK(ij_session_sample(s, &o, &c, &err), err);
  CHECK_OK(ij_session_sample(s, NULL, &free_choice, &err), err);
  CHECK_INT(c.id, free_choice.id);
  o.n_allowed = free_choice.id; /* ids beyond what the mask covers are not allowed, and its words are not read */
  if (free_choice.id > 0) {
    CHECK_OK(ij_session_sample(s, &o, &c, &err), err);
    CHECK(c.id < free_choice.id);
  }
  o.n_allowed = 0;
  CHECK_INT(ij_session_sample(s, &o, &c, &err), IJ_E_ARGUMENT);
  ij_session_close(&s);
}

static void generation_repeats_sampling_and_evaluating(void) {
  ij_err err = {0};
  ij_session *a = tiny_session(m, 40, 4), *b = tiny_session(m, 40, 4);
  ij_sample_options o = ij_sample_options_default();
  o.temperature = 1.5f;
  o.seed = 5;
  const ij_logit_bias no_end = {17, -INFINITY};
  o.logit_bias = &no_end;
  o.n_logit_bias = 1;
  heard h = {0};
  CHECK_INT(ij_generate(a, 3, &o, hear, &h, NULL, NULL, &err), IJ_E_RANGE); /* no logits yet */
  CHECK_OK(ij_session_eval(a, some, 3, &err), err);
  CHECK_OK(ij_session_eval(b, some, 3, &err), err);
  CHECK_OK(ij_generate(a, 20, &o, hear, &h, NULL, NULL, &err), err);
  for (int i = 0; i < 20; i++) {
    ij_choice c = {0};
    CHECK_OK(ij_session_sample(b, &o, &c, &err), err);
    CHECK_INT(c.id, h.ids[i]);
    CHECK_OK(ij_session_eval(b, &c.id, 1, &err), err);
  }
  CHECK(memcmp(ij_session_logits(a), ij_session_logits(b), 18 * sizeof(float)) == 0);
  CHECK_OK(ij_generate(a, 1, NULL, NULL, NULL, NULL, NULL, &err), err); /* nobody listens */
  CHECK_INT(ij_session_pos(a), 24);
  ij_session_close(&a);
  ij_session_close(&b);
}

/* -------------------------------------------------------------------------------------------------------- broken weights */

/* Token 5 brings the model to a weight that is not finite. The rest of the session must not notice. */
static void expect_broken(const char *tensor, int64_t at, float value, const char *where) {
  float *w = tiny_values(&t, tensor) + at, was = *w;
  *w = value;
  ij_model *broken = tiny_open(&t, 2, 8);
  *w = was;
  ij_err err = {0};
  float trace[7 * 8 * 8];
  for (int n = 1; n <= 8; n++) {
    ij_session *s = tiny_session(broken, 32, 4), *other = tiny_session(broken, 32, 4);
    int32_t ids[8] = {5, 5, 5, 5, 5, 5, 5, 5};
    memset(trace, 0, sizeof trace);
    ij_step_item item = {.session = s, .ids = ids, .n = n, .trace = trace};
    ij_status status = ij_step(broken, &item, 1, &err);
    if (status != IJ_E_NUMERIC) TEST_FAIL("%s: %d tokens give %s", tensor, n, ij_status_name(status));
    CHECK_HAS(err.message, where);
    CHECK_INT(item.status, IJ_E_NUMERIC);
    CHECK_INT(ij_session_pos(s), 0);
    CHECK(ij_session_logits(s) == NULL);
    ij_session_close(&s);
    ij_session_close(&other);
  }
  ij_model_close(&broken);
}

static void broken_weights_are_found_where_they_are(void) {
  expect_broken("model.llm.embed.weight", 5 * 8 + 3, NAN, "finite at the embedding, in tokens 0 to");
  expect_broken("model.llm.embed.weight", 5 * 8, INFINITY, "finite at the embedding");
  expect_broken("model.llm.layers.0.attn.wq_du.weight", 9, NAN, "finite at layer 0,");
  expect_broken("model.llm.layers.1.mlp.w2_md.weight", 40, NAN, "finite at layer 1,");
  expect_broken("model.llm.layers.3.attn.wo_ud.weight", 7, INFINITY, "finite at layer 3,");
  expect_broken("model.llm.layers.4.mlp.gate.weight", 4 * 8, NAN, "finite at layer 4,"); /* a shared expert */
  expect_broken("model.llm.layers.5.attn.wk_dv.weight", 0, -INFINITY, "finite at layer 5,");
  expect_broken("model.llm.layers.5.mlp.shared_experts.shared_w2_weight", 3, NAN, "finite at layer 5,");
  expect_broken("model.llm.unembed.weight", 17 * 8, NAN, "finite at the output head,");
}

/* Rows of unembed beyond the ids are never read. */
static void padding_rows_do_not_matter(void) {
  float *w = tiny_values(&t, "model.llm.unembed.weight") + 18 * 8, was = *w;
  *w = NAN;
  ij_model *x = tiny_open(&t, 1, 8);
  *w = was;
  ij_session *s = tiny_session(x, 8, 4);
  ij_err err;
  CHECK_OK(ij_session_eval(s, some, 3, &err), err);
  ij_session_close(&s);
  ij_model_close(&x);
}

/* After a failed chunk of at most max_rollback tokens the session goes on as if it had not been; after a longer one it is empty. */
static void a_session_survives_broken_tokens(void) {
  float *w = tiny_values(&t, "model.llm.embed.weight") + 5 * 8, was = *w;
  *w = NAN;
  ij_model *x = tiny_open(&t, 2, 8);
  *w = was;
  ij_err err = {0};
  for (int n = 1; n <= 8; n++) {
    ij_session *s = tiny_session(x, 64, 4), *clean = tiny_session(x, 64, 4);
    int32_t ids[8] = {5, 1, 2, 3, 4, 6, 7, 8};
    for (int i = 0; i < 3; i++) CHECK_OK(ij_session_eval(s, some, 9, &err), err);
    CHECK_INT(ij_session_eval(s, ids, n, &err), IJ_E_NUMERIC);
    CHECK_HAS(err.message, "in tokens 27 to");
    CHECK_INT(ij_session_pos(s), n <= 4 ? 27 : 0);
    CHECK(ij_session_logits(s) == NULL);
    for (int i = 0; i < (n <= 4 ? 3 : 0); i++) CHECK_OK(ij_session_eval(clean, some, 9, &err), err);
    for (int i = 0; i < 2; i++) {
      CHECK_OK(ij_session_eval(s, some + 1, 9, &err), err);
      CHECK_OK(ij_session_eval(clean, some + 1, 9, &err), err);
      CHECK(memcmp(ij_session_logits(s), ij_session_logits(clean), 18 * sizeof(float)) == 0);
    }
    ij_session_close(&s);
    ij_session_close(&clean);
  }
  /* Earlier chunks of one call stay: the batch is 8. */
  ij_session *s = tiny_session(x, 64, 8);
  int32_t ids[20] = {1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 5};
  CHECK_INT(ij_session_eval(s, ids, 20, &err), IJ_E_NUMERIC);
  CHECK_INT(ij_session_pos(s), 8);
  CHECK(memcmp(ij_session_ids(s), ids, 8 * sizeof *ids) == 0);
  /* One item of a step fails alone. */
  ij_session *good = tiny_session(x, 64, 8), *alone = tiny_session(x, 64, 8);
  ij_step_item items[2] = {{.session = s, .ids = ids + 8, .n = 3}, {.session = good, .ids = some, .n = 4}};
  CHECK_INT(ij_step(x, items, 2, &err), IJ_E_NUMERIC);
  CHECK_INT(items[0].status, IJ_E_NUMERIC);
  CHECK_INT(items[1].status, IJ_OK);
  CHECK_OK(ij_session_eval(alone, some, 4, &err), err);
  CHECK(memcmp(ij_session_logits(good), ij_session_logits(alone), 18 * sizeof(float)) == 0);
  ij_session_close(&s);
  ij_session_close(&good);
  ij_session_close(&alone);
  ij_model_close(&x);
}

/* -------------------------------------------------------------------------------------------------------- failing memory */

static tape saved;

/* A whole life; the first failure ends it. */
static ij_status life(void) {
  ij_err err = {0};
  ij_model *x = NULL;
  ij_session *s = NULL, *f = NULL;
  ij_session_options o = ij_session_options_default();
  o.n_ctx = 4096;
  saved.len = saved.at = 0;
  ij_status status = tiny_try_open(&t, 2, 8, &x, &err);
  if (status == IJ_OK) status = ij_session_open(&s, x, &o, &err);
  if (status == IJ_OK) status = ij_session_eval(s, some, 10, &err);
  if (status == IJ_OK) status = ij_session_fork(&f, s, &err);
  if (status == IJ_OK) status = ij_session_save(f, tape_write, &saved, &err);
  if (status == IJ_OK) status = ij_session_restore(s, tape_read, &saved, &err);
  if (status == IJ_OK) status = ij_session_eval(s, some, 3, &err);
  if (status != IJ_OK && !err.message[0]) TEST_FAIL("an error without a message");
  ij_session_close(&f);
  ij_session_close(&s);
  ij_model_close(&x);
  return status;
}

static void every_failing_allocation_is_an_error_without_a_leak(void) {
  int64_t blocks = ij__alloc_blocks(), n = 1;
  size_t bytes = ij__alloc_bytes();
  for (; n < 10000; n++) {
    ij__alloc_fail_after(n);
    ij_status status = life();
    ij__alloc_fail_after(0);
    if (ij__alloc_blocks() != blocks || ij__alloc_bytes() != bytes) {
      TEST_FAIL("when allocation %d fails, %lld blocks are not given back", (int)n, (long long)(ij__alloc_blocks() - blocks));
      return;
    }
    if (status == IJ_OK) break;
    CHECK_INT(status, IJ_E_NOMEM);
  }
  CHECK(n > 20 && n < 10000); /* fewer allocations than 20 cannot be the whole life */
  CHECK_INT(life(), IJ_OK);
}

static bool write_some(void *user, const void *bytes, size_t n) {
  (void)bytes;
  size_t *left = user;
  if (n > *left) return false;
  *left -= n;
  return true;
}

static void a_failing_writer_is_reported(void) {
  ij_err err = {0};
  ij_session *s = tiny_session(m, 32, 4);
  CHECK_OK(ij_session_eval(s, some, 10, &err), err);
  saved.len = 0;
  CHECK_OK(ij_session_save(s, tape_write, &saved, &err), err);
  for (size_t room = 0; room < saved.len; room += 97) {
    size_t left = room;
    CHECK_INT(ij_session_save(s, write_some, &left, &err), IJ_E_IO);
  }
  CHECK_INT(ij_session_pos(s), 10);
  CHECK(ij_session_logits(s) != NULL);
  ij_session_close(&s);
}

int main(void) {
  cw_dims d = cw_usual();
  tiny_build(&t, &d, IJ_DTYPE_F32, "");
  m = tiny_open(&t, 2, 8);
  RUN(null_arguments_are_refused);
  RUN(closing_nothing_does_nothing);
  RUN(bad_options_are_named);
  RUN(opening_can_be_cancelled_anywhere);
  RUN(description_of_the_model);
  RUN(chat_template_beside_the_checkpoint);
  RUN(refused_tokens_change_nothing);
  RUN(sessions_of_another_model_are_refused);
  RUN(reasons_to_stop);
  RUN(a_mask_decides_what_may_be_chosen);
  RUN(generation_repeats_sampling_and_evaluating);
  RUN(every_failing_allocation_is_an_error_without_a_leak);
  RUN(a_failing_writer_is_reported);
  ij_model_close(&m);
  RUN(broken_weights_are_found_where_they_are);
  RUN(padding_rows_do_not_matter);
  RUN(a_session_survives_broken_tokens);
  tiny_free(&t);
  return test_report();
}
