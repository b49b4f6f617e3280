/* fuzz_api.c: any bytes as the body of a request, of every dialect of the server. The first byte chooses the endpoint.
 *
 * What is accepted goes through to the prompt; what is refused must say why, with a status of a client's error. No model, worker or HTTP
 * library is needed: the few functions of theirs that the dialects name stand at the end of this file.
 */
#include <stdlib.h>
#include <string.h>

#include "chat/bytes_tokenizer.h"
#include "core/alloc.h"
#include "server/api.h"
#include "server/encoded.h"
#include "server/remote.h"
#include "server/tasks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

/* Every value is paired with exactly its own source text. */
static void walk(ij_jv v, int depth) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv child;
  ij_json *doc = NULL;
  size_t n = 0;
  must(v.n_raw > 0);
  if (depth < 2) {
    must(ij__json_parse(&doc, v.raw, v.n_raw, "a value", NULL) == IJ_OK);
    must(ij__json_type_of(ij__json_root(doc)) == ij__jv_type(v) && ij__json_size(ij__json_root(doc)) == ij__json_size(v.v));
    ij__json_free(&doc);
  }
  while (depth < 6 && ij__jv_next(v, &it, NULL, NULL, &child)) {
    n++;
    walk(child, depth + 1);
  }
  must(depth >= 6 || n == ij__json_size(v.v));
}

static void is_json(const ij_buf *b) {
  ij_json *doc = NULL;
  must(!b->failed && ij__json_parse_exact(&doc, b->data, b->len, "what was made", NULL) == IJ_OK);
  ij__json_free(&doc);
}

static void refuse(api_run *run, const api_error *e) {
  ij_buf reply = {0};
  must(e->status >= 400 && e->status < 500 && e->message[0]);
  run->dialect->error(run, e, &reply);
  is_json(&reply);
  ij__buf_free(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const api_endpoint *const endpoints[] = {&ij__api_chat, &ij__api_completions, &ij__api_responses, &ij__api_messages,
                                                  &ij__api_count};
  static ij_server server = {.model_name = "m"};
  if (!server.tokenizer) server.tokenizer = bytes_tokenizer(NULL);
  if (size < 2) return 0;
  api_run *run = NULL;
  api_error e = {0};
  int64_t blocks = ij__alloc_blocks();
  bool ok = ij__api_read_plain(&run, &server, endpoints[data[0] % IJ_COUNT_OF(endpoints)], (const char *)data + 1, size - 1, &e);
  must(run != NULL);
  if (run->r.doc) walk(run->r.body, 0);
  if (ok && !run->r.raw) {
    is_json(&run->r.messages);
    if (run->r.tools_json.len > 0) is_json(&run->r.tools_json);
  }
  ok = ok && ij__api_render(run, &e);
  if (ok) must(run->r.n_prompts >= 1 && run->r.prompts[0].n >= 1);
  else refuse(run, &e);
  ij__api_free(run);
  must(ij__alloc_blocks() == blocks);
  return 0;
}

/* --- nothing of this is reached: runs without an exchange neither reply nor start */

void http_reply(http_exchange *x, int status, const char *type, const void *bytes, size_t n) { (void)x, (void)status, (void)type,
                                                                                              (void)bytes, (void)n, abort(); }
void http_reply_header(http_exchange *x, const char *name, const char *value) { (void)x, (void)name, (void)value, abort(); }
void http_stream_begin(http_exchange *x, int status, const char *type) { (void)x, (void)status, (void)type, abort(); }
bool http_stream_write(http_exchange *x, const void *bytes, size_t n) { (void)x, (void)bytes, (void)n, abort(); }
void http_stream_end(http_exchange *x) { (void)x, abort(); }
bool http_gone(const http_exchange *x) { (void)x, abort(); }
http_exchange *http_keep(http_exchange *x) { (void)x, abort(); }
void http_release(http_exchange *x) { (void)x, abort(); }
const char *http_header(const http_exchange *x, const char *name) { (void)x, (void)name, abort(); }
http_claim_result http_claim(http_exchange *x, size_t n) { (void)x, (void)n, abort(); }
const char *http_body(const http_exchange *x, size_t *n) { (void)x, (void)n, abort(); }
uint64_t http_id(const http_exchange *x) { (void)x, abort(); }
bool ij__tasks_add(ij_tasks *t, void (*work)(void *arg), void *arg) { (void)t, (void)work, (void)arg, abort(); }
bool ij__tasks_stopping(ij_tasks *t) { (void)t, abort(); }
ij_status ij__encoded_get(ij_encoded *c, const ij_media *m, bool (*alive)(void *user), void *user, ij_encoded_rows **out,
                          ij_err *err) { (void)c, (void)m, (void)alive, (void)user, (void)out, (void)err, abort(); }
const float *ij__encoded_floats(const ij_encoded_rows *r) { (void)r, abort(); }
void ij__encoded_release(ij_encoded *c, ij_encoded_rows *r) { (void)c, (void)r, abort(); }
bool ij__remote_is_public(const struct sockaddr *a) { (void)a, abort(); }
ij_status ij__remote_fetch(const char *url, const ij_remote *r, void **bytes, size_t *n, ij_err *err) { (void)url, (void)r, (void)bytes,
                                                                                                       (void)n, (void)err, abort(); }
ij_status ij__worker_submit(ij_worker *w, const ij_job_request *r, ij_err *err) { (void)w, (void)r, (void)err, abort(); }
