/* test_chat_parts.c: the parts of `inkjet chat` that need no model: text made safe, JSON found and written, messages, lines. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "cli/chat.h"
#include "core/alloc.h"
#include "test.h"

/* ------------------------------------------------------------------------------------------------------------------ safety */

/* Cut after every piece of n characters: how text arrives changes nothing. */
static void expect_safe(const char *in, const char *want) {
  for (size_t step = 1; step <= strlen(in) + 1; step++) {
    ij_buf out = {0};
    chat_safe state = {0};
    for (size_t at = 0, n = 0; at < strlen(in); at += n) {
      n = IJ_MIN(step, strlen(in) - at);
      while (at + n < strlen(in) && ((unsigned char)in[at + n] & 0xc0) == 0x80) n++;
      chat_safe_add(&out, &state, in + at, n);
    }
    chat_safe_end(&out, &state);
    CHECK_STR(out.data ? out.data : "", want);
    ij__buf_free(&out);
  }
}

static void control_characters_become_visible(void) {
  expect_safe("plain text\tand\nlines", "plain text\tand\nlines");
  expect_safe("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07");
  expect_safe("\xc2\x9b" "31m\x7f\x08", "\\x9b31m\\x7f\\x08");
  expect_safe("a\r\nb\rc\r", "a\nb\\x0dc\\x0d");
  expect_safe("\xe2\x80\xaetxt.exe\xe2\x81\xa9", "<U+202E>txt.exe<U+2069>");
  expect_safe("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x80\x8f", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x80\x8f");
  expect_safe("", "");
  expect_safe("a\xff\xc3", "a\\xff\\xc3");
}

static void no_byte_that_a_terminal_obeys_comes_through(void) {
  uint64_t seed = 7;
  for (int round = 0; round < 2000; round++) {
    char in[64];
    ij_buf out = {0};
    chat_safe state = {0};
    for (size_t i = 0; i < sizeof in; i++) in[i] = (char)test_random(&seed);
    chat_safe_add(&out, &state, in, sizeof in); /* not UTF-8 at all: still nothing below a blank but line ends and tabs */
    chat_safe_end(&out, &state);
    int n_bad = 0;
    for (size_t i = 0; i < out.len; i++) {
      unsigned char c = (unsigned char)out.data[i], before = i ? (unsigned char)out.data[i - 1] : 0;
      n_bad += (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || (before == 0xc2 && c < 0xa0);
    }
    CHECK_INT(n_bad, 0);
    ij__buf_free(&out);
  }
}

/* -------------------------------------------------------------------------------------------------------------------- JSON */

static void strings_are_valid_whatever_the_bytes(void) {
  ij_buf out = {0};
  chat_json_string(&out, "a\"\\\n\x1b\xff\xc3", 7);
  CHECK_STR(out.data, "\"a\\\"\\\\\\n\\u001b\xef\xbf\xbd\xef\xbf\xbd\"");
  ij__buf_free(&out);
}

static chat_span span(const char *s) { return (chat_span){s, strlen(s)}; }

static void elements_are_found_as_they_were_written(void) {
  chat_span array = span(" [ {\"a\": [1,2,\"]\"]} ,\"x,]\\\"\\\\\", -1.50e3,[ ],true\n]"), e;
  static const char *const want[] = {"{\"a\": [1,2,\"]\"]}", "\"x,]\\\"\\\\\"", "-1.50e3", "[ ]", "true"};
  size_t at = 0, n = 0;
  while (chat_json_element(array, &at, &e)) {
    CHECK(n < IJ_COUNT_OF(want) && e.n == strlen(want[n]) && memcmp(e.bytes, want[n], e.n) == 0);
    n++;
  }
  CHECK_INT(n, IJ_COUNT_OF(want));
  at = 0;
  CHECK(!chat_json_element(span("[ ]"), &at, &e));
}

static void members_are_found_as_they_were_written(void) {
  chat_span object = span("{ \"a\" : {\"b\":1}, \"b\":\"}\", \"n\" : 12 }"), v;
  CHECK(chat_json_member(object, "b", &v) && v.n == 3 && memcmp(v.bytes, "\"}\"", 3) == 0);
  CHECK(chat_json_member(object, "a", &v) && v.n == 7 && memcmp(v.bytes, "{\"b\":1}", 7) == 0);
  CHECK(chat_json_member(object, "n", &v) && v.n == 2 && memcmp(v.bytes, "12", 2) == 0);
  CHECK(!chat_json_member(object, "c", &v));
  CHECK(!chat_json_member(span("{}"), "a", &v));
}

static void scanners_stay_inside_of_broken_text(void) {
  static const char text[] = "{\"a\":[{\"b\\\":\"x\",\"c\":[1,2]}],\"d\":\"e\"}";
  for (size_t n = 0; n < sizeof text; n++) {
    char *copy = ij__alloc(n); /* the sanitizer sees a read behind it */
    memcpy(copy, text, n);
    chat_span e, whole = {copy, n};
    size_t at = 0;
    for (int i = 0; i < 100 && chat_json_element(whole, &at, &e); i++) CHECK(e.bytes >= copy && e.bytes + e.n <= copy + n);
    if (chat_json_member(whole, "d", &e)) CHECK(e.bytes + e.n <= copy + n);
    ij__free(copy);
  }
}

/* ---------------------------------------------------------------------------------------------------------------- messages */

static void expect_json(const chat_history *h, const char *want) {
  ij_buf out = {0};
  chat_history_json(h, h->n, &out);
  CHECK_STR(out.data, want);
  ij__buf_free(&out);
}

static ij_status read_text(chat_history *h, const char *text, ij_buf *left_out, ij_err *err) {
  return chat_history_read(h, text, strlen(text), "f.json", left_out, err);
}

static void messages_are_kept_as_they_were_written(void) {
  chat_history h = {0};
  ij_err err = {0};
  ij_buf left_out = {0};
  const char *one = "[{\"role\": \"user\", \"content\": [1.0, {\"z\":1,\"a\":12345678901234567890}]}]";
  CHECK_OK(read_text(&h, one, &left_out, &err), err);
  expect_json(&h, "[\n{\"role\": \"user\", \"content\": [1.0, {\"z\":1,\"a\":12345678901234567890}]}\n]\n");
  CHECK_INT(left_out.len, 0);
  CHECK_OK(read_text(&h, "{\"model\":\"m\",\"messages\":[{\"role\":\"developer\"},{\"role\":\"x\"}],\"n\":1}", &left_out, &err), err);
  CHECK_STR(left_out.data, "model, n");
  CHECK_INT(h.n, 2);
  CHECK_INT(h.list[0].role, CHAT_SYSTEM);
  CHECK_INT(h.list[1].role, CHAT_OTHER);
  ij__buf_free(&left_out);
  chat_history_cut(&h, 0);
}

static void bad_files_change_nothing(void) {
  static const struct {
    const char *text, *message;
  } bad[] = {{"", ""}, {"[", ""}, {"[1]", "messages[0]: expected an object, found an integer"}, {"[{},\"x\"]", "messages[1]"},
             {"{}", "expected an array of messages"}, {"{\"messages\":{}}", "expected an array"}, {"3", "expected an array"},
             {"{\"m\\u0065ssages\":[]}", "expected an array"}};
  chat_history h = {0};
  CHECK(chat_history_add_user(&h, NULL, 0, "hi", 2));
  for (size_t i = 0; i < IJ_COUNT_OF(bad); i++) {
    ij_err err = {0};
    CHECK(read_text(&h, bad[i].text, NULL, &err) != IJ_OK);
    CHECK_HAS(err.message, bad[i].message);
    CHECK_INT(h.n, 1);
  }
  chat_history_cut(&h, 0);
}

static void event(chat_answer *a, ij_event_kind kind, int call, const char *bytes, bool well_formed) {
  chat_answer_add(a, &(ij_event){.kind = kind, .call = call, .bytes = bytes, .n_bytes = strlen(bytes), .well_formed = well_formed});
}

static void answers_become_messages(void) {
  chat_answer a = {0};
  chat_history h = {0};
  ij_buf id = {0}, name = {0};
  CHECK(chat_answer_is_empty(&a));
  event(&a, IJ_EVENT_REASONING, 0, "Why", false);
  event(&a, IJ_EVENT_REASONING, 0, "?", false);
  event(&a, IJ_EVENT_CONTENT, 0, "So", false);
  event(&a, IJ_EVENT_CALL_BEGIN, 0, "f", false);
  event(&a, IJ_EVENT_CALL_ARGUMENTS, 0, "{\"a\":", false);
  event(&a, IJ_EVENT_CALL_ARGUMENTS, 0, "1}", false);
  event(&a, IJ_EVENT_CALL_END, 0, "", true);
  event(&a, IJ_EVENT_CALL_BEGIN, 1, "g", false);
  event(&a, IJ_EVENT_CALL_ARGUMENTS, 1, "{oops", false);
  event(&a, IJ_EVENT_CALL_END, 1, "", false);
  CHECK_STR(chat_answer_finish(&a), "tool_calls");
  CHECK(chat_history_add_answer(&h, &a));
  expect_json(&h, "[\n{\"role\":\"assistant\",\"content\":\"So\\ng {oops\",\"reasoning_content\":\"Why?\",\"tool_calls\":[{\"id\":\"call_0_0\","
                  "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]}\n]\n");
  CHECK(chat_history_open_call(&h, &id, &name));
  CHECK_STR(id.data, "call_0_0");
  CHECK_STR(name.data, "f");
  CHECK(chat_history_add_result(&h, "5 \"C\"", 5));
  CHECK(!chat_history_open_call(&h, &id, &name));
  CHECK(!chat_history_add_result(&h, "x", 1));
  CHECK_INT(h.n, 2);
  CHECK_STR(h.list[1].json, "{\"role\":\"tool\",\"tool_call_id\":\"call_0_0\",\"name\":\"f\",\"content\":\"5 \\\"C\\\"\"}");
  ij__buf_free(&id);
  ij__buf_free(&name);
  chat_answer_clear(&a);
  chat_history_cut(&h, 0);
}

static void the_system_text_is_one_and_first(void) {
  chat_history h = {0}, rest = {0};
  ij_buf text = {0};
  CHECK(chat_history_add_user(&h, NULL, 0, "hi", 2));
  CHECK(chat_history_set_system(&h, "a", 1));
  CHECK(chat_history_set_system(&h, "b", 1));
  expect_json(&h, "[\n{\"role\":\"system\",\"content\":\"b\"},\n{\"role\":\"user\",\"content\":\"hi\"}\n]\n");
  CHECK_INT(chat_history_last(&h, CHAT_USER), 1);
  CHECK(chat_history_content(&h, 1, &text));
  CHECK_STR(text.data, "hi");
  CHECK(chat_history_split(&h, 1, &rest));
  CHECK_INT(h.n, 1);
  CHECK_INT(rest.n, 1);
  CHECK(chat_history_append(&h, &rest));
  CHECK_INT(h.n, 2);
  CHECK(chat_history_set_system(&h, "", 0));
  CHECK(chat_history_set_system(&h, "", 0));
  expect_json(&h, "[\n{\"role\":\"user\",\"content\":\"hi\"}\n]\n");
  CHECK_INT(chat_history_last(&h, CHAT_SYSTEM), -1);
  ij__buf_free(&text);
  chat_history_cut(&h, 0);
  expect_json(&h, "[]\n");
}

/* Every allocation fails once: nothing leaks, nothing is freed twice, and what was there stays. */
static void without_memory(void) {
  for (int64_t n = 1; n < 40; n++) {
    chat_history h = {0}, rest = {0};
    chat_answer a = {0};
    bool ok = chat_history_add_user(&h, NULL, 0, "hi", 2);
    ij__alloc_fail_after(n);
    ok = chat_history_set_system(&h, "a", 1) && ok;
    event(&a, IJ_EVENT_CONTENT, 0, "So", false);
    event(&a, IJ_EVENT_CALL_BEGIN, 0, "f", false);
    event(&a, IJ_EVENT_CALL_END, 0, "", true);
    ok = !a.failed && chat_history_add_answer(&h, &a) && ok;
    ok = chat_history_add_result(&h, "x", 1) && ok;
    ok = chat_history_split(&h, 1, &rest) && chat_history_append(&h, &rest) && ok;
    ij__alloc_fail_after(0);
    CHECK(h.n >= 1 && (!ok || h.n == 4));
    chat_history_cut(&h, 0);
    chat_history_cut(&rest, 0);
    chat_answer_clear(&a);
  }
  CHECK_INT(ij__alloc_blocks(), 0);
}

/* ------------------------------------------------------------------------------------------------------------------- lines */

typedef struct script {
  const char *const *lines;      /* NULL at the end; "^C" is a line given up */
  int at;
} script;

static chat_read next_line(void *user, const char *prompt, ij_buf *line) {
  script *s = user;
  const char *text = s->lines[s->at];
  CHECK(*prompt);
  if (!text) return CHAT_READ_END;
  s->at++;
  if (strcmp(text, "^C") == 0) return CHAT_READ_CANCELLED;
  ij__buf_puts(line, text);
  return CHAT_READ_LINE;
}

static void expect_message(const char *const *lines, chat_read read, const char *text, int n_lines) {
  script s = {lines, 0};
  chat_source source = {next_line, &s};
  ij_buf got = {0};
  CHECK_INT(chat_read_message(&source, &got), read);
  if (read == CHAT_READ_LINE) CHECK_STR(got.data, text);
  CHECK_INT(s.at, n_lines);
  ij__buf_free(&got);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void lines_make_messages(void) {
  expect_message(LINES("hello", "x"), CHAT_READ_LINE, "hello", 1);
  expect_message(LINES("", "x"), CHAT_READ_LINE, "", 1);
  expect_message(LINES("a\\", "b\\", "c", "x"), CHAT_READ_LINE, "a\nb\nc", 3);
  expect_message(LINES("a\\", "", "x"), CHAT_READ_LINE, "a\n", 2);
  expect_message(LINES("\"\"\"", "a\\", " b", "\"\"\"", "x"), CHAT_READ_LINE, "\na\\\n b\n", 4);
  expect_message(LINES("\"\"\"one\"\"\"", "x"), CHAT_READ_LINE, "one", 1);
  expect_message(LINES("\"\"\"\"\"\"", "x"), CHAT_READ_LINE, "", 1);
  expect_message(LINES("\"\"\"a", "b\"\"\"", "x"), CHAT_READ_LINE, "a\nb", 2);
  expect_message(LINES("pasted\nwith\\", "x"), CHAT_READ_LINE, "pasted\nwith\\", 1);
  expect_message(LINES("^C", "x"), CHAT_READ_CANCELLED, NULL, 1);
  expect_message(LINES("a\\", "^C", "x"), CHAT_READ_CANCELLED, NULL, 2);
  expect_message(LINES("\"\"\"a", "^C", "x"), CHAT_READ_CANCELLED, NULL, 2);
  expect_message(LINES("\"\"\"a"), CHAT_READ_END, NULL, 1);
  expect_message((const char *const[]){NULL}, CHAT_READ_END, NULL, 0);
}

/* The signal is handled on a thread of its own, so no system call of the waiting one is interrupted by it. */
static void *interrupt_elsewhere(void *user) {
  pthread_kill(pthread_self(), SIGINT);
  return user;
}

static void waiting_ends_by_an_interrupt_wherever_it_is_handled(void) {
  int fds[2];
  char byte;
  pthread_t thread;
  CHECK_INT(pipe(fds), 0);
  interrupt_install();
  for (int i = 0; i < 20; i++) {
    CHECK_INT(pthread_create(&thread, NULL, interrupt_elsewhere, NULL), 0);
    CHECK(!interrupt_or_input(fds[0]));
    pthread_join(thread, NULL);
    interrupt_forget();
    CHECK_INT(write(fds[1], "x", 1), 1);
    CHECK(interrupt_or_input(fds[0])); /* and what it left behind ends no later wait */
    CHECK_INT(read(fds[0], &byte, 1), 1);
  }
  close(fds[1]);
  CHECK(interrupt_or_input(fds[0])); /* the end of a file can be read */
  close(fds[0]);
}

int main(void) {
  RUN(control_characters_become_visible);
  RUN(no_byte_that_a_terminal_obeys_comes_through);
  RUN(strings_are_valid_whatever_the_bytes);
  RUN(elements_are_found_as_they_were_written);
  RUN(members_are_found_as_they_were_written);
  RUN(scanners_stay_inside_of_broken_text);
  RUN(messages_are_kept_as_they_were_written);
  RUN(bad_files_change_nothing);
  RUN(answers_become_messages);
  RUN(the_system_text_is_one_and_first);
  RUN(without_memory);
  RUN(lines_make_messages);
  RUN(waiting_ends_by_an_interrupt_wherever_it_is_handled);
  return test_report();
}
