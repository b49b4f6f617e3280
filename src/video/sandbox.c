/* sandbox.c: see sandbox.h. The filter is a short program for the kernel's packet filter, written by hand: a list of allowed calls, some of
 * them only with certain arguments, and EPERM for everything else. An error instead of a signal, because libraries probe for things they
 * can do without (a thread, a file of /sys), and a refusal keeps nothing from them that a signal would. */
#include "video/sandbox.h"

#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum { MEMORY_LIMIT_MIB = 4096 };

static int limit(int what, rlim_t most) {
  struct rlimit now;
  if (getrlimit(what, &now) != 0) return -1;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < most) most = now.rlim_max; /* never up */
  return setrlimit(what, &(struct rlimit){.rlim_cur = most, .rlim_max = most});
}

static const char *set_limits(unsigned cpu_seconds) {
  if (limit(RLIMIT_AS, (rlim_t)MEMORY_LIMIT_MIB << 20) != 0) {
#ifndef __APPLE__ /* which has the limit and refuses to set it */
    return "limit of memory";
#endif
  }
  if (limit(RLIMIT_CPU, cpu_seconds) != 0) return "limit of processor time";
  if (limit(RLIMIT_FSIZE, 0) != 0) return "limit of written files";
  if (limit(RLIMIT_NOFILE, 3) != 0) return "limit of open files";
  if (limit(RLIMIT_CORE, 0) != 0) return "limit of core files";
  if (limit(RLIMIT_NPROC, 0) != 0) return "limit of processes";
  return NULL;
}

#ifdef __linux__
#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "the sandbox of inkjet-video knows the system calls of x86-64 and arm64 only: configure with -DIJ_VIDEO=OFF"
#endif

#define FIELD(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define ARGUMENT(i) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (i)) /* its low half: both are LE */
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define SKIP_UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))
#define ALLOW(call) SKIP_UNLESS(__NR_##call, 1), RETURN(SECCOMP_RET_ALLOW)
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)
/* The call with its i-th argument equal to value, or refused. */
#define ALLOW_WITH(call, i, value) SKIP_UNLESS(__NR_##call, 4), ARGUMENT(i), SKIP_UNLESS((value), 1), RETURN(SECCOMP_RET_ALLOW), REFUSE
/* The call when no bit of mask is set in its i-th argument. */
#define ALLOW_WITHOUT(call, i, mask) \
  SKIP_UNLESS(__NR_##call, 4), ARGUMENT(i), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (mask), 1, 0), RETURN(SECCOMP_RET_ALLOW), REFUSE

static const char *filter_calls(void) {
  struct sock_filter program[] = {
    FIELD(arch), SKIP_UNLESS(OUR_ARCH, 1), BPF_STMT(BPF_JMP | BPF_JA, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
    FIELD(nr), /* the numbers of x32 have a high bit and equal none below */
    ALLOW_WITH(read, 0, 0), ALLOW_WITH(lseek, 0, 0), ALLOW_WITH(write, 0, 1),
    ALLOW_WITHOUT(mmap, 2, PROT_EXEC), ALLOW_WITHOUT(mprotect, 2, PROT_EXEC),
    ALLOW(munmap), ALLOW(mremap), ALLOW(madvise), ALLOW(brk), ALLOW(futex),
    ALLOW(clock_gettime), ALLOW(gettimeofday), ALLOW(getrandom), ALLOW(sched_yield),
    ALLOW(rt_sigreturn), ALLOW(exit), ALLOW(exit_group),
    REFUSE,
  };
  struct sock_fprog whole = {.len = sizeof program / sizeof program[0], .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "no_new_privs";
  /* TSYNC: also for threads that a library may have started before main. */
  if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) != 0) return "filter of system calls";
  return NULL;
}

const char *ij__sandbox_enter(unsigned cpu_seconds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody to decode for */
  const char *wrong = set_limits(cpu_seconds);
  return wrong ? wrong : filter_calls();
}
#else
const char *ij__sandbox_enter(unsigned cpu_seconds) { return set_limits(cpu_seconds); }
#endif
