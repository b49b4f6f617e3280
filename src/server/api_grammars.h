/* api_grammars.h: compiled grammars, kept from request to request: agents send the same tools with every turn. Any thread. */
#ifndef IJ_SERVER_API_GRAMMARS_H
#define IJ_SERVER_API_GRAMMARS_H

#include "core/base.h"
#include "inkjet_chat.h"

typedef struct ij_grammars ij_grammars;

typedef enum ij_grammar_kind { IJ_GRAMMAR_SCHEMA, IJ_GRAMMAR_REGEX } ij_grammar_kind;

ij_grammars *ij__grammars_open(void); /* NULL without memory */
void ij__grammars_close(ij_grammars **grammars); /* all that were got must be put back */
/* The grammar of a schema (n 0: any object) or pattern; put it back when no guide uses it any more. */
ij_status ij__grammars_get(ij_grammars *grammars, const ij_tokenizer *tokenizer, ij_grammar_kind kind, const char *text, size_t n,
                           const ij_grammar **out, ij_err *err);
void ij__grammars_put(ij_grammars *grammars, const ij_grammar **grammar); /* NULL in it is fine */

#endif
