/* test_sound.c: the way from samples to dMel bins against right answers from elsewhere (tests/fixtures/media): bins of clips, the mel
 * filterbank, resampled samples; the same bins however the input is cut; and headers that lie. */
#include "core/alloc.h"
#include "io/json.h"
#include "media/audio_parts.h"
#include "test.h"

#define FOLDER "tests/fixtures/media/"

static const ij_media_options options = {.max_rows = 32768};

static uint8_t *read_file(const char *name, size_t *n) {
  char path[256];
  snprintf(path, sizeof path, FOLDER "%s", name);
  FILE *f = fopen(path, "rb");
  uint8_t *bytes = malloc(1 << 20);
  *n = f && bytes ? fread(bytes, 1, 1 << 20, f) : 0;
  if (*n == 0) TEST_FAIL("%s cannot be read", path);
  if (f) fclose(f);
  return bytes;
}

static ij_json *read_json(const char *name) {
  size_t n;
  ij_json *doc = NULL;
  ij_err err = {0};
  uint8_t *bytes = read_file(name, &n);
  CHECK_OK(ij__json_parse(&doc, (const char *)bytes, n, name, &err), err);
  free(bytes);
  return doc;
}

static int64_t int_of(const ij_json_value *v) {
  int64_t x = INT64_MIN;
  if (!ij__json_get_int(v, &x)) TEST_FAIL("not an integer");
  return x;
}

static double double_of(const ij_json_value *v) {
  double x = NAN;
  if (!ij__json_get_double(v, &x)) TEST_FAIL("not a number");
  return x;
}

static const char *text_of(const ij_json_value *v) {
  const char *s = "";
  size_t n;
  if (!ij__json_get_string(v, &s, &n)) TEST_FAIL("not a text");
  return s;
}

static bool is_ambiguous(const ij_json_value *list, int64_t frame, int64_t mel) {
  ij_json_iter it = {0}, pair;
  for (const ij_json_value *v, *f, *m; ij__json_next(list, &it, NULL, NULL, &v);) {
    memset(&pair, 0, sizeof pair);
    if (ij__json_next(v, &pair, NULL, NULL, &f) && ij__json_next(v, &pair, NULL, NULL, &m) && int_of(f) == frame && int_of(m) == mel)
      return true;
  }
  return false;
}

/* [frames][80] of a case against the bins. */
static void compare_bins(const char *file, const ij_json_value *c, const ij__sound *sound) {
  const ij_json_value *frames = ij__json_member(c, "dmel"), *ambiguous = ij__json_member(c, "ambiguous"), *frame, *v;
  ij_json_iter rows = {0};
  int64_t i = 0;
  CHECK_INT(ij__json_size(frames), sound->n_rows);
  for (; ij__json_next(frames, &rows, NULL, NULL, &frame) && i < sound->n_rows; i++) {
    ij_json_iter cells = {0};
    CHECK_INT(ij__json_size(frame), 80);
    for (int64_t mel = 0; ij__json_next(frame, &cells, NULL, NULL, &v); mel++) {
      const int64_t want = int_of(v), got = sound->bins[i * 80 + mel];
      if (got != want && !(is_ambiguous(ambiguous, i, mel) && llabs((long long)(got - want)) == 1))
        TEST_FAIL("%s: frame %d, mel %d: %d, expected %d", file, (int)i, (int)mel, (int)got, (int)want);
    }
  }
}

static void check_clip(const ij_json_value *c) {
  const char *file = text_of(ij__json_member(c, "file"));
  ij__sound sound;
  ij_err err = {0};
  size_t n;
  uint8_t *bytes = read_file(file, &n);
  CHECK_OK(ij__sound_open(&sound, bytes, n, file, &options, &err), err);
  if (sound.bins) {
    CHECK_STR(sound.format, "WAV, 16-bit");
    compare_bins(file, c, &sound);
    const ij_json_value *samples = ij__json_member(c, "samples");
    CHECK_INT(sound.n_samples, int_of(ij__json_type_of(samples) == IJ_JSON_INT ? samples : ij__json_member(c, "out")));
  }
  ij__free(sound.bins);
  free(bytes);
}

static void clips_have_the_known_bins(void) {
  ij_json *doc = read_json("audio.json");
  ij_json_iter it = {0};
  int n = 0;
  for (const ij_json_value *c; ij__json_next(ij__json_member(ij__json_root(doc), "cases"), &it, NULL, NULL, &c); n++) check_clip(c);
  CHECK_INT(n, 9);
  ij__json_free(&doc);
}

static void the_filterbank_is_the_known_one(void) {
  ij_json *doc = read_json("mel.json");
  ij_json_iter it = {0};
  const ij_json_value *row, *w;
  int rows = 0, weights = 0;
  while (ij__json_next(ij__json_member(ij__json_root(doc), "rows"), &it, NULL, NULL, &row)) {
    const int mel = (int)int_of(ij__json_member(row, "mel")), first = (int)int_of(ij__json_member(row, "first_bin"));
    int freq = first, n = 0;
    double sum = 0;
    ij_json_iter each = {0};
    while (ij__json_next(ij__json_member(row, "weights"), &each, NULL, NULL, &w)) {
      CHECK_NEAR(ij__mel_weight(mel, freq), double_of(w), 1e-8);
      freq++;
      weights++;
    }
    for (int k = 0; k < IJ_MEL_FREQS; k++) {
      n += ij__mel_weight(mel, k) > 0;
      sum += (double)ij__mel_weight(mel, k);
      CHECK(k >= first || ij__mel_weight(mel, k) == 0);
    }
    CHECK_INT(n, int_of(ij__json_member(row, "n")));
    CHECK_NEAR(sum, double_of(ij__json_member(row, "sum")), 1e-7);
    rows++;
  }
  CHECK_INT(rows, 80);
  CHECK(weights > 100);
  ij__json_free(&doc);
}

/* A whole sound through the resampler, pushed in blocks of `block`. */
static int64_t resample(const double *in, int64_t n, int rate, int64_t block, double *out, int64_t max) {
  ij__resampler r;
  ij_err err = {0};
  int64_t n_out = 0, more;
  CHECK_OK(ij__resampler_open(&r, rate, &err), err);
  for (int64_t at = 0; at < n; at += block) {
    ij__resampler_push(&r, in + at, IJ_MIN(block, n - at));
    while ((more = ij__resampler_pull(&r, out + n_out, IJ_MIN(max - n_out, 7))) > 0) n_out += more;
  }
  ij__resampler_end(&r);
  while ((more = ij__resampler_pull(&r, out + n_out, max - n_out)) > 0) n_out += more;
  ij__resampler_free(&r);
  return n_out;
}

static void resampled_samples_are_the_known_ones(void) {
  ij_json *doc = read_json("resample.json");
  ij_json_iter it = {0};
  static double mono[8000], out[8000];
  int n_cases = 0;
  for (const ij_json_value *c, *v; ij__json_next(ij__json_member(ij__json_root(doc), "cases"), &it, NULL, NULL, &c); n_cases++) {
    const int channels = (int)int_of(ij__json_member(c, "channels")), rate = (int)int_of(ij__json_member(c, "rate"));
    const int64_t n_in = int_of(ij__json_member(c, "in"));
    size_t n;
    uint8_t *bytes = read_file(text_of(ij__json_member(c, "file")), &n);
    CHECK_INT(n, 44 + n_in * channels * 2);
    for (int64_t i = 0; i < n_in; i++) {
      mono[i] = 0;
      for (int k = 0; k < channels; k++) {
        const uint8_t *b = bytes + 44 + (i * channels + k) * 2;
        mono[i] += (int16_t)(b[0] | b[1] << 8) / 32768.0 / channels;
      }
    }
    CHECK_INT(resample(mono, n_in, rate, 1000, out, 8000), int_of(ij__json_member(c, "out")));
    ij_json_iter each = {0};
    for (int64_t i = 0; ij__json_next(ij__json_member(c, "samples"), &each, NULL, NULL, &v); i++) CHECK_NEAR(out[i], double_of(v), 1e-7);
    free(bytes);
    if (ij__json_member(c, "dmel")) check_clip(c);
  }
  CHECK_INT(n_cases, 2);
  ij__json_free(&doc);
}

static void sines_are_sines(void) {
  for (int64_t den = 1; den < 2000; den = den * 3 / 2 + 1) {
    for (int64_t num = -3 * den; num <= 3 * den; num++) {
      CHECK_NEAR(ij__sin_pi(num, den), sin(3.14159265358979323846 * (double)num / (double)den), 2e-15);
    }
  }
  CHECK(ij__sin_pi(1, 2) == 1 && ij__sin_pi(1, 1) == 0 && ij__sin_pi(-1, 2) == -1 && ij__sin_pi(1000000001, 2) == 1);
}

static void the_cut_does_not_matter(void) {
  static const int rates[] = {8000, 11025, 16000, 22050, 44100, 44101, 48000, 192000, 768000, 1000, 15999, 16001};
  static double in[20000], want[330000], got[330000];
  uint64_t seed = 7;
  for (size_t i = 0; i < 20000; i++) in[i] = (double)(int64_t)test_random(&seed) / 0x1p63;
  for (size_t k = 0; k < IJ_COUNT_OF(rates); k++) {
    const int64_t n = resample(in, 20000, rates[k], 1024, want, 330000);
    CHECK_INT(n, ij__resampled_length(20000, rates[k]));
    static const int64_t blocks[] = {1, 7, 333, 1000};
    for (size_t b = 0; b < IJ_COUNT_OF(blocks); b++) {
      CHECK_INT(resample(in, 20000, rates[k], blocks[b], got, 330000), n);
      CHECK(memcmp(want, got, (size_t)n * sizeof *got) == 0);
    }
  }
}

/* Not only the bins: every bit of what they are made of is the same with any compiler, system and instruction set. */
static void the_bits_are_the_same_everywhere(void) {
  static double in[30000], out[40000];
  static const int rates[] = {44100, 8000, 192000, 16000, 22050};
  double values[IJ_MEL_BINS];
  uint64_t seed = 11, hash = 0xcbf29ce484222325u;
  ij__mel *m = NULL;
  ij_err err = {0};
  CHECK_OK(ij__mel_open(&m, &err), err);
  for (size_t i = 0; i < IJ_COUNT_OF(in); i++) in[i] = (double)(int16_t)test_random(&seed) / 32768;
  for (size_t k = 0; k < IJ_COUNT_OF(rates) && m; k++) {
    const int64_t n = resample(in, rates[k] < 16000 ? 15000 : 30000, rates[k], 1024, out, 40000);
    for (int64_t at = 0; at + IJ_MEL_WINDOW <= n; at += IJ_MEL_HOP) {
      ij__mel_values(m, out + at, values);
      for (int row = 0; row < IJ_MEL_BINS; row++) {
        uint64_t bits;
        memcpy(&bits, &values[row], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
        hash ^= hash >> 29;
      }
    }
  }
  if (hash != 0xa770a986d66ac25eu) TEST_FAIL("the hash of all values is 0x%016llx", (unsigned long long)hash);
  ij__free(m);
}

/* ---------------------------------------------------------------------------------------- headers that lie */

enum { N_WAV = 44 + 2000 };

/* 1000 samples of 16 bits at 16 kHz, with a plain header. */
static void make_wav(uint8_t *b) {
  static const uint8_t head[44] = "RIFF\xf4\x07\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\xd0\x07\0";
  uint64_t seed = 3;
  memcpy(b, head, sizeof head);
  for (int i = 44; i < N_WAV; i++) b[i] = (uint8_t)test_random(&seed);
}

static ij_status open_exact(const uint8_t *b, size_t n, int64_t max_rows, ij__sound *sound, ij_err *err) {
  const ij_media_options limited = {.max_rows = max_rows};
  uint8_t *exact = malloc(n ? n : 1); /* a sanitizer sees a read past the end */
  if (!exact) abort();
  memcpy(exact, b, n);
  const ij_status s = ij__sound_open(sound, exact, n, "x.wav", &limited, err);
  free(exact);
  if (s != IJ_OK) CHECK(!sound->bins && err->code == s && (s == IJ_E_NOMEM || strcmp(err->where, "x.wav") == 0));
  return s;
}

typedef struct lie {
  int at, n;
  const char *bytes; /* written over the header at `at` */
  ij_status status;
  const char *message;
} lie;

static const lie lies[] = {
  {22, 2, "\0\0", IJ_E_FORMAT, "contradictory: 0 channels"},
  {22, 2, "\2\0", IJ_E_FORMAT, "contradictory: 2 channels of 16 bits in frames of 2 bytes"},
  {22, 2, "\xff\xff", IJ_E_FORMAT, "contradictory"},
  {24, 4, "\0\0\0\0", IJ_E_FORMAT, "0 samples per second: expected 1000 to 768000"},
  {24, 4, "\xff\xff\xff\xff", IJ_E_FORMAT, "4294967295 samples per second"},
  {24, 4, "\1\0\0\0", IJ_E_FORMAT, "1 samples per second"},
  {32, 2, "\0\0", IJ_E_FORMAT, "contradictory"},
  {34, 2, "\0\0", IJ_E_UNSUPPORTED, "integer samples of 0 bits"},
  {34, 2, "\x40\0", IJ_E_UNSUPPORTED, "integer samples of 64 bits"},
  {20, 2, "\3\0", IJ_E_UNSUPPORTED, "float samples of 16 bits: expected 32 or 64"},
  {20, 2, "\7\0", IJ_E_UNSUPPORTED, "mu-law (format tag 0x0007)"},
  {20, 2, "\2\0", IJ_E_UNSUPPORTED, "Microsoft ADPCM"},
  {20, 2, "\x34\x12", IJ_E_UNSUPPORTED, "a coding that is not known here (format tag 0x1234)"},
  {20, 2, "\xfe\xff", IJ_E_FORMAT, "extensible `fmt ` chunk has 16 bytes"},
  {16, 4, "\x0f\0\0\0", IJ_E_FORMAT, "`fmt ` chunk has 15 bytes"},
  {16, 4, "\xff\xff\0\0", IJ_E_FORMAT, "a chunk before the samples has 65535 bytes"},
  {12, 4, "fnt ", IJ_E_FORMAT, "comes before the `fmt ` chunk, or there is none"},
  {36, 4, "dada", IJ_E_FORMAT, "no `data` chunk"},
  {40, 4, "\xd1\x07\0\0", IJ_E_FORMAT, "cut off: its header says 2001 bytes of samples, and 2000 are there"},
  {40, 4, "\xff\xff\xfe\x7f", IJ_E_FORMAT, "cut off"},
  {40, 4, "\0\0\0\0", IJ_E_FORMAT, "empty: it has no samples"},
  {40, 4, "\1\0\0\0", IJ_E_FORMAT, "empty: it has no samples"},
  {8, 4, "WAVX", IJ_E_UNSUPPORTED, "no kind of sound that is known"},
  {0, 4, "RIFX", IJ_E_UNSUPPORTED, "big-endian WAV"},
  {0, 12, "FORM\0\0\0\0AIFF", IJ_E_UNSUPPORTED, "this is AIFF"},
  {0, 8, "\0\0\0\x20" "ftyp", IJ_E_UNSUPPORTED, "MP4 or M4A"},
  /* Not lies: sizes that were not known when the header was written, and other sizes that do not matter. */
  {40, 4, "\xff\xff\xff\xff", IJ_OK, ""},
  {40, 4, "\0\xf0\xff\x7f", IJ_OK, ""},
  {4, 4, "\xff\xff\xff\xff", IJ_OK, ""},
  {4, 4, "\0\0\0\0", IJ_OK, ""},
  {40, 4, "\xcf\x07\0\0", IJ_OK, ""}, /* the last sample is not whole */
};

static void lying_headers_are_told(void) {
  uint8_t b[N_WAV];
  for (size_t i = 0; i < IJ_COUNT_OF(lies); i++) {
    const lie *l = &lies[i];
    ij__sound sound;
    ij_err err = {0};
    make_wav(b);
    memcpy(b + l->at, l->bytes, (size_t)l->n);
    const ij_status s = open_exact(b, N_WAV, 100, &sound, &err);
    if (s != l->status) TEST_FAIL("lie %d: %s (%s), expected %s", (int)i, ij_status_name(s), err.message, ij_status_name(l->status));
    CHECK_HAS(err.message, l->message);
    if (s == IJ_OK) CHECK_INT(sound.n_samples, b[40] == 0xcf ? 999 : 1000);
    ij__free(sound.bins);
  }
}

static void a_pipe_may_leave_both_sizes_empty(void) {
  uint8_t b[N_WAV];
  ij__sound sound;
  ij_err err = {0};
  make_wav(b);
  memset(b + 4, 0, 4);
  memset(b + 40, 0, 4);
  CHECK_OK(open_exact(b, N_WAV, 100, &sound, &err), err);
  CHECK_INT(sound.n_samples, 1000);
  ij__free(sound.bins);
}

static void every_cut_is_told(void) {
  uint8_t b[N_WAV];
  make_wav(b);
  for (size_t n = 0; n < N_WAV; n += n < 60 ? 1 : 97) {
    ij__sound sound;
    ij_err err = {0};
    const ij_status s = open_exact(b, n, 100, &sound, &err);
    CHECK_INT(s, n == 0 || n >= 12 ? IJ_E_FORMAT : IJ_E_UNSUPPORTED);
    CHECK(err.message[0]);
  }
}

/* What libraries decode: whole files are read, or this build names the library that it lacks. Cut ones are told in every build. */
static void coded_files_are_read_or_named(void) {
  static const char *const files[] = {"mp3-mpeg_layer_iii", "mp3-id3", "ogg-vorbis", "ogg-opus", "flac-pcm_16"};
  for (size_t i = 0; i < IJ_COUNT_OF(files); i++) {
    char path[128];
    size_t n;
    ij__sound sound;
    ij_err err = {0};
    snprintf(path, sizeof path, "../../fuzz/corpus/sound/%s", files[i]);
    uint8_t *bytes = read_file(path, &n);
    const ij_status s = open_exact(bytes, n, 100, &sound, &err);
    if (s == IJ_OK) CHECK_INT(sound.n_samples, strcmp(files[i], "ogg-vorbis") == 0 ? 2400 : 1200);
    else CHECK_INT(s, IJ_E_UNSUPPORTED);
    if (s != IJ_OK) CHECK_HAS(err.message, "made without lib");
    const bool without = s != IJ_OK, flac = strncmp(files[i], "flac", 4) == 0;
    ij__free(sound.bins);
    CHECK_INT(open_exact(bytes, n / 2, 100, &sound, &err), without && flac ? IJ_E_UNSUPPORTED : IJ_E_FORMAT);
    if (!flac) CHECK_HAS(err.message, "cut off");
    free(bytes);
  }
}

static void the_limit_is_one_of_rows(void) {
  uint8_t b[N_WAV];
  ij__sound sound;
  ij_err err = {0};
  make_wav(b);
  CHECK_OK(open_exact(b, N_WAV, 2, &sound, &err), err);
  CHECK_INT(sound.n_rows, 2);
  ij__free(sound.bins);
  CHECK_INT(open_exact(b, N_WAV, 1, &sound, &err), IJ_E_RANGE);
  CHECK_HAS(err.message, "2 rows, and max_rows allows 1");
  /* Where the length is not known beforehand, while it is read. */
  static const double silence[IJ_SOUND_BLOCK];
  ij__hearing *h = malloc(sizeof *h);
  if (!h) abort();
  CHECK_OK(ij__hearing_open(h, "stream", 8000, 1, -1, 5, &err), err);
  ij_status s = IJ_OK;
  int blocks = 0;
  while (s == IJ_OK && blocks++ < 100) s = ij__hearing_push(h, silence, IJ_SOUND_BLOCK, &err);
  CHECK_INT(s, IJ_E_RANGE);
  CHECK_INT(blocks, 3); /* 6 rows are 2400 samples at 8 kHz */
  CHECK_HAS(err.message, "max_rows allows 5 rows of 50 ms");
  ij__hearing_free(h);
  free(h);
}

static void samples_must_be_numbers(void) {
  static const struct {
    float value;
    const char *message;
  } bad[] = {{NAN, "sample 700 (at 0.044 s) of channel 2 is not a number"}, {INFINITY, "infinite"}, {-INFINITY, "infinite"}};
  for (size_t i = 0; i < IJ_COUNT_OF(bad); i++) {
    float x[2000] = {0};
    ij__sound sound;
    ij_err err = {0};
    x[1401] = bad[i].value;
    CHECK_INT(ij__sound_from_samples(&sound, x, 1000, 2, 16000, &options, &err), IJ_E_FORMAT);
    CHECK_HAS(err.message, bad[i].message);
    CHECK(!sound.bins);
  }
  float loud[800];
  ij__sound sound;
  ij_err err = {0};
  for (int i = 0; i < 800; i++) loud[i] = i % 2 ? 3.4e38f : -3.4e38f; /* far beyond [-1, 1], but numbers */
  CHECK_OK(ij__sound_from_samples(&sound, loud, 800, 1, 16000, &options, &err), err);
  CHECK_INT(sound.bins ? sound.bins[79] : -1, 15);
  ij__free(sound.bins);
}

static void arguments_are_checked(void) {
  const float x[4] = {0};
  ij__sound sound;
  ij_err err = {0};
  CHECK_INT(ij__sound_from_samples(&sound, x, 0, 1, 16000, &options, &err), IJ_E_FORMAT);
  CHECK_INT(ij__sound_from_samples(&sound, x, -1, 1, 16000, &options, &err), IJ_E_FORMAT);
  CHECK_INT(ij__sound_from_samples(&sound, x, 4, 0, 16000, &options, &err), IJ_E_FORMAT);
  CHECK_INT(ij__sound_from_samples(&sound, x, 4, 257, 16000, &options, &err), IJ_E_FORMAT);
  CHECK_INT(ij__sound_from_samples(&sound, x, 4, 1, 999, &options, &err), IJ_E_FORMAT);
  CHECK_INT(ij__sound_from_samples(&sound, x, 4, 1, 768001, &options, &err), IJ_E_FORMAT);
}

static void samples_and_files_are_one(void) {
  uint8_t b[N_WAV];
  float x[1000];
  ij__sound file, samples;
  ij_err err = {0};
  make_wav(b);
  b[24] = 0x44, b[25] = 0xac; /* 44100 */
  for (int i = 0; i < 1000; i++) x[i] = (float)(int16_t)(b[44 + 2 * i] | b[45 + 2 * i] << 8) / 32768;
  CHECK_OK(open_exact(b, N_WAV, 100, &file, &err), err);
  CHECK_OK(ij__sound_from_samples(&samples, x, 1000, 1, 44100, &options, &err), err);
  CHECK(file.n_rows == samples.n_rows && file.bins && samples.bins && memcmp(file.bins, samples.bins, (size_t)file.n_rows * 80) == 0);
  CHECK_INT(samples.n_samples, 363);
  ij__free(file.bins);
  ij__free(samples.bins);
}

static void memory_may_run_out(void) {
  uint8_t b[N_WAV];
  const int64_t blocks = ij__alloc_blocks();
  make_wav(b);
  b[24] = 0x44, b[25] = 0xac;
  int n = 0;
  for (ij_status s = IJ_E_NOMEM; s == IJ_E_NOMEM && n < 100; n++) {
    ij__sound sound;
    ij_err err = {0};
    ij__alloc_fail_after(n + 1);
    s = open_exact(b, N_WAV, 100, &sound, &err);
    ij__alloc_fail_after(0);
    CHECK(s == IJ_OK || s == IJ_E_NOMEM);
    ij__free(sound.bins);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
  CHECK(n > 6 && n < 20);
}

int main(void) {
  RUN(clips_have_the_known_bins);
  RUN(the_filterbank_is_the_known_one);
  RUN(resampled_samples_are_the_known_ones);
  RUN(sines_are_sines);
  RUN(the_cut_does_not_matter);
  RUN(the_bits_are_the_same_everywhere);
  RUN(lying_headers_are_told);
  RUN(a_pipe_may_leave_both_sizes_empty);
  RUN(every_cut_is_told);
  RUN(coded_files_are_read_or_named);
  RUN(the_limit_is_one_of_rows);
  RUN(samples_must_be_numbers);
  RUN(arguments_are_checked);
  RUN(samples_and_files_are_one);
  RUN(memory_may_run_out);
  return test_report();
}
