/* audio_mel.c: windows of 100 ms every 50 ms, their spectrum, 80 mel bands, and the bin 0 to 15 of each: the dMel front end.
 *
 * A transform of 1600 real samples is one of 800 complex numbers, even samples as real and odd ones as imaginary parts, in stages of
 * radix 4, 4, 2, 5 and 5 that leave the result in order (Stockham). No window sees another. Bins come from comparing a band with powers
 * of ten: no logarithm is taken.
 */
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

enum { HALF = IJ_MEL_WINDOW / 2, MAX_WEIGHTS = 1800 };

struct ij__mel {
  double window[IJ_MEL_WINDOW];            /* Hann, periodic */
  double cos[HALF], sin[HALF];             /* of 2 pi j / 800 */
  double split_cos[HALF + 1], split_sin[HALF + 1]; /* of 2 pi j / 1600 */
  int first[IJ_MEL_BINS], end[IJ_MEL_BINS]; /* frequencies in which a band is not zero, [first, end) */
  double weights[MAX_WEIGHTS];             /* theirs, band after band */
  double samples[IJ_MEL_WINDOW];           /* of the window that is being filled */
  int n_samples, n_new;                    /* filled, and of these not in an earlier window */
  double re[2][HALF], im[2][HALF];         /* of the transform: from one to the other */
  double magnitude[IJ_MEL_FREQS];
};

/* Edges of the bands in Hz: 82 points at equal distances on the Slaney scale, which is 3 f / 200 below 1000 Hz and
 * 15 + 27 ln(f / 1000) / ln 6.4 above; the last is 8000 Hz. A table, because logarithms differ between systems in their last bit. */
static const double edges[IJ_MEL_BINS + 2] = {
  0.0, 37.23921026495882, 74.47842052991764, 111.71763079487647, 148.95684105983528, 186.19605132479413, 223.43526158975294,
  260.6744718547118, 297.91368211967057, 335.1528923846294, 372.39210264958825, 409.63131291454704, 446.8705231795059, 484.1097334444647,
  521.3489437094236, 558.5881539743824, 595.8273642393411, 633.0665745043, 670.3057847692588, 707.5449950342177, 744.7842052991765,
  782.0234155641353, 819.2626258290941, 856.5018360940529, 893.7410463590118, 930.9802566239706, 968.2194668889294, 1005.6452812331256,
  1045.0171897285416, 1085.930543510382, 1128.445691534586, 1172.6253454724706, 1218.5346722131444, 1266.241389987467,
  1315.8158682553544, 1367.3312315037574, 1420.8634671084217, 1476.491537418538, 1534.2974962295984, 1594.3666098162746,
  1656.7874827038409, 1721.6521883636537, 1789.0564050254861, 1859.099556807027, 1931.8849603687297, 2007.5199773103307,
  2086.116172533823, 2167.789478806484, 2252.660367766693, 2340.854027624777, 2432.5005478210014, 2527.735110913091, 2626.698191976314,
  2729.5357658102553, 2836.3995222579283, 2947.447089954807, 3062.842268837846, 3182.755271757433, 3307.362975548655, 3436.8491819322385,
  3571.4048886299906, 3711.228571094649, 3856.526475269709, 4007.5129218110624, 4164.410622219172, 4327.451007348115, 4496.874568776044,
  4672.931213540601, 4855.880632762552, 5045.992684701342, 5243.547792807643, 5448.837359359994, 5662.16419529569, 5883.842966869944,
  6114.20065980213, 6353.577061593785, 6602.325262729786, 6860.812177501984, 7129.419085223582, 7408.5421926324925, 7698.593218313326,
  7999.999999999999,
};

float ij__mel_weight(int row, int freq) {
  const double *e = edges + row, f = 10.0 * freq;
  const double up = (f - e[0]) / (e[1] - e[0]), down = (e[2] - f) / (e[2] - e[1]), least = IJ_MIN(up, down);
  return least > 0 ? (float)(least * 2 / (e[2] - e[0])) : 0;
}

static void make_bands(ij__mel *m) {
  int n = 0;
  for (int row = 0; row < IJ_MEL_BINS; row++) {
    int freq = (int)(edges[row] / 10) + 1;
    while (ij__mel_weight(row, freq) == 0) freq++;
    m->first[row] = freq;
    for (float w; freq < IJ_MEL_FREQS && n < MAX_WEIGHTS && (w = ij__mel_weight(row, freq)) > 0; freq++) m->weights[n++] = (double)w;
    m->end[row] = freq;
  }
}

ij_status ij__mel_open(ij__mel **out, ij_err *err) {
  ij__mel *m = *out = ij__alloc_zero(1, sizeof *m);
  if (!m) return ij__fail_nomem(err, "the tables of the spectrum", sizeof *m);
  for (int j = 0; j < IJ_MEL_WINDOW; j++) {
    const double s = ij__sin_pi(j, IJ_MEL_WINDOW); /* 0.5 - 0.5 cos(2 x) is sin(x)^2 */
    m->window[j] = s * s;
  }
  for (int j = 0; j < HALF; j++) {
    m->cos[j] = ij__sin_pi(2 * j + HALF / 2, HALF);
    m->sin[j] = ij__sin_pi(2 * j, HALF);
  }
  for (int j = 0; j <= HALF; j++) {
    m->split_cos[j] = ij__sin_pi(2 * j + HALF, IJ_MEL_WINDOW);
    m->split_sin[j] = ij__sin_pi(2 * j, IJ_MEL_WINDOW);
  }
  make_bands(m);
  m->n_samples = IJ_MEL_WINDOW - IJ_MEL_HOP; /* the first window begins with zeros */
  return IJ_OK;
}

/* ----------------------------------------------------------------------------------------------------- the transform */

/* One stage reads x and writes y, both [..] of complex numbers in two arrays: s interleaved transforms of n points become s * radix of
 * n / radix points each. cos and sin are those of the whole transform; number j of this stage is number j * s of theirs. */
typedef struct stage {
  const double *restrict xr, *restrict xi;
  double *restrict yr, *restrict yi;
  const double *cos, *sin;
  int n, s;
} stage;

static void turn(double re, double im, double c, double s, double *out_re, double *out_im) { /* times c - i s */
  *out_re = re * c + im * s;
  *out_im = im * c - re * s;
}

static void radix2(const stage *t) {
  const int m = t->n / 2, s = t->s;
  for (int p = 0; p < m; p++) {
    const double c1 = t->cos[p * s], s1 = t->sin[p * s];
    const double *restrict xr = t->xr + s * p, *restrict xi = t->xi + s * p;
    double *restrict yr = t->yr + 2 * s * p, *restrict yi = t->yi + 2 * s * p;
    for (int q = 0; q < s; q++) {
      const double ar = xr[q], ai = xi[q], br = xr[q + s * m], bi = xi[q + s * m];
      yr[q] = ar + br;
      yi[q] = ai + bi;
      turn(ar - br, ai - bi, c1, s1, &yr[q + s], &yi[q + s]);
    }
  }
}

static void radix4(const stage *t) {
  const int m = t->n / 4, s = t->s, w = m * s;
  for (int p = 0; p < m; p++) {
    const double c1 = t->cos[p * s], s1 = t->sin[p * s], c2 = t->cos[2 * p * s], s2 = t->sin[2 * p * s], c3 = t->cos[3 * p * s],
                 s3 = t->sin[3 * p * s];
    const double *restrict xr = t->xr + s * p, *restrict xi = t->xi + s * p;
    double *restrict yr = t->yr + 4 * s * p, *restrict yi = t->yi + 4 * s * p;
    for (int q = 0; q < s; q++) {
      const double apcr = xr[q] + xr[q + 2 * w], apci = xi[q] + xi[q + 2 * w], amcr = xr[q] - xr[q + 2 * w], amci = xi[q] - xi[q + 2 * w];
      const double bpdr = xr[q + w] + xr[q + 3 * w], bpdi = xi[q + w] + xi[q + 3 * w];
      const double bmdr = xr[q + w] - xr[q + 3 * w], bmdi = xi[q + w] - xi[q + 3 * w];
      yr[q] = apcr + bpdr;
      yi[q] = apci + bpdi;
      turn(amcr + bmdi, amci - bmdr, c1, s1, &yr[q + s], &yi[q + s]);
      turn(apcr - bpdr, apci - bpdi, c2, s2, &yr[q + 2 * s], &yi[q + 2 * s]);
      turn(amcr - bmdi, amci + bmdr, c3, s3, &yr[q + 3 * s], &yi[q + 3 * s]);
    }
  }
}

static void radix5(const stage *t) {
  const int m = t->n / 5, s = t->s, w = m * s, fifth = HALF / 5;
  const double u1 = t->cos[fifth], u2 = t->cos[2 * fifth], v1 = t->sin[fifth], v2 = t->sin[2 * fifth];
  for (int p = 0; p < m; p++) {
    const double *c = t->cos, *d = t->sin;
    const int k = p * s;
    const double c1 = c[k], d1 = d[k], c2 = c[2 * k], d2 = d[2 * k], c3 = c[3 * k], d3 = d[3 * k], c4 = c[4 * k], d4 = d[4 * k];
    const double *restrict xr = t->xr + s * p, *restrict xi = t->xi + s * p;
    double *restrict yr = t->yr + 5 * s * p, *restrict yi = t->yi + 5 * s * p;
    for (int q = 0; q < s; q++) {
      const double r0 = xr[q], i0 = xi[q];
      const double r14 = xr[q + w] + xr[q + 4 * w], i14 = xi[q + w] + xi[q + 4 * w];
      const double r23 = xr[q + 2 * w] + xr[q + 3 * w], i23 = xi[q + 2 * w] + xi[q + 3 * w];
      const double e14 = xr[q + w] - xr[q + 4 * w], f14 = xi[q + w] - xi[q + 4 * w];
      const double e23 = xr[q + 2 * w] - xr[q + 3 * w], f23 = xi[q + 2 * w] - xi[q + 3 * w];
      const double ar = r0 + u1 * r14 + u2 * r23, ai = i0 + u1 * i14 + u2 * i23;
      const double br = r0 + u2 * r14 + u1 * r23, bi = i0 + u2 * i14 + u1 * i23;
      const double er = v1 * e14 + v2 * e23, ei = v1 * f14 + v2 * f23;
      const double gr = v2 * e14 - v1 * e23, gi = v2 * f14 - v1 * f23;
      yr[q] = r0 + r14 + r23;
      yi[q] = i0 + i14 + i23;
      turn(ar + ei, ai - er, c1, d1, &yr[q + s], &yi[q + s]);
      turn(br + gi, bi - gr, c2, d2, &yr[q + 2 * s], &yi[q + 2 * s]);
      turn(br - gi, bi + gr, c3, d3, &yr[q + 3 * s], &yi[q + 3 * s]);
      turn(ar - ei, ai + er, c4, d4, &yr[q + 4 * s], &yi[q + 4 * s]);
    }
  }
}

/* From re[0] and im[0] to re[1] and im[1]: five stages. */
static void transform(ij__mel *m) {
  static const int radix[] = {4, 4, 2, 5, 5};
  int n = HALF, s = 1, from = 0;
  for (size_t i = 0; i < IJ_COUNT_OF(radix); i++, from = !from) {
    const stage t = {m->re[from], m->im[from], m->re[!from], m->im[!from], m->cos, m->sin, n, s};
    if (radix[i] == 2) radix2(&t);
    else if (radix[i] == 4) radix4(&t);
    else radix5(&t);
    n /= radix[i];
    s *= radix[i];
  }
}

/* ------------------------------------------------------------------------------------------------------------ bands */

static void magnitudes(ij__mel *m, const double *samples) {
  for (int i = 0; i < HALF; i++) {
    m->re[0][i] = samples[2 * i] * m->window[2 * i];
    m->im[0][i] = samples[2 * i + 1] * m->window[2 * i + 1];
  }
  transform(m);
  const double *re = m->re[1], *im = m->im[1];
  for (int k = 0; k <= HALF; k++) {
    const int a = k == HALF ? 0 : k, b = k == 0 ? 0 : HALF - k;
    const double even_re = 0.5 * (re[a] + re[b]), even_im = 0.5 * (im[a] - im[b]); /* spectrum of the even samples */
    const double odd_re = 0.5 * (im[a] + im[b]), odd_im = 0.5 * (re[b] - re[a]);
    double r, i;
    turn(odd_re, odd_im, m->split_cos[k], m->split_sin[k], &r, &i);
    r += even_re;
    i += even_im;
    const double power = r * r + i * i;
    m->magnitude[k] = sqrt(IJ_MAX(power, 1e-10)); /* the floor is on the power: silence is 1e-5, bin 2 */
  }
}

void ij__mel_values(ij__mel *m, const double *window, double *values) {
  magnitudes(m, window);
  const double *w = m->weights;
  for (int row = 0; row < IJ_MEL_BINS; row++) {
    double sum = 0;
    for (int k = m->first[row]; k < m->end[row]; k++) sum += *w++ * m->magnitude[k];
    values[row] = sum;
  }
}

/* The nearest of 16 centres from -7 to 2 to the logarithm, the lower one in the middle: how many middles lie strictly below. */
int ij__mel_bin(double value) {
  static const double middles[15] = { /* 10 to the power -6.7 + 0.6 j */
    1.9952623149688795e-07, 7.943282347242815e-07, 3.162277660168379e-06, 1.2589254117941671e-05, 5.011872336272723e-05,
    0.00019952623149688796, 0.0007943282347242815, 0.0031622776601683794, 0.012589254117941671,   0.05011872336272723,
    0.19952623149688797,    0.7943282347242815,    3.1622776601683795,    12.589254117941673,     50.11872336272723};
  int bin = 0;
  for (size_t j = 0; j < IJ_COUNT_OF(middles); j++) bin += value > middles[j];
  return bin;
}

static void make_row(ij__mel *m, uint8_t *bins) {
  double values[IJ_MEL_BINS];
  ij__mel_values(m, m->samples, values);
  for (int row = 0; row < IJ_MEL_BINS; row++) bins[row] = (uint8_t)ij__mel_bin(values[row]);
  memmove(m->samples, m->samples + IJ_MEL_HOP, (IJ_MEL_WINDOW - IJ_MEL_HOP) * sizeof *m->samples);
  m->n_samples = IJ_MEL_WINDOW - IJ_MEL_HOP;
  m->n_new = 0;
}

int64_t ij__mel_push(ij__mel *m, const double *in, int64_t n, uint8_t *bins, bool *row) {
  const int take = (int)IJ_MIN(n, IJ_MEL_WINDOW - m->n_samples);
  memcpy(m->samples + m->n_samples, in, (size_t)take * sizeof *in);
  m->n_samples += take;
  m->n_new += take;
  *row = m->n_samples == IJ_MEL_WINDOW;
  if (*row) make_row(m, bins);
  return take;
}

bool ij__mel_end(ij__mel *m, uint8_t *bins) {
  if (m->n_new == 0) return false;
  memset(m->samples + m->n_samples, 0, (size_t)(IJ_MEL_WINDOW - m->n_samples) * sizeof *m->samples);
  make_row(m, bins);
  return true;
}
