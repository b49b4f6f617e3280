/* fuzz_chat_history.c: any bytes as the messages of a conversation. What is accepted must be the same messages when it is written again,
 * though it is cut out of the text by a scanner of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"
#include "core/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

static void must_be_same(const chat_history *h, const ij_json_value *messages) {
  ij_buf written = {0}, a = {0}, b = {0};
  ij_json *doc = NULL;
  chat_history_json(h, h->n, &written);
  must(ij__json_parse_exact(&doc, written.data, written.len, "written", NULL) == IJ_OK);
  must(ij__json_canonical(&a, messages) == ij__json_canonical(&b, ij__json_root(doc)));
  must(a.failed || (a.len == b.len && memcmp(a.data, b.data, a.len) == 0));
  ij__json_free(&doc);
  ij__buf_free(&written);
  ij__buf_free(&a);
  ij__buf_free(&b);
}

/* What a conversation asks of its messages, on ones that somebody else wrote. */
static void look(chat_history *h) {
  ij_buf id = {0}, name = {0};
  for (int i = 0; i < h->n; i++) {
    ij_buf text = {0};
    chat_history_content(h, i, &text);
    ij__buf_free(&text);
  }
  if (chat_history_open_call(h, &id, &name)) {
    must(chat_history_add_result(h, "x", 1));
    must(h->list[h->n - 1].role == CHAT_TOOL);
  }
  ij__buf_free(&id);
  ij__buf_free(&name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ij_err err = {0};
  chat_history h = {0};
  ij_json *doc = NULL;
  ij_buf left_out = {0};
  int64_t blocks = ij__alloc_blocks();
  if (chat_history_read(&h, (const char *)data, size, "input", &left_out, &err) == IJ_OK) {
    must(ij__json_parse_exact(&doc, (const char *)data, size, "input", NULL) == IJ_OK);
    const ij_json_value *root = ij__json_root(doc);
    if (ij__json_type_of(root) == IJ_JSON_OBJECT) root = ij__json_member(root, "messages");
    must((size_t)h.n == ij__json_size(root));
    must_be_same(&h, root);
    look(&h);
  } else {
    must(err.message[0] && h.n == 0);
  }
  chat_history_cut(&h, 0);
  ij__json_free(&doc);
  ij__buf_free(&left_out);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
