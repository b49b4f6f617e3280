/* chat_pipe.c: conversations from standard input, one JSON object a line, to renderings on standard output, one JSON string a line; null
 * for one that is refused, with the reason on standard error under -v. `chat_pipe template` writes the built-in template instead. */
#include <stdio.h>

#include "chat/bytes_tokenizer.h"
#include "chat/request.h"

static bool read_line(ij_buf *line) {
  char part[4096];
  line->len = 0;
  while (fgets(part, sizeof part, stdin)) {
    size_t n = strlen(part);
    ij__buf_append(line, part, n);
    if (n && part[n - 1] == '\n') return true;
  }
  return line->len > 0;
}

/* The JSON as it came goes to the renderer: its numbers, repeated keys and white space are part of the test. */
static ij_status render_line(ij_buf *out, const ij_tokenizer *tokenizer, const ij_buf *line, ij_err *err) {
  ij_json *doc = NULL;
  ij_prompt *p = NULL;
  ij_buf text = {0};
  ij_status s = ij__json_parse_exact(&doc, line->data, line->len, "line", err);
  if (s == IJ_OK) s = render_request(&p, tokenizer, ij__json_root(doc), err);
  if (s == IJ_OK) {
    rendered_text(&text, p);
    ij__json_quote(out, text.data, text.len);
  }
  ij__buf_free(&text);
  ij_prompt_close(&p);
  ij__json_free(&doc);
  return s;
}

int main(int argc, char **argv) {
  ij_tokenizer *tokenizer = bytes_tokenizer(NULL);
  ij_buf line = {0}, out = {0};
  bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
  if (argc > 1 && strcmp(argv[1], "template") == 0) {
    size_t n;
    const char *text = ij_chat_template(&n);
    fwrite(text, 1, n, stdout);
  } else {
    while (read_line(&line)) {
      ij_err err = {0};
      out.len = 0;
      ij_status s = render_line(&out, tokenizer, &line, &err);
      if (s != IJ_OK && verbose) fprintf(stderr, "%s: %s\n", err.where, err.message);
      printf("%s\n", s == IJ_OK ? out.data : "null");
    }
  }
  ij__buf_free(&line);
  ij__buf_free(&out);
  ij_tokenizer_close(&tokenizer);
  return 0;
}
