/* serve.c: the server as a whole: the worker, the HTTP side, and the order in which they begin and end.
 *
 * The end: no new connections or requests; jobs finish or are cancelled; their last bytes go out; then the threads of both sides.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/os.h"
#include "core/status.h"
#include "server/api_grammars.h"
#include "server/encoded.h"
#include "server/remote.h"
#include "server/server.h"
#include "server/tasks.h"

enum { MEDIA_THREADS = 4, MEDIA_WAITING = 64 };

static const http_route *const tables[] = {ij__routes_base, ij__routes_openai, ij__routes_anthropic, ij__routes_page};

ij_serve_options ij__serve_options_default(void) {
  return (ij_serve_options){
      .http = {.host = "127.0.0.1",
               .port = 8080,
               .max_body = (size_t)32 << 20,
               .max_header = (size_t)32 << 10,
               .max_connections = 512,
               .max_per_address = 0,
               .idle_seconds = 75,
               .request_seconds = 60,
               .ping_seconds = 10},
      .worker = ij__worker_options_default(),
      .model_name = "inkling",
      .drain_seconds = 30,
      .media_cache_bytes = (size_t)256 << 20,
  };
}

/* The bytes that n_ctx tokens can hold at most: tens of megabytes need not be encoded to know that they are too many. */
static size_t max_prompt_bytes(const ij_tokenizer *tokenizer, int64_t n_ctx) {
  size_t longest = 1;
  for (int32_t id = 0; id < ij_tokenizer_size(tokenizer); id++) {
    const char *bytes;
    size_t n;
    if (ij_decode(tokenizer, id, true, &bytes, &n)) longest = IJ_MAX(longest, n);
  }
  return (size_t)n_ctx > SIZE_MAX / longest ? SIZE_MAX : (size_t)n_ctx * longest;
}

static void wait_for_stop(const volatile bool *stop) {
  const struct timespec moment = {.tv_nsec = 20000000};
  while (!*stop) nanosleep(&moment, NULL);
}

static ij_status run(ij_server *server, const ij_serve_options *options, const volatile bool *stop, void (*ready)(void *user, int port),
                     void *user, ij_err *err) {
  http_options http = options->http;
  http.routes = tables;
  http.n_route_tables = IJ_COUNT_OF(tables);
  http.context = server;
  ij_status status = http_start(&server->http, &http, err);
  if (status != IJ_OK) return status;
  if (ready) ready(user, http_port(server->http));
  wait_for_stop(stop);
  http_drain(server->http);
  double begin = ij__os_seconds();
  if (server->tasks) ij__tasks_drain(server->tasks, options->drain_seconds); /* what is being opened becomes a job */
  ij__worker_drain(server->worker, options->drain_seconds - (ij__os_seconds() - begin));
  http_stop(&server->http);
  return IJ_OK;
}

static void tell_towers_error(const ij_model *model, const ij_worker_options *o) {
  char line[1200];
  const char *error = ij_model_towers_error(model);
  if (!error || !o->log) return;
  snprintf(line, sizeof line, "text only: the towers of the model cannot be used: %s", error);
  o->log(o->log_user, line);
}

/* Rows in use: as many as all sessions at once can have. Requests that wait for a session may have others, and many can wait. */
static size_t held_media(const ij_server *server, const ij_worker_options *o) {
  size_t n;
  bool fits = ij__mul_size((size_t)server->n_ctx, (size_t)server->towers_info.hidden, &n) && ij__mul_size(n, sizeof(float), &n) &&
              ij__mul_size(n, (size_t)o->n_parallel, &n);
  return fits ? n : SIZE_MAX;
}

/* Where memory is bounded there is room for one picture at a time. */
static int media_threads(const ij_server *server) {
  ij_plan plan;
  ij_model_get_plan(server->model, &plan);
  return plan.picture_pixels ? 1 : MEDIA_THREADS;
}

static ij_status open_media(ij_server *server, const ij_serve_options *options, ij_err *err) {
  server->towers = ij_model_towers(server->model);
  if (options->allow_remote_media && !ij__remote_is_there()) {
    return ij__fail(err, IJ_E_UNSUPPORTED, "--allow-remote-media", "this program was built without libcurl, which fetching needs");
  }
  if (!server->towers) {
    tell_towers_error(server->model, &options->worker);
    return IJ_OK;
  }
  ij_towers_get_info(server->towers, &server->towers_info);
  server->media = ij_towers_media_options(server->towers);
  server->media.max_long_edge = options->max_long_edge;
  server->allow_remote_media = options->allow_remote_media;
  server->max_media_bytes = options->http.max_body;
  ij_status status = ij__encoded_open(&server->encoded, server->towers, options->media_cache_bytes, held_media(server, &options->worker), err);
  if (status == IJ_OK) status = ij__tasks_open(&server->tasks, media_threads(server), MEDIA_WAITING, err);
  return status;
}

ij_status ij__serve(ij_model *model, const ij_serve_options *options, const volatile bool *stop, void (*ready)(void *user, int port),
                    void *user, ij_err *err) {
  ij_server server = {.model = model,
                      .tokenizer = ij_model_tokenizer(model),
                      .model_name = options->model_name,
                      .created = (int64_t)time(NULL),
                      .verbose = options->verbose};
  if (!server.tokenizer) {
    return ij__fail(err, IJ_E_ARGUMENT, options->model_name, "no tokenizer lies with the checkpoint, and a server needs one: put "
                    "tokenizer.json or a tiktoken rank file beside it");
  }
  server.grammars = ij__grammars_open();
  if (!server.grammars) return ij__fail_nomem(err, "the server", 0);
  ij_status status = ij__worker_open(&server.worker, model, &options->worker, err);
  if (status == IJ_OK) {
    server.n_ctx = ij__worker_n_ctx(server.worker);
    server.max_prompt_bytes = max_prompt_bytes(server.tokenizer, server.n_ctx);
    status = open_media(&server, options, err);
  }
  if (status == IJ_OK) status = run(&server, options, stop, ready, user, err);
  ij__tasks_close(&server.tasks);
  ij__worker_close(&server.worker);
  ij__encoded_close(&server.encoded);
  ij__grammars_close(&server.grammars);
  return status;
}
