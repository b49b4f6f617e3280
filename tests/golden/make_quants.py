"""Makes tests/fixtures/quants.safetensors: what two other programs decode.

    pip install gguf 'mlx[cpu]' && python3 tests/golden/make_quants.py tests/fixtures/quants.safetensors

`TYPE.raw` and `TYPE.values` are random blocks and what the gguf package makes of them, for the block types that blocks.safetensors
lacks, and `TYPE.grid` the codebooks of that package. `TYPE/GROUP/SIDE.codes`, `.scales`, `.biases` and `.values` are random codes and
sidecars (affine: scales of both signs over many magnitudes) and what mx.dequantize makes of them in float32. Scales that stand for
NaN are left out: programs differ there.
"""
import json
import struct
import sys

import gguf
import mlx.core as mx
import numpy as np

COLS = 256
DTYPES = {"float32": "F32", "uint8": "U8", "int8": "I8"}
SIDES = {"F32": mx.float32, "BF16": mx.bfloat16, "F16": mx.float16}
rng = np.random.default_rng(4)
tensors = {}


def add_blocks(name, rows, scale_column, scales):
    kind = gguf.GGMLQuantizationType[name]
    raw = rng.integers(0, 256, (rows, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    raw[:, scale_column:scale_column + scales.shape[1]] = scales
    tensors[name + ".raw"] = raw
    tensors[name + ".values"] = gguf.quants.dequantize(raw, kind).astype(np.float32)


def add_grid(name):
    kind = getattr(gguf.quants, name)
    kind.init_grid()
    tensors[name + ".grid"] = kind.grid.reshape(kind.grid_shape).astype(np.int8)


def half_scales(rows):
    return rng.normal(0, 0.05, (rows, 1)).astype(np.float16).view(np.uint8)


def add_affine(bits, group, side):
    codes = rng.integers(0, 2**32, (1, COLS * bits // 32), dtype=np.uint32)
    sides = [mx.array((rng.normal(size=(1, COLS // group)) * 10.0 ** rng.integers(-4, 3, (1, COLS // group))).astype(np.float32))
             .astype(SIDES[side]) for _ in range(2)]
    exact = [a.astype(mx.float32) for a in sides]
    stem = f"affine {bits}-bit/{group}/{side}"
    tensors[stem + ".codes"] = codes.view(np.uint8)
    for part, a in zip(("scales", "biases"), sides):
        tensors[f"{stem}.{part}"] = np.array(a if side == "F32" else a.view(mx.uint16)).view(np.uint8)
    tensors[stem + ".values"] = np.array(mx.dequantize(mx.array(codes), *exact, group_size=group, bits=bits, mode="affine"))


def add_mode(mode, group, bits, scales):
    codes = rng.integers(0, 2**32, (1, COLS * bits // 32), dtype=np.uint32)
    stem = f"{mode}/{group}/U8"
    tensors[stem + ".codes"] = codes.view(np.uint8)
    tensors[stem + ".scales"] = scales
    tensors[stem + ".values"] = np.array(mx.dequantize(mx.array(codes), mx.array(scales), group_size=group, bits=bits, mode=mode,
                                                      dtype=mx.float32))


def write(path):
    header, at = {}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": DTYPES[a.dtype.name], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(a).tobytes() for a in tensors.values()))


def main():
    mx.set_default_device(mx.cpu)
    add_blocks("TQ1_0", 4, 52, half_scales(4))
    add_blocks("TQ2_0", 4, 64, half_scales(4))
    add_blocks("NVFP4", 16, 0, rng.permutation(127)[:64].reshape(16, 4).astype(np.uint8))
    for name in ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"):
        add_grid(name)
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            for side in SIDES:
                add_affine(bits, group, side)
    e4m3 = np.array([b for b in range(256) if b & 127 != 127], np.uint8)
    add_mode("nvfp4", 16, 4, rng.choice(e4m3, (1, COLS // 16)))
    for mode, bits in (("mxfp4", 4), ("mxfp8", 8)):
        add_mode(mode, 32, bits, np.array([[0, 1, 2, 100, 126, 127, 130, 200]], np.uint8))
    write(sys.argv[1])


main()
