/* turn.c: see turn.h. */
#include "core/turn.h"

bool ij__turn_open(ij_turn *t) {
  *t = (ij_turn){.next = 0};
  if (pthread_mutex_init(&t->lock, NULL) != 0) return false;
  if (pthread_cond_init(&t->changed, NULL) == 0) return true;
  pthread_mutex_destroy(&t->lock);
  return false;
}

void ij__turn_close(ij_turn *t) {
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->lock);
}

void ij__turn_take(ij_turn *t) {
  pthread_mutex_lock(&t->lock);
  uint64_t mine = t->next++;
  while (t->now != mine) pthread_cond_wait(&t->changed, &t->lock);
  pthread_mutex_unlock(&t->lock);
}

void ij__turn_give(ij_turn *t) {
  pthread_mutex_lock(&t->lock);
  t->now++;
  if (t->now != t->next) pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}
