/* page.h: the web page as data; cmake/embed_page.cmake writes the definitions from web/dist/index.html. */
#ifndef IJ_SERVER_PAGE_H
#define IJ_SERVER_PAGE_H

#include <stddef.h>

extern const unsigned char ij__page[];
extern const size_t ij__page_n;
extern const char ij__page_policy[]; /* the Content-Security-Policy that allows its script and style, by hash, and nothing else */
extern const char ij__page_tag[];    /* its ETag, quotes included */

#endif
