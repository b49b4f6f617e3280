/* test_gguf.c: the GGUF reader on bytes in memory, one case per rule of the format, then GGUF checkpoints on disk (a file, parts, a
 * folder), and both under an allocator that fails at every point in turn. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "io/ckpt.h"
#include "test.h"
#include "unit/ckpt_refuse.h"
#include "unit/gguf_writer.h"

static ij_err err;

/* The parser sees a block of exactly the file's size, so that a sanitizer sees a read past its end. */
static ij_status parse_exact(ij_gguf *g, const char *bytes, size_t n, unsigned char **block) {
  *block = malloc(n ? n : 1);
  if (n) memcpy(*block, bytes, n);
  return ij__gguf_parse(g, *block, n, "m.gguf", &err);
}

static void refuse_bytes(const char *bytes, size_t n, ij_status code, const char *want) {
  ij_gguf g;
  unsigned char *block;
  int64_t held = ij__alloc_blocks();
  ij_status s = parse_exact(&g, bytes, n, &block);
  if (s != code) TEST_FAIL("status %s, expected %s (%s)", ij_status_name(s), ij_status_name(code), want);
  CHECK_INT(ij__alloc_blocks(), held);
  CHECK(!g.tensors && !g.values && !g.names && !g.offsets && g.n_tensors == 0 && g.n_values == 0);
  if (s != IJ_OK) {
    CHECK_STR(err.where, "m.gguf");
    CHECK_HAS(err.message, want);
  }
  free(block);
}

static void refuse(gw_file *f, ij_status code, const char *want) {
  ij_buf b = gw_finish(f);
  refuse_bytes(b.data, b.len, code, want);
  ij__buf_free(&b);
}

/* --- what is read */

static void check_scalars(const ij_gguf *g) {
  static const struct {
    const char *key;
    int64_t want;
  } ints[] = {{"u8", 200}, {"i8", -3}, {"u16", 60000}, {"i16", -300}, {"u32", 4000000000}, {"i32", -70000},
              {"yes", 1}, {"u64", INT64_MAX}, {"i64", INT64_MIN}};
  for (size_t i = 0; i < IJ_COUNT_OF(ints); i++) {
    int64_t n = 0;
    double x = 0;
    const ij_gguf_value *v = ij__gguf_find(g, ints[i].key);
    CHECK(v && !v->is_array && v->n == 1 && !v->offsets);
    CHECK(ij__gguf_int(v, 0, &n));
    CHECK_INT(n, ints[i].want);
    CHECK(ij__gguf_real(v, 0, &x));
    CHECK(x == (double)ints[i].want);
    CHECK(!ij__gguf_int(v, 1, &n) && !ij__gguf_int(v, -1, &n) && !ij__gguf_real(v, 1, &x));
  }
  int64_t n = 77;
  double x = 0;
  CHECK(!ij__gguf_int(ij__gguf_find(g, "f32"), 0, &n) && !ij__gguf_int(ij__gguf_find(g, "f64"), 0, &n));
  CHECK(!ij__gguf_int(ij__gguf_find(g, "huge"), 0, &n) && !ij__gguf_int(ij__gguf_find(g, "odd"), 0, &n)); /* over 2^63; a bool of 2 */
  CHECK(!ij__gguf_int(ij__gguf_find(g, "text"), 0, &n) && !ij__gguf_int(NULL, 0, &n));
  CHECK_INT(n, 77);
  CHECK(ij__gguf_real(ij__gguf_find(g, "f32"), 0, &x) && x == 0.375);
  CHECK(ij__gguf_real(ij__gguf_find(g, "f64"), 0, &x) && x == -1e300);
  CHECK(!ij__gguf_real(ij__gguf_find(g, "text"), 0, &x));
}

static void check_string(const ij_gguf *g, const char *key, int64_t i, const char *want, size_t n_want) {
  const char *s = NULL;
  size_t n = 0;
  CHECK(ij__gguf_string(g, ij__gguf_find(g, key), i, &s, &n));
  CHECK_INT(n, n_want);
  CHECK(n == n_want && memcmp(s, want, n) == 0);
}

static void check_arrays(const ij_gguf *g) {
  const char *s;
  size_t n;
  int64_t v = 0;
  check_string(g, "text", 0, "a\0b", 3);
  check_string(g, "texts", 0, "one", 3);
  check_string(g, "texts", 1, "", 0);
  check_string(g, "texts", 2, "three", 5);
  CHECK(!ij__gguf_string(g, ij__gguf_find(g, "texts"), 3, &s, &n) && !ij__gguf_string(g, ij__gguf_find(g, "texts"), -1, &s, &n));
  CHECK(!ij__gguf_string(g, ij__gguf_find(g, "u8"), 0, &s, &n) && !ij__gguf_string(g, ij__gguf_find(g, "nothing"), 0, &s, &n));
  const ij_gguf_value *a = ij__gguf_find(g, "numbers");
  CHECK(a && a->is_array && a->n == 3 && a->type == IJ_GGUF_I16);
  for (int i = 0; i < 3; i++) CHECK(ij__gguf_int(a, i, &v) && v == i - 1);
  CHECK(ij__gguf_find(g, "none")->is_array && ij__gguf_find(g, "none")->n == 0);
  CHECK(!ij__gguf_find(g, "U8") && !ij__gguf_find(g, ""));
}

static void put_scalars(gw_file *f) {
  gw_int(f, "u8", IJ_GGUF_U8, 200);
  gw_int(f, "i8", IJ_GGUF_I8, -3);
  gw_int(f, "u16", IJ_GGUF_U16, 60000);
  gw_int(f, "i16", IJ_GGUF_I16, -300);
  gw_int(f, "u32", IJ_GGUF_U32, 4000000000);
  gw_int(f, "i32", IJ_GGUF_I32, -70000);
  gw_f32(f, "f32", 0.375f);
  gw_int(f, "yes", IJ_GGUF_BOOL, 1);
  gw_int(f, "odd", IJ_GGUF_BOOL, 2);
  gw_int(f, "u64", IJ_GGUF_U64, INT64_MAX);
  gw_int(f, "huge", IJ_GGUF_U64, INT64_MIN);
  gw_int(f, "i64", IJ_GGUF_I64, INT64_MIN);
  double d = -1e300;
  uint64_t u;
  memcpy(&u, &d, 8);
  gw_int(f, "f64", IJ_GGUF_F64, (int64_t)u);
  gw_key(f, "text", IJ_GGUF_STRING);
  gw_text(&f->values, "a\0b", 3);
}

static void put_arrays(gw_file *f) {
  gw_array(f, "texts", IJ_GGUF_STRING, 3);
  gw_text(&f->values, "one", 3);
  gw_text(&f->values, "", 0);
  gw_text(&f->values, "three", 5);
  gw_array(f, "numbers", IJ_GGUF_I16, 3);
  for (int i = 0; i < 3; i++) gw_number(&f->values, (uint64_t)(int64_t)(i - 1), 2);
  gw_array(f, "none", IJ_GGUF_F32, 0);
}

static void every_kind_of_value(void) {
  for (uint32_t version = 2; version <= 3; version++) {
    gw_file f = gw_new();
    f.version = version;
    put_scalars(&f);
    put_arrays(&f);
    ij_buf b = gw_finish(&f);
    ij_gguf g;
    unsigned char *block;
    CHECK_OK(parse_exact(&g, b.data, b.len, &block), err);
    CHECK_INT(g.version, version);
    CHECK_INT(g.n_values, 17);
    CHECK_STR(g.values[3].key, "i16"); /* order of the file */
    CHECK_INT(g.alignment, 32);
    check_scalars(&g);
    check_arrays(&g);
    ij__gguf_free(&g);
    free(block);
    ij__buf_free(&b);
  }
}

/* Number, values per block, bytes per block; the numbers are the format's. */
static const struct {
  uint32_t number;
  ij_dtype dtype;
} known_types[] = {
    {0, IJ_DTYPE_F32},      {1, IJ_DTYPE_F16},    {2, IJ_DTYPE_Q4_0},  {3, IJ_DTYPE_Q4_1},   {6, IJ_DTYPE_Q5_0},    {7, IJ_DTYPE_Q5_1},
    {8, IJ_DTYPE_Q8_0},     {10, IJ_DTYPE_Q2_K},  {11, IJ_DTYPE_Q3_K}, {12, IJ_DTYPE_Q4_K},  {13, IJ_DTYPE_Q5_K},   {14, IJ_DTYPE_Q6_K},
    {16, IJ_DTYPE_IQ2_XXS}, {17, IJ_DTYPE_IQ2_XS}, {18, IJ_DTYPE_IQ3_XXS}, {19, IJ_DTYPE_IQ1_S}, {20, IJ_DTYPE_IQ4_NL},
    {21, IJ_DTYPE_IQ3_S},   {22, IJ_DTYPE_IQ2_S}, {23, IJ_DTYPE_IQ4_XS}, {24, IJ_DTYPE_I8},  {25, IJ_DTYPE_I16},    {26, IJ_DTYPE_I32},
    {27, IJ_DTYPE_I64},     {28, IJ_DTYPE_F64},   {29, IJ_DTYPE_IQ1_M}, {30, IJ_DTYPE_BF16}, {34, IJ_DTYPE_TQ1_0},  {35, IJ_DTYPE_TQ2_0},
    {39, IJ_DTYPE_MXFP4},   {40, IJ_DTYPE_NVFP4},
};

static void every_type_of_tensor(void) {
  gw_file f = gw_new();
  for (size_t i = 0; i < IJ_COUNT_OF(known_types); i++) {
    char name[20];
    snprintf(name, sizeof name, "t%u", known_types[i].number);
    gw_tensor(&f, name, known_types[i].number, GW_NE(512, 3), 3 * (uint64_t)ij__dtype_row_bytes(known_types[i].dtype, 512));
  }
  ij_buf b = gw_finish(&f);
  ij_gguf g;
  CHECK_OK(ij__gguf_parse(&g, b.data, b.len, "m.gguf", &err), err);
  CHECK_INT(g.n_tensors, IJ_COUNT_OF(known_types));
  for (size_t i = 0; i < g.n_tensors; i++) {
    CHECK_STR(ij__dtype_name(g.tensors[i].dtype), ij__dtype_name(known_types[i].dtype));
    CHECK_INT(g.tensors[i].n_bytes, 3 * ij__dtype_row_bytes(known_types[i].dtype, 512));
    CHECK_INT(g.tensors[i].n_values, 1536);
  }
  ij__gguf_free(&g);
  ij__buf_free(&b);
}

/* Order of offset, dimensions slowest first, data in the file, an alignment of the file's own. */
static void tensors_lie_where_they_say(void) {
  gw_file f = gw_new();
  f.alignment = 64;
  gw_int(&f, "general.alignment", IJ_GGUF_U32, 64);
  gw_tensor_at(&f, "b", 24, GW_NE(3, 2), 64);
  gw_tensor_at(&f, "a", 25, GW_NE(2, 1, 5, 1), 0);
  f.data_bytes = 70; /* the last tensor is not padded */
  ij_buf b = gw_finish(&f);
  ij_gguf g;
  unsigned char *block;
  CHECK_OK(parse_exact(&g, b.data, b.len, &block), err);
  CHECK_INT(g.alignment, 64);
  CHECK_INT(g.n_tensors, 2);
  CHECK_STR(g.tensors[0].name, "a");
  CHECK_STR(g.tensors[1].name, "b");
  CHECK_STR(g.tensors[1].file, "m.gguf");
  static const int64_t want[] = {1, 5, 1, 2};
  CHECK_INT(g.tensors[0].n_dims, 4);
  for (int i = 0; i < 4; i++) CHECK_INT(g.tensors[0].dims[i], want[i]);
  CHECK_INT(g.tensors[1].dims[0], 2);
  CHECK_INT(g.tensors[1].dims[1], 3);
  CHECK((const unsigned char *)g.tensors[1].data + 6 == block + b.len);
  CHECK(memcmp(g.tensors[1].data, "\x40\x41\x42\x43\x44\x45", 6) == 0);
  ij__gguf_free(&g);
  free(block);
  ij__buf_free(&b);
}

/* --- what is refused: head, keys, values */

static void heads(void) {
  gw_file f = gw_new();
  f.version = 1;
  refuse(&f, IJ_E_UNSUPPORTED, "GGUF version 1; versions 2 and 3 are read");
  f.version = 4;
  refuse(&f, IJ_E_UNSUPPORTED, "GGUF version 4");
  f.version = 0x03000000;
  refuse(&f, IJ_E_UNSUPPORTED, "a big-endian GGUF file");
  f.n_tensors = UINT64_MAX;
  refuse(&f, IJ_E_FORMAT, "the head gives 18446744073709551615 tensors, more than the file has room for");
  f.n_values = (uint64_t)1 << 40;
  refuse(&f, IJ_E_FORMAT, "the head gives 1099511627776 keys, more than the file has room for");
  refuse_bytes("GGJT", 4, IJ_E_FORMAT, "expected it to begin with \"GGUF\"");
  refuse_bytes("tjgg\1\0\0\0", 8, IJ_E_UNSUPPORTED, "a GGML file from before GGUF");
  refuse_bytes("", 0, IJ_E_FORMAT, "truncated: it ends at byte 0, inside the head");
  static const char lfs[] = "version https://git-lfs.github.com/spec/v1\n";
  refuse_bytes(lfs, sizeof lfs - 1, IJ_E_FORMAT, "git lfs pull");
}

static void keys_and_values(void) {
  gw_file f = gw_new();
  gw_int(&f, "a", IJ_GGUF_U8, 1);
  gw_int(&f, "b", IJ_GGUF_U8, 1);
  gw_int(&f, "a", IJ_GGUF_I64, 2);
  gw_int(&f, "a", IJ_GGUF_I64, 2);
  refuse(&f, IJ_E_FORMAT, "key \"a\" occurs more than once");
  gw_int(&f, "", IJ_GGUF_U64, 1);
  refuse(&f, IJ_E_FORMAT, "key number 0 is empty or holds control characters");
  gw_int(&f, "a\nb", IJ_GGUF_U64, 1);
  refuse(&f, IJ_E_FORMAT, "key number 0 is empty or holds control characters");
  gw_key(&f, "k", (ij_gguf_type)13);
  gw_number(&f.values, 0, 8);
  refuse(&f, IJ_E_FORMAT, "key \"k\": unknown type number 13");
  gw_array(&f, "k", (ij_gguf_type)99, 0);
  refuse(&f, IJ_E_FORMAT, "key \"k\": elements of unknown type number 99");
  gw_array(&f, "k", IJ_GGUF_ARRAY, 1);
  gw_number(&f.values, 0, 12);
  refuse(&f, IJ_E_UNSUPPORTED, "key \"k\": an array of arrays is not read");
  static char name[70000];
  memset(name, 'n', sizeof name - 1);
  gw_int(&f, name, IJ_GGUF_U8, 1);
  refuse(&f, IJ_E_FORMAT, "key number 0 has 69999 bytes; at most 65535 are accepted");
}

/* Counts and lengths that the file merely claims. */
static void claims(void) {
  static const uint64_t claimed[] = {3, (uint64_t)1 << 40, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
  for (size_t i = 0; i < IJ_COUNT_OF(claimed); i++) {
    gw_file f = gw_new();
    gw_array(&f, "k", IJ_GGUF_U64, claimed[i]);
    gw_number(&f.values, 0, 16);
    refuse(&f, IJ_E_FORMAT, "inside the value of key \"k\"");
    gw_array(&f, "k", IJ_GGUF_STRING, claimed[i]);
    gw_number(&f.values, 0, 16);
    refuse(&f, IJ_E_FORMAT, "inside the value of key \"k\"");
    gw_key(&f, "k", IJ_GGUF_STRING);
    gw_number(&f.values, claimed[i], 8);
    gw_number(&f.values, 0, 2);
    refuse(&f, IJ_E_FORMAT, "inside the value of key \"k\"");
    gw_number(&f.values, claimed[i] < 100 ? 1000 : claimed[i], 8);
    gw_number(&f.values, 0, 8);
    f.n_values = 1;
    refuse(&f, IJ_E_FORMAT, "truncated: it ends at byte 40, inside key number 0");
  }
}

static void alignments(void) {
  static const int64_t bad[] = {0, -32, 24, 33, 1 << 21};
  gw_file f = gw_new();
  for (size_t i = 0; i < IJ_COUNT_OF(bad); i++) {
    gw_int(&f, "general.alignment", IJ_GGUF_I32, bad[i]);
    refuse(&f, IJ_E_FORMAT, "general.alignment: expected a power of two up to 1048576, found ");
  }
  gw_string(&f, "general.alignment", "32");
  refuse(&f, IJ_E_FORMAT, "general.alignment: expected an integer, found string");
  gw_array(&f, "general.alignment", IJ_GGUF_U32, 1);
  gw_number(&f.values, 32, 4);
  refuse(&f, IJ_E_FORMAT, "general.alignment: expected an integer, found an array of u32");
}

/* --- what is refused: tensors */

static void types(void) {
  static const struct {
    uint32_t type;
    const char *want;
  } cases[] = {{4, "type number 4 (Q4_2, retired)"},   {5, "type number 5 (Q4_3, retired)"},  {9, "type number 9 (Q8_1)"},
               {15, "type number 15 (Q8_K)"},          {31, "31 (Q4_0_4_4, retired)"},        {32, "32 (Q4_0_4_8, retired)"},
               {33, "33 (Q4_0_8_8, retired)"},         {36, "36 (IQ4_NL_4_4, retired)"},      {37, "37 (IQ4_NL_4_8, retired)"},
               {38, "38 (IQ4_NL_8_8, retired)"},       {41, "41 (Q1_0)"},                     {42, "42 (unknown)"},
               {UINT32_MAX, "4294967295 (unknown) is not one that this version reads"}};
  gw_file f = gw_new();
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    gw_tensor(&f, "blk.0.x", cases[i].type, GW_NE(256), 64);
    refuse(&f, IJ_E_UNSUPPORTED, cases[i].want);
    CHECK_HAS(err.message, "tensor \"blk.0.x\": ");
  }
  gw_tensor(&f, "x", 99, GW_NE(256), 64);
  gw_tensor(&f, "y", 0, GW_NE(0), 64);
  gw_tensor(&f, "z", 98, GW_NE(256), 64);
  refuse(&f, IJ_E_FORMAT, "3 findings: tensor \"x\": type number 99 (unknown) is not one that this version reads; tensor \"y\": "
         "dimension 0 "
         "is zero; tensor \"z\": type number 98");
}

static void shapes(void) {
  gw_file f = gw_new();
  gw_tensor(&f, "x", 0, GW_NE(4, 0, 4), 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\": dimension 1 is zero");
  gw_tensor(&f, "x", 0, GW_NE((uint64_t)1 << 32, (uint64_t)1 << 31), 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\": the product of its 2 dimensions does not fit in 63 bits");
  gw_tensor(&f, "x", 0, GW_NE(UINT64_MAX), 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\": the product of its 1 dimensions");
  gw_tensor(&f, "x", 28, GW_NE((uint64_t)1 << 62), 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\": its 4611686018427387904 values take more bytes than fit in 64 bits");
  gw_tensor(&f, "x", 12, GW_NE(128, 2), 144);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\": rows of 128 values: Q4_K needs a multiple of 256");
  gw_tensor(&f, "x", 0, 0, NULL, 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\": expected 1 to 4 dimensions, found 0");
  gw_tensor(&f, "x", 0, GW_NE(1, 1, 1, 1, 1), 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\": expected 1 to 4 dimensions, found 5");
  gw_tensor(&f, "", 0, GW_NE(4, 1, 1), 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"\": the name is empty or holds control characters");
  gw_tensor(&f, "a\tb", 0, GW_NE(4), 64);
  refuse(&f, IJ_E_FORMAT, "tensor \"a?b\": the name is empty or holds control characters");
  gw_tensor(&f, "x", 0, GW_NE(4), 16);
  gw_tensor(&f, "x", 0, GW_NE(8), 32);
  refuse(&f, IJ_E_FORMAT, "tensor \"x\" occurs more than once");
}

static void layouts(void) {
  gw_file f = gw_new();
  gw_tensor_at(&f, "x", 24, GW_NE(40), 0);
  gw_tensor_at(&f, "y", 24, GW_NE(4), 32);
  gw_tensor_at(&f, "z", 24, GW_NE(4), 68);
  f.data_bytes = 96;
  refuse(&f, IJ_E_FORMAT, "2 findings: tensor \"y\": begins at byte 32 of the data, inside tensor \"x\", which ends at 40; tensor \"z\": "
         "offset "
         "68 is not a multiple of the alignment 32");
  gw_tensor_at(&f, "x", 24, GW_NE(32), 0);
  gw_tensor_at(&f, "y", 24, GW_NE(32), 0);
  f.data_bytes = 32;
  refuse(&f, IJ_E_FORMAT, "tensor \"y\": begins at byte 0 of the data, inside tensor \"x\", which ends at 32");
  gw_tensor_at(&f, "x", 24, GW_NE(32), 0);
  gw_tensor_at(&f, "y", 24, GW_NE(33), 32);
  gw_tensor_at(&f, "z", 24, GW_NE(1), 96);
  f.data_bytes = 64;
  refuse(&f, IJ_E_FORMAT, "truncated: it has 192 bytes; 2 of 3 tensors reach past the end, first tensor \"y\" (33 bytes from byte 32 of "
         "the "
         "data, which begins at byte 128). Download it again");
  gw_tensor_at(&f, "x", 24, GW_NE(32), UINT64_MAX - 31);
  refuse(&f, IJ_E_FORMAT, "1 of 1 tensors reach past the end");
}

/* Every prefix of a good file is refused, and says that it is short. */
static void every_prefix_is_refused(void) {
  gw_file f = gw_new();
  gw_string(&f, "general.architecture", "inkling");
  gw_array(&f, "texts", IJ_GGUF_STRING, 2);
  gw_text(&f.values, "one", 3);
  gw_text(&f.values, "two", 3);
  gw_int(&f, "n", IJ_GGUF_U32, 5);
  gw_tensor(&f, "x", 0, GW_NE(4), 16);
  gw_tensor(&f, "y", 24, GW_NE(32), 32);
  ij_buf b = gw_finish(&f);
  for (size_t n = 0; n < b.len; n++) {
    ij_gguf g;
    unsigned char *block;
    CHECK_INT(parse_exact(&g, b.data, n, &block), IJ_E_FORMAT);
    if (!strstr(err.message, "truncated") && !strstr(err.message, "more than the file has room for")) TEST_FAIL("%zu: %s", n, err.message);
    free(block);
  }
  ij__buf_free(&b);
}

/* Near-linear in the number of tensors and keys: a quadratic step would take minutes. */
static void many_of_each(void) {
  enum { MANY = 100000 };
  gw_file f = gw_new();
  char name[40];
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "k%d", i);
    gw_int(&f, name, IJ_GGUF_U32, i);
    snprintf(name, sizeof name, "t%d", i);
    gw_tensor_at(&f, name, 24, GW_NE(32), 32 * (uint64_t)(MANY - 1 - i)); /* against the order of names */
  }
  f.data_bytes = 32 * MANY;
  ij_buf b = gw_finish(&f);
  ij_gguf g;
  CHECK_OK(ij__gguf_parse(&g, b.data, b.len, "m.gguf", &err), err);
  CHECK_INT(g.n_tensors, MANY);
  for (int i = 0; i < MANY && g.n_tensors == MANY; i += 9973) {
    snprintf(name, sizeof name, "t%d", MANY - 1 - i);
    CHECK_STR(g.tensors[i].name, name);
  }
  ij__gguf_free(&g);
  ij__buf_free(&b);
}

/* --- on disk */

static char folder[256];

static void fresh_folder(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/inkjet-gguf-XXXXXX", base && *base ? base : P_tmpdir);
  if (!mkdtemp(folder)) {
    perror(folder);
    exit(2);
  }
}

static const char *in_folder(const char *name) {
  static char paths[4][512];
  static int at;
  at = (at + 1) % 4;
  snprintf(paths[at], sizeof paths[at], "%s/%s", folder, name);
  return paths[at];
}

static void remove_folder(void) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlink(in_folder(e->d_name));
  }
  if (d) closedir(d);
  CHECK_INT(rmdir(folder), 0);
}

/* Part i (from 0) of n of a model with two tensors a part, the first part with metadata only. */
static gw_file part(int i, int n) {
  gw_file f = gw_new();
  char name[20];
  if (i == 0) {
    gw_string(&f, "general.architecture", "inkling");
    gw_string(&f, "general.name", "whole");
  }
  gw_int(&f, "split.no", IJ_GGUF_U16, i);
  gw_int(&f, "split.count", IJ_GGUF_U16, n);
  gw_int(&f, "split.tensors.count", IJ_GGUF_I32, 2 * (n - 1));
  for (int k = 0; i > 0 && k < 2; k++) {
    snprintf(name, sizeof name, "t%d", 2 * (i - 1) + k);
    gw_tensor(&f, name, 24, GW_NE(32, i), 32 * (uint64_t)i);
  }
  return f;
}

static const char *part_name(int i, int n) {
  static char name[4][40];
  static int at;
  at = (at + 1) % 4;
  snprintf(name[at], sizeof name[at], "m-%05d-of-%05d.gguf", i + 1, n);
  return name[at];
}

/* Written last to first, so that no order of the folder helps. */
static void put_parts(int n) {
  for (int i = n - 1; i >= 0; i--) {
    gw_file f = part(i, n);
    gw_put(folder, part_name(i, n), &f);
  }
}

static void check_whole(const char *path, int n) {
  ij_ckpt *c = NULL;
  CHECK_OK(ij__ckpt_open(&c, path, &err), err);
  if (!c) return;
  const char *s = "";
  size_t len = 0;
  CHECK_INT(ij__ckpt_n_files(c), n);
  CHECK_INT(ij__ckpt_n_tensors(c), 2 * (n - 1));
  CHECK(ij__ckpt_gguf(c) != NULL && !ij__ckpt_config(c));
  CHECK(ij__gguf_string(ij__ckpt_gguf(c), ij__gguf_find(ij__ckpt_gguf(c), "general.name"), 0, &s, &len) && len == 5);
  CHECK(ij__str_ends_with(ij__ckpt_config_path(c), part_name(0, n)));
  CHECK_STR(ij__ckpt_folder(c), folder);
  for (int i = 0; i < 2 * (n - 1); i++) {
    char name[20];
    snprintf(name, sizeof name, "t%d", i);
    CHECK_STR(ij__ckpt_tensor(c, i)->name, name);
    CHECK(ij__ckpt_find(c, name) == ij__ckpt_tensor(c, i));
    CHECK(ij__str_ends_with(ij__ckpt_tensor(c, i)->file, part_name(i / 2 + 1, n)));
    CHECK_INT(*(const unsigned char *)ij__ckpt_tensor(c, i)->data, i % 2 ? 32 * (i / 2 + 1) : 0);
  }
  ij__ckpt_close(&c);
}

static void any_part_opens_the_model(void) {
  fresh_folder();
  put_parts(4);
  for (int i = 0; i < 4; i++) check_whole(in_folder(part_name(i, 4)), 4);
  check_whole(folder, 4);
  remove_folder();
}

static void one_file_is_a_model(void) {
  fresh_folder();
  gw_file f = gw_new();
  gw_string(&f, "general.architecture", "inkling");
  gw_tensor(&f, "x", 24, GW_NE(32), 32);
  gw_put(folder, "blob", &f); /* known by its first bytes, as in some caches */
  ij_ckpt *c = NULL;
  CHECK_OK(ij__ckpt_open(&c, in_folder("blob"), &err), err);
  CHECK(c && ij__ckpt_n_tensors(c) == 1 && ij__ckpt_n_files(c) == 1);
  ij__ckpt_close(&c);
  gw_int(&f, "split.tensors.count", IJ_GGUF_I32, 2);
  gw_tensor(&f, "x", 24, GW_NE(32), 32);
  gw_put(folder, "m.gguf", &f);
  refuse_path(in_folder("m.gguf"), IJ_E_FORMAT, "/m.gguf", "split.tensors.count: expected 2 tensors in 1 part, found 1");
  refuse_path(in_folder("absent.gguf"), IJ_E_IO, "/absent.gguf", "No such file");
  remove_folder();
}

static void parts_that_are_not_there(void) {
  fresh_folder();
  put_parts(4);
  CHECK_INT(unlink(in_folder(part_name(2, 4))), 0);
  refuse_path(in_folder(part_name(0, 4)), IJ_E_IO, folder, "part 3 of 4, \"m-00003-of-00004.gguf\", is not in the folder; download it");
  CHECK_INT(unlink(in_folder(part_name(0, 4))), 0);
  refuse_path(folder, IJ_E_IO, folder, "2 findings: part 1 of 4, \"m-00001-of-00004.gguf\", is not in the folder; download it; part 3 of "
              "4");
  remove_folder();
}

static void parts_under_wrong_names(void) {
  fresh_folder();
  put_parts(4);
  CHECK_INT(rename(in_folder(part_name(1, 4)), in_folder("x")), 0);
  CHECK_INT(rename(in_folder(part_name(2, 4)), in_folder(part_name(1, 4))), 0);
  CHECK_INT(rename(in_folder("x"), in_folder(part_name(2, 4))), 0);
  refuse_path(in_folder(part_name(0, 4)), IJ_E_FORMAT, part_name(1, 4), "its name says part 2 of 4, its keys say part 3 of 4: renamed, "
              "or of "
              "another model?");
  refuse_path(in_folder(part_name(2, 4)), IJ_E_FORMAT, part_name(2, 4), "its name says part 3 of 4, its keys say part 2 of 4");
  CHECK_INT(rename(in_folder(part_name(3, 4)), in_folder("last.gguf")), 0);
  refuse_path(in_folder("last.gguf"), IJ_E_FORMAT, "/last.gguf", "this is part 4 of 4; the parts are found by their names: expected one "
              "that "
              "ends in -00004-of-00004.gguf");
  CHECK_INT(rename(in_folder("last.gguf"), in_folder("m-00004-of-00005.gguf")), 0);
  refuse_path(in_folder("m-00004-of-00005.gguf"), IJ_E_FORMAT, "/m-00004-of-00005.gguf", "its name says part 4 of 5, its keys say part 4 "
              "of 4");
  remove_folder();
}

/* One part of four that belongs to something else. */
static void foreign(gw_file f, const char *want) {
  gw_put(folder, part_name(2, 4), &f);
  refuse_path(in_folder(part_name(0, 4)), IJ_E_FORMAT, part_name(2, 4), want);
}

static gw_file part_with(const char *key, const char *text) {
  gw_file f = part(2, 4);
  gw_string(&f, key, text);
  return f;
}

static gw_file keys(int no, int count) {
  gw_file f = gw_new();
  if (no >= 0) gw_int(&f, "split.no", IJ_GGUF_U16, no);
  if (count >= 0) gw_int(&f, "split.count", IJ_GGUF_U16, count);
  return f;
}

static void parts_of_other_models(void) {
  fresh_folder();
  put_parts(4);
  foreign(part(2, 3), "its name says part 3 of 4, its keys say part 3 of 3");
  foreign(part(3, 4), "its name says part 3 of 4, its keys say part 4 of 4");
  foreign(gw_new(), "its name says part 3 of 4, but its keys do not: a file of another model?");
  foreign(keys(2, 1), "split.no is 2, but split.count says that there is one part");
  foreign(keys(4, 4), "split.no: expected 0 to 3, found 4");
  foreign(keys(-1, 4), "split.no: expected 0 to 3, found -1 (no such key)");
  foreign(part_with("general.architecture", "llama"), "key \"general.architecture\" differs from that in \"m-00001-of-00004.gguf\": a "
          "part of "
          "another model?");
  foreign(part_with("general.name", "whale"), "key \"general.name\" differs");
  foreign(part_with("general.name", "wholes"), "key \"general.name\" differs");
  gw_file f = keys(2, 4);
  gw_int(&f, "split.tensors.count", IJ_GGUF_I32, 7);
  foreign(f, "key \"split.tensors.count\" differs");
  f = gw_new();
  gw_string(&f, "split.no", "2");
  gw_int(&f, "split.count", IJ_GGUF_I32, -4);
  foreign(f, "split.no: expected an integer, found string; split.count: expected 0 or more, found -4");
  f = keys(2, -1);
  gw_int(&f, "split.count", IJ_GGUF_U32, 100000);
  foreign(f, "split.count: 100000 parts; at most 99999 are accepted");
  f = part_with("general.architecture", "inkling"); /* as published parts have it */
  gw_int(&f, "general.alignment", IJ_GGUF_U32, 32);
  gw_put(folder, part_name(2, 4), &f);
  check_whole(in_folder(part_name(0, 4)), 4);
  remove_folder();
}

static void tensors_of_all_parts(void) {
  fresh_folder();
  put_parts(4);
  gw_file f = keys(2, 4);
  gw_tensor(&f, "t2", 24, GW_NE(32), 32);
  gw_put(folder, part_name(2, 4), &f);
  refuse_path(in_folder(part_name(0, 4)), IJ_E_FORMAT, part_name(0, 4), "split.tensors.count: expected 6 tensors in 4 parts, found 5");
  f = keys(2, 4);
  gw_tensor(&f, "t1", 24, GW_NE(32), 32);
  gw_tensor(&f, "t3", 24, GW_NE(32), 32);
  gw_put(folder, part_name(2, 4), &f);
  refuse_path(in_folder(part_name(0, 4)), IJ_E_FORMAT, folder, "tensor \"t1\" is in \"m-00002-of-00004.gguf\" and in "
              "\"m-00003-of-00004.gguf\"");
  remove_folder();
}

static void put_model(const char *name, const char *architecture) {
  gw_file f = gw_new();
  gw_string(&f, "general.architecture", architecture);
  gw_tensor(&f, "x", 24, GW_NE(32), 32);
  gw_put(folder, name, &f);
}

static void a_folder_holds_one_model(void) {
  ij_ckpt *c = NULL;
  fresh_folder();
  refuse_path(folder, IJ_E_IO, folder, "expected .safetensors files in this folder, found none");
  put_model("mmproj.gguf", "clip");
  put_model("zz-mmproj.gguf", "clip");
  refuse_path(folder, IJ_E_FORMAT, folder, "all 2 GGUF files in this folder hold towers");
  put_model("ours.gguf", "inkling");
  put_model(".hidden.gguf", "inkling");
  CHECK_OK(ij__ckpt_open(&c, folder, &err), err);
  CHECK(c && ij__str_ends_with(ij__ckpt_tensor(c, 0)->file, "/ours.gguf"));
  ij__ckpt_close(&c);
  put_parts(3);
  refuse_path(folder, IJ_E_ARGUMENT, folder, "2 GGUF models in this folder: \"m-00001-of-00003.gguf\"; \"ours.gguf\"; name one of the "
              "files");
  CHECK_INT(unlink(in_folder("ours.gguf")), 0);
  check_whole(folder, 3);
  gw_put(folder, "m-00003-of-00004.gguf", &(gw_file){.version = 3, .alignment = 32}); /* same prefix, another count: another model */
  refuse_path(folder, IJ_E_ARGUMENT, folder, "2 GGUF models in this folder: \"m-00001-of-00003.gguf\"; \"m-00003-of-00004.gguf\"");
  remove_folder();
}

/* Safetensors and GGUF in one folder: it is a safetensors checkpoint, and a GGUF file is opened by its name. */
static void safetensors_come_first(void) {
  fresh_folder();
  put_model("ours.gguf", "inkling");
  FILE *f = fopen(in_folder("m.safetensors"), "wb");
  if (f) fwrite("\2\0\0\0\0\0\0\0{}", 1, 10, f);
  CHECK(f && fclose(f) == 0);
  ij_ckpt *c = NULL;
  CHECK_OK(ij__ckpt_open(&c, folder, &err), err);
  CHECK(c && !ij__ckpt_gguf(c) && ij__ckpt_n_tensors(c) == 0);
  ij__ckpt_close(&c);
  CHECK_OK(ij__ckpt_open(&c, in_folder("ours.gguf"), &err), err);
  CHECK(c && ij__ckpt_gguf(c) && ij__ckpt_n_tensors(c) == 1);
  ij__ckpt_close(&c);
  remove_folder();
}

/* --- without memory */

static void failing_allocations(void) {
  fresh_folder();
  put_parts(3);
  int64_t held = ij__alloc_blocks();
  int n = 0;
  for (ij_status s = IJ_E_NOMEM; s != IJ_OK && n < 1000; n++) {
    ij_ckpt *c = NULL;
    ij__alloc_fail_after(n + 1);
    s = ij__ckpt_open(&c, folder, &err);
    ij__alloc_fail_after(0);
    if (s != IJ_OK) CHECK_INT(s, IJ_E_NOMEM);
    ij__ckpt_close(&c);
    CHECK_INT(ij__alloc_blocks(), held);
  }
  CHECK(n > 20 && n < 1000);
  remove_folder();
}

int main(void) {
  RUN(every_kind_of_value);
  RUN(every_type_of_tensor);
  RUN(tensors_lie_where_they_say);
  RUN(heads);
  RUN(keys_and_values);
  RUN(claims);
  RUN(alignments);
  RUN(types);
  RUN(shapes);
  RUN(layouts);
  RUN(every_prefix_is_refused);
  RUN(many_of_each);
  RUN(any_part_opens_the_model);
  RUN(one_file_is_a_model);
  RUN(parts_that_are_not_there);
  RUN(parts_under_wrong_names);
  RUN(parts_of_other_models);
  RUN(tensors_of_all_parts);
  RUN(a_folder_holds_one_model);
  RUN(safetensors_come_first);
  RUN(failing_allocations);
  return test_report();
}
