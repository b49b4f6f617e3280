/* towers_int.h: what the files of the towers share. Private to towers_*.c. */
#ifndef IJ_MODEL_TOWERS_INT_H
#define IJ_MODEL_TOWERS_INT_H

#include "model/config_int.h"
#include "model/towers.h"

/* What the config says of the towers. */
typedef struct ij_towers_config {
  int patch;                        /* 40 when it is silent */
  int64_t vision_width, audio_width; /* of the decoder, as each tower says; 0: not said */
  const char *patch_key;            /* for messages */
} ij_towers_config;

/* Reads what concerns the towers that are there; what is wrong goes into `check`. */
void ij__towers_config_json(ij_towers_config *out, const ij_json_value *root, bool vision, bool audio, ij_config_check *check);
void ij__towers_config_gguf(ij_towers_config *out, const struct ij_gguf *g, bool vision, bool audio, ij_config_check *check);

/* All findings as one error. */
ij_status ij__towers_report(const ij_config_check *check, const char *where, ij_err *err);

#endif
