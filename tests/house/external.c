/* external.c: a program outside of the build, compiled by install.sh against what was installed, as a user of the library would.
 *
 *   external CHECKPOINT    evaluates three ids, prints five greedy ones
 */
#include <inkjet.h>
#include <stdio.h>

static int fail(const ij_err *err) {
  fprintf(stderr, "%s: %s: %s\n", ij_status_name(err->code), err->where, err->message);
  return 1;
}

int main(int argc, char **argv) {
  static const int32_t prompt[] = {1, 2, 3};
  ij_model *model = NULL;
  ij_session *session = NULL;
  ij_err err;
  int rc = 0;
  if (argc != 2) return 2;
  if (ij_model_open(&model, argv[1], NULL, &err) != IJ_OK) return fail(&err);
  if (ij_session_open(&session, model, NULL, &err) != IJ_OK || ij_session_eval(session, prompt, 3, &err) != IJ_OK) rc = fail(&err);
  for (int i = 0; rc == 0 && i < 5; i++) {
    ij_choice next;
    if (ij_session_sample(session, NULL, &next, &err) != IJ_OK || ij_session_eval(session, &next.id, 1, &err) != IJ_OK) rc = fail(&err);
    else printf("%d\n", (int)next.id);
  }
  ij_session_close(&session);
  ij_model_close(&model);
  if (rc == 0) printf("inkjet %s\n", ij_version());
  return rc;
}
