/* test_limits.c: bounds on memory: control groups of both versions in made trees, resource limits set for real in a child. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/os.h"
#include "temp_folder.h"
#include "test.h"

/* Sanitizers take terabytes of address space, which fit below no limit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool has_shadow_memory = true;
#elif defined(__has_feature)
static const bool has_shadow_memory = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
static const bool has_shadow_memory = false;
#endif

static char root[256];

/* Writes a file below root, with the folders above it. */
static void put(const char *path, const char *text) {
  char full[1024];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *p = full + strlen(root) + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    mkdir(full, 0755);
    *p = '/';
  }
  FILE *f = fopen(full, "w");
  CHECK(f != NULL);
  if (!f) return;
  fputs(text, f);
  fclose(f);
}

static void begin(const char *cgroup, const char *mountinfo) {
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'/*", root);
  CHECK_INT(system(command), 0);
  put("/proc/self/cgroup", cgroup);
  put("/proc/self/mountinfo", mountinfo);
}

static ij_memory_limits look(void) {
  ij_memory_limits l;
  ij__os_memory_limits(&l, root);
  return l;
}

#define V2 "22 1 0:20 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

static void no_groups(void) {
  char path[300];
  begin("", "");
  CHECK_INT(look().group_limit, 0);
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  CHECK_INT(unlink(path), 0);
  CHECK_INT(look().group_limit, 0);
}

static void version_2(void) {
  begin("0::/user.slice/app\n", V2);
  put("/sys/fs/cgroup/user.slice/app/memory.max", "max\n");
  put("/sys/fs/cgroup/user.slice/app/memory.high", "max\n");
  put("/sys/fs/cgroup/user.slice/app/memory.current", "700\n");
  CHECK_INT(look().group_limit, 0);
  put("/sys/fs/cgroup/user.slice/app/memory.max", "5000\n");
  put("/sys/fs/cgroup/user.slice/app/memory.stat", "anon 100\nfile 600\nfile_mapped 30\ninactive_file 200\nactive_file 300\nunevictable 9\n");
  CHECK_INT(look().group_limit, 5000);
  CHECK_INT(look().group_free, 5000 - (700 - 500));
  put("/sys/fs/cgroup/user.slice/app/memory.high", "4000\n");
  CHECK_INT(look().group_limit, 4000);
  CHECK_INT(look().group_free, 3800);
}

/* The group above has the higher limit and less left of it; both count. */
static void all_the_way_up(void) {
  begin("0::/a/b/c\n", V2);
  put("/sys/fs/cgroup/a/b/c/memory.max", "5000\n");
  put("/sys/fs/cgroup/a/b/c/memory.current", "1000\n");
  put("/sys/fs/cgroup/a/memory.max", "6000\n");
  put("/sys/fs/cgroup/a/memory.current", "5500\n");
  CHECK_INT(look().group_limit, 5000);
  CHECK_INT(look().group_free, 500);
  put("/sys/fs/cgroup/a/memory.current", "7000\n"); /* lowered after it was used */
  CHECK_INT(look().group_free, 0);
  CHECK_INT(look().group_limit, 5000);
}

static void version_1(void) {
  begin("9:cpu,cpuacct:/other\n4:memory:/docker/abc\n1:name=systemd:/x\n", V1);
  put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "3000\n");
  CHECK_INT(look().group_limit, 0);
  put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "8192\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.stat", "inactive_file 1\nactive_file 2\nhierarchical_memory_limit 8192\ntotal_inactive_file 400\ntotal_active_file 600\n");
  CHECK_INT(look().group_limit, 8192);
  CHECK_INT(look().group_free, 8192 - 2000);
  /* A limit above what the mount shows is known from here. */
  put("/sys/fs/cgroup/memory/docker/abc/memory.stat", "hierarchical_memory_limit 4096\n");
  CHECK_INT(look().group_limit, 4096);
  CHECK_INT(look().group_free, 1096);
}

/* Version 1 for memory, version 2 beside it without that controller, as many systems have it. */
static void both_versions(void) {
  begin("4:memory:/one\n0::/two\n", V1 "38 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  put("/sys/fs/cgroup/memory/one/memory.limit_in_bytes", "8192\n");
  put("/sys/fs/cgroup/memory/one/memory.usage_in_bytes", "92\n");
  put("/sys/fs/cgroup/unified/two/cgroup.procs", "1\n");
  CHECK_INT(look().group_limit, 8192);
  CHECK_INT(look().group_free, 8100);
}

/* The host's path, of which the container sees the end only: as the root of the mount, or below it. */
static void in_containers(void) {
  begin("0::/system.slice/docker-1.scope/sub\n", "30 23 0:26 /system.slice/docker-1.scope /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  put("/sys/fs/cgroup/memory.max", "7000\n");
  put("/sys/fs/cgroup/memory.current", "1000\n");
  CHECK_INT(look().group_free, 6000);
  put("/sys/fs/cgroup/sub/memory.max", "3000\n");
  put("/sys/fs/cgroup/sub/memory.current", "500\n");
  CHECK_INT(look().group_free, 2500);
  CHECK_INT(look().group_limit, 3000);
  begin("0::/kubepods/pod1\n", V2); /* nothing of that path is here */
  put("/sys/fs/cgroup/memory.max", "7000\n");
  CHECK_INT(look().group_limit, 7000);
  begin("0::/../../elsewhere\n", V2);
  put("/sys/fs/cgroup/memory.max", "7000\n");
  CHECK_INT(look().group_limit, 7000);
}

static void odd_files(void) {
  char long_line[9100];
  memset(long_line, 'x', sizeof long_line);
  memcpy(long_line, "20 1 0:1 / / rw - overlay overlay lowerdir=", 43);
  strcpy(long_line + sizeof long_line - 2, "\n");
  begin("0::/a b\nnonsense\n7:memory\n", "");
  char all[10000];
  snprintf(all, sizeof all, "%s30 23 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n", long_line);
  put("/proc/self/mountinfo", all);
  put("/sys/fs/c group/a b/memory.max", "123456\n");
  put("/sys/fs/c group/a b/memory.stat", "inactive_file\nactive_file x\n\n");
  put("/sys/fs/c group/a b/memory.current", "what\n");
  CHECK_INT(look().group_limit, 123456);
  CHECK_INT(look().group_free, 123456);
  put("/sys/fs/c group/a b/memory.max", "");
  CHECK_INT(look().group_limit, 0);
  put("/sys/fs/c group/a b/memory.max", "0\n"); /* nothing may be used: still a limit */
  CHECK(look().group_limit != 0);
  CHECK_INT(look().group_free, 0);
}

/* Runs in a child: limits of a process cannot be raised again. */
static int limits_hold(void) {
  ij_memory_limits before, after;
  ij__os_memory_limits(&before, "");
  struct rlimit l = {(rlim_t)1 << 40, RLIM_INFINITY}, data = {(rlim_t)1 << 39, RLIM_INFINITY}, got;
  if (setrlimit(RLIMIT_AS, &l) != 0 || getrlimit(RLIMIT_AS, &got) != 0 || got.rlim_cur != l.rlim_cur) return 0; /* not here, or in an emulator */
  ij__os_memory_limits(&after, "");
  if (before.process_limit == 0 && after.process_limit != (uint64_t)1 << 40) return 1;
#if defined(__linux__)
  if (after.process_free >= after.process_limit) return 2; /* something is in use */
  if (after.process_free + ((uint64_t)1 << 20) > after.process_limit) return 3;
#endif
  if (setrlimit(RLIMIT_DATA, &data) != 0) return 0;
  ij__os_memory_limits(&after, "");
  return after.process_limit == (uint64_t)1 << 39 && after.process_free <= (uint64_t)1 << 39 ? 0 : 4;
}

static int lock_limit_holds(void) {
  struct rlimit l = {65536, 65536};
  ij_memory_limits now;
  if (setrlimit(RLIMIT_MEMLOCK, &l) != 0) return 0;
  ij__os_memory_limits(&now, "");
  if (geteuid() != 0) return now.lock_limit == 65536 ? 0 : 1;
  ij__os_memory_limits(&now, root); /* whoever may lock all has no limit: in the made tree nobody may */
  return now.lock_limit == 65536 ? 0 : 2;
}

static int in_child(int (*run)(void)) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) _exit(run());
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

static void of_the_process(void) {
  begin("", "");
  if (!has_shadow_memory) CHECK_INT(in_child(limits_hold), 0);
  CHECK_INT(in_child(lock_limit_holds), 0);
  put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
  CHECK(look().lock_limit == UINT64_MAX);
}

/* Whatever this machine is, the answer is consistent. */
static void here(void) {
  ij_memory_limits l;
  ij__os_memory_limits(&l, "");
  CHECK(l.group_limit == 0 || l.group_free <= l.group_limit);
  CHECK(l.process_limit == 0 || l.process_free <= l.process_limit);
}

int main(void) {
  if (!make_temp_folder(root, sizeof root)) return 1;
  RUN(no_groups);
  RUN(version_2);
  RUN(all_the_way_up);
  RUN(version_1);
  RUN(both_versions);
  RUN(in_containers);
  RUN(odd_files);
  RUN(of_the_process);
  RUN(here);
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  if (system(command) != 0) return 1;
  return test_report();
}
