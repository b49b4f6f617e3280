/* test_ckpt.c: the safetensors reader on bytes in memory, one case per rule of the format, then checkpoints on disk in their three
 * shapes (a file, shards with an index, shards without), and both under an allocator that fails at every point in turn. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/str.h"
#include "io/ckpt.h"
#include "io/safetensors.h"
#include "test.h"
#include "unit/ckpt_refuse.h"

static ij_err err;

/* A whole file: length, header, n_data bytes 0, 1, 2, ... */
static ij_buf make_file(const char *header, size_t len, size_t n_data) {
  ij_buf b = {0};
  for (int i = 0; i < 8; i++) ij__buf_append(&b, &(char){(char)((uint64_t)len >> (8 * i) & 255)}, 1);
  ij__buf_append(&b, header, len);
  for (size_t i = 0; i < n_data; i++) ij__buf_append(&b, &(char){(char)i}, 1);
  return b;
}

/* The parser sees a block of exactly the file's size, so that a sanitizer sees a read past its end. */
static ij_status parse_exact(ij_safetensors *st, const char *bytes, size_t n, unsigned char **block) {
  *block = malloc(n ? n : 1);
  if (n) memcpy(*block, bytes, n);
  return ij__safetensors_parse(st, *block, n, "m.safetensors", &err);
}

static void refuse_bytes(const char *bytes, size_t n, ij_status code, const char *want) {
  ij_safetensors st;
  unsigned char *block;
  int64_t held = ij__alloc_blocks();
  ij_status s = parse_exact(&st, bytes, n, &block);
  if (s != code) TEST_FAIL("status %s, expected %s (%s)", ij_status_name(s), ij_status_name(code), want);
  CHECK_INT(ij__alloc_blocks(), held);
  CHECK(!st.tensors && !st.names && st.n == 0);
  if (s != IJ_OK) {
    CHECK_STR(err.where, "m.safetensors");
    CHECK_HAS(err.message, want);
  }
  free(block);
}

typedef struct header_case {
  const char *header;
  size_t n_data;
  const char *want;
} header_case;

static void refuse_all(const header_case *cases, size_t n, ij_status code) {
  for (size_t i = 0; i < n; i++) {
    ij_buf b = make_file(cases[i].header, strlen(cases[i].header), cases[i].n_data);
    refuse_bytes(b.data, b.len, code, cases[i].want);
    ij__buf_free(&b);
  }
}

#define ONE(members) "{\"a\":{" members "}}"

/* --- what is accepted */

static void tensors_come_in_order_of_offset(void) {
  static const char header[] =
      "{\"__metadata__\":{\"format\":\"pt\"},\"late\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
      "\"empty\":{\"shape\":[0,7],\"dtype\":\"F32\",\"data_offsets\":[8,8]},"
      "\"sca\\u006car\":{\"data_offsets\":[0,8],\"dtype\":\"I64\",\"shape\":[]}}   ";
  ij_buf b = make_file(header, sizeof header - 1, 20);
  ij_safetensors st;
  unsigned char *block;
  CHECK_OK(parse_exact(&st, b.data, b.len, &block), err);
  CHECK_INT(st.n, 3);
  CHECK_STR(st.tensors[0].name, "scalar");
  CHECK_INT(st.tensors[0].n_dims, 0);
  CHECK_INT(st.tensors[0].n_values, 1);
  CHECK_INT(st.tensors[0].dtype, IJ_DTYPE_I64);
  CHECK_STR(st.tensors[1].name, "empty");
  CHECK_INT(st.tensors[1].n_values, 0);
  CHECK_INT(st.tensors[1].dims[1], 7);
  CHECK_STR(st.tensors[2].name, "late");
  CHECK_STR(st.tensors[2].file, "m.safetensors");
  CHECK_INT(st.tensors[2].n_values, 6);
  CHECK_INT(st.tensors[2].n_bytes, 12);
  CHECK_INT(st.tensors[2].dims[0], 2);
  CHECK_INT(st.tensors[2].dims[1], 3);
  CHECK(st.tensors[2].data == block + 8 + sizeof header - 1 + 8);
  ij__safetensors_free(&st);
  CHECK(!st.tensors);
  free(block);
  ij__buf_free(&b);
}

static void every_known_dtype_is_read(void) {
  for (int t = 0; t <= IJ_DTYPE_BOOL; t++) {
    size_t item = (size_t)ij__dtype_block_bytes((ij_dtype)t);
    char header[200];
    int len = snprintf(header, sizeof header, ONE("\"dtype\":\"%s\",\"shape\":[1,1,1,1,1,1,1,3],\"data_offsets\":[0,%zu]"),
        ij__dtype_name((ij_dtype)t),
                       3 * item);
    ij_buf b = make_file(header, (size_t)len, 3 * item);
    ij_safetensors st;
    unsigned char *block;
    CHECK_OK(parse_exact(&st, b.data, b.len, &block), err);
    CHECK_INT(st.n, 1);
    CHECK_INT(st.tensors[0].dtype, t);
    CHECK_INT(st.tensors[0].n_dims, IJ_TENSOR_MAX_DIMS);
    ij__safetensors_free(&st);
    free(block);
    ij__buf_free(&b);
  }
}

static void no_tensors_and_no_data(void) {
  ij_buf b = make_file("{}", 2, 0);
  ij_safetensors st;
  unsigned char *block;
  CHECK_OK(parse_exact(&st, b.data, b.len, &block), err);
  CHECK_INT(st.n, 0);
  ij__safetensors_free(&st);
  free(block);
  ij__buf_free(&b);
}

/* --- what is refused: the envelope */

static void length_of_the_header(void) {
  refuse_bytes("", 0, IJ_E_FORMAT, "truncated: it should begin with 8 bytes of header length, but has 0. Download it again");
  refuse_bytes("\2\0\0\0\0\0\0", 7, IJ_E_FORMAT, "but has 7");
  refuse_bytes("\2\0\0\0\0\0\0\0{", 9, IJ_E_FORMAT, "truncated: the header takes 2 bytes, the file has 1 behind its first 8. Download it "
      "again");
  refuse_bytes("\0\0\0\0\0\0\0\0", 8, IJ_E_FORMAT, "does not begin with '{'");
  refuse_bytes("\0\xe1\xf5\5\0\0\0\0{}", 10, IJ_E_FORMAT, "truncated: the header takes 100000000 bytes");
  refuse_bytes("\1\xe1\xf5\5\0\0\0\0{}", 10, IJ_E_FORMAT, "not a safetensors file: the first 8 bytes give a header of 100000001 bytes");
  refuse_bytes("\377\377\377\377\377\377\377\377{}", 10, IJ_E_FORMAT, "a header of 18446744073709551615 bytes");
  refuse_bytes("<!DOCTYPE html>", 15, IJ_E_FORMAT, "not a safetensors file");
  static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
  refuse_bytes(lfs, sizeof lfs - 1, IJ_E_FORMAT, "Git LFS pointer");
}

static void header_is_a_json_object(void) {
  static const header_case cases[] = {
      {"[1]", 0, "does not begin with '{'"},
      {" {}", 0, "does not begin with '{'"},
      {"{\"a\":", 0, "the header: line 1, column"},
      {"{}x", 0, "the header: line 1, column 3: not valid JSON"},
      {"{\"a\":1,\"a\":1}", 0, "the key \"a\" occurs twice"},
      {ONE("\"dtype\":\"U8\",\"shape\":[0],\"dtype\":\"U8\",\"data_offsets\":[0,0]"), 0, "the key \"dtype\" occurs twice"},
  };
  refuse_all(cases, IJ_COUNT_OF(cases), IJ_E_FORMAT);
}

static void metadata_is_strings(void) {
  static const header_case cases[] = {
      {"{\"__metadata__\":[]}", 0, "__metadata__: expected an object, found an array"},
      {"{\"__metadata__\":{\"a\":\"b\",\"n\":1}}", 0, "__metadata__: \"n\": expected a string, found an integer"},
      {"{\"__metadata__\\u0000\":{\"n\":\"x\"}}", 0, "the name holds control characters"},
  };
  refuse_all(cases, IJ_COUNT_OF(cases), IJ_E_FORMAT);
}

/* --- what is refused: one entry */

static void members_of_an_entry(void) {
  static const header_case cases[] = {
      {"{\"a\":7}", 0, "tensor \"a\": expected an object, found an integer"},
      {ONE("\"shape\":[0],\"data_offsets\":[0,0]"), 0, "tensor \"a\": dtype: expected a string, found nothing"},
      {ONE("\"dtype\":3,\"shape\":[0],\"data_offsets\":[0,0]"), 0, "dtype: expected a string, found an integer"},
      {ONE("\"dtype\":\"U8\",\"data_offsets\":[0,0]"), 0, "shape: expected an array, found nothing"},
      {ONE("\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,0]"), 0, "shape: expected an array, found an object"},
      {ONE("\"dtype\":\"U8\",\"shape\":[0]"), 0, "data_offsets: expected an array, found nothing"},
      {ONE("\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0]"), 0, "data_offsets: expected 2 entries, found 1"},
      {ONE("\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]"), 0, "data_offsets: expected 2 entries, found 3"},
      {ONE("\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"strides\":[1]"), 0, "unknown member \"strides\""},
      {ONE("\"dtype\\u0000\":1,\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]"), 0, "unknown member \"dtype?\""},
      {"{\"a\\n\\u001b[31m\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
        "tensor \"a??[31m\": the name holds control characters"},
      {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "tensor \"a?b\": the name holds control characters"},
  };
  refuse_all(cases, IJ_COUNT_OF(cases), IJ_E_FORMAT);
}

static void numbers_of_an_entry(void) {
  static const header_case cases[] = {
      {ONE("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1, "shape[0]: expected 0 or more, found -1"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1,1.0],\"data_offsets\":[0,1]"), 1, "shape[1]: expected an integer below 2^63, found a number"},
      {ONE("\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,0]"), 0, "shape[0]: expected an integer below 2^63"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]"), 1, "shape: expected at most 8 entries, found 9"},
      {ONE("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0, "the product of its 2 dimensions does not fit"},
      {ONE("\"dtype\":\"U8\",\"shape\":[4294967296,2147483648],\"data_offsets\":[0,0]"), 0, "the product of its 2 dimensions does not fit"},
      {ONE("\"dtype\":\"U8\",\"shape\":[4611686018427387904,2,0],\"data_offsets\":[0,0]"), 0, "the product of its 3 dimensions"},
      {ONE("\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]"), 0, "the product of its 1 dimensions does not fit"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]"), 1, "data_offsets[0]: expected 0 or more, found -1"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]"), 1, "data_offsets: begin 1 is behind end 0"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,\"1\"]"), 1, "data_offsets[1]: expected an integer below 2^63, found a "
        "string"},
      {ONE("\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,8]"), 8, "data_offsets: expected 16 bytes (4 values of F32), found 8"},
      {ONE("\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[0,2]"), 2, "expected 0 bytes (0 values of BF16), found 2"},
  };
  refuse_all(cases, IJ_COUNT_OF(cases), IJ_E_FORMAT);
}

static void unknown_dtypes_are_unsupported(void) {
  static const header_case cases[] = {
      {ONE("\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]"), 1, "tensor \"a\": dtype \"F4\" is not one that this version reads"},
      {ONE("\"dtype\":\"bf16\",\"shape\":[1],\"data_offsets\":[0,2]"), 2, "dtype \"bf16\""},
      {ONE("\"dtype\":\"U8\\u0000\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, "dtype \"U8?\""},
      {"{\"a\":{\"dtype\":\"C64\",\"shape\":[],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[8,9]}}",
        9, "2 findings: "},
  };
  refuse_all(cases, IJ_COUNT_OF(cases), IJ_E_UNSUPPORTED);
  static const header_case mixed[] = {
      {ONE("\"dtype\":\"F4\",\"shape\":[-2],\"data_offsets\":[0,1]"), 1, "2 findings: tensor \"a\": dtype \"F4\" is not one that this "
        "version reads; "},
      {"{\"b\":1,\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, "2 findings: tensor \"b\": expected an object"},
  };
  refuse_all(mixed, IJ_COUNT_OF(mixed), IJ_E_FORMAT);
}

static void findings_are_listed_together(void) {
  ij_buf b = {0};
  ij__buf_puts(&b, "{");
  for (int i = 0; i < 200; i++) ij__buf_printf(&b, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}", i ? "," : "", i);
  ij__buf_puts(&b, "}");
  ij_buf file = make_file(b.data, b.len, 2);
  refuse_bytes(file.data, file.len, IJ_E_FORMAT, "200 findings: tensor \"t0\": data_offsets: expected 1 bytes (1 values of U8), found 2; "
      "tensor \"t1\": ");
  CHECK_HAS(err.message, " more");
  ij__buf_free(&file);
  ij__buf_free(&b);
}

/* --- what is refused: the layout */

#define BYTES(name, n, begin, end) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #n "],\"data_offsets\":[" #begin "," #end "]}"

static void data_is_covered_exactly(void) {
  static const header_case cases[] = {
      {"{" BYTES("a", 4, 0, 4) "," BYTES("b", 4, 2, 6) "}", 6, "tensor \"b\": begins at byte 2 of the data, inside tensor \"a\", which "
        "ends at 4"},
      {"{" BYTES("b", 4, 0, 4) "," BYTES("a", 4, 0, 4) "}", 4, "tensor \"b\": begins at byte 0 of the data, inside tensor \"a\""},
      {"{" BYTES("a", 9, 0, 9) "," BYTES("b", 1, 2, 3) "," BYTES("c", 1, 5, 6) "}", 9, "2 findings: tensor \"b\": begins at byte 2 of the "
        "data, inside tensor \"a\", which ends at 9; tensor \"c\": "},
      {"{" BYTES("a", 9, 0, 9) "," BYTES("b", 0, 2, 2) "}", 9, "tensor \"b\": begins at byte 2"},
      {"{" BYTES("a", 4, 1, 5) "}", 5, "tensor \"a\": begins at byte 1 of the data, but the header ends at 0: nobody has the bytes "
        "between"},
      {"{" BYTES("b", 4, 5, 9) "," BYTES("a", 4, 0, 4) "}", 9, "tensor \"b\": begins at byte 5 of the data, but \"a\" ends at 4"},
      {"{" BYTES("a", 4, 0, 4) "," BYTES("b", 4, 4, 8) "," BYTES("c", 2, 8, 10) "}", 7, "truncated: the tensors need 10 bytes of data, "
        "the file has 7; 2 of 3 tensors reach past the end, first tensor \"b\". Download it again"},
      {ONE("\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,9223372036854775807]"), 1,
        "truncated: the tensors need 9223372036854775807 bytes"},
      {"{" BYTES("a", 4, 0, 4) "}", 5, "oversized: the tensors end at byte 4 of the data, the file has 5"},
      {"{}", 1, "oversized: the tensors end at byte 0"},
  };
  refuse_all(cases, IJ_COUNT_OF(cases), IJ_E_FORMAT);
}

/* Every prefix of a good file is refused, and says that it is short. */
static void every_prefix_is_refused(void) {
  static const char header[] = "{" BYTES("a", 4, 0, 4) "," BYTES("b", 4, 4, 8) "}";
  ij_buf b = make_file(header, sizeof header - 1, 8);
  for (size_t n = 0; n < b.len; n++) refuse_bytes(b.data, n, IJ_E_FORMAT, "truncated");
  ij__buf_free(&b);
}

/* Near-linear in the number of tensors: a quadratic step on 100000 of them would take minutes. Offsets run against the order of names. */
static ij_buf many_tensors(int n) {
  ij_buf b = {0};
  ij__buf_puts(&b, "{");
  for (int i = 0; i < n; i++) ij__buf_printf(&b, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "", i,
      n - 1 - i, n - i);
  ij__buf_puts(&b, "}");
  ij_buf file = make_file(b.data, b.len, (size_t)n);
  ij__buf_free(&b);
  return file;
}

static void many_tensors_in_one_file(void) {
  int n = 100000;
  ij_buf b = many_tensors(n);
  ij_safetensors st;
  CHECK_OK(ij__safetensors_parse(&st, b.data, b.len, "m.safetensors", &err), err);
  CHECK_INT(st.n, n);
  for (int i = 0; i < n; i += 9973) {
    char name[20];
    snprintf(name, sizeof name, "t%d", n - 1 - i);
    CHECK_STR(st.tensors[i].name, name);
    CHECK_INT(*(const unsigned char *)st.tensors[i].data, i & 255);
  }
  ij__safetensors_free(&st);
  ij__buf_free(&b);
}

/* A long list of bad entries must not claim memory for tensors that never come out. */
static void bad_entries_take_no_room(void) {
  ij_buf b = {0};
  ij__buf_puts(&b, "{");
  for (int i = 0; i < 100000; i++) ij__buf_printf(&b, "%s\"%d\":0", i ? "," : "", i);
  ij__buf_puts(&b, "}");
  ij_buf file = make_file(b.data, b.len, 0);
  refuse_bytes(file.data, file.len, IJ_E_FORMAT, "100000 findings: ");
  ij__buf_free(&file);
  ij__buf_free(&b);
}

/* --- on disk */

static char folder[256];

static void put(const char *name, const char *bytes, size_t n) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
    perror(path);
    exit(2);
  }
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

static void put_tensors(const char *name, const char *header, size_t n_data) {
  ij_buf b = make_file(header, strlen(header), n_data);
  put(name, b.data, b.len);
  ij__buf_free(&b);
}

static void fresh_folder(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/inkjet-ckpt-XXXXXX", base && *base ? base : P_tmpdir);
  if (!mkdtemp(folder)) {
    perror(folder);
    exit(2);
  }
}

static void remove_folder(void) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && unlink(path) != 0) rmdir(path);
  }
  if (d) closedir(d);
  CHECK_INT(rmdir(folder), 0);
}

/* Two shards, an index that lists them, a file of somebody else, a config. */
static void put_indexed(void) {
  put_tensors("m-1.safetensors", "{" BYTES("y", 2, 2, 4) "," BYTES("x", 2, 0, 2) "}", 4);
  put_tensors("m-2.safetensors", "{" BYTES("a", 3, 0, 3) "}", 3);
  put_text("golden.safetensors", "not one of ours");
  put_text("config.json", "{\"model_type\":\"x\"}");
  put_text("model.safetensors.index.json",
           "{\"metadata\":{\"total_size\":7},"
           "\"weight_map\":{\"a\":\"m-2.safetensors\",\"x\":\"m-1.safetensors\",\"y\":\"m-1.safetensors\"}}");
}

static void an_index_names_the_files(void) {
  fresh_folder();
  put_indexed();
  ij_ckpt *c;
  CHECK_OK(ij__ckpt_open(&c, folder, &err), err);
  if (c) {
    CHECK_STR(ij__ckpt_folder(c), folder);
    CHECK_INT(ij__ckpt_n_files(c), 2);
    CHECK_INT(ij__ckpt_n_tensors(c), 3);
    static const char *const want[] = {"x", "y", "a"}; /* by file, then offset */
    for (int i = 0; i < 3; i++) {
      CHECK_STR(ij__ckpt_tensor(c, i)->name, want[i]);
      CHECK(ij__ckpt_find(c, want[i]) == ij__ckpt_tensor(c, i));
    }
    CHECK(memcmp(ij__ckpt_find(c, "y")->data, "\2\3", 2) == 0);
    CHECK(ij__str_ends_with(ij__ckpt_find(c, "a")->file, "/m-2.safetensors"));
    static const char *const absent[] = {"", "A", "aa", "w", "xx", "z"};
    for (size_t i = 0; i < IJ_COUNT_OF(absent); i++) CHECK(!ij__ckpt_find(c, absent[i]));
    CHECK_INT(ij__json_size(ij__ckpt_config(c)), 1);
    CHECK(ij__str_ends_with(ij__ckpt_config_path(c), "/config.json"));
    CHECK_INT(ij__ckpt_file_bytes(c), 2 * 8 + 7 + strlen("{" BYTES("y", 2, 2, 4) "," BYTES("x", 2, 0, 2) "}") + strlen("{" BYTES("a", 3,
        0, 3) "}"));
  }
  ij__ckpt_close(&c);
  CHECK(!c);
  ij__ckpt_close(&c);
  remove_folder();
}

static void index_and_files_must_agree(void) {
  static const char *const index = "model.safetensors.index.json";
  fresh_folder();
  put_indexed();
  put_text(index, "{\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-2.safetensors\","
                  "\"x\":\"m-2.safetensors\",\"z\":\"m-1.safetensors\"}}");
  refuse_path(folder, IJ_E_FORMAT, index,
              "4 findings: tensor \"b\" should be in \"m-2.safetensors\", but no file has it; tensor \"x\" should be in "
                  "\"m-2.safetensors\", but is in "
              "\"m-1.safetensors\"; tensor \"y\" is in \"m-1.safetensors\", but weight_map does not list it; tensor \"z\" should be in");
  put_text(index, "{\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-3.safetensors\","
                  "\"c\":\"m-4.safetensors\",\"d\":\"m-4.safetensors\"}}");
  refuse_path(folder, IJ_E_IO, "", "2 findings: \"m-3.safetensors\" is named by model.safetensors.index.json but is not in the folder; "
      "download it; \"m-4");
  put_tensors("m-2.safetensors", "{" BYTES("a", 3, 0, 3) "," BYTES("x", 1, 3, 4) "}", 4);
  put_text(index, "{\"weight_map\":{\"a\":\"m-2.safetensors\",\"x\":\"m-1.safetensors\",\"y\":\"m-1.safetensors\"}}");
  refuse_path(folder, IJ_E_FORMAT, "", "tensor \"x\" is in \"m-1.safetensors\" and in \"m-2.safetensors\"");
  put_tensors("m-2.safetensors", "{" BYTES("a", 3, 0, 3) "}", 2);
  refuse_path(folder, IJ_E_FORMAT, "/m-2.safetensors", "truncated");
  remove_folder();
}

static void an_index_stays_in_its_folder(void) {
  static const char *const bad[] = {"../m-1.safetensors", "/m-1.safetensors",  "./m-1.safetensors", "sub/m.safetensors", "..",  "",
                                    ".b.safetensors", ".safetensors", "m-1.safetensors.x", "a\\\\b.safetensors",
                                        "model.safetensors.index.json",
                                    "a\\u0000.safetensors", "a\\n.safetensors"};
  fresh_folder();
  put_indexed();
  for (size_t i = 0; i < IJ_COUNT_OF(bad); i++) {
    char text[200];
    snprintf(text, sizeof text, "{\"weight_map\":{\"x\":\"%s\"}}", bad[i]);
    put_text("model.safetensors.index.json", text);
    refuse_path(folder, IJ_E_FORMAT, "index.json", "weight_map: tensor \"x\": expected the name of a .safetensors file in this folder, "
        "found \"");
  }
  remove_folder();
}

static void an_index_has_a_weight_map(void) {
  static const char *const cases[][2] = {
      {"", "found nothing (the file is empty)"},
      {"{\"weight_map\":", "not valid JSON"},
      {"[]", "expected an object, found an array"},
      {"{}", "weight_map: expected an object, found nothing"},
      {"{\"weight_map\":[]}", "weight_map: expected an object, found an array"},
      {"{\"weight_map\":{}}", "weight_map: expected at least one tensor, found none"},
      {"{\"weight_map\":{\"x\":1,\"y\":null}}", "2 findings: weight_map: tensor \"x\": expected the name of a file, found an integer; "},
      {"{\"weight_map\":{\"x\\u0000\":\"m-1.safetensors\"}}", "weight_map: the name \"x?\" holds a NUL"},
      {"{\"weight_map\":{\"x\":\"m-1.safetensors\",\"x\":\"m-1.safetensors\"}}", "the key \"x\" occurs twice"},
  };
  fresh_folder();
  put_indexed();
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    put_text("model.safetensors.index.json", cases[i][0]);
    refuse_path(folder, IJ_E_FORMAT, "index.json", cases[i][1]);
  }
  remove_folder();
}

static void without_an_index_all_files_are_read(void) {
  fresh_folder();
  refuse_path(folder, IJ_E_IO, "", "expected .safetensors files in this folder, found none");
  put_text("._b.safetensors", "what some systems leave there");
  refuse_path(folder, IJ_E_IO, "", "found none");
  put_tensors("b.safetensors", "{" BYTES("x", 1, 0, 1) "}", 1);
  put_tensors("a.safetensors", "{" BYTES("y", 1, 0, 1) "}", 1);
  put_tensors("c.safetensors", "{}", 0);
  ij_ckpt *c;
  CHECK_OK(ij__ckpt_open(&c, folder, &err), err);
  CHECK_INT(ij__ckpt_n_files(c), 3);
  CHECK_INT(ij__ckpt_n_tensors(c), 2);
  CHECK_STR(ij__ckpt_tensor(c, 0)->name, "y");
  CHECK_STR(ij__ckpt_tensor(c, 1)->name, "x");
  CHECK(!ij__ckpt_config(c));
  ij__ckpt_close(&c);
  put_tensors("c.safetensors", "{" BYTES("x", 1, 0, 1) "," BYTES("y", 1, 1, 2) "}", 2);
  refuse_path(folder, IJ_E_FORMAT, "",
              "3 findings: tensor \"x\" is in \"b.safetensors\" and in \"c.safetensors\"; tensor \"y\" is in \"a.safetensors\" and in "
                  "\"c.safetensors\"; "
              "files of two checkpoints in one folder?");
  remove_folder();
}

static void one_file_is_a_checkpoint(void) {
  char path[512];
  ij_ckpt *c;
  fresh_folder();
  put_indexed();
  snprintf(path, sizeof path, "%s/m-1.safetensors", folder);
  CHECK_OK(ij__ckpt_open(&c, path, &err), err); /* the index beside it says nothing about a file named alone */
  CHECK_INT(ij__ckpt_n_tensors(c), 2);
  CHECK_STR(ij__ckpt_folder(c), folder);
  CHECK_STR(ij__ckpt_tensor(c, 0)->file, path);
  CHECK_INT(ij__json_size(ij__ckpt_config(c)), 1);
  ij__ckpt_close(&c);
  char here[1024];
  if (!getcwd(here, sizeof here) || chdir(folder) != 0) exit(2);
  CHECK_OK(ij__ckpt_open(&c, "m-2.safetensors", &err), err);
  CHECK_STR(ij__ckpt_folder(c), ".");
  CHECK_INT(ij__json_size(ij__ckpt_config(c)), 1);
  ij__ckpt_close(&c);
  if (chdir(here) != 0) exit(2);
  snprintf(path, sizeof path, "%s/config.json", folder);
  refuse_path(path, IJ_E_UNSUPPORTED, "config.json", "expected a folder, a .safetensors file or a .gguf file");
  snprintf(path, sizeof path, "%s/absent.safetensors", folder);
  refuse_path(path, IJ_E_IO, "absent.safetensors", "No such file");
  refuse_path("", IJ_E_IO, "", "No such file");
  put_text("empty.safetensors", "");
  snprintf(path, sizeof path, "%s/empty.safetensors", folder);
  refuse_path(path, IJ_E_FORMAT, "empty.safetensors", "truncated: it should begin with 8 bytes of header length, but has 0");
  snprintf(path, sizeof path, "%s/dir.safetensors", folder);
  if (mkdir(path, 0777) != 0) exit(2);
  refuse_path(path, IJ_E_IO, "dir.safetensors", "found none");
  remove_folder();
}

static void a_lone_golden_file_opens(void) {
  ij_ckpt *c;
  CHECK_OK(ij__ckpt_open(&c, "tests/fixtures/nano-native-f32/golden.safetensors", &err), err);
  if (c) CHECK(ij__ckpt_find(c, "logits") && ij__ckpt_config(c));
  ij__ckpt_close(&c);
}

static void config_is_json_of_bounded_size(void) {
  fresh_folder();
  put_indexed();
  put_text("config.json", "{,}");
  refuse_path(folder, IJ_E_FORMAT, "/config.json", "not valid JSON");
  char path[512];
  snprintf(path, sizeof path, "%s/config.json", folder);
  CHECK_INT(truncate(path, (16 << 20) + 1), 0);
  refuse_path(folder, IJ_E_FORMAT, "/config.json", "at most 16777216 are accepted");
  snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
  CHECK_INT(truncate(path, (64 << 20) + 1), 0);
  refuse_path(folder, IJ_E_FORMAT, "index.json", "at most 67108864 are accepted");
  remove_folder();
  fresh_folder();
  put_indexed();
  snprintf(path, sizeof path, "%s/config.json", folder);
  unlink(path);
  CHECK_INT(mkdir(path, 0700), 0);
  refuse_path(folder, IJ_E_IO, "/config.json", "expected a regular file, found a folder");
  CHECK_INT(rmdir(path), 0);
  remove_folder();
}

/* --- without memory */

static void fail_everywhere(const char *path) {
  int64_t held = ij__alloc_blocks();
  int n_failed = 0;
  for (int n = 1; n < 1000; n++) {
    ij_ckpt *c = NULL;
    ij__alloc_fail_after(n);
    ij_status s = ij__ckpt_open(&c, path, &err);
    ij__alloc_fail_after(0);
    ij__ckpt_close(&c);
    CHECK_INT(ij__alloc_blocks(), held);
    if (s == IJ_OK) break;
    CHECK_INT(s, IJ_E_NOMEM);
    n_failed = n;
  }
  if (n_failed < 8 || n_failed > 900) TEST_FAIL("%s: %d allocations failed in turn", path, n_failed);
}

static void every_failing_allocation_is_reported(void) {
  char path[512];
  fresh_folder();
  put_indexed();
  fail_everywhere(folder);
  snprintf(path, sizeof path, "%s/m-1.safetensors", folder);
  fail_everywhere(path);
  snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/golden.safetensors", folder);
  unlink(path);
  fail_everywhere(folder);
  ij_buf many = many_tensors(1000);
  put("many.safetensors", many.data, many.len);
  fail_everywhere(folder);
  ij__buf_free(&many);
  remove_folder();
}

static void errors_need_no_error_struct(void) {
  ij_ckpt *c;
  ij_safetensors st;
  CHECK_INT(ij__ckpt_open(&c, "no/such/folder", NULL), IJ_E_IO);
  CHECK_INT(ij__safetensors_parse(&st, "\2\0\0\0\0\0\0\0{]", 10, "m", NULL), IJ_E_FORMAT);
}

int main(void) {
  RUN(tensors_come_in_order_of_offset);
  RUN(every_known_dtype_is_read);
  RUN(no_tensors_and_no_data);
  RUN(length_of_the_header);
  RUN(header_is_a_json_object);
  RUN(metadata_is_strings);
  RUN(members_of_an_entry);
  RUN(numbers_of_an_entry);
  RUN(unknown_dtypes_are_unsupported);
  RUN(findings_are_listed_together);
  RUN(data_is_covered_exactly);
  RUN(every_prefix_is_refused);
  RUN(many_tensors_in_one_file);
  RUN(bad_entries_take_no_room);
  RUN(an_index_names_the_files);
  RUN(index_and_files_must_agree);
  RUN(an_index_stays_in_its_folder);
  RUN(an_index_has_a_weight_map);
  RUN(without_an_index_all_files_are_read);
  RUN(one_file_is_a_checkpoint);
  RUN(a_lone_golden_file_opens);
  RUN(config_is_json_of_bounded_size);
  RUN(every_failing_allocation_is_reported);
  RUN(errors_need_no_error_struct);
  return test_report();
}
