"""Every block type of GGUF, decoded in NumPy: bytes -> the float32 value that each format defines.

A block is `n` values in `b` bytes. All intermediate values are float64, in which every product here is exact, and the result is rounded once
to float32: that is what float32 decoders with one rounding give as well. Codes are gathered by index: for each of the values of a block a byte,
a shift and a mask, so that the tables below are the layout. The codebooks of the IQ types are in iq_grids.txt.

    decode(name, raw)                  uint8 [..., blocks * b] -> float32 [..., blocks * n]
    random_blocks(name, rng, count)    valid blocks whose values are about as large as those of a unit normal times 1 / 16
"""
import pathlib

import numpy as np

# name -> (number in the file, values per block, bytes per block)
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
         "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
         "Q6_K": (14, 256, 210), "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ3_XXS": (18, 256, 98), "IQ1_S": (19, 256, 50),
         "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ2_S": (22, 256, 82), "IQ4_XS": (23, 256, 136), "IQ1_M": (29, 256, 56),
         "BF16": (30, 1, 2), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17), "NVFP4": (40, 64, 36)}

_I32, _I256 = np.arange(32), np.arange(256)
FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])  # no -0: GGUF decodes through integers
NL4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])


def ue4m3(u):
    """The scales of NVFP4: the sign bit means nothing, and 0x7F is zero, not NaN."""
    u = u.astype(np.int64)
    e, m = (u >> 3) & 15, (u & 7) / 8
    return np.where(u == 0x7F, 0, np.where(e == 0, m * 2.0 ** -6, (1 + m) * 2.0 ** (e - 7.0)))


def e8m0(u):
    return np.ldexp(1.0, u.astype(np.int64) - 127)


def _gather(raw, first, byte, shift, mask):
    """Codes of values 0.. of each block: bits `shift` up of byte first + byte[i]."""
    return (raw[:, first + byte].astype(np.int64) >> shift) & mask


def _half(raw, at):
    return np.ascontiguousarray(raw[:, at:at + 2]).view("<f2").astype(np.float64)


def _words(raw, first, count, size):
    return np.ascontiguousarray(raw[:, first:first + count * size]).view(f"<u{size}").astype(np.int64)


def _each(a, n):
    return np.repeat(a, n, axis=1)


# ---- 32 values: low nibbles are values 0..15, high nibbles 16..31

def _nibbles(raw, first):
    return _gather(raw, first, _I32 % 16, 4 * (_I32 // 16), 15)


def q4_0(raw):
    return _half(raw, 0) * (_nibbles(raw, 2) - 8)


def q4_1(raw):
    return _half(raw, 0) * _nibbles(raw, 4) + _half(raw, 2)


def q5_0(raw):
    return _half(raw, 0) * ((_nibbles(raw, 6) | _gather(raw, 2, _I32 // 8, _I32 % 8, 1) << 4) - 16)


def q5_1(raw):
    return _half(raw, 0) * (_nibbles(raw, 8) | _gather(raw, 4, _I32 // 8, _I32 % 8, 1) << 4) + _half(raw, 2)


def q8_0(raw):
    return _half(raw, 0) * np.ascontiguousarray(raw[:, 2:34]).view(np.int8)


def iq4_nl(raw):
    return _half(raw, 0) * NL4[_nibbles(raw, 2)]


def mxfp4(raw):
    return e8m0(raw[:, :1]) * FP4[_nibbles(raw, 1)]


def nvfp4(raw):
    i = np.arange(64)
    return _each(ue4m3(raw[:, :4]), 16) * FP4[_gather(raw, 4, i // 16 * 8 + i % 8, 4 * (i % 16 // 8), 15)]


# ---- 256 values, sub-blocks with scales of their own

def q2_k(raw):
    sub = raw[:, :16].astype(np.int64)
    q = _gather(raw, 16, _I256 // 128 * 32 + _I256 % 32, 2 * (_I256 // 32 % 4), 3)
    return _half(raw, 80) * _each(sub & 15, 16) * q - _half(raw, 82) * _each(sub >> 4, 16)


def q3_k(raw):
    s = np.arange(16)
    sub = (_gather(raw, 96, s % 8, 4 * (s // 8), 15) | _gather(raw, 104, s % 4, 2 * (s // 4), 3) << 4) - 32
    low = _gather(raw, 32, _I256 // 128 * 32 + _I256 % 32, 2 * (_I256 // 32 % 4), 3)
    return _half(raw, 108) * _each(sub, 16) * (low + 4 * _gather(raw, 0, _I256 % 32, _I256 // 32, 1) - 4)


def _six_bit_pairs(raw):
    """The eight scales and eight minima of Q4_K and Q5_K, 6 bits each in bytes 4..15."""
    s = raw[:, 4:16].astype(np.int64)
    a, b, c = s[:, 0:4], s[:, 4:8], s[:, 8:12]
    return np.hstack([a & 63, c & 15 | a >> 6 << 4]), np.hstack([b & 63, c >> 4 | b >> 6 << 4])


def _k45(raw, q):
    scale, low = _six_bit_pairs(raw)
    return _half(raw, 0) * _each(scale, 32) * q - _half(raw, 2) * _each(low, 32)


def _nibbles_by_32(raw, first):
    return _gather(raw, first, _I256 // 64 * 32 + _I256 % 32, 4 * (_I256 // 32 % 2), 15)


def q4_k(raw):
    return _k45(raw, _nibbles_by_32(raw, 16))


def q5_k(raw):
    return _k45(raw, _nibbles_by_32(raw, 48) | _gather(raw, 16, _I256 % 32, _I256 // 32, 1) << 4)


def q6_k(raw):
    low = _gather(raw, 0, _I256 // 128 * 64 + _I256 % 64, 4 * (_I256 // 64 % 2), 15)
    high = _gather(raw, 128, _I256 // 128 * 32 + _I256 % 32, 2 * (_I256 // 32 % 4), 3)
    sub = np.ascontiguousarray(raw[:, 192:208]).view(np.int8)
    return _half(raw, 208) * _each(sub, 16) * ((low | high << 4) - 32)


def iq4_xs(raw):
    s = np.arange(8)
    sub = (_gather(raw, 4, s // 2, 4 * (s % 2), 15) | _gather(raw, 2, s // 4, 2 * (s % 4), 3) << 4) - 32
    return _half(raw, 0) * _each(sub, 32) * NL4[_gather(raw, 8, _I256 // 32 * 16 + _I256 % 16, 4 * (_I256 // 16 % 2), 15)]


# ---- ternary

def tq1_0(raw):
    """Five ternary digits to a byte, which holds the fraction of 243 in 256ths: digit k is that of byte * 3^k, times 3."""
    i = np.arange(256)
    byte = np.where(i < 160, i % 32, np.where(i < 240, 32 + (i - 160) % 16, 48 + (i - 240) % 4))
    power = np.where(i < 160, i // 32, np.where(i < 240, (i - 160) // 16, (i - 240) // 4))
    return _half(raw, 52) * (((raw[:, byte].astype(np.int64) * 3 ** power % 256) * 3 >> 8) - 1)


def tq2_0(raw):
    return _half(raw, 64) * (_gather(raw, 0, _I256 // 128 * 32 + _I256 % 32, 2 * (_I256 // 32 % 4), 3) - 1)


# ---- codebooks

_GRIDS = {}


def grid(name):
    """Rows of iq_grids.txt: one group of digits per entry, each digit an index into the line of levels."""
    if not _GRIDS:
        lines = (pathlib.Path(__file__).resolve().parent / "iq_grids.txt").read_text().splitlines()
        current = None
        for line in (x.split() for x in lines if x and x[0] != "#"):
            if line[0] == "grid":
                current, levels, rows = line[1], np.array([int(x) for x in line[2:]]), []
                _GRIDS[current] = (levels, rows)
            else:
                _GRIDS[current][1].extend(line)
        for k, (levels, rows) in _GRIDS.items():
            _GRIDS[k] = levels[np.array([[int(d) for d in r] for r in rows])].astype(np.float64)
    return _GRIDS[name]


def _signs(bits8):
    """[n, m] bytes -> [n, m * 8] of +-1, bit 0 first; a set bit is minus."""
    return 1.0 - 2.0 * (bits8[..., None] >> np.arange(8) & 1).reshape(len(bits8), -1)


def _seven(s):
    """Seven stored signs; the eighth makes their number even."""
    return s | (sum(s >> k & 1 for k in range(7)) & 1) << 7


def _points(table, index):
    return table[index].reshape(len(index), -1)


def iq2_xxs(raw):
    w = _words(raw, 2, 16, 4)
    index = raw[:, 2:66].reshape(len(raw), 8, 8)[:, :, :4].reshape(len(raw), 32)
    s = _seven((w[:, 1::2, None] >> np.array([0, 7, 14, 21]) & 127).reshape(len(raw), 32))
    return _half(raw, 0) * _each((.5 + (w[:, 1::2] >> 28)) / 4, 32) * _points(grid("IQ2_XXS"), index) * _signs(s)


def _nibble_scales(raw, first, count):
    s = np.arange(2 * count)
    return _gather(raw, first, s // 2, 4 * (s % 2), 15)


def iq2_xs(raw):
    w = _words(raw, 2, 32, 2)
    return (_half(raw, 0) * _each((.5 + _nibble_scales(raw, 66, 8)) / 4, 16) * _points(grid("IQ2_XS"), w & 511) * _signs(_seven(w >> 9)))


def iq2_s(raw):
    index = raw[:, 2:34].astype(np.int64) | _gather(raw, 66, _I32 // 4, 2 * (_I32 % 4), 3) << 8
    return (_half(raw, 0) * _each((.5 + _nibble_scales(raw, 74, 8)) / 4, 16) * _points(grid("IQ2_S"), index)
            * _signs(raw[:, 34:66].astype(np.int64)))


def iq3_xxs(raw):
    w = _words(raw, 66, 8, 4)
    s = _seven((w[:, :, None] >> np.array([0, 7, 14, 21]) & 127).reshape(len(raw), 32))
    return _half(raw, 0) * _each((.5 + (w >> 28)) / 2, 32) * _points(grid("IQ3_XXS"), raw[:, 2:66]) * _signs(s)


def iq3_s(raw):
    i = np.arange(64)
    index = raw[:, 2:66].astype(np.int64) | _gather(raw, 66, i // 8, i % 8, 1) << 8
    return (_half(raw, 0) * _each(1 + 2 * _nibble_scales(raw, 106, 4), 32) * _points(grid("IQ3_S"), index)
            * _signs(raw[:, 74:106].astype(np.int64)))


def iq1_s(raw):
    h = _words(raw, 34, 8, 2)
    index = raw[:, 2:34].astype(np.int64) | _each(h, 4) >> 3 * (_I32 % 4) << 8 & 0x700
    shift = np.where(h >> 15, -.125, .125)
    return _half(raw, 0) * _each(2 * (h >> 12 & 7) + 1, 32) * (_points(grid("IQ1_S"), index) + _each(shift, 32))


def iq1_m(raw):
    s = _words(raw, 48, 4, 2)
    d = sum((s[:, k:k + 1] >> 12) << 4 * k for k in range(4)).astype("<u2").view("<f2").astype(np.float64)
    sub = (s[:, :, None] >> np.array([0, 3, 6, 9]) & 7).reshape(len(raw), 16)
    h = _gather(raw, 32, _I32 // 2, 4 * (_I32 % 2), 15)
    index = raw[:, :32].astype(np.int64) | (h & 7) << 8
    return d * _each(2 * sub + 1, 16) * (_points(grid("IQ1_S"), index) + _each(np.where(h >> 3, -.125, .125), 8))


_DECODERS = {k: globals()[k.lower()] for k in TYPES if k not in ("F32", "F16", "BF16")}


def row_bytes(name, cols):
    _, n, b = TYPES[name]
    assert cols % n == 0, f"{cols} columns are not a whole number of {name} blocks"
    return cols // n * b


def decode(name, raw):
    raw = np.ascontiguousarray(raw, dtype=np.uint8)
    if name == "F32":
        return raw.view("<f4")
    if name == "F16":
        return raw.view("<f2").astype(np.float32)
    if name == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    _, n, b = TYPES[name]
    out = np.empty((raw.size // b, n), np.float32)
    flat = raw.reshape(-1, b)
    for i in range(0, len(flat), 4096):  # in stretches, so that the tables stay in the cache
        out[i:i + 4096] = _DECODERS[name](flat[i:i + 4096])
    return out.reshape(*raw.shape[:-1], raw.shape[-1] // b * n)


# ---- random blocks

# Where the 2-byte scales of a block lie; the second of a pair belongs to the minimum or is the minimum.
_SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2),
           "Q6_K": (208,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ3_XXS": (0,), "IQ1_S": (0,), "IQ4_NL": (0,), "IQ3_S": (0,), "IQ2_S": (0,),
           "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,)}


def _put_halves(raw, name, scale):
    for at, s in zip(_SCALES[name], scale):
        raw[:, at:at + 2] = s.astype("<f2").view(np.uint8).reshape(-1, 2)


def random_blocks(name, rng, count, rms=1 / 16):
    """uint8 [count, b]: codes, sub-scales and signs of any bits; then scales under which the values have about this RMS and a small mean."""
    _, _, b = TYPES[name]
    raw = rng.integers(0, 256, (count, b), dtype=np.uint8)
    spread = np.exp(rng.uniform(-.7, .7, count))
    if name in ("F32", "F16", "BF16"):
        v = (rms * rng.standard_normal(count)).astype(np.float32)
        return {"F32": v, "F16": v.astype("<f2"), "BF16": (v.view(np.uint32) >> 16).astype("<u2")}[name].view(np.uint8).reshape(count, b)
    if name == "MXFP4":  # values of unit scale have RMS 2.9
        raw[:, 0] = np.rint(127 + np.log2(rms * spread / 2.9))
    elif name == "NVFP4":
        codes = np.arange(0x7F, dtype=np.uint8)
        want = rms / 2.9 * np.exp(rng.uniform(-.7, .7, (count, 4)))
        raw[:, :4] = codes[np.abs(ue4m3(codes) - want[..., None]).argmin(-1)]
    elif name == "IQ1_M":
        one = np.full(count, 1.0)
        d = (one * rms * spread / 6.5).astype("<f2").view("<u2").astype(np.int64)
        words = raw[:, 48:56].view("<u2").astype(np.int64) & 0xFFF
        raw[:, 48:56] = (words | (d[:, None] >> 4 * np.arange(4) & 15) << 12).astype("<u2").view(np.uint8)
    else:
        if name == "TQ2_0":  # code 3 means nothing to an encoder
            raw ^= (raw & raw >> 1 & 0x55) << 1
        one = np.ones((1, count))
        _put_halves(raw, name, np.vstack([one, 0 * one]))
        plain = decode(name, raw).astype(np.float64)  # with a scale of one and no minimum
        unit = rms * spread / np.sqrt((plain ** 2).mean(1) - (plain.mean(1) ** 2 if len(_SCALES[name]) == 2 else 0))
        sign = np.where(rng.integers(0, 2, count), -1, 1)  # of these, half of the scales are negative
        unit = unit * sign if name in ("Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "IQ4_NL", "IQ4_XS", "Q4_1", "Q5_1") else unit
        if len(_SCALES[name]) == 1:
            low = 0 * unit
        elif name in ("Q4_1", "Q5_1"):
            low = -unit * plain.mean(1)
        else:  # the mean of all sub-minima takes away the mean
            _put_halves(raw, name, np.vstack([0 * one, one]))
            low = unit * plain.mean(1) / -decode(name, raw).astype(np.float64).mean(1)
        _put_halves(raw, name, np.vstack([unit, low]))
    return raw
