/* turn.h: a lock that is given in the order in which it was asked for.
 *
 * An ordinary mutex may be had again and again by a thread that drops it only for a moment, while another one waits. The threads of a pool
 * are shared by steps and towers, each in a loop: with turns, one of each follows the other.
 */
#ifndef IJ_CORE_TURN_H
#define IJ_CORE_TURN_H

#include <pthread.h>

#include "core/base.h"

typedef struct ij_turn {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t next, now; /* the number of whoever comes next, and of whoever it is now */
} ij_turn;

bool ij__turn_open(ij_turn *t); /* false: the system has no more of these */
void ij__turn_close(ij_turn *t);
void ij__turn_take(ij_turn *t);
void ij__turn_give(ij_turn *t);

#endif
