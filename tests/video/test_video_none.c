/* A build without the ffmpeg libraries says so, by name. */
#include "inkjet_media.h"
#include "test.h"

static void says_so(void) {
  ij_video *v = NULL;
  ij_err err = {0};
  CHECK_INT(ij_video_open(&v, NULL, "any bytes", 9, "clip.mp4", NULL, &err), IJ_E_UNSUPPORTED);
  CHECK_STR(err.where, "clip.mp4");
  CHECK_HAS(err.message, "this build of inkjet reads no video");
  CHECK_HAS(err.message, "libavformat");
  CHECK(v == NULL);
}

int main(void) {
  RUN(says_so);
  return test_report();
}
