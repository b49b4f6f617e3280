/* server.h: what the handlers share, and the entry that `inkjet serve` calls. */
#ifndef IJ_SERVER_SERVER_H
#define IJ_SERVER_SERVER_H

#include "inkjet_media.h"
#include "server/http.h"
#include "server/worker.h"

typedef struct ij_server {
  ij_model *model;
  const ij_tokenizer *tokenizer;
  ij_worker *worker;
  http_server *http;
  struct ij_grammars *grammars; /* compiled ones (api_grammars.h) */
  const char *model_name;      /* what /v1/models lists; requests may name any model, replies carry this one */
  int64_t created;             /* seconds since 1970 */
  int64_t n_ctx;               /* positions of a session */
  ij_towers *towers;           /* NULL: the model reads text only */
  ij_towers_info towers_info;
  ij_media_options media;      /* how the towers want their media */
  struct ij_encoded *encoded;  /* rows that they made (encoded.h); NULL without towers */
  struct ij_tasks *tasks;      /* where media are opened and encoded (tasks.h); NULL without towers */
  size_t max_media_bytes;      /* of one file */
  bool allow_remote_media;
  size_t max_prompt_bytes;     /* more text than this fits into no context, and is not even read; 0: unknown */
  bool verbose;
} ij_server;

/* Route tables; every handler's context is the ij_server. */
extern const http_route ij__routes_base[];       /* /health /metrics /tokenize /detokenize /v1/models */
extern const http_route ij__routes_openai[];     /* /v1/chat/completions /v1/completions /v1/responses */
extern const http_route ij__routes_anthropic[];  /* /v1/messages /v1/messages/count_tokens */
extern const http_route ij__routes_page[];       /* / and what belongs to the web page */

typedef struct ij_serve_options {
  http_options http;
  ij_worker_options worker;
  const char *model_name;
  bool verbose;
  double drain_seconds;
  size_t media_cache_bytes;    /* of rows that are kept for later requests */
  bool allow_remote_media;     /* URLs of other machines are fetched */
  int max_long_edge;           /* longer sides of pictures are reduced to this; 0: they are not */
} ij_serve_options;

ij_serve_options ij__serve_options_default(void);
/* Serves until *stop turns true (a signal handler may set it). Says the address through `ready` once it listens. */
ij_status ij__serve(ij_model *model, const ij_serve_options *options, const volatile bool *stop, void (*ready)(void *user, int port), void *user,
                    ij_err *err);

#endif
