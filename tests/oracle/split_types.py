"""Weight formats whose codes are one array and whose scales are others, encoded and decoded in NumPy: MLX affine with 2, 3, 4, 5, 6 and 8 bits,
MLX mxfp4, mxfp8 and nvfp4, and the NVFP4 of the original release and of compressed-tensors.

A row of MLX codes is one little-endian stream of bits, first value in the lowest ones, whatever the width; it is stored as 32-bit words.

    encode(spec, w, rng)   -> (suffix -> (dtype, array), the float32 values that these define)
    spec: dict(mode="affine", bits=4, group=64, side="BF16"), dict(mode="mxfp4" | "mxfp8" | "nvfp4")
"""
import numpy as np

from inkling_oracle import E2M1, bf16_to_f64, e4m3_to_f64, f32_to_bf16

GROUPS = {"mxfp4": 32, "mxfp8": 32, "nvfp4": 16}
BITS = {"mxfp4": 4, "mxfp8": 8, "nvfp4": 4}
_E4M3 = e4m3_to_f64(np.arange(0x7F, dtype=np.uint8))  # ascending, the finite positive ones


def pack(codes, bits):
    """[..., n] -> U32 [..., n * bits / 32]"""
    stream = (codes.astype(np.uint8)[..., None] >> np.arange(bits, dtype=np.uint8) & 1).reshape(*codes.shape[:-1], -1)
    return np.packbits(stream, axis=-1, bitorder="little").view("<u4")


def unpack(words, bits):
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    stream = stream.reshape(*words.shape[:-1], -1, bits).astype(np.int64)
    return (stream << np.arange(bits)).sum(-1)


def to_side(x, dtype):
    """float64 -> the raw storage of a scale or bias."""
    x = x.astype(np.float32)
    return {"F32": lambda: x, "F16": lambda: x.astype("<f2"), "BF16": lambda: f32_to_bf16(x)}[dtype]()


def from_side(raw, dtype):
    return bf16_to_f64(raw) if dtype == "BF16" else raw.astype(np.float64)


def decode_affine(words, scales, biases, side, bits, group):
    """float32: the product rounded, then the sum (with BF16 and F16 scales the product is exact)."""
    s, b = (np.repeat(from_side(x, side), group, -1).astype(np.float32) for x in (scales, biases))
    return s * unpack(words, bits).astype(np.float32) + b


def encode_affine(spec, w, rng):
    bits, group, side = spec.get("bits", 4), spec.get("group", 64), spec.get("side", "BF16")
    g = w.astype(np.float64).reshape(*w.shape[:-1], -1, group)
    lo, hi = g.min(-1), g.max(-1)
    down = rng.integers(0, 2, lo.shape).astype(bool)  # half of the groups count from the top, with a negative scale
    step = np.maximum((hi - lo) / (2 ** bits - 1), 1e-7)
    scales, biases = to_side(np.where(down, -step, step), side), to_side(np.where(down, hi, lo), side)
    s, b = from_side(scales, side)[..., None], from_side(biases, side)[..., None]
    words = pack(np.clip(np.rint((g - b) / s), 0, 2 ** bits - 1).reshape(w.shape), bits)
    return ({".weight": ("U32", words), ".scales": (side, scales), ".biases": (side, biases)},
            decode_affine(words, scales, biases, side, bits, group))


def nearest_e2m1(x):
    return np.abs(x[..., None] - E2M1).argmin(-1).astype(np.uint8)


def nearest_e4m3(x):
    a = np.abs(x)
    i = np.clip(np.searchsorted(_E4M3, a), 1, len(_E4M3) - 1)
    i = np.where(a - _E4M3[i - 1] < _E4M3[i] - a, i - 1, i)
    return (i | np.where(x < 0, 0x80, 0)).astype(np.uint8)


def decode_fp(mode, words, scales):
    codes = unpack(words, BITS[mode])
    s = e4m3_to_f64(scales) if mode == "nvfp4" else np.ldexp(1.0, scales.astype(np.int64) - 127)
    v = e4m3_to_f64(codes.astype(np.uint8)) if mode == "mxfp8" else E2M1[codes]
    return (v * np.repeat(s, GROUPS[mode], -1)).astype(np.float32)


def encode_fp(mode, w):
    g = w.astype(np.float64).reshape(*w.shape[:-1], -1, GROUPS[mode])
    amax = np.maximum(np.abs(g).max(-1), 1e-9)
    if mode == "nvfp4":
        scales = nearest_e4m3(amax / 6)
        s = np.maximum(e4m3_to_f64(scales), 2.0 ** -9)
    else:
        scales = np.clip(np.ceil(np.log2(amax / (448 if mode == "mxfp8" else 6))) + 127, 0, 254).astype(np.uint8)
        s = np.ldexp(1.0, scales.astype(np.int64) - 127)
    x = g / s[..., None]
    words = pack((nearest_e4m3(x) if mode == "mxfp8" else nearest_e2m1(x)).reshape(w.shape), BITS[mode])
    return {".weight": ("U32", words), ".scales": ("U8", scales)}, decode_fp(mode, words, scales)


def encode(spec, w, rng):
    mode = spec.get("mode", "affine")
    return encode_affine(spec, w, rng) if mode == "affine" else encode_fp(mode, w)


def encode_release(w, powers_of_two=False):
    """[E, out, in] -> packed U8, E4M3 scale bytes, factor F32 [E], the float64 values: E2M1 * E4M3 * factor of the expert.

    With powers_of_two the factors are such, so that the values are float32 numbers."""
    w = w.astype(np.float64)
    g = w.reshape(*w.shape[:-1], -1, 16)
    amax = np.abs(g).max(-1)
    factor = (amax.reshape(len(w), -1).max(1) / (6 * 448)).astype(np.float32)
    if powers_of_two:
        factor = np.ldexp(np.float32(1), np.ceil(np.log2(factor)).astype(int)).astype(np.float32)
    f = factor.astype(np.float64).reshape(-1, *[1] * (amax.ndim - 1))
    scales = nearest_e4m3(amax / 6 / f)
    step = np.maximum(e4m3_to_f64(scales), 2.0 ** -9)[..., None]
    codes = nearest_e2m1(g / f[..., None] / step).reshape(w.shape)
    values = E2M1[codes] * np.repeat(e4m3_to_f64(scales), 16, -1) * f
    return codes[..., 0::2] | codes[..., 1::2] << 4, scales, factor, values
