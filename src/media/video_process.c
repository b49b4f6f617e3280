/* video_process.c: the decoder as a process: what it is given, how long it is waited for, and that nothing of it stays behind. It gets
 * three descriptors, the video, a pipe and nothing, and an environment that holds only where its libraries are: variables that steer the
 * ffmpeg libraries, or hold secrets, stay here. */
#define _GNU_SOURCE /* memfd_create, pipe2, addclosefrom */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "media/video.h"

#define HAS_CLOSEFROM 0 /* then the decoder closes what it does not know */
#ifdef __GLIBC__ /* elsewhere the next macro is unknown, and would not even be parsed */
#if __GLIBC_PREREQ(2, 34)
#undef HAS_CLOSEFROM
#define HAS_CLOSEFROM 1
#endif
#endif

/* The same descriptor with a number that standard streams do not have, closed on exec. */
static int above_standard(int fd) {
  if (fd < 0 || fd > 2) return fd;
  int up = fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
  close(fd);
  errno = error;
  return up;
}

static int open_nameless(void) {
#ifdef __linux__
  int memory = memfd_create("video", MFD_CLOEXEC);
  if (memory >= 0) return above_standard(memory);
#endif
  const char *folder = getenv("TMPDIR");
  char path[1024];
  if (snprintf(path, sizeof path, "%s/inkjet-video-XXXXXX", folder && folder[0] ? folder : "/tmp") >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = mkstemp(path);
  if (fd < 0) return fd;
  unlink(path);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return above_standard(fd);
}

static ij_status write_nameless(const void *bytes, size_t n, const char *name, int *out, ij_err *err) {
  if (n == 0) return ij__fail(err, IJ_E_FORMAT, name, "the video is empty: 0 bytes");
  int fd = open_nameless();
  if (fd < 0) return ij__fail_errno(err, errno, name, "making a temporary file for the video");
  for (const char *p = bytes; n;) {
    ssize_t written = write(fd, p, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      ij_status s = ij__fail_errno(err, written < 0 ? errno : ENOSPC, name, "writing the video to a temporary file");
      close(fd);
      return s;
    }
    p += written;
    n -= (size_t)written;
  }
  *out = fd;
  return IJ_OK;
}

ij_status ij__video_file(const char *path, const void *bytes, size_t n_bytes, const char *name, int *out, ij_err *err) {
  if (!path) return write_nameless(bytes, n_bytes, name, out, err);
  int fd = above_standard(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)); /* a pipe would wait for its writer */
  if (fd < 0) return ij__fail_errno(err, errno, path, "open");
  struct stat st;
  ij_status s = IJ_OK;
  if (fstat(fd, &st) != 0) s = ij__fail_errno(err, errno, path, "stat");
  else if (!S_ISREG(st.st_mode))
    s = ij__fail(err, IJ_E_IO, path, "expected a regular file, found %s", S_ISDIR(st.st_mode) ? "a folder" : "something else");
  else if (st.st_size == 0) s = ij__fail(err, IJ_E_FORMAT, name, "the video is empty: 0 bytes");
  if (s != IJ_OK) close(fd);
  else *out = fd;
  return s;
}

static int open_pipe(int ends[2]) {
#ifdef __linux__
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
#else
  if (pipe(ends) != 0) return -1;
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
#endif
  for (int i = 0; i < 2; i++) ends[i] = above_standard(ends[i]);
  if (ends[0] >= 0 && ends[1] >= 0) return 0;
  int error = errno;
  for (int i = 0; i < 2; i++)
    if (ends[i] >= 0) close(ends[i]);
  errno = error;
  return -1;
}

/* The variables that say where shared libraries are; the array ends with NULL. */
static void library_environment(char *out[3]) {
  extern char **environ;
  int n = 0;
  for (char **e = environ; e && *e && n < 2; e++)
    if (strncmp(*e, "LD_LIBRARY_PATH=", 16) == 0 || strncmp(*e, "DYLD_LIBRARY_PATH=", 18) == 0) out[n++] = *e;
  out[n] = NULL;
}

static int set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  const int ours[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGXCPU, SIGXFSZ};
  for (size_t i = 0; i < IJ_COUNT_OF(ours); i++) sigaddset(&usual, ours[i]);
  int error = posix_spawnattr_setsigmask(attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &usual);
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
#ifdef POSIX_SPAWN_CLOEXEC_DEFAULT
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
  return error ? error : posix_spawnattr_setflags(attributes, flags);
}

static int set_descriptors(posix_spawn_file_actions_t *actions, int file, int pipe_end) {
  int error = posix_spawn_file_actions_adddup2(actions, file, STDIN_FILENO);
  if (!error) error = posix_spawn_file_actions_adddup2(actions, pipe_end, STDOUT_FILENO);
  if (!error) error = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
#if HAS_CLOSEFROM
  if (!error) error = posix_spawn_file_actions_addclosefrom_np(actions, 3);
#endif
  return error;
}

ij_status ij__video_process_start(ij__video_process *p, const char *program, char *const *args, int file, ij_err *err) {
  int ends[2], error;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  char *environment[3];
  if (open_pipe(ends) != 0) return ij__fail_errno(err, errno, program, "making a pipe for the video decoder");
  library_environment(environment);
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = posix_spawn_file_actions_init(&actions);
    if (!error) {
      error = set_attributes(&attributes);
      if (!error) error = set_descriptors(&actions, file, ends[1]);
      if (!error) error = posix_spawn(&p->pid, program, &actions, &attributes, args, environment);
      posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
  }
  close(ends[1]);
  if (!error) {
    p->fd = ends[0];
    return IJ_OK;
  }
  close(ends[0]);
  return ij__fail_errno(err, error, program, "starting the video decoder");
}

ij_status ij__video_process_read(ij__video_process *p, void *to, size_t n, double deadline, size_t *got, ij_err *err) {
  for (;;) {
    double left = deadline - ij__os_seconds();
    if (left <= 0) return ij__fail(err, IJ_E_IO, "", "the video decoder took too long");
    struct pollfd at = {.fd = p->fd, .events = POLLIN};
    int ready = poll(&at, 1, left > 60 ? 60000 : (int)(left * 1000) + 1);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    ssize_t k = ready < 0 ? -1 : read(p->fd, to, n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return ij__fail_errno(err, errno, "", "reading from the video decoder");
    *got = (size_t)k;
    return IJ_OK;
  }
}

/* Waits up to a second for a process that is about to end; false when it is not. */
static bool wait_a_moment(pid_t pid, int *status) {
  for (int i = 0; i < 100; i++) {
    pid_t ended = waitpid(pid, status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  return false;
}

void ij__video_process_stop(ij__video_process *p, bool ended, char *how, size_t how_size) {
  int status = 0;
  close(p->fd);
  if (!ended || !wait_a_moment(p->pid, &status)) {
    kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) continue;
  }
  if (WIFSIGNALED(status)) snprintf(how, how_size, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else snprintf(how, how_size, "ended with status %d", WEXITSTATUS(status));
  *p = (ij__video_process){.pid = -1, .fd = -1};
}
