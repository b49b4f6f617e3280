/* guide.h: for tests: the shortest way out of a turn. */
#ifndef IJ_GRAMMAR_GUIDE_H
#define IJ_GRAMMAR_GUIDE_H

#include "inkjet_chat.h"

/* An allowed id that brings the turn nearer to its end; following it always gets there. -1: anything is allowed, or memory ran out. */
int32_t ij__guide_way_out(ij_guide *guide);

#endif
