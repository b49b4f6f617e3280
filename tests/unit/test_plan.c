/* test_plan.c: the plan of a model's memory, for machines that are made up: what bounds it, what it chooses, what it refuses and advises. */
#include <pthread.h>

#include "engine/plan.h"
#include "model/net.h"
#include "tiny.h"

#define MIB ((uint64_t)1 << 20)
#define FAR ((uint64_t)1 << 40)

static tiny t;
static ij_model *m;

/* Six layers, four of them with 32 experts of 3 * 64 * 96 values. */
static void open_model(void) {
  cw_dims d = {64, 6, 2, 1, 2, 32, 4, 16, 32, 4, 96, 96, 32, 2, 300, {true, true, true, true, true, false}, {true, true}};
  tiny_build(&t, &d, IJ_DTYPE_BF16, "text.model_max_length=1099511627776\n");
  m = tiny_open(&t, 1, 4);
}

static ij_found far_away(void) { return (ij_found){FAR, FAR, {.lock_limit = UINT64_MAX}}; }

static ij_model_options ask(void) {
  ij_model_options o = ij_model_options_default();
  o.n_threads = 2;
  return o;
}

static ij_status fill(const ij_model_options *o, const ij_found *f, ij_plan *p, ij_err *err) {
  memset(p, 0, sizeof *p);
  return ij__plan_fill_found(m, o, f, p, err);
}

static ij_plan plan_for(const ij_model_options *o, const ij_found *f) {
  ij_plan p;
  ij_err err = {0};
  CHECK_OK(fill(o, f, &p, &err), err);
  return p;
}

static size_t fixed(const ij_plan *p) {
  return p->dense_bytes + p->session_bytes * (size_t)p->n_sessions + p->step_bytes + p->other_bytes + p->caller_bytes;
}

/* The least bound with which a plan works. */
static size_t least_mem(ij_model_options o) {
  ij_found f = far_away();
  ij_plan p;
  size_t low = 0, high = (size_t)1 << 36;
  while (low < high) {
    o.mem_bytes = low + (high - low) / 2;
    if (o.mem_bytes && fill(&o, &f, &p, NULL) == IJ_OK) high = o.mem_bytes;
    else low = o.mem_bytes + 1;
  }
  return low;
}

static void all_of_it_fits(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p = plan_for(&o, &f);
  CHECK_INT(p.home, IJ_HOME_MAPPED);
  CHECK_INT(p.max_batch, 512);
  CHECK_INT(p.n_ctx, 8192);
  CHECK_INT(p.n_sessions, 1);
  CHECK_INT(p.n_expert_layers, 4);
  CHECK_INT(p.experts_total, 4 * 32);
  CHECK_INT(p.experts_held, 4 * 32);
  CHECK_INT(p.largest_expert, 3 * 64 * 96 * 2);
  CHECK_INT(p.mean_expert, 3 * 64 * 96 * 2);
  CHECK_INT(p.expert_bytes, 4 * 32 * 3 * 64 * 96 * 2);
  CHECK_INT(p.expert_room, p.expert_bytes);
  CHECK_STR(p.bound_by, "the machine");
  CHECK(p.bound < FAR && p.bound >= FAR - ((size_t)2 << 30));
  CHECK_NEAR(p.bytes_per_token[0], 4.0 * p.n_expert_used * 3 * 64 * 96 * 2, 0.5);
  CHECK_NEAR(p.bytes_per_token[2], p.bytes_per_token[0] / 2, 0.5);
  CHECK_NEAR(p.bytes_per_token[4], p.bytes_per_token[0] / 10, 0.5);
  ij_model_info info;
  ij_model_get_info(m, &info);
  CHECK(p.dense_bytes + p.expert_bytes >= info.weight_bytes);
}

/* What a session is planned with is what one takes. */
static void sessions_are_as_large_as_planned(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  o.plan_ctx = 1000;
  o.plan_kv = IJ_KV_BF16;
  o.plan_rollback = 100;
  ij_plan p = plan_for(&o, &f);
  ij_session_options so = ij_session_options_default();
  so.n_ctx = 1000;
  so.kv_type = IJ_KV_BF16;
  so.max_rollback = 100;
  ij_session *s = NULL;
  ij_err err = {0};
  CHECK_OK(ij_session_open(&s, m, &so, &err), err);
  size_t n = s ? ij_session_bytes(s) : 0;
  CHECK(p.session_bytes > n && p.session_bytes < n + 100000);
  ij_session_close(&s);
  o.plan_ctx = 2000;
  CHECK(plan_for(&o, &f).session_bytes > p.session_bytes);
  o.plan_ctx = 0;
  o.plan_kv = IJ_KV_F32;
  CHECK(plan_for(&o, &f).session_bytes > p.session_bytes);
}

static void each_limit_can_be_the_bound(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p = plan_for(&o, &f);
  size_t need = fixed(&p) + p.expert_bytes, much = need * 4;
  o.mem_bytes = much;
  p = plan_for(&o, &f);
  CHECK_STR(p.bound_by, "--mem");
  CHECK_INT(p.bound, much);
  f.machine_free = much - 1; /* less is free than was asked for */
  p = plan_for(&o, &f);
  CHECK_STR(p.bound_by, "the machine");
  CHECK_INT(p.bound, much - 1);
  o.mem_bytes = 0;
  p = plan_for(&o, &f);
  CHECK_STR(p.bound_by, "the machine");
  CHECK(p.bound < much - 1 && p.bound >= (much - 1) / 4 * 3);
  f.machine_free = 0; /* not known: half of what there is */
  f.machine_total = 2 * much;
  CHECK(plan_for(&o, &f).bound <= much);
  f = far_away();
  f.limits.group_limit = 4 * much;
  f.limits.group_free = much;
  p = plan_for(&o, &f);
  CHECK_STR(p.bound_by, "the control group");
  CHECK(p.bound < much && p.bound >= much / 4 * 3);
  CHECK_INT(p.group_limit, 4 * much);
  CHECK_INT(p.group_free, much);
  f = far_away();
  f.limits.process_limit = 4 * much;
  f.limits.process_free = much + 200 * MIB; /* for the stacks of threads */
  p = plan_for(&o, &f);
  CHECK_STR(p.bound_by, "the process");
  CHECK_INT(p.process_free, much + 200 * MIB);
}

/* A bound that the control group or the process does not allow cannot be kept. */
static void more_than_ever_allowed(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  o.mem_bytes = 4000000000u;
  f.limits.group_limit = 3000000000u;
  f.limits.group_free = 2900000000u;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "4.00 GB");
  CHECK_HAS(err.message, "3.00 GB");
  CHECK_HAS(err.message, "control group");
  CHECK_INT(p.home, IJ_HOME_AUTO);
  CHECK_INT(p.group_limit, 3000000000u);
  o.mem_bytes = 3000000000u;
  CHECK_STR(plan_for(&o, &f).bound_by, "the control group");
  f.limits.group_limit = o.mem_bytes - o.mem_bytes % ij__os_page_size(); /* as systems cut them */
  CHECK_STR(plan_for(&o, &f).bound_by, "the control group");
  f = far_away();
  f.limits.process_limit = 2999999999u;
  f.limits.process_free = 2500000000u;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "ulimit");
}

static void experts_take_what_is_left(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p = plan_for(&o, &f);
  size_t all = fixed(&p) + p.expert_bytes;
  int64_t held = 0;
  size_t least = least_mem(o);
  CHECK(least < all);
  for (size_t i = 0; i <= 8; i++) {
    o.mem_bytes = least + (all - least) / 8 * i;
    p = plan_for(&o, &f);
    CHECK_STR(p.bound_by, "--mem");
    CHECK(fixed(&p) + p.expert_room <= o.mem_bytes);
    CHECK(p.experts_held >= held && p.experts_held >= 1 && p.experts_held <= p.experts_total);
    if (i == 0) CHECK_INT(p.home, IJ_HOME_STREAMED);
    if (i == 0) CHECK_INT(p.max_batch, IJ_PLAN_LEAST_BATCH);
    held = p.experts_held;
  }
  o.mem_bytes = all;
  CHECK_INT(plan_for(&o, &f).home, IJ_HOME_MAPPED);
}

/* Rows are given up before anything else is, and taken again as room allows. */
static void rows_follow_the_room(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  o.home = IJ_HOME_STREAMED;
  o.plan_ctx = 256;
  size_t least = least_mem(o);
  int before = 0, changes = 0;
  for (size_t more = 0; more < 64 * MIB; more += MIB / 2) {
    o.mem_bytes = least + more;
    ij_plan p = plan_for(&o, &f);
    CHECK_INT(p.home, IJ_HOME_STREAMED);
    CHECK(p.max_batch >= before && p.max_batch >= 16 && p.max_batch <= 512 && (p.max_batch & (p.max_batch - 1)) == 0);
    CHECK(fixed(&p) + p.expert_room <= o.mem_bytes);
    changes += p.max_batch != before;
    before = p.max_batch;
  }
  CHECK_INT(before, 512);
  CHECK(changes >= 3);
  o.max_batch = 5; /* fewer than the least: as asked */
  CHECK_INT(plan_for(&o, &f).max_batch, 5);
  o = ask(); /* mapped weights with fewer rows rather than streamed ones */
  o.plan_ctx = 256;
  ij_plan p = plan_for(&o, &f);
  o.mem_bytes = fixed(&p) + p.expert_bytes - 1;
  p = plan_for(&o, &f);
  CHECK_INT(p.home, IJ_HOME_MAPPED);
  CHECK_INT(p.max_batch, 256);
}

/* A step that fails is taken back whole, for which the rings of sliding layers are longer. */
static void streamed_sessions_reach_back_a_step(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  o.plan_ctx = 4096;
  size_t mapped = plan_for(&o, &f).session_bytes;
  o.home = IJ_HOME_STREAMED;
  size_t streamed = plan_for(&o, &f).session_bytes;
  CHECK(streamed > mapped);
  o.max_batch = 64;
  CHECK(plan_for(&o, &f).session_bytes < streamed);
}

/* ------------------------------------------------------------------------------------------------------------- refusals */

/* The number after a word of the advice; 0: it is not there. */
static size_t advised(const ij_err *err, const char *word) {
  const char *advice = strstr(err->message, "It would work with: "), *at = advice ? strstr(advice, word) : NULL;
  return at ? (size_t)strtoull(at + strlen(word), NULL, 10) : 0;
}

static void too_small_a_bound(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  o.plan_ctx = 262144;
  o.mem_bytes = least_mem(o) - 1;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_INT(p.home, IJ_HOME_AUTO);
  CHECK_INT(p.bound, o.mem_bytes);
  CHECK_STR(p.bound_by, "--mem");
  CHECK(p.dense_bytes && p.session_bytes && p.step_bytes && p.other_bytes && p.expert_bytes);
  CHECK_HAS(err.where, t.folder);
  CHECK_HAS(err.message, "--mem leaves");
  CHECK_HAS(err.message, "a session of 262144 positions");
  CHECK_HAS(err.message, "a step of 16 rows");
  CHECK_HAS(err.message, "room for routed experts at least");
  CHECK_HAS(err.message, "weights that every token reads");
  /* Every piece of advice is true, and the nearest of its kind. */
  ij_model_options with = o;
  with.mem_bytes = advised(&err, "--mem ") * 1000000;
  CHECK(with.mem_bytes > o.mem_bytes && with.mem_bytes < o.mem_bytes + 2000000);
  CHECK_OK(fill(&with, &f, &p, &err), err);
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  with = o;
  with.plan_ctx = (int64_t)advised(&err, "--ctx ");
  CHECK(with.plan_ctx >= 256 && with.plan_ctx < o.plan_ctx);
  CHECK_OK(fill(&with, &f, &p, &err), err);
  with.plan_ctx += 64;
  CHECK_INT(fill(&with, &f, &p, &err), IJ_E_NOMEM);
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "--kv bf16");
  with = o;
  with.plan_kv = IJ_KV_BF16;
  CHECK_OK(fill(&with, &f, &p, &err), err);
}

static void advice_about_callers(void) {
  ij_model_options o = ask(), with;
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  o.plan_sessions = 8;
  o.plan_kept = 30 * MIB;
  o.plan_other = 10 * MIB;
  size_t need = least_mem(o);
  o.mem_bytes = need - 20 * MIB;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "8 sessions of 8192 positions");
  CHECK_HAS(err.message, "sessions kept for later 31.5 MB; the command itself 10.5 MB");
  with = o;
  with.plan_kept = advised(&err, "--cache ") * MIB;
  CHECK(with.plan_kept >= 8 * MIB);
  CHECK_OK(fill(&with, &f, &p, &err), err);
  with.plan_kept += MIB;
  CHECK_INT(fill(&with, &f, &p, &err), IJ_E_NOMEM);
  with = o;
  with.plan_other += 20 * MIB; /* fewer kept sessions are not enough */
  CHECK_INT(fill(&with, &f, &p, &err), IJ_E_NOMEM);
  CHECK(!strstr(err.message, "--cache"));
  with.plan_kept = 0; /* and there may be none */
  CHECK_INT(fill(&with, &f, &p, &err), IJ_E_NOMEM);
  CHECK(!strstr(err.message, "--cache"));
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  o.mem_bytes = need - 2 * p.session_bytes - 1;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "--parallel 5");
  with = o;
  with.plan_sessions = 5;
  CHECK_OK(fill(&with, &f, &p, &err), err);
}

/* Without a bound some memory is left free; who needs just that can ask for it. */
static void the_reserve_can_be_had(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  size_t need = least_mem(o);
  f.machine_free = need + 2 * MIB;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  o.mem_bytes = advised(&err, "--mem ") * 1000000;
  CHECK(o.mem_bytes >= need && o.mem_bytes < need + 1000000);
  CHECK_OK(fill(&o, &f, &p, &err), err);
  o = ask();
  o.home = IJ_HOME_MAPPED; /* with a bound all of it must fit, not just what has to without one */
  o.plan_other = 300 * MIB;
  o.mem_bytes = 0;
  need = least_mem(o);
  f.machine_free = need + 2 * MIB;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  o.mem_bytes = advised(&err, "--mem ") * 1000000;
  CHECK(o.mem_bytes >= need && o.mem_bytes < need + 1000000);
  CHECK_OK(fill(&o, &f, &p, &err), err);
}

static void nothing_helps(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  f.machine_free = 1 * MIB;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "the machine leaves");
  CHECK_HAS(err.message, "smaller quantization");
  CHECK(!strstr(err.message, "--mem "));
  o.mem_bytes = 2 * MIB; /* more than is free: raising it is no advice */
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK(!strstr(err.message, "--mem "));
  f = far_away();
  f.limits.group_limit = 50 * MIB;
  o.mem_bytes = 0;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "the control group leaves 0.0 MB");
  f = far_away();
  f.limits.process_limit = 50 * MIB;
  f.limits.process_free = 2 * MIB;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "the process leaves");
}

/* Sizes that fit into no memory, or not even into a number. */
static void absurd_contexts(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  o.plan_ctx = (int64_t)1 << 40;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK(advised(&err, "--ctx ") > 8192);
  o.plan_sessions = 1000000;
  o.plan_ctx = INT64_MAX; /* cut to what the model allows */
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_INT(p.n_ctx, (int64_t)1 << 40);
  CHECK_HAS(err.message, "more than 16 EB");
  f.machine_free = f.machine_total = UINT64_MAX;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  o = ask();
  o.plan_other = SIZE_MAX;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  o.plan_kept = SIZE_MAX;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
}

/* -------------------------------------------------------------------------------------------------------- homes by name */

static void homes_by_name(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p = plan_for(&o, &f);
  ij_err err = {0};
  size_t all = fixed(&p) + p.expert_bytes, without = fixed(&p) - p.dense_bytes;
  o.home = IJ_HOME_RESIDENT;
  p = plan_for(&o, &f);
  CHECK_INT(p.home, IJ_HOME_RESIDENT);
  CHECK(p.expert_room >= p.expert_bytes);
  o.home = IJ_HOME_STREAMED;
  p = plan_for(&o, &f);
  CHECK_INT(p.home, IJ_HOME_STREAMED);
  CHECK_INT(p.experts_held, p.experts_total);
  o.home = IJ_HOME_MAPPED; /* without a bound the system may drop pages of the file and read them again */
  f.machine_free = without + without / 8 + 70 * MIB;
  if (f.machine_free > all) f.machine_free = all;
  p = plan_for(&o, &f);
  CHECK_INT(p.home, IJ_HOME_MAPPED);
  CHECK(p.bound < all);
  CHECK(p.experts_held < p.experts_total && p.expert_room < p.expert_bytes); /* what every token reads is in memory before any expert is */
  f = far_away();
  o.plan_ctx = 256; /* with a bound it would not keep to it */
  o.mem_bytes = least_mem(o) - 1;
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, " routed experts ");
  CHECK_HAS(err.message, "--home streamed");
  o.home = IJ_HOME_STREAMED;
  CHECK_OK(fill(&o, &f, &p, &err), err);
}

static void options_are_checked(void) {
  ij_model_options bad[7];
  ij_plan p;
  ij_err err = {0};
  for (int i = 0; i < 7; i++) bad[i] = ask();
  bad[0].home = (ij_home)4;
  bad[1].predict = (ij_predict)-1;
  bad[2].plan_ctx = -1;
  bad[3].plan_sessions = -1;
  bad[4].plan_kv = 3;
  bad[5].plan_rollback = -1;
  bad[6].struct_size--;
  static const char *const where[] = {"home", "predict", "plan_ctx", "plan_sessions", "plan_kv", "plan_rollback", "struct_size"};
  for (int i = 0; i < 7; i++) {
    CHECK_INT(ij_plan_make(&p, t.folder, &bad[i], &err), IJ_E_ARGUMENT);
    CHECK_HAS(err.where, where[i]);
  }
  CHECK_INT(ij_plan_make(NULL, t.folder, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_plan_make(&p, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_plan_make(&p, "no/such/model", NULL, &err), IJ_E_IO);
}

/* The public call looks at this machine. */
static void this_machine(void) {
  ij_model_options o = ask();
  ij_plan p;
  ij_err err = {0};
  o.plan_ctx = 64;
  CHECK_OK(ij_plan_make(&p, t.folder, &o, &err), err);
  CHECK_INT(p.machine_total, ij__os_memory_total());
  CHECK(fixed(&p) <= p.bound);
  o.mem_bytes = 1000;
  CHECK_INT(ij_plan_make(&p, t.folder, &o, &err), IJ_E_NOMEM);
  CHECK(p.dense_bytes > 0);
  CHECK_INT(p.home, IJ_HOME_AUTO);
}

/* The text of a tokenizer is parsed in memory; only its size is looked at here. */
static void a_tokenizer_takes_memory(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  char path[300];
  size_t without = plan_for(&o, &f).other_bytes;
  snprintf(path, sizeof path, "%s/tokenizer.json", t.folder);
  FILE *file = fopen(path, "w");
  CHECK(file && fseek(file, (long)MIB - 1, SEEK_SET) == 0 && fputc('}', file) != EOF);
  if (file) fclose(file);
  CHECK(plan_for(&o, &f).other_bytes >= without + 4 * MIB);
  o.tokenizer = false;
  CHECK_INT(plan_for(&o, &f).other_bytes, without);
  unlink(path);
}

/* Towers take memory, too, whether they lie with the checkpoint or apart. That these are incomplete does not matter to a plan. */
static void towers_take_memory(void) {
  ij_model_options o = ask();
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  char apart[256];
  cw_model towers = {.n = 0};
  size_t without = plan_for(&o, &f).other_bytes;
  cw_make_folder(apart, sizeof apart);
  cw_add(&towers, IJ_DTYPE_BF16, 2, (int64_t[]){1000, 1000}, "model.visual.vision_encoder.layers.0.linear.weight");
  cw_write_tensors(&towers, apart);
  o.mmproj = apart;
  p = plan_for(&o, &f);
  size_t with = p.other_bytes;
  CHECK(with > without + 2000000);
  CHECK_INT(p.picture_pixels, 0); /* no bound */
  size_t least = o.mem_bytes = least_mem(o);
  p = plan_for(&o, &f);
  CHECK(p.picture_pixels >= 12192768 && p.picture_pixels < 15000000); /* a photograph of 4032 x 3024 */
  o.home = IJ_HOME_STREAMED;
  for (size_t i = 1; i < 200; i += 9) {
    o.mem_bytes = least + i * 100 * MIB;
    p = plan_for(&o, &f);
    CHECK(fixed(&p) + p.expert_room <= p.bound);
    CHECK((size_t)p.picture_pixels * 11 <= p.other_bytes - without);
  }
  CHECK(p.picture_pixels > 50000000);
  o.home = IJ_HOME_AUTO;
  p = plan_for(&o, &f);
  CHECK_INT(p.home, IJ_HOME_MAPPED);
  CHECK_INT(p.experts_held, p.experts_total);
  CHECK(fixed(&p) + p.expert_room <= p.bound && p.picture_pixels > 50000000);
  o.mmproj = "no/such/towers";
  CHECK_INT(fill(&o, &f, &p, &err), IJ_E_IO);
  cw_free(&towers);
  cw_remove_folder(apart);
}

/* What is a part of the program cannot be read from a drive: too small a bound is refused, not streamed. */
static void in_memory_there_is_no_drive(void) {
  static const char *const names[2] = {"config.json", "model.safetensors"};
  static ij_memory_file files[2]; /* borrowed for good, like the bytes */
  ij_found f = far_away();
  ij_model_options o = ask();
  ij_model *part = NULL;
  ij_plan p;
  ij_err err = {0};
  for (int i = 0; i < 2; i++) {
    char *path = ij__os_join(t.folder, names[i]), *bytes = NULL;
    size_t n = 0;
    CHECK_OK(ij__os_read_file(path, 1 << 26, &bytes, &n, &err), err);
    files[i] = (ij_memory_file){names[i], bytes, n};
    ij__free(path);
  }
  CHECK_OK(ij_add_memory_folder("builtin:planned", files, 2, &err), err);
  CHECK_OK(ij_model_open(&part, "builtin:planned", NULL, &err), err);
  if (!part) return;
  o.mem_bytes = least_mem(o);
  CHECK_INT(plan_for(&o, &f).home, IJ_HOME_STREAMED);
  CHECK_INT(ij__plan_fill_found(part, &o, &f, &p, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "routed experts ");
  CHECK(!strstr(err.message, "room for routed experts"));
  o.mem_bytes = 0;
  CHECK_OK(ij__plan_fill_found(part, &o, &f, &p, &err), err);
  CHECK_INT(p.home, IJ_HOME_MAPPED);
  ij_model_close(&part);
}

static void memory_fails(void) {
  int64_t before = ij__alloc_blocks();
  ij_plan p;
  ij_err err = {0};
  for (int n = 1; n < 1000; n++) {
    ij__alloc_fail_after(n);
    ij_status s = ij_plan_make(&p, t.folder, NULL, &err);
    ij__alloc_fail_after(0);
    CHECK_INT(ij__alloc_blocks(), before);
    if (s == IJ_OK) return;
    CHECK_INT(s, IJ_E_NOMEM);
  }
  TEST_FAIL("a plan takes more than 1000 allocations");
}

/* Whatever is found and asked for: a plan keeps to its bound, and what is refused does not fit. */
static void any_memory(void) {
  uint64_t seed = 5;
  ij_found f = far_away();
  ij_plan p;
  ij_err err = {0};
  int n_ok = 0, n_refused = 0;
  for (int i = 0; i < 600; i++) {
    ij_model_options o = ask();
    o.plan_ctx = (int64_t)(test_random(&seed) % 20000);
    o.plan_sessions = (int)(test_random(&seed) % 4);
    o.plan_kv = (int)(test_random(&seed) % 3);
    o.max_batch = 1 + (int)(test_random(&seed) % 700);
    o.home = (ij_home)(test_random(&seed) % 4);
    o.tokenizer = test_random(&seed) % 2;
    f.machine_free = test_random(&seed) % (200 * MIB);
    f.limits.group_limit = test_random(&seed) % 3 ? 0 : 1 + test_random(&seed) % (200 * MIB);
    f.limits.group_free = f.limits.group_limit / 2;
    o.mem_bytes = test_random(&seed) % 2 ? 0 : (size_t)(1 + test_random(&seed) % (200 * MIB));
    ij_status s = fill(&o, &f, &p, &err);
    if (o.mem_bytes && f.limits.group_limit && o.mem_bytes > f.limits.group_limit) {
      CHECK_INT(s, IJ_E_NOMEM);
      continue;
    }
    bool loose = o.home == IJ_HOME_MAPPED && !o.mem_bytes;
    CHECK(p.bound <= f.machine_free);
    CHECK(!o.mem_bytes || p.bound <= o.mem_bytes);
    CHECK(!f.limits.group_limit || p.bound <= f.limits.group_free);
    if (s == IJ_OK) {
      n_ok++;
      CHECK(fixed(&p) - (loose ? p.dense_bytes : 0) + (loose ? 0 : p.expert_room) <= p.bound);
      CHECK(!loose || p.expert_room <= p.bound - IJ_MIN(p.bound, fixed(&p) - m->weights.n_floats * sizeof(float)) || p.expert_room == 0);
      CHECK(p.max_batch <= o.max_batch && p.max_batch >= IJ_MIN(o.max_batch, 16));
      CHECK(o.home == IJ_HOME_AUTO ? p.home == IJ_HOME_MAPPED || p.home == IJ_HOME_STREAMED : p.home == o.home);
    } else {
      n_refused++;
      CHECK_INT(s, IJ_E_NOMEM);
      CHECK_INT(p.home, IJ_HOME_AUTO);
      if (!loose) CHECK(fixed(&p) + p.largest_expert > p.bound || o.home == IJ_HOME_MAPPED || o.home == IJ_HOME_RESIDENT);
    }
  }
  CHECK(n_ok > 100 && n_refused > 100);
}

/* ------------------------------------------------------------------------------------------------------------- sessions */

typedef struct planned {
  int calls;
  bool answer;
} planned;

static bool on_planned(void *user, const ij_plan *p) {
  planned *x = user;
  x->calls++;
  CHECK(p->session_bytes > 0);
  return x->answer;
}

static void *open_and_close(void *arg) {
  ij_session_options o = ij_session_options_default();
  long n_refused = 0;
  o.n_ctx = 500;
  for (int i = 0; i < 200; i++) {
    ij_session *s = NULL;
    ij_status status = ij_session_open(&s, arg, &o, NULL);
    if (status != IJ_OK && status != IJ_E_NOMEM) return (void *)-1;
    if (atomic_load(&((ij_model *)arg)->session_bytes) > ((ij_model *)arg)->session_room) return (void *)-1;
    n_refused += status != IJ_OK;
    ij_session_close(&s);
  }
  return (void *)n_refused;
}

static void sessions_keep_to_the_plan(void) {
  ij_model_options o = ask();
  ij_session_options so = ij_session_options_default();
  ij_session *s[4] = {0};
  ij_err err = {0};
  planned seen = {0, true};
  o.planned = on_planned;
  o.user = &seen;
  o.plan_ctx = so.n_ctx = 500;
  o.plan_sessions = 2;
  o.mem_bytes = (size_t)1 << 28;
  CHECK_OK(ij__model_plan(m, &o, &err), err);
  CHECK_INT(seen.calls, 1);
  CHECK_OK(ij_session_open(&s[0], m, &so, &err), err);
  CHECK_OK(ij_session_fork(&s[1], s[0], &err), err);
  CHECK_INT(ij_session_open(&s[2], m, &so, &err), IJ_E_NOMEM);
  CHECK(s[2] == NULL);
  CHECK_HAS(err.message, "500 positions");
  CHECK_HAS(err.message, "2 of 500 positions");
  CHECK_HAS(err.message, "0.0 MB are left");
  ij_session_close(&s[1]);
  so.n_ctx = 100;
  so.kv_type = IJ_KV_BF16;
  CHECK_OK(ij_session_open(&s[1], m, &so, &err), err); /* several small ones in the place of a large one */
  ij_session_close(&s[1]);
  ij_session_close(&s[0]);
  CHECK_INT(atomic_load(&m->session_bytes), 0);
  so = ij_session_options_default();
  so.n_ctx = 5000;
  CHECK_INT(ij_session_open(&s[0], m, &so, &err), IJ_E_NOMEM); /* longer than both together */
  o.plan_kept = m->plan.session_bytes; /* room for one more */
  CHECK_OK(ij__model_plan(m, &o, &err), err);
  so.n_ctx = 500;
  for (int i = 0; i < 3; i++) CHECK_OK(ij_session_open(&s[i], m, &so, &err), err);
  CHECK_INT(ij_session_open(&s[3], m, &so, &err), IJ_E_NOMEM);
  for (int i = 0; i < 3; i++) ij_session_close(&s[i]);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK_INT(pthread_create(&threads[i], NULL, open_and_close, m), 0);
  for (int i = 0; i < 4; i++) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    CHECK((long)result >= 0);
  }
  CHECK_INT(atomic_load(&m->session_bytes), 0);
  seen.answer = false;
  CHECK_INT(ij__model_plan(m, &o, &err), IJ_E_CANCELLED);
  ij_plan p;
  ij_model_get_plan(m, &p);
  CHECK_INT(p.n_sessions, 2);
}

/* Without a bound, mapped: as many as the machine bears. */
static void no_bound_no_refusal(void) {
  ij_model_options o = ask();
  ij_session *s[3] = {0};
  ij_err err = {0};
  o.plan_ctx = 100;
  o.home = IJ_HOME_MAPPED;
  CHECK_OK(ij__model_plan(m, &o, &err), err);
  for (int i = 0; i < 3; i++) CHECK_OK(ij_session_open(&s[i], m, NULL, &err), err);
  for (int i = 0; i < 3; i++) ij_session_close(&s[i]);
}

int main(void) {
  open_model();
  RUN(all_of_it_fits);
  RUN(sessions_are_as_large_as_planned);
  RUN(each_limit_can_be_the_bound);
  RUN(more_than_ever_allowed);
  RUN(experts_take_what_is_left);
  RUN(rows_follow_the_room);
  RUN(streamed_sessions_reach_back_a_step);
  RUN(too_small_a_bound);
  RUN(advice_about_callers);
  RUN(the_reserve_can_be_had);
  RUN(nothing_helps);
  RUN(absurd_contexts);
  RUN(homes_by_name);
  RUN(options_are_checked);
  RUN(this_machine);
  RUN(a_tokenizer_takes_memory);
  RUN(towers_take_memory);
  RUN(in_memory_there_is_no_drive);
  RUN(memory_fails);
  RUN(any_memory);
  RUN(sessions_keep_to_the_plan);
  RUN(no_bound_no_refusal);
  ij_model_close(&m);
  tiny_free(&t);
  return test_report();
}
