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

int main(void) {
  RUN(clips_have_the_known_bins);
  RUN(the_filterbank_is_the_known_one);
  RUN(resampled_samples_are_the_known_ones);
  RUN(sines_are_sines);
  RUN(the_cut_does_not_matter);
  return test_report();
}
