/* fuzz_chat_part.c: any bytes as a content part with a medium in it: where its bytes are, and those of data: URLs. No file is opened and
 * nothing is fetched, whatever is asked for. */
#include <stdlib.h>
#include <string.h>

#include "chat/part.h"
#include "core/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

static int n_fetched;

static ij_status fetch(void *user, const char *url, void **bytes, size_t *n_bytes, ij_err *err) {
  (void)user;
  (void)err;
  must(strlen(url) > 7 && strchr(url, ':'));
  *bytes = malloc(8);
  *n_bytes = *bytes ? 8 : 0;
  n_fetched++;
  return *bytes ? IJ_OK : IJ_E_NOMEM;
}

static void load(const ij_part *part, const ij_attach_options *o) {
  ij_err err = {0};
  ij_part_bytes bytes = {0};
  int before = n_fetched;
  ij_status s = ij__part_load(part, o, &bytes, &err);
  if (part->place == IJ_PART_BASE64) {
    must(s == IJ_OK || s == IJ_E_FORMAT || s == IJ_E_RANGE);
    must(s != IJ_OK || (bytes.n > 0 && bytes.n <= o->max_bytes && bytes.n <= part->n / 4 * 3 && part->n % 4 == 0));
  }
  must(n_fetched == before + (part->place == IJ_PART_REMOTE));
  must(s == IJ_OK || (err.code == s && err.message[0] && !bytes.data));
  ij__part_free(&bytes);
}

/* The first byte chooses the kind and what is allowed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  ij_attach_options o = {.struct_size = sizeof o, .max_bytes = data[0] & 64 ? 100 : 1 << 20};
  o.files = data[0] & 4;
  o.fetch = data[0] & 8 ? fetch : NULL;
  ij_part part, again;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  ij_part_kind kind = (ij_part_kind)(data[0] % 4 % 3);
  ij_status s = ij__part_locate(&part, kind, (const char *)data + 1, size - 1, &o, &err);
  must(s == IJ_OK || ((s == IJ_E_ARGUMENT || s == IJ_E_FORMAT || s == IJ_E_UNSUPPORTED) && err.code == s && err.where[0] && err.message[0]));
  if (s == IJ_OK) {
    must(part.place == IJ_PART_BASE64 || (part.n > 0 && strlen(part.text) == part.n));
    must(part.place == IJ_PART_BASE64 || (part.place == IJ_PART_FILE ? o.files : o.fetch != NULL));
    must(ij__part_locate(&again, kind, (const char *)data + 1, size - 1, &o, &err) == IJ_OK && ij__part_same(&part.key, &again.key));
    ij__part_close(&again);
    if (part.place != IJ_PART_FILE) load(&part, &o);
  }
  ij__part_close(&part);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
