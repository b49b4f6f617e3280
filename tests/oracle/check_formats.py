"""What the decoders here say of files that another quantizer wrote, and whether writing and reading agree.

    python3 check_formats.py FIXTURES     the folder with gguf-*/golden.json
"""
import json
import pathlib
import sys
import tempfile

import numpy as np

import blocks
import gguf_file
import layouts
import make_golden as mg
import split_types
from inkling_oracle import Model, greedy, read_safetensors


def golden_files(fixtures):
    """GGUF files of another quantizer: the oracle on our decoding against the logits that came with them."""
    for folder in sorted(fixtures.glob("gguf-*")):
        about = json.loads((folder / "golden.json").read_text())
        m = Model(mg.InMemory(*layouts.from_gguf(folder / about["model"])))
        worst = np.abs(m.forward(about["prompt"]) - read_safetensors(folder / "golden.safetensors")["logits"][1]).max()
        assert worst < 1e-6, f"{folder.name}: logits differ by {worst:.3g}"
        assert greedy(m, about["prompt"], len(about["greedy"]))[0] == about["greedy"], f"{folder.name}: other greedy ids"
        print(f"{folder.name}: logits within {worst:.2g}")


def files_come_back():
    rng, v = np.random.default_rng(1), gguf_file.value
    meta = {"general.architecture": "test", "a.text": "żółw", "a.flag": True, "a.list": v("i32", [-1, 2, 3]), "a.real": v("f64", 0.1),
            "a.big": v("u64", 2 ** 63), "a.words": ["a", "", "c d"], "a.flags": [True, False]}
    tensors = {}
    for kind, (_, n, b) in blocks.TYPES.items():
        tensors[kind] = (kind, (3, 2 * n), blocks.random_blocks(kind, rng, 6).reshape(3, 2 * b))
    with tempfile.TemporaryDirectory() as d:
        for alignment in (32, 8, 256):
            gguf_file.write(f"{d}/one.gguf", meta, tensors, alignment)
            back = gguf_file.read(f"{d}/one.gguf")
            assert {k: x.value if isinstance(x, gguf_file.Value) else x for k, x in meta.items()}.items() <= back.meta.items()
            same(tensors, back.tensors)
        for first in (False, True):
            parts = [gguf_file.read(p) for p in gguf_file.write_split(f"{d}/many", meta, tensors, 4, first)]
            assert [p.meta["split.no"] for p in parts] == [0, 1, 2, 3] and (len(parts[0].tensors) == 0) == first
            same(tensors, {k: t for p in parts for k, t in p.tensors.items()})


def same(a, b):
    assert list(a) == list(b)
    for k, (kind, shape, raw) in a.items():
        assert b[k][:2] == (kind, shape) and (b[k][2] == raw).all(), k


def streams_of_bits():
    """Codes at hand: a value of b bits is bits [i * b, (i + 1) * b) of the row as one large little-endian number."""
    rng = np.random.default_rng(2)
    for bits in (2, 3, 4, 5, 6, 8):
        codes = rng.integers(0, 2 ** bits, (5, 64))
        words = split_types.pack(codes, bits)
        for row, w in zip(codes, words):
            assert int.from_bytes(w.tobytes(), "little") == sum(int(c) << bits * i for i, c in enumerate(row))
        assert (split_types.unpack(words, bits) == codes).all()
    byte = np.array([[0x2F]], np.uint8)
    values = layouts.split_types.E2M1[split_types.unpack(np.tile(byte, (1, 4)).view("<u4"), 4)]
    assert values[0, 0] == -6 and values[0, 1] == 1


if __name__ == "__main__":
    files_come_back()
    streams_of_bits()
    golden_files(pathlib.Path(sys.argv[1]))
