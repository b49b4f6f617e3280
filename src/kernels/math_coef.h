/* math_coef.h: the constants of the elementary functions, shared by the scalar definition and every vector level.
 *
 * The polynomials are minimax fits made by scripts/fit_polynomials.py, which prints the lines below; "error" is that of the rounded
 * polynomial alone, in units of 2^-24 of the function's value. How they are used, and the whole error, is in ref/math_ref.h.
 */
#ifndef IJ_KERNELS_MATH_COEF_H
#define IJ_KERNELS_MATH_COEF_H

/* Adding this to |t| < 2^22 leaves the integer nearest to t (ties to even) in the low bits of the sum: its low 9 bits are zero, so
 * that shifting the sum's bits left by 23 gives the integer as a float32 exponent. */
#define IJ_ROUND_MAGIC 0x1.8p+23f

/* exp(r) = 1 + r + r^2 * P(r); log2(e); ln(2) in two parts, the first exact to 24 bits */
#define IJ_EXP_LOG2E 0x1.715476p+0f
#define IJ_EXP_LN2_HI 0x1.62e43p-1f
#define IJ_EXP_LN2_LO -0x1.05c61p-29f
#define IJ_EXP_MAX 0x1.62e42ep+6f  /* largest x whose exp is finite: 88.722832 */
#define IJ_EXP_MIN -0x1.5d589ep+6f /* smallest x whose exp is a normal number: -87.336540 */
/* EXP: [-0.3466082, 0.3466082], error 0.052 * 2^-24 */
#define IJ_EXP_C0 0x1.fffffcp-2f /* 0.49999994 */
#define IJ_EXP_C1 0x1.555492p-3f /* 0.166665211 */
#define IJ_EXP_C2 0x1.5558aep-5f /* 0.0416682623 */
#define IJ_EXP_C3 0x1.12398p-7f /* 0.00836867094 */
#define IJ_EXP_C4 0x1.6a4f28p-10f /* 0.00138209993 */

/* log(1 + f) = f + f^2 * P(f); ln(2) in two parts, the first with so few bits that its product with an exponent is exact */
#define IJ_LOG_SQRT_HALF_BITS 0x3f3504f3u
#define IJ_LOG_LN2_HI 0x1.62e4p-1f
#define IJ_LOG_LN2_LO 0x1.7f7d1cp-20f
/* LOG: [-0.2928932, 0.4142136], error 0.070 * 2^-24 */
#define IJ_LOG_C0 -0x1.fffff8p-2f /* -0.499999881 */
#define IJ_LOG_C1 0x1.55555p-2f /* 0.333333254 */
#define IJ_LOG_C2 -0x1.000434p-2f /* -0.250016034 */
#define IJ_LOG_C3 0x1.99a404p-3f /* 0.200019866 */
#define IJ_LOG_C4 -0x1.542534p-3f /* -0.166086584 */
#define IJ_LOG_C5 0x1.227026p-3f /* 0.141815469 */
#define IJ_LOG_C6 -0x1.0f473ap-3f /* -0.132460073 */
#define IJ_LOG_C7 0x1.085336p-3f /* 0.129064962 */
#define IJ_LOG_C8 -0x1.37fbd2p-4f /* -0.0761678889 */

/* tanh(x) = x + x * x^2 * P(x^2) up to IJ_TANH_SPLIT */
#define IJ_TANH_SPLIT 0.625f
/* TANH: [0, 0.390625], error 0.076 * 2^-24 */
#define IJ_TANH_C0 -0x1.555532p-2f /* -0.333332807 */
#define IJ_TANH_C1 0x1.1106fap-3f /* 0.133314088 */
#define IJ_TANH_C2 -0x1.b836cap-5f /* -0.053737063 */
#define IJ_TANH_C3 0x1.52044ep-6f /* 0.0206309091 */
#define IJ_TANH_C4 -0x1.75510ap-8f /* -0.00569635862 */

/* erf(x) = x + x * P(x^2) up to IJ_ERF_SPLIT, 1 - exp(Q(x)) above; 1 from IJ_ERF_MAX on */
#define IJ_SQRT_HALF 0x1.6a09e6p-1f /* of the exact gelu */
#define IJ_ERF_SPLIT 0.9375f
#define IJ_ERF_MAX 4.0f
/* ERF: [0, 0.8789062], error 0.015 * 2^-24 */
#define IJ_ERF_C0 0x1.06eba8p-3f /* 0.128379166 */
#define IJ_ERF_C1 -0x1.81274p-2f /* -0.376126289 */
#define IJ_ERF_C2 0x1.ce2d64p-4f /* 0.112836257 */
#define IJ_ERF_C3 -0x1.b8012p-6f /* -0.026855737 */
#define IJ_ERF_C4 0x1.544aa8p-8f /* 0.00519243814 */
#define IJ_ERF_C5 -0x1.a6126ep-11f /* -0.000805038435 */
#define IJ_ERF_C6 0x1.4f8e58p-14f /* 8.00027919e-05 */
/* ERFC: [0.9375, 4], error 0.001 * 2^-24 */
#define IJ_ERFC_C0 0x1.77fc2ep-13f /* 0.000179283656 */
#define IJ_ERFC_C1 -0x1.212956p+0f /* -1.12953699 */
#define IJ_ERFC_C2 -0x1.444038p-1f /* -0.63330245 */
#define IJ_ERFC_C3 -0x1.bbb70ep-4f /* -0.108328871 */
#define IJ_ERFC_C4 0x1.9c126ep-6f /* 0.0251508784 */
#define IJ_ERFC_C5 -0x1.12229ap-8f /* -0.00418297062 */
#define IJ_ERFC_C6 0x1.ca22f6p-12f /* 0.000436913077 */
#define IJ_ERFC_C7 -0x1.657686p-16f /* -2.13064541e-05 */

#endif
