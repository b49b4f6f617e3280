/* confined.c: runs a program with less than it is used to, for tests of how it takes that.
 *
 *     confined [--no-uring] [--nobody] PROGRAM [ARGUMENT...]
 *
 * --no-uring: every call of io_uring fails with EPERM, as under the policies of containers. --nobody: as user 65534 when started by root, so that
 * permissions of files mean something. Linux; elsewhere only --nobody. Exit code 125 when it cannot do what it is asked.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__) && defined(__NR_io_uring_setup)
static int forbid_uring(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, __NR_io_uring_setup, 0, 2), /* setup, enter and register follow each other */
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, __NR_io_uring_setup + 2, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog all = {.len = sizeof code / sizeof code[0], .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) != 0) return -1;
  return syscall(__NR_io_uring_setup, 0, NULL) == -1 && errno == EPERM ? 0 : -1;
}
#else
static int forbid_uring(void) { return 0; }
#endif

static int become_nobody(void) {
  if (geteuid() != 0) return 0;
  return setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0 ? 0 : -1;
}

int main(int argc, char **argv) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    int failed = strcmp(argv[i], "--no-uring") == 0 ? forbid_uring() : strcmp(argv[i], "--nobody") == 0 ? become_nobody() : -1;
    if (failed) {
      perror(argv[i]);
      return 125;
    }
  }
  if (i < argc) execv(argv[i], argv + i);
  perror(i < argc ? argv[i] : "confined");
  return 125;
}
