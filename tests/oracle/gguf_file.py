"""GGUF files, read and written: the container, its metadata, split sets.

    read(path)          -> Gguf(meta, tensors): meta is key -> value; tensors are name -> (type name, shape slowest first, uint8 [.., row bytes])
    write(path, meta, tensors)          meta values are wrapped, see U32 .. below; a plain str, bool, list of str need no wrapping
    write_split(prefix, meta, tensors, parts, metadata_only_first)   -> the paths

    python3 gguf_file.py FILE   lists what is inside
"""
import collections
import pathlib
import struct
import sys

import numpy as np

import blocks

Gguf = collections.namedtuple("Gguf", "meta tensors")
Value = collections.namedtuple("Value", "type value")
NUMBERS = dict(u8=(0, "B"), i8=(1, "b"), u16=(2, "H"), i16=(3, "h"), u32=(4, "I"), i32=(5, "i"), f32=(6, "f"), bool=(7, "?"), u64=(10, "Q"),
               i64=(11, "q"), f64=(12, "d"))
BY_NUMBER = {n: (name, code) for name, (n, code) in NUMBERS.items()}
STRING, ARRAY = 8, 9


def value(kind, v):
    """A number of that type, or a list of such numbers."""
    return Value(kind, v)


def _string(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(b)) + b


def _scalar(v):
    """-> (type number, bytes)"""
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, (str, bytes)):
        return STRING, _string(v)
    n, code = NUMBERS[v.type]
    return n, struct.pack("<" + code, v.value)


def _encode(v):
    if isinstance(v, Value) and isinstance(v.value, (list, tuple, np.ndarray)):
        v = [Value(v.type, x) for x in v.value]
    if not isinstance(v, list):
        n, b = _scalar(v)
        return struct.pack("<I", n) + b
    items = [_scalar(x) for x in v]
    assert items and len({n for n, _ in items}) == 1
    return struct.pack("<IIQ", ARRAY, items[0][0], len(items)) + b"".join(b for _, b in items)


def write(path, meta, tensors, alignment=32):
    """tensors: name -> (type name, shape slowest first, uint8 array of all rows)."""
    head, offset, data = [], 0, []
    for name, (kind, shape, raw) in tensors.items():
        number, _, _ = blocks.TYPES[kind]
        assert raw.nbytes == int(np.prod(shape[:-1], dtype=np.int64)) * blocks.row_bytes(kind, shape[-1]), name
        head.append(_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), number, offset))
        data.append(raw.tobytes() + bytes(-raw.nbytes % alignment))
        offset += len(data[-1])
    if alignment != 32:
        meta = {**meta, "general.alignment": value("u32", alignment)}
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    out += b"".join(_string(k) + _encode(v) for k, v in meta.items()) + b"".join(head)
    pathlib.Path(path).write_bytes(out + bytes(-len(out) % alignment) + b"".join(data))


def write_split(prefix, meta, tensors, parts, metadata_only_first=False, alignment=32):
    """<prefix>-00001-of-0000N.gguf and so on. All metadata is in part 1; the others carry what says where they belong."""
    names = list(tensors)
    holders = parts - 1 if metadata_only_first else parts
    cut = [names[len(names) * i // holders:len(names) * (i + 1) // holders] for i in range(holders)]
    if metadata_only_first:
        cut.insert(0, [])
    paths = []
    for i, group in enumerate(cut):
        own = dict(meta) if i == 0 else {"general.architecture": meta["general.architecture"]}
        own |= {"split.no": value("u16", i), "split.count": value("u16", parts), "split.tensors.count": value("i32", len(names))}
        paths.append(pathlib.Path(f"{prefix}-{i + 1:05d}-of-{parts:05d}.gguf"))
        write(paths[-1], own, {k: tensors[k] for k in group}, alignment)
    return paths


class _Cursor:
    def __init__(self, blob):
        self.blob, self.at = blob, 0

    def take(self, code):
        v, = struct.unpack_from("<" + code, self.blob, self.at)
        self.at += struct.calcsize("<" + code)
        return v

    def string(self):
        n = self.take("Q")
        self.at += n
        return self.blob[self.at - n:self.at].decode(errors="surrogateescape")

    def item(self, kind):
        if kind == STRING:
            return self.string()
        return self.take(BY_NUMBER[kind][1])

    def value(self):
        kind = self.take("I")
        if kind != ARRAY:
            return self.item(kind)
        kind, n = self.take("I"), self.take("Q")
        return [self.item(kind) for _ in range(n)]


def read(path):
    blob = pathlib.Path(path).read_bytes()
    c = _Cursor(blob)
    assert c.take("4s") == b"GGUF" and c.take("I") == 3, f"{path}: not GGUF version 3"
    n_tensors, n_keys = c.take("Q"), c.take("Q")
    meta = {}
    for _ in range(n_keys):
        key = c.string()
        meta[key] = c.value()
    heads = []
    for _ in range(n_tensors):
        name = c.string()
        shape = tuple(c.take("Q") for _ in range(c.take("I")))[::-1]
        heads.append((name, shape, c.take("I"), c.take("Q")))
    align = meta.get("general.alignment", 32)
    base = -(-c.at // align) * align
    kinds = {number: kind for kind, (number, _, _) in blocks.TYPES.items()}
    tensors = {}
    for name, shape, number, offset in heads:
        row = blocks.row_bytes(kinds[number], shape[-1])
        size = row * int(np.prod(shape[:-1], dtype=np.int64))
        raw = np.frombuffer(blob, np.uint8, size, base + offset).reshape(*shape[:-1], row)
        tensors[name] = (kinds[number], shape, raw)
    return Gguf(meta, tensors)


if __name__ == "__main__":
    g = read(sys.argv[1])
    for k, v in g.meta.items():
        print(k, "=", v if not isinstance(v, list) or len(v) < 16 else f"{v[:4]} ... ({len(v)})")
    for k, (kind, shape, _) in g.tensors.items():
        print(f"{k:40} {kind:8} {shape}")
