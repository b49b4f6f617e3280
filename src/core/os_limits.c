/* os_limits.c: which bounds on memory hold for this process besides what the machine has: control groups of Linux and resource limits.
 *
 * A process is killed without a word when its control group runs full, so the groups are looked at before anything large is taken. There are two
 * interfaces, which one machine may use side by side: version 2 (one tree, memory.max and memory.high) and version 1 (a tree of its own for
 * memory, memory.limit_in_bytes). A limit anywhere between the process's group and the root of the mount holds. In a container the path in
 * /proc/self/cgroup is often that of the host, of which the mount shows a part or only the end: what does not exist below the mount is
 * passed over on the way up, and the mount's own root, which is then the container's group, is always looked at. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/os.h"

#define NO_LIMIT_FROM ((uint64_t)1 << 60) /* version 1 writes the largest number of pages for "no limit" */
#define CAP_IPC_LOCK 14

enum { MAX_PATH_BYTES = 4096, MAX_LINE = 8192 };

typedef struct limits_reader {
  const char *root;
  ij_memory_limits *out;
} limits_reader;

static FILE *open_under(const limits_reader *r, const char *path) {
  char full[2 * MAX_PATH_BYTES];
  int n = snprintf(full, sizeof full, "%s%s", r->root, path);
  return n > 0 && (size_t)n < sizeof full ? fopen(full, "re") : NULL;
}

/* The next line without its end. Lines that do not fit are passed over: none that is looked for here is so long. */
static bool next_line(FILE *f, char line[MAX_LINE]) {
  bool whole = true;
  while (fgets(line, MAX_LINE, f)) {
    size_t n = strlen(line);
    bool ends = n > 0 && line[n - 1] == '\n', begins = whole;
    whole = ends;
    if (ends) line[n - 1] = 0;
    if (begins && (ends || feof(f))) return true;
  }
  return false;
}

static bool parse_bytes(const char *text, uint64_t *out) {
  if (!isdigit((unsigned char)*text)) return false; /* "max" */
  unsigned long long v = strtoull(text, NULL, 10);
  *out = v;
  return true;
}

/* The number in a file of a group. False: there is no such file, or it says "max". */
static bool read_bytes(const limits_reader *r, const char *group, const char *name, uint64_t *out) {
  char path[MAX_PATH_BYTES], line[MAX_LINE];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", group, name) >= sizeof path) return false;
  FILE *f = open_under(r, path);
  if (!f) return false;
  bool ok = next_line(f, line) && parse_bytes(line, out);
  fclose(f);
  return ok;
}

/* Of memory.stat: page cache that can be dropped, and in version 1 the tightest limit all the way up, even beyond what the mount shows. */
typedef struct group_stat {
  uint64_t file, total_file, hierarchical;
} group_stat;

static group_stat read_stat(const limits_reader *r, const char *group) {
  group_stat s = {0};
  char path[MAX_PATH_BYTES], line[MAX_LINE], name[64];
  if ((size_t)snprintf(path, sizeof path, "%s/memory.stat", group) >= sizeof path) return s;
  FILE *f = open_under(r, path);
  if (!f) return s;
  while (next_line(f, line)) {
    unsigned long long v;
    if (sscanf(line, "%63s %llu", name, &v) != 2) continue;
    if (strcmp(name, "inactive_file") == 0 || strcmp(name, "active_file") == 0) s.file += v;
    if (strcmp(name, "total_inactive_file") == 0 || strcmp(name, "total_active_file") == 0) s.total_file += v;
    if (strcmp(name, "hierarchical_memory_limit") == 0) s.hierarchical = v;
  }
  fclose(f);
  return s;
}

static void note_limit(ij_memory_limits *out, uint64_t limit, uint64_t used) {
  if (limit >= NO_LIMIT_FROM) return;
  uint64_t left = limit > used ? limit - used : 0;
  bool first = out->group_limit == 0;
  out->group_free = first ? left : IJ_MIN(out->group_free, left);
  out->group_limit = first ? IJ_MAX(limit, 1) : IJ_MIN(out->group_limit, limit);
}

static void look_at_group_v2(const limits_reader *r, const char *group) {
  uint64_t limit = UINT64_MAX, high = 0, used = 0, droppable = read_stat(r, group).file;
  bool limited = read_bytes(r, group, "memory.max", &limit);
  if (read_bytes(r, group, "memory.high", &high)) { /* beyond it the process is slowed down to a standstill */
    limit = IJ_MIN(limit, high);
    limited = true;
  }
  if (!limited) return;
  read_bytes(r, group, "memory.current", &used);
  note_limit(r->out, limit, used - IJ_MIN(used, droppable));
}

static void look_at_group_v1(const limits_reader *r, const char *group) {
  uint64_t limit, used = 0;
  if (!read_bytes(r, group, "memory.limit_in_bytes", &limit)) return;
  group_stat s = read_stat(r, group);
  if (s.hierarchical) limit = IJ_MIN(limit, s.hierarchical);
  read_bytes(r, group, "memory.usage_in_bytes", &used);
  note_limit(r->out, limit, used - IJ_MIN(used, IJ_MAX(s.total_file, s.file)));
}

/* A mount of control groups: which folder of its tree (`root`) is to be seen where (`at`). */
typedef struct group_mount {
  char root[MAX_PATH_BYTES], at[MAX_PATH_BYTES];
  bool found;
} group_mount;

/* Blanks and the like are written as \040 in the list of mounts. */
static void unescape(char *s) {
  char *to = s;
  for (; *s; s++) {
    bool code = s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7';
    *to++ = code ? (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0')) : *s;
    if (code) s += 3;
  }
  *to = 0;
}

static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; p; p = strchr(p, ',')) {
    p += *p == ',';
    if (strncmp(p, word, n) == 0 && (p[n] == 0 || p[n] == ',')) return true;
  }
  return false;
}

/* "36 35 98:0 ROOT AT options ... - TYPE SOURCE options" */
static void read_mounts(const limits_reader *r, group_mount *v1, group_mount *v2) {
  char line[MAX_LINE], type[64], options[MAX_LINE];
  FILE *f = open_under(r, "/proc/self/mountinfo");
  while (f && next_line(f, line)) {
    const char *dash = strstr(line, " - ");
    if (!dash || sscanf(dash, " - %63s %*s %8191s", type, options) != 2) continue;
    group_mount *m = strcmp(type, "cgroup2") == 0 ? v2 : strcmp(type, "cgroup") == 0 && has_word(options, "memory") ? v1 : NULL;
    if (!m || m->found) continue;
    m->found = sscanf(line, "%*s %*s %*s %4095s %4095s", m->root, m->at) == 2;
    unescape(m->root);
    unescape(m->at);
  }
  if (f) fclose(f);
}

/* Looks at the group of this path and at all above it, up to the root of the mount. */
static void climb(const limits_reader *r, const group_mount *m, const char *path, void (*look)(const limits_reader *, const char *)) {
  if (!m->found) return;
  size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);
  if (n && strncmp(path, m->root, n) == 0 && (path[n] == 0 || path[n] == '/')) path += n;
  char group[2 * MAX_PATH_BYTES];
  size_t top = strlen(m->at);
  if (strstr(path, "/..")) path = ""; /* outside of what this name space shows */
  if ((size_t)snprintf(group, sizeof group, "%s%s", m->at, path) >= sizeof group) return;
  for (;;) {
    look(r, group);
    char *slash = strrchr(group + top, '/');
    if (!slash) return;
    *slash = 0;
  }
}

static void find_groups(const limits_reader *r) {
  char line[MAX_LINE];
  group_mount v1 = {.found = false}, v2 = {.found = false};
  FILE *f = open_under(r, "/proc/self/cgroup");
  if (!f) return; /* not Linux, or no control groups */
  read_mounts(r, &v1, &v2);
  while (next_line(f, line)) { /* "4:memory:/path", "0::/path" */
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    if (list[1] == 0) climb(r, &v2, path, look_at_group_v2);
    else if (has_word(list + 1, "memory")) climb(r, &v1, path, look_at_group_v1);
  }
  fclose(f);
}

/* ----------------------------------------------------------------------------------------------------- limits of the process */

/* What the process uses of its address space and of its data, as the system counts them for these limits. */
static void read_use(const limits_reader *r, uint64_t *space, uint64_t *data) {
  unsigned long long size = 0, data_pages = 0;
  *space = *data = 0;
  FILE *f = open_under(r, "/proc/self/statm");
  if (f) {
    if (fscanf(f, "%llu %*u %*u %*u %*u %llu", &size, &data_pages) != 2) size = data_pages = 0;
    fclose(f);
    *space = size * ij__os_page_size();
    *data = data_pages * ij__os_page_size();
    return;
  }
#if defined(__APPLE__)
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) == 0) *space = *data = (uint64_t)u.ru_maxrss; /* bytes there; what was touched is the least that is used */
#endif
}

static void note_process(ij_memory_limits *out, int resource, uint64_t used) {
  struct rlimit l;
  if (getrlimit(resource, &l) != 0 || l.rlim_cur == RLIM_INFINITY || (uint64_t)l.rlim_cur >= NO_LIMIT_FROM) return;
  uint64_t limit = (uint64_t)l.rlim_cur, left = limit > used ? limit - used : 0;
  bool first = out->process_limit == 0;
  out->process_free = first ? left : IJ_MIN(out->process_free, left);
  out->process_limit = first ? IJ_MAX(limit, 1) : IJ_MIN(out->process_limit, limit);
}

/* A process with this privilege may lock what it likes. */
static bool may_lock_all(const limits_reader *r) {
  char line[MAX_LINE];
  unsigned long long caps = 0;
  FILE *f = open_under(r, "/proc/self/status");
  while (f && next_line(f, line)) {
    if (sscanf(line, "CapEff: %llx", &caps) == 1) break;
  }
  if (f) fclose(f);
  return caps >> CAP_IPC_LOCK & 1;
}

void ij__os_memory_limits(ij_memory_limits *out, const char *root) {
  limits_reader r = {.root = root, .out = out};
  uint64_t space, data;
  struct rlimit l;
  *out = (ij_memory_limits){.lock_limit = UINT64_MAX};
  find_groups(&r);
  read_use(&r, &space, &data);
  note_process(out, RLIMIT_AS, space);
  note_process(out, RLIMIT_DATA, data);
  if (getrlimit(RLIMIT_MEMLOCK, &l) == 0 && l.rlim_cur != RLIM_INFINITY && !may_lock_all(&r)) out->lock_limit = (uint64_t)l.rlim_cur;
}
