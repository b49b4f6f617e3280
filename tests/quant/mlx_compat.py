"""Quantized weights against the real MLX library, both ways, bit by bit.

    python3 tests/quant/mlx_compat.py QUANT_PIPE [--rows N] [--seed N]

QUANT_PIPE is the program of quant_pipe.c. Needs `mlx[cpu]` (pip) and NumPy; without them it says so and exits with 77, which the
test run counts as skipped.

Checked, for every format of mx.quantize (affine: bits x group; each from float32, bfloat16 and float16):
  A  what mx.quantize makes, decoded here, is bit for bit what mx.dequantize gives in float32;
  B  asked for the narrow dtype of its scales, mx.dequantize gives the same number rounded to that dtype, once for the floating formats;
     for affine ones it rounds the product scale * code and then the sum, so it is less exact than what is decoded here (counted);
  C  what is encoded here, by searching or plainly, decodes there to the same bits as here;
  D  the mode that imitates MLX makes the codes, scales and biases of mx.quantize. (Not for floating formats from float16: there
     mx.quantize computes the scale in float16.)
The sign of zero is not compared in A to C.
"""
import argparse
import subprocess
import sys

SKIPPED = 77
try:
    import mlx.core as mx
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}; install it with: pip install 'mlx[cpu]' numpy")
    sys.exit(SKIPPED)

AFFINE_BITS, GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)
SIDES = {"F32": mx.float32, "BF16": mx.bfloat16, "F16": mx.float16}
FLOAT_MODES = {"nvfp4": (16, 4), "mxfp4": (32, 4), "mxfp8": (32, 8)}


def raw(array):
    """The bytes of an MLX array, whatever its dtype."""
    view = {2: mx.uint16, 4: mx.uint32, 1: mx.uint8}[array.dtype.size]
    return np.array(array.view(view)).tobytes()


class Pipe:
    def __init__(self, program):
        self.program = program

    def run(self, words, data):
        done = subprocess.run([self.program, *map(str, words)], input=data, stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"quant_pipe failed on {words}")
        return done.stdout

    def decode(self, kind, group, side, rows, cols, parts):
        return np.frombuffer(self.run(["decode", kind, group, side, rows, cols], b"".join(parts)), np.float32).reshape(rows, cols)

    def encode(self, kind, group, side, mode, values, sizes):
        out = self.run(["encode", kind, group, side, mode, *values.shape], np.ascontiguousarray(values, np.float32).tobytes())
        parts, at = [], 0
        for n in sizes:
            parts.append(out[at:at + n])
            at += n
        assert at == len(out)
        return parts


def samples(rng, rows, cols):
    """Rows of several kinds: normal, heavy tails, far from zero, zeros, constants, one outlier, ties, very small."""
    x = rng.standard_normal((rows, cols)) * 0.02
    x[1::8] = 0.01 * rng.standard_normal(x[1::8].shape) ** 3
    x[2::8] += 0.3
    x[3::8] = np.where(rng.random(x[3::8].shape) < 0.01, x[3::8] * 50, 0)
    x[4::8] = rng.integers(-8, 9, x[4::8].shape) / 4
    x[5::8] = np.repeat(rng.standard_normal((x[5::8].shape[0], cols // 128)), 128, axis=1)
    x[6::8] *= 10.0 ** rng.integers(-4, 4, (x[6::8].shape[0], 1))
    x[7::8] *= 1e-6
    return x.astype(np.float32)


class Tally:
    def __init__(self):
        self.n, self.values, self.failures = 0, 0, []
        self.rounded, self.off = 0, 0

    def same(self, what, a, b):
        self.n += 1
        a, b = np.frombuffer(a, np.uint8), np.frombuffer(b, np.uint8)
        self.values += a.size
        if a.size != b.size or not np.array_equal(a, b):
            self.failures.append(f"{what}: {int((a != b).sum()) if a.size == b.size else 'sizes differ'} of {a.size} bytes differ")


def same_floats(tally, what, ours, theirs):
    """Bits, but for the sign of zero."""
    tally.same(what, (ours + 0.0).tobytes(), (theirs + 0.0).tobytes())


def staged_affine(pipe, q, parts, kind, group, rows, cols):
    """scale * code + bias with the product and the sum each rounded to the dtype of the scales."""
    n = rows * cols // group
    one, none = np.ones(n, np.float32).tobytes(), np.zeros(n, np.float32).tobytes()
    codes = mx.array(pipe.decode(kind, group, "F32", rows, cols, [parts[0], one, none])).astype(q[1].dtype)
    wide = [mx.repeat(a, group, axis=1) for a in q[1:]]
    return wide[0] * codes + wide[1]


def check_format(pipe, tally, x, name, kind, group, bits, mode, side):
    rows, cols = x.shape
    options = {"group_size": group, "bits": bits, "mode": mode}
    source = mx.array(x).astype(SIDES[side])
    q = mx.quantize(source, **options)
    parts = [raw(a) for a in q]

    ours = pipe.decode(kind, group, side, rows, cols, parts)
    if mode == "affine":
        theirs = mx.dequantize(q[0], q[1].astype(mx.float32), q[2].astype(mx.float32), **options)
        narrow = mx.dequantize(*q, **options)
    else:
        theirs = mx.dequantize(*q, **options, dtype=mx.float32)
        narrow = mx.dequantize(*q, **options, dtype=SIDES[side])
    same_floats(tally, f"{name}: MLX -> here", ours, np.array(theirs))
    exact = mx.array(ours).astype(SIDES[side])
    tally.rounded += rows * cols
    tally.off += int((np.array(narrow.astype(mx.float32)) != np.array(exact.astype(mx.float32))).sum())
    if mode == "affine":
        staged = staged_affine(pipe, q, parts, kind, group, rows, cols)
        same_floats(tally, f"{name}: mx.dequantize in {side} rounds product and sum", np.array(staged.astype(mx.float32)),
                    np.array(narrow.astype(mx.float32)))
    else:
        same_floats(tally, f"{name}: mx.dequantize in {side} rounds once", np.array(exact.astype(mx.float32)),
                    np.array(narrow.astype(mx.float32)))

    for way in ("search", "plain"):
        made = pipe.encode(kind, group, side, way, np.array(source.astype(mx.float32)), [len(p) for p in parts])
        arrays = [mx.array(np.frombuffer(p, np.uint8).reshape(rows, -1)) for p in made]
        arrays = [a.view(b.dtype) if b.dtype != mx.uint8 else a for a, b in zip(arrays, q)]
        if mode == "affine":
            there = mx.dequantize(arrays[0], arrays[1].astype(mx.float32), arrays[2].astype(mx.float32), **options)
        else:
            there = mx.dequantize(*arrays, **options, dtype=mx.float32)
        same_floats(tally, f"{name}: here ({way}) -> MLX", pipe.decode(kind, group, side, rows, cols, made), np.array(there))

    if side != "F16" or mode == "affine":
        made = pipe.encode(kind, group, side, "mlx", np.array(source.astype(mx.float32)), [len(p) for p in parts])
        for part, mine, other in zip(("codes", "scales", "biases"), made, parts):
            tally.same(f"{name}: {part} as mx.quantize", mine, other)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("program")
    ap.add_argument("--rows", type=int, default=64)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    mx.set_default_device(mx.cpu)
    rng, pipe, tally = np.random.default_rng(a.seed), Pipe(a.program), Tally()
    x = samples(rng, a.rows, 512)
    n_formats = 0
    for side in SIDES:
        for bits in AFFINE_BITS:
            for group in GROUPS:
                name = f"affine {bits} bits, group {group}, {side}"
                check_format(pipe, tally, x, name, f"affine {bits}-bit", group, bits, "affine", side)
                n_formats += 1
        for mode, (group, bits) in FLOAT_MODES.items():
            check_format(pipe, tally, x, f"{mode} from {side}", mode, group, bits, mode, side)
            n_formats += 1
    for line in tally.failures:
        print(line)
    print(f"mlx {mx.__version__}: {n_formats} formats, {x.size} values each; {tally.n - len(tally.failures)} of {tally.n} comparisons "
          f"equal bit by bit ({tally.values} bytes)")
    print("asked for the dtype of its scales, mx.dequantize differs from the value rounded once to it "
          f"in {tally.off} of {tally.rounded} values")
    sys.exit(1 if tally.failures else 0)


main()
