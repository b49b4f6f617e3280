/* split.h: text -> pieces, the units inside which bytes may be merged into tokens. */
#ifndef IJ_TEXT_SPLIT_H
#define IJ_TEXT_SPLIT_H

#include "core/base.h"

/* The end of the piece that starts at p. p < end; end is the end of the text segment and counts as the end of text.
 * Any bytes are accepted: a byte that is no UTF-8 is one unassigned character. Pieces are never empty. Total work over a text
 * is linear in its length. */
const unsigned char *ij__split_next(const unsigned char *p, const unsigned char *end);

/* The expression that ij__split_next carries out, as a tokenizer.json spells it. */
extern const char ij__split_expression[];

#endif
