/* public_header.c: the public headers alone, as strict C; and the worked example in its first comment, compiled. Built once more as C++. */
#include "inkjet.h"
#include "inkjet_media.h"

int public_header_compiles(void);
int public_header_compiles(void) { return (int)sizeof(ij_model_options); }

int worked_example(const char *path);
int worked_example(const char *path) {
  ij_model *model = NULL;
  ij_session *session = NULL;
  ij_err err;
  int32_t ids[64];
  size_t n = 0;
  int done = 0;
  if (ij_model_open(&model, path, NULL, &err) != IJ_OK) goto done;
  if (ij_encode(ij_model_tokenizer(model), "Once upon a time", 16, false, ids, 64, &n, &err) != IJ_OK) goto done;
  if (ij_session_open(&session, model, NULL, &err) != IJ_OK) goto done;
  if (ij_session_eval(session, ids, (int64_t)n, &err) != IJ_OK) goto done;
  for (int i = 0; i < 20; i++) {
    ij_choice next;
    if (ij_session_sample(session, NULL, &next, &err) != IJ_OK) goto done;
    if (ij_model_is_eos(model, next.id)) break;
    if (ij_session_eval(session, &next.id, 1, &err) != IJ_OK) goto done;
    done++;
  }
done:
  ij_session_close(&session);
  ij_model_close(&model);
  return done;
}
