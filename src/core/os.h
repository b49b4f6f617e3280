/* os.h: what we ask of the operating system. One header, one os_*.c per system. Any thread. Files and folders in memory (memfs.h) are
 * found under their paths as if they were on disk. */
#ifndef IJ_CORE_OS_H
#define IJ_CORE_OS_H

#include "core/base.h"
#include "core/status.h"

/* Which file that is, and which writing of it. */
typedef struct ij_file_id {
  uint64_t device, inode;
  int64_t mtime_s, mtime_ns;
} ij_file_id;

/* A whole file mapped for reading. The bytes stay valid until ij__os_unmap; a file that shrinks meanwhile faults. */
typedef struct ij_file_map {
  const unsigned char *data; /* NULL for an empty file */
  size_t n_bytes;
  bool in_memory;            /* nothing was mapped: the bytes are memfs's */
  ij_file_id id;
} ij_file_map;

ij_status ij__os_map_file(const char *path, ij_file_map *out, ij_err *err);
void ij__os_unmap(ij_file_map *map);

/* IJ_E_IO when what lies at `path` now is not the file that was mapped from there, or it has been written to since. */
ij_status ij__os_check_map(const char *path, const ij_file_map *map, ij_err *err);

/* Reads a whole regular file of at most max_bytes into memory from ij__alloc (NUL-terminated; the NUL is not counted). */
ij_status ij__os_read_file(const char *path, size_t max_bytes, char **out, size_t *n_bytes, ij_err *err);

bool ij__os_is_dir(const char *path);
bool ij__os_is_file(const char *path);

/* Names (not paths) of the regular files in a folder that end in `suffix`, sorted by byte. Free with ij__os_free_names. */
ij_status ij__os_list_dir(const char *path, const char *suffix, char ***names, int *n, ij_err *err);
void ij__os_free_names(char **names, int n);

/* "folder/name" from ij__alloc, NULL without memory. */
char *ij__os_join(const char *folder, const char *name);

/* Zeroed pages that cost memory only once touched; NULL when refused. For caches sized for the whole context. */
void *ij__os_pages(size_t n_bytes);
void ij__os_free_pages(void *p, size_t n_bytes);

/* What will become of some memory: a hint, about the whole pages that it touches (FORGET: that it covers), which may be ignored. */
typedef enum ij_advice {
  IJ_ADVICE_SOON,   /* of a mapped file: it will be read soon, begin now */
  IJ_ADVICE_RANDOM, /* of a mapped file: reading one part says nothing about its neighbours */
  IJ_ADVICE_USUAL,  /* of a mapped file: takes RANDOM back */
  IJ_ADVICE_FORGET, /* of a mapped file and of nothing else: this process does not need it now; it is read again when it is touched */
  IJ_ADVICE_HUGE    /* of ij__os_pages, before they are touched: large pages suit it */
} ij_advice;
void ij__os_advise(const void *p, size_t n_bytes, ij_advice advice);

/* Before several threads fill fresh ij__os_pages at once: has the system give them, where large pages suit, while nobody else wants the same one. All
 * who meet in a large page that is not there yet make it, zero all of it, and only one is kept. Writes a few zeros, all within the n_bytes. */
void ij__os_touch(void *p, size_t n_bytes);

/* Keeps pages from being swapped out, until they are freed. False: not allowed that many, and nothing was changed. */
bool ij__os_lock(void *p, size_t n_bytes);

size_t ij__os_page_size(void);
double ij__os_seconds(void); /* monotonic */

/* Physical memory in bytes, and what the system says could be used now without swapping; 0 when unknown. */
uint64_t ij__os_memory_total(void);
uint64_t ij__os_memory_available(void);

/* The tightest limit among the memory control groups that this process is in (version 1 and 2, all the way up), and the least that is left of
 * any of them, counting page cache that can be dropped as left; the same of the limits on address space and data of the process. A limit
 * of 0: there is none, or it is not known, and what is left says nothing then.
 * `root` stands before /proc and /sys in tests; "" otherwise. */
typedef struct ij_memory_limits {
  uint64_t group_limit, group_free;
  uint64_t process_limit, process_free;
  uint64_t lock_limit;                   /* bytes that may be locked; UINT64_MAX: no limit */
} ij_memory_limits;
void ij__os_memory_limits(ij_memory_limits *out, const char *root);

#endif
