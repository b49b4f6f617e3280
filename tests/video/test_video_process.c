/* The decoder as a process, with one that can be told to misbehave: whatever it does, one call fails with one clear message, in time, and
 * no process and no descriptor stays behind. Usage: test_video_process FAKE_DECODER */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "inkjet_media.h"
#include "test.h"
#include "video/messages.h"

static const char *fake;

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* The deed, then the messages. Everything is as it was before, whatever happens. */
static ij_status open_script(char deed, const ij_buf *messages, double timeout_s, ij_video **out, ij_err *err) {
  ij_video_options o = ij_video_options_default();
  ij_buf script = {0};
  const int descriptors = open_descriptors();
  const double began = ij__os_seconds();
  o.decoder = fake;
  o.fps = 100;
  o.timeout_s = timeout_s;
  ij__buf_append(&script, &deed, 1);
  if (messages) ij__buf_append(&script, messages->data, messages->len);
  ij_status s = ij_video_open(out, NULL, script.data, script.len, "clip", &o, err);
  ij__buf_free(&script);
  CHECK_INT(open_descriptors(), descriptors);
  CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
  CHECK(ij__os_seconds() - began < timeout_s + 20);
  return s;
}

static void must_fail(char deed, const ij_buf *messages, double timeout_s, const char *text) {
  ij_video *v = NULL;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  CHECK_STR(ij_status_name(open_script(deed, messages, timeout_s, &v, &err)), "E_IO");
  CHECK_HAS(err.message, text);
  CHECK_STR(err.where, "clip");
  CHECK(v == NULL);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

static void a_whole_video(void) {
  ij_buf b = {0};
  put_three_frames(&b);
  for (const char *deed = "xes"; *deed; deed++) { /* what it does after DONE is not waited for */
    ij_video *v = NULL;
    ij_err err = {0};
    CHECK_OK(open_script(*deed, &b, 60, &v, &err), err);
    CHECK_INT(ij_video_n_blocks(v), 2);
    ij_video_close(&v);
  }
  ij__buf_free(&b);
}

/* In the middle of the second frame. */
static void it_ends_midway(void) {
  ij_buf b = {0};
  put_three_frames(&b);
  b.len -= 200;
  must_fail('x', &b, 60, "ended with status 0 before it had sent everything");
  must_fail('e', &b, 60, "ended with status 3 before it had sent everything");
  must_fail('k', &b, 60, "was ended by signal 9");
  must_fail('g', &b, 60, "was ended by signal");
  b.len = 0;
  must_fail('k', &b, 60, "was ended by signal 9");
  ij__buf_free(&b);
}

static void it_does_not_go_on(void) {
  ij_buf b = {0};
  put_three_frames(&b);
  b.len -= 200;
  must_fail('s', &b, 0.5, "took longer than the limit of 0.5 s and was ended");
  must_fail('h', &b, 0.5, "took longer than the limit of 0.5 s and was ended");
  must_fail('c', &b, 60, "was ended by signal 9");
  must_fail('h', NULL, 0.5, "took longer than the limit of 0.5 s and was ended");
  ij__buf_free(&b);
}

static void it_sends_garbage(void) {
  ij_buf b = {0};
  uint64_t seed = 5;
  for (int i = 0; i < 100000; i++) {
    uint8_t byte = (uint8_t)test_random(&seed);
    ij__buf_append(&b, &byte, 1);
  }
  must_fail('h', &b, 60, "another version, or another program");
  memcpy(b.data, IJ_VIDEO_MAGIC, 8);
  must_fail('h', &b, 60, "does not keep to its protocol");
  ij__buf_free(&b);
}

static void it_does_not_start(void) {
  ij_video_options o = ij_video_options_default();
  ij_video *v = NULL;
  ij_err err = {0};
  const int descriptors = open_descriptors();
  o.decoder = "tests/video/there-is-no-such-program";
  CHECK_INT(ij_video_open(&v, NULL, "x", 1, "clip", &o, &err), IJ_E_IO);
  CHECK_HAS(err.message, "starting the video decoder");
  CHECK_HAS(err.where, "there-is-no-such-program");
  CHECK_INT(open_descriptors(), descriptors);
}

/* A descriptor that is not closed on exec must not be there in the decoder. */
static void nothing_is_inherited(void) {
  ij_buf b = {0};
  ij_video *v = NULL;
  ij_err err = {0};
  int leaky = open("tests/video/fake_decoder.c", O_RDONLY);
  CHECK(leaky > 2);
  CHECK_INT(open_script('f', &b, 60, &v, &err), IJ_E_IO);
#ifdef __GLIBC__
  CHECK_HAS(err.message, "ended with status 0 ");
#endif
  close(leaky);
  ij__buf_free(&b);
}

/* A program without standard streams gives its decoder the right ones all the same. */
static void without_standard_streams(void) {
  ij_buf b = {0};
  put_three_frames(&b);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    ij_video *v = NULL;
    ij_err err = {0};
    close(0), close(1), close(2);
    ij_video_options o = ij_video_options_default();
    o.decoder = fake;
    o.fps = 100;
    ij__buf_append(&b, "", 1); /* room for the deed */
    memmove(b.data + 1, b.data, b.len - 1);
    b.data[0] = 'x';
    ij_status s = ij_video_open(&v, NULL, b.data, b.len, "clip", &o, &err);
    _exit(s == IJ_OK && ij_video_n_blocks(v) == 2 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ij__buf_free(&b);
}

static void things_that_are_no_files(void) {
  ij_video_options o = ij_video_options_default();
  ij_video *v = NULL;
  ij_err err = {0};
  char path[] = "/tmp/inkjet-test-XXXXXX";
  o.decoder = fake;
  CHECK_INT(ij_video_open(&v, "tests", NULL, 0, NULL, &o, &err), IJ_E_IO);
  CHECK_HAS(err.message, "a folder");
  CHECK_INT(ij_video_open(&v, "tests/there-is-no-such-clip", NULL, 0, NULL, &o, &err), IJ_E_IO);
  CHECK_INT(ij_video_open(&v, NULL, "", 0, "clip", &o, &err), IJ_E_FORMAT);
  CHECK_HAS(err.message, "empty");
  CHECK(mkdtemp(path) != NULL);
  char pipe_path[64];
  snprintf(pipe_path, sizeof pipe_path, "%s/pipe", path);
  CHECK(mkfifo(pipe_path, 0600) == 0);
  CHECK_INT(ij_video_open(&v, pipe_path, NULL, 0, NULL, &o, &err), IJ_E_IO);
  CHECK_HAS(err.message, "expected a regular file");
  unlink(pipe_path);
  rmdir(path);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  fake = argv[1];
  RUN(a_whole_video);
  RUN(it_ends_midway);
  RUN(it_does_not_go_on);
  RUN(it_sends_garbage);
  RUN(it_does_not_start);
  RUN(nothing_is_inherited);
  RUN(without_standard_streams);
  RUN(things_that_are_no_files);
  return test_report();
}
