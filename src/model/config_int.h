/* config_int.h: what the two readers of a configuration (config.json, GGUF metadata) share, the towers included. Private to config*.c
 * and towers_*.c. */
#ifndef IJ_MODEL_CONFIG_INT_H
#define IJ_MODEL_CONFIG_INT_H

#include "io/json.h"
#include "model/sources.h"

#define MAX_WIDTH (1 << 24) /* of any activation; also bounds every product of two dimensions far below int64 */

/* A member that says something: null is the same as not being there. */
static inline const ij_json_value *ij__config_member(const ij_json_value *object, const char *key) {
  const ij_json_value *v = ij__json_member(object, key);
  return ij__json_type_of(v) == IJ_JSON_NULL ? NULL : v;
}

/* What is wrong so far. Malformed or contradictory: IJ_E_FORMAT; sound but of another network: IJ_E_UNSUPPORTED. */
typedef struct ij_config_check {
  ij_findings findings;
  int n_malformed, n_refused;
} ij_config_check;

#define MALFORMED(r, ...) ((r)->check.n_malformed++, ij__findings_add(&(r)->check.findings, __VA_ARGS__))
#define REFUSED(r, ...) ((r)->check.n_refused++, ij__findings_add(&(r)->check.findings, __VA_ARGS__))

/* All findings as one error. */
ij_status ij__config_report(const ij_config_check *check, const char *where, ij_err *err);

/* The end of every reading: the config against the shapes of the tensors, the report if anything was found, else the fingerprint. */
ij_status ij__config_finish(ij_config *c, const ij_names *names, ij_config_check *check, const char *where, ij_err *err);

ij_status ij__config_read_gguf(ij_config *out, const ij_ckpt *ckpt, ij_err *err); /* *out is zeroed */

#endif
