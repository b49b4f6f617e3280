/* alloc.h: the single door to the heap.
 *
 * Everything is aligned to 64 bytes (a cache line, and the widest vector register), counted, and can be made to fail on
 * purpose. The guard is per thread: between enter and leave an allocation on that thread is refused (NULL) and counted as
 * a violation, which is how the tests prove that the token loop does not allocate. All functions are safe from any thread.
 */
#ifndef IJ_CORE_ALLOC_H
#define IJ_CORE_ALLOC_H

#include "core/base.h"

#define IJ_ALIGNMENT 64

void *ij__alloc(size_t n_bytes);             /* uninitialized; NULL on failure; n_bytes 0 gives a unique pointer */
void *ij__alloc_zero(size_t count, size_t size); /* checked product, zeroed */
void *ij__alloc_array(size_t count, size_t size); /* checked product, uninitialized */
void *ij__realloc(void *p, size_t n_bytes);  /* p may be NULL; on failure p stays valid and NULL is returned */
void ij__free(void *p);                      /* NULL is fine */
char *ij__strdup(const char *s);
char *ij__strndup(const char *s, size_t n);

/* Bytes now held and number of blocks now held, by the whole process. */
size_t ij__alloc_bytes(void);
int64_t ij__alloc_blocks(void);

/* "No allocation now" on this thread, nestable. */
void ij__alloc_guard_enter(void);
void ij__alloc_guard_leave(void);
int64_t ij__alloc_violations(void); /* process-wide count of allocations refused by a guard */

/* Failure injection for tests: the n-th allocation from now (1 = the next) and every later one fails; 0 switches it off. */
void ij__alloc_fail_after(int64_t n);

/* Counts an allocation that is made elsewhere (ij__os_pages), and says whether it must fail. */
bool ij__alloc_refused(void);

#endif
