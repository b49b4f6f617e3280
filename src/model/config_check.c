/* config_check.c: the end of reading a configuration, whatever it was read from: comparison with the tensors, the one error that lists
 * everything, and the fingerprint that saved sessions carry. */
#include <string.h>

#include "core/map.h"
#include "model/config_int.h"

static uint64_t mix(uint64_t h, uint64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(value >> (8 * i));
  return ij__hash_bytes(bytes, sizeof bytes, h);
}

static uint64_t mix_double(uint64_t h, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return mix(h, bits);
}

/* Field by field in a fixed order and width, so that it does not depend on the compiler, the machine or the layout of ij_config. */
static uint64_t fingerprint_of(const ij_config *c) {
  const int counts[] = {c->n_layer,    c->hidden,        c->vocab,        c->unpadded_vocab, c->window,        c->d_rel,    c->conv_kernel,
                        c->dense_width, c->expert_width, c->n_expert,     c->n_expert_used,  c->n_shared,      c->embed_norm, c->tied};
  uint64_t h = mix(0, 1); /* version of this list */
  for (size_t i = 0; i < IJ_COUNT_OF(counts); i++) h = mix(h, (uint64_t)counts[i]);
  for (int kind = 0; kind < 2; kind++) {
    const ij_attn_dims *a = &c->attn[kind];
    h = mix(mix(mix(mix(h, (uint64_t)a->n_head), (uint64_t)a->n_kv_head), (uint64_t)a->head_dim), (uint64_t)a->rel_extent);
  }
  const double reals[] = {c->n_floor, c->log_alpha, c->eps, c->route_scale, c->logit_divisor};
  for (size_t i = 0; i < IJ_COUNT_OF(reals); i++) h = mix_double(h, reals[i]);
  for (int i = 0; i < c->n_layer; i++) h = mix(h, (uint64_t)c->sliding[i] | (uint64_t)c->dense[i] << 1);
  return h;
}

/* A configuration against the tensors. Missing and unknown tensors alone are for the binding to report; beside a shape that does not
 * fit they are part of the same story. */
static void check_tensors(const ij_config *c, const ij_names *names, ij_config_check *check) {
  ij_audit audit = {0};
  ij__tensors_audit(&audit, c, names);
  if (audit.n_shape == 0) return;
  audit = (ij_audit){.findings = check->findings};
  ij__tensors_audit(&audit, c, names);
  check->findings = audit.findings;
  check->n_malformed += audit.n_shape;
}

ij_status ij__config_report(const ij_config_check *check, const char *where, ij_err *err) {
  const ij_findings *f = &check->findings;
  ij_status code = check->n_malformed ? IJ_E_FORMAT : IJ_E_UNSUPPORTED;
  const char *verdict = check->n_malformed ? "is malformed or contradicts the tensors" : "asks for a network that is not supported";
  if (f->n > f->n_shown)
    return ij__fail(err, code, where, "the configuration %s: %s; and %d more", verdict, f->text, f->n - f->n_shown);
  return ij__fail(err, code, where, "the configuration %s: %s", verdict, f->text);
}

ij_status ij__config_finish(ij_config *c, const ij_names *names, ij_config_check *check, const char *where, ij_err *err) {
  check_tensors(c, names, check);
  if (check->findings.n) return ij__config_report(check, where, err);
  c->fingerprint = fingerprint_of(c);
  return IJ_OK;
}
