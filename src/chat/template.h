/* template.h: the bytes of chat_template.jinja, which the build puts into the library. */
#ifndef IJ_CHAT_TEMPLATE_H
#define IJ_CHAT_TEMPLATE_H

#include "core/base.h"

extern const char ij__chat_template_text[]; /* ends in NUL */
extern const size_t ij__chat_template_size; /* without it */

#endif
