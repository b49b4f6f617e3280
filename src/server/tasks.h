/* tasks.h: work of requests that takes long and must not hold up the threads of the HTTP side: a bounded queue and a few threads.
 *
 * Opening a picture, encoding it, waiting for a video decoder or for another machine: such work is done here, in the order of its arrival.
 */
#ifndef IJ_SERVER_TASKS_H
#define IJ_SERVER_TASKS_H

#include "core/base.h"
#include "core/status.h"

typedef struct ij_tasks ij_tasks;

ij_status ij__tasks_open(ij_tasks **out, int n_threads, int max_waiting, ij_err *err);
/* False: the queue is full, or the end has begun; work will not be called. */
bool ij__tasks_add(ij_tasks *tasks, void (*work)(void *arg), void *arg);
/* True from the end of ij__tasks_drain's time on: work under way should give up. */
bool ij__tasks_stopping(ij_tasks *tasks);
/* No new work; what was accepted is done, or after `seconds` told to stop. Returns when all is done. */
void ij__tasks_drain(ij_tasks *tasks, double seconds);
void ij__tasks_close(ij_tasks **tasks);

#endif
