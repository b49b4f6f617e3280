/* What is left to a process in the sandbox: each call is really made, by a child whose exit status tells what became of it. Built without
 * sanitizers, which ask for more than the sandbox grants. */
#define _GNU_SOURCE
#include "video/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* A call that the filter refuses. */
#define REFUSED(call) (errno = 0, (long)(call) == -1 && errno == EPERM)

typedef int (*attempt)(void);

static int may_read_and_write(void) {
  char bytes[4];
  return read(0, bytes, 4) == 4 && memcmp(bytes, "\177ELF", 4) == 0 && lseek(0, 1, SEEK_SET) == 1 && write(1, "", 0) == 0;
}

static int may_have_memory(void) {
  char *p = malloc(100 << 20);
  if (!p) return 0;
  memset(p, 1, 100 << 20);
  int sum = p[77];
  free(p);
  void *volatile too_much = malloc((size_t)5 << 30); /* volatile: clang takes an allocation that nobody uses for one that succeeds */
  return sum == 1 && !too_much;
}

static int no_other_descriptor(void) {
  char byte;
  return REFUSED(read(2, &byte, 1)) && REFUSED(write(2, "x", 1)) && REFUSED(write(0, "x", 1)) && REFUSED(lseek(1, 0, SEEK_SET));
}

static int no_files(void) {
  return REFUSED(open("/etc/hostname", O_RDONLY)) && REFUSED(openat(AT_FDCWD, "/", O_RDONLY)) && REFUSED(unlink("/tmp/inkjet-none")) &&
         REFUSED(syscall(SYS_memfd_create, "x", 0)) && REFUSED(access("/etc/hostname", R_OK)) && REFUSED(dup(0));
}

static int no_network(void) {
  int pair[2];
  return REFUSED(socket(AF_INET, SOCK_STREAM, 0)) && REFUSED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) && REFUSED(pipe(pair));
}

static int no_processes(void) {
  char *const none[] = {NULL};
  return REFUSED(fork()) && REFUSED(execve("/bin/true", none, none)) && REFUSED(syscall(SYS_kill, 1, 0)) &&
         REFUSED(syscall(SYS_ptrace, 0, 0, 0, 0));
}

static int no_new_code(void) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page != MAP_FAILED && REFUSED(mprotect(page, 4096, PROT_READ | PROT_EXEC)) &&
         REFUSED(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static int no_way_back(void) {
  return REFUSED(syscall(SYS_prctl, 38, 0, 0, 0, 0)) && REFUSED(syscall(SYS_setuid, 0)) && REFUSED(syscall(SYS_ioctl, 1, 0, 0));
}

static int endless(void) {
  volatile unsigned long i = 1;
  while (i) i |= 1;
  return 0;
}

/* Runs it in the sandbox; the wait status. */
static int inside(attempt what) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int file = open("/proc/self/exe", O_RDONLY), sink = open("/dev/null", O_WRONLY);
    dup2(file, 0);
    dup2(sink, 1);
    if (ij__sandbox_enter(1)) _exit(9);
    _exit(what() ? 0 : 1);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

#define ATTEMPT(what)                         \
  static void try_##what(void) {              \
    int status = inside(what);                \
    CHECK(WIFEXITED(status));                 \
    CHECK_INT(WEXITSTATUS(status), 0);        \
  }
ATTEMPT(may_read_and_write)
ATTEMPT(may_have_memory)
ATTEMPT(no_other_descriptor)
ATTEMPT(no_files)
ATTEMPT(no_network)
ATTEMPT(no_processes)
ATTEMPT(no_new_code)
ATTEMPT(no_way_back)

static void an_end_to_work(void) {
  int status = inside(endless);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
}

int main(void) {
  RUN(try_may_read_and_write);
  RUN(try_may_have_memory);
  RUN(try_no_other_descriptor);
  RUN(try_no_files);
  RUN(try_no_network);
  RUN(try_no_processes);
  RUN(try_no_new_code);
  RUN(try_no_way_back);
  RUN(an_end_to_work);
  return test_report();
}
