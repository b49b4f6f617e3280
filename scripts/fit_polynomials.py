#!/usr/bin/env python3
"""Fits the polynomials of src/kernels/math_coef.h and prints them as C float constants.

Each fit is a weighted minimax fit: iteratively reweighted least squares (Lawson) on Chebyshev points in extended precision.
Coefficients are rounded to float32 one at a time, lowest power first, and the rest are fitted again, so that the rounding of
one is made up for by the others. The printed error is that of the rounded polynomial in exact arithmetic, in units of 2^-24
of the function's value. Needs numpy only.
"""
import math
import numpy as np

L = np.longdouble


def hex_float(c):
    """A C float constant without float64's trailing zeros."""
    mantissa, exponent = float(c).hex().split("p")
    return f"{mantissa.rstrip('0')}p{exponent}f"


def lawson(u, target, weight, degree, rounds=80):
    """Coefficients c[0..degree] minimizing max |weight * (sum c[i] u^i - target)|."""
    basis = np.stack([u**i for i in range(degree + 1)], axis=1)
    scale = np.max(np.abs(basis), axis=0)
    w = np.ones_like(u)
    best, best_error = None, math.inf
    for _ in range(rounds):
        s = np.sqrt(w) * weight
        a = (basis / scale) * s[:, None]
        q, r = np.linalg.qr(a.astype(np.float64))
        c = np.linalg.solve(r, q.T @ (target * s).astype(np.float64)).astype(L)
        for _ in range(2):  # refine the double solution in extended precision
            residual = target * s - a @ c
            c = c + np.linalg.solve(r, q.T @ residual.astype(np.float64)).astype(L)
        e = np.abs(weight * ((basis / scale) @ c - target))
        if e.max() < best_error:
            best, best_error = c / scale, e.max()
        w = w * e
        w = w / w.max() + L(1e-30)
    return best


def fit(name, lo, hi, target, weight, degree, points=1200):
    """Fits target(u) on [lo, hi]; weight(u) turns an error of the polynomial into a relative error of the function."""
    nodes = np.cos(np.pi * (np.arange(points) + 0.5) / points).astype(L)
    u = L(lo) + (L(hi) - L(lo)) * (nodes + 1) / 2
    t = np.array([target(float(v)) for v in u], dtype=L)
    w = np.array([weight(float(v)) for v in u], dtype=L)
    fixed = []
    rest = t.copy()
    for i in range(degree + 1):
        c = lawson(u, rest, w * np.abs(u) ** i if i else w, degree - i)
        fixed.append(np.float32(c[0]))
        rest = (rest - L(fixed[-1])) / u
    value = np.zeros_like(u)
    for c in reversed(fixed):
        value = value * u + L(c)
    error = float(np.max(np.abs(w * (value - t)))) * 2**24
    print(f"/* {name}: [{lo:.7g}, {hi:.7g}], error {error:.3f} * 2^-24 */")
    for i, c in enumerate(fixed):
        print(f"#define IJ_{name}_C{i} {hex_float(c)} /* {float(c):.9g} */")


def series(terms, u):
    """sum terms(i) * u^i, for functions that cancel near zero."""
    return math.fsum(terms(i) * u**i for i in range(60))


def log_target(f):  # log(1 + f) = f + f^2 * target
    if abs(f) < 0.05:
        return series(lambda i: (-1) ** (i + 1) / (i + 2), f)
    return (math.log1p(f) - f) / (f * f)


def tanh_target(s):  # tanh(x) = x + x * s * target, s = x^2
    if s < 1e-3:
        return -1 / 3 + s * (2 / 15 - s * (17 / 315 - s * (62 / 2835)))
    x = math.sqrt(s)
    return (math.tanh(x) / x - 1) / s


def erf_target(s):  # erf(x) = x + x * target, s = x^2
    return 2 / math.sqrt(math.pi) * series(lambda i: (-1) ** i / (math.factorial(i) * (2 * i + 1)), s) - 1


def erf_weight(s):
    return 1 / (1 + erf_target(s))


def main():
    half = math.log(2) / 2 * 1.0001
    fit("EXP", -half, half, lambda r: series(lambda i: 1 / math.factorial(i + 2), r), lambda r: r * r / math.exp(r), 4)
    fit("LOG", math.sqrt(0.5) - 1, math.sqrt(2) - 1, log_target, lambda f: f * f / math.log1p(f) if f else 0.0, 8)
    fit("TANH", 0, 0.625**2, tanh_target, lambda s: math.sqrt(s) * s / math.tanh(math.sqrt(s)) if s else 0.0, 4)
    fit("ERF", 0, 0.9375**2, erf_target, erf_weight, 6)
    # 1 - erf(a) = exp(target(a)): an absolute error of the exponent counts as erfc(a) / erf(a) of the result.
    fit("ERFC", 0.9375, 4, lambda a: math.log(math.erfc(a)), lambda a: math.erfc(a) / math.erf(a), 7)


if __name__ == "__main__":
    main()
