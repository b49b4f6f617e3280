"""Pictures of every kind, made from a seed, are decoded and resized to the very pixels that Pillow makes of them; damaged ones are refused.

    python3 tests/media/pictures.py SHOW_MEDIA SEED [FOLDER]

Files of each format and mode are written by Pillow, or by hand where Pillow cannot write them (interlaced and 16-bit PNG, YCCK JPEG, GIF
frames beside their screen, WebP animations that begin with a part of the canvas). Each is opened as it is and again with another size.
Only in two things is Pillow not followed: of 16-bit gray it takes the low byte, and the orientation of EXIF is applied on its behalf.
With FOLDER the files are kept there.
"""
import hashlib
import io
import json
import pathlib
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zlib

import numpy
from PIL import Image, ImageOps

warnings.simplefilter("ignore")
SHOW, SEED = sys.argv[1], int(sys.argv[2])
rng = random.Random(SEED)
nrng = numpy.random.default_rng(SEED)
failures = []


def fail(text):
    failures.append(text)
    print("FAIL", text)


# ------------------------------------------------------------------------------------------------------------ content


def size():
    return rng.choice([(1, 1), (2, 9), (9, 2), (1, 40), (17, 1)]) if rng.random() < 0.15 else (rng.randint(3, 90), rng.randint(3, 70))


def picture(w, h, channels=3):
    """Smooth shapes with edges and some noise: nothing that a codec could call simple."""
    y, x = numpy.mgrid[0:h, 0:w]
    out = numpy.zeros((h, w, channels))
    for c in range(channels):
        a, b, p = nrng.uniform(0.02, 0.4, 3)
        out[..., c] = 128 + 90 * numpy.sin(a * x + b * y + 6 * p) + 60 * ((x * (c + 1) // 9 + y // 7) % 2) - 30
    out += nrng.normal(0, nrng.choice([0, 4, 30]), out.shape)
    return numpy.clip(out, 0, 255).astype(numpy.uint8)


def image(mode):
    w, h = size()
    n = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    a = picture(w, h, n)
    return Image.fromarray(a[..., 0] if n == 1 else a, mode)


# ---------------------------------------------------------------------------------------------------------------- PNG


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def paeth(a, b, c):
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def png_rows(samples, depth):
    """Samples [h][w][channels] packed into rows, each with a random filter."""
    h, w, n = samples.shape
    if depth == 16:
        raw = samples.astype(">u2").tobytes()
    elif depth == 8:
        raw = samples.astype(numpy.uint8).tobytes()
    else:
        bits = numpy.unpackbits(samples.astype(numpy.uint8)[..., None], axis=-1)[..., 8 - depth:]
        raw = numpy.packbits(bits.reshape(h, w * n * depth), axis=1).tobytes()
    stride, step, out, last = (w * n * depth + 7) // 8, max(1, n * depth // 8), b"", None
    for y in range(h):
        row, kind = raw[y * stride:(y + 1) * stride], rng.randint(0, 4)
        up = last or bytes(stride)
        left = [0] * step + list(row)
        corner = [0] * step + list(up)
        predicted = {0: lambda i: 0, 1: lambda i: left[i], 2: lambda i: up[i], 3: lambda i: (left[i] + up[i]) // 2,
                     4: lambda i: paeth(left[i], up[i], corner[i])}[kind]
        out += bytes([kind]) + bytes((v - predicted(i)) & 255 for i, v in enumerate(row))
        last = row
    return out


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png_file(samples, depth, colour, interlaced, before=(), after=(), width=None, height=None):
    h, w, _ = samples.shape
    passes = [samples[y0::dy, x0::dx] for x0, y0, dx, dy in ADAM7] if interlaced else [samples]
    body = zlib.compress(b"".join(png_rows(p, depth) for p in passes if p.size))
    cut = rng.randint(0, len(body))
    header = struct.pack(">IIBBBBB", width if width is not None else w, height if height is not None else h, depth, colour, 0, 0, interlaced)
    parts = [chunk(b"IHDR", header), *before, chunk(b"IDAT", body[:cut]), chunk(b"IDAT", body[cut:]), *after, chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def png_case(colour, depth, interlaced, transparent):
    w, h = size()
    n = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    top = (1 << depth) - 1
    samples = nrng.integers(0, top + 1, (h, w, n)) if rng.random() < 0.5 else (picture(w, h, n).astype(int) * top // 255)
    before, right = [], None
    if colour == 3:
        before.append(chunk(b"PLTE", nrng.integers(0, 256, 3 << depth, dtype=numpy.uint8).tobytes()))
    if transparent:
        before.append(chunk(b"tRNS", nrng.integers(0, 256, 1 << depth, dtype=numpy.uint8).tobytes() if colour == 3 else
                            b"".join(struct.pack(">H", int(v)) for v in samples[0, 0])))
    if colour == 0 and depth == 16:
        right = numpy.repeat((samples >> 8).astype(numpy.uint8), 3, axis=2)
    return png_file(samples, depth, colour, interlaced, before), right


def png_cases():
    kinds = [(0, d) for d in (1, 2, 4, 8, 16)] + [(2, 8), (2, 16)] + [(3, d) for d in (1, 2, 4, 8)] + [(4, 8), (4, 16), (6, 8), (6, 16)]
    for colour, depth in kinds:
        for interlaced in (0, 1):
            for i in range(2):
                yield (f"png-{colour}-{depth}-{interlaced}-{i}.png", *png_case(colour, depth, interlaced, False))
            if colour < 4:
                yield (f"png-{colour}-{depth}-{interlaced}-trns.png", *png_case(colour, depth, interlaced, True))
    for depth in (2, 4, 8):
        few = chunk(b"PLTE", nrng.integers(0, 256, 9, dtype=numpy.uint8).tobytes())
        yield f"png-few-colours-{depth}.png", png_file(nrng.integers(0, 1 << depth, (20, 30, 1)), depth, 3, 0, [few]), None
    for orientation in (1, 3, 6, 8):
        s = picture(*size())
        exif = chunk(b"eXIf", tiff(orientation, "MM"))
        yield f"png-exif-{orientation}.png", png_file(s, 8, 2, 0, **{rng.choice(["before", "after"]): [exif]}), None
    text = [chunk(b"tEXt", b"Title\0words"), chunk(b"gAMA", struct.pack(">I", 30000)), chunk(b"sBIT", b"\x05\x05\x05"),
            chunk(b"iCCP", b"bomb\0\0" + zlib.compress(bytes(20_000_000))), chunk(b"zTXt", b"bomb\0\0" + zlib.compress(bytes(20_000_000)))]
    samples = picture(40, 30)
    yield "png-chunks.png", png_file(samples, 8, 2, 0, text), samples
    large = [chunk(b"mkBT", bytes(9_000_000)), chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + b" " * 9_000_000)]
    yield "png-large-chunks.png", png_file(samples, 8, 2, 1, large[:1], large[1:]), samples
    actl = [chunk(b"acTL", struct.pack(">II", 2, 0)), chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 20, 10, 0, 0, 1, 2, 0, 0))]
    more = [chunk(b"fcTL", struct.pack(">IIIIIHHBB", 1, 5, 5, 1, 1, 1, 2, 0, 0)),
            chunk(b"fdAT", struct.pack(">I", 2) + zlib.compress(png_rows(picture(5, 5), 8)))]
    yield "png-animated.png", png_file(picture(20, 10), 8, 2, 0, actl, more), None
    plte, trns = chunk(b"PLTE", nrng.integers(0, 256, 768, dtype=numpy.uint8).tobytes()), chunk(b"tRNS", b"\0")
    yield "png-animated-palette.png", png_file(nrng.integers(0, 256, (10, 20, 1)), 8, 3, 1, [actl[0], plte, trns]), None
    behind = chunk(b"eXIf", tiff(6, "MM")) + chunk(b"acTL", bytes(8))
    yield "png-behind-the-end.png", png_file(samples, 8, 2, 0) + behind, samples


# --------------------------------------------------------------------------------------------------------------- JPEG


def tiff(orientation, order="II"):
    e = "<" if order == "II" else ">"
    entry = struct.pack(e + "HHIHH", 0x0112, 3, 1, orientation, 0)
    other = struct.pack(e + "HHII", 0x0100, 4, 1, 77)
    return order.encode() + struct.pack(e + "HIH", 42, 8, 2) + other + entry + bytes(4)


def saved(im, kind, **options):
    out = io.BytesIO()
    im.save(out, kind, **options)
    return out.getvalue()


def adobe(data, transform):
    """The file with another colour transform in its Adobe segment, or without that segment."""
    at = data.index(b"\xff\xee\x00\x0eAdobe")
    if transform is None:
        return data[:at] + data[at + 16:]
    return data[:at + 15] + bytes([transform]) + data[at + 16:]


def jpeg_cases():
    for mode in ("L", "RGB", "CMYK"):
        for progressive in (False, True):
            for quality in (15, 75, 95, 100):
                for subsampling in (0, 1, 2) if mode == "RGB" else (0,):
                    data = saved(image(mode), "JPEG", quality=quality, progressive=progressive, subsampling=subsampling,
                                 optimize=rng.random() < 0.5)
                    yield f"jpeg-{mode}-{progressive}-{quality}-{subsampling}.jpg", data, None
    for i in range(4):
        data = saved(image("CMYK"), "JPEG", quality=rng.randint(30, 98), progressive=i % 2)
        yield f"jpeg-ycck-{i}.jpg", adobe(data, 2), None
        yield f"jpeg-plain-cmyk-{i}.jpg", adobe(data, None), None
        data = saved(image("RGB"), "JPEG", quality=rng.randint(30, 98), progressive=i % 2, subsampling=0)
        at = 4 + struct.unpack(">H", data[4:6])[0]  # in place of the JFIF segment, which would mean YCbCr
        yield f"jpeg-rgb-{i}.jpg", data[:2] + b"\xff\xee\x00\x0eAdobe" + bytes([0, 100, 0, 0, 0, 0, 0]) + data[at:], None
    for orientation in range(0, 10):
        data = saved(image(rng.choice(["L", "RGB", "CMYK"])), "JPEG", quality=80, exif=b"Exif\0\0" + tiff(orientation, rng.choice(["II", "MM"])))
        yield f"jpeg-exif-{orientation}.jpg", data, None
    data = saved(image("RGB"), "JPEG", quality=70)
    yield "jpeg-comment.jpg", data[:2] + b"\xff\xfe\x00\x07words" + data[2:], None
    yield "jpeg-after-the-end.jpg", data + bytes(100), None
    at = data.index(b"\xff\xda") + 2
    at += struct.unpack(">H", data[at:at + 2])[0]  # the end of its header, whose last three bytes are 0, 63, 0 and mean nothing here
    yield "jpeg-zero-fields.jpg", data[:at - 3] + bytes(3) + data[at:], None
    yield "jpeg-large.jpg", saved(Image.fromarray(picture(700, 500)), "JPEG", quality=85, progressive=True), None


# --------------------------------------------------------------------------------------------------------------- WebP


def riff(*chunks):
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def riff_chunk(kind, body):
    return kind + struct.pack("<I", len(body)) + body + bytes(len(body) & 1)


def u24(v):
    return struct.pack("<I", v)[:3]


def webp_frame(im, x, y, **options):
    data = saved(im, "WEBP", **options)[12:]
    if data[:4] == b"VP8X":
        data = data[18:]
    return riff_chunk(b"ANMF", u24(x // 2) + u24(y // 2) + u24(im.width - 1) + u24(im.height - 1) + u24(100) + b"\0" + data)


def webp_cases():
    for mode in ("RGB", "RGBA", "L"):
        for i in range(5):
            yield f"webp-lossy-{mode}-{i}.webp", saved(image(mode), "WEBP", quality=rng.randint(1, 100), method=rng.randint(0, 6)), None
            yield f"webp-lossless-{mode}-{i}.webp", saved(image(mode), "WEBP", lossless=True, exact=rng.random() < 0.5), None
    for orientation in (2, 5, 7):
        yield f"webp-exif-{orientation}.webp", saved(image("RGB"), "WEBP", quality=80, exif=b"Exif\0\0" + tiff(orientation)), None
    for i in range(3):
        frames = [Image.fromarray(picture(40, 30, 3 + i % 2)) for _ in range(3)]
        yield f"webp-animated-{i}.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=50, lossless=i == 0), None
    for i in range(4):
        part, whole = Image.fromarray(picture(21, 14, 3 + i % 2)), Image.fromarray(picture(48, 37))
        head = riff_chunk(b"VP8X", bytes([0x12, 0, 0, 0]) + u24(47) + u24(36)) + riff_chunk(b"ANIM", b"\x10\x80\xf0\xff\0\0")
        yield (f"webp-part-{i}.webp", riff(head, webp_frame(part, 2 * i, 6, lossless=i < 2), webp_frame(whole, 0, 0)), None)


# ---------------------------------------------------------------------------------------------------------------- GIF


def gif_codes(indices, bits):
    """LZW with a growing table, cleared when full and sometimes earlier."""
    clear, codes = 1 << bits, []
    table, width = {}, bits + 1

    def reset():
        nonlocal table, width
        codes.append((clear, width))
        table, width = {(i,): i for i in range(clear)}, bits + 1

    reset()
    string, n = (), clear + 2
    for v in indices:
        if string + (v,) in table:
            string += (v,)
            continue
        codes.append((table[string], width))
        if n < 4096:
            table[string + (v,)] = n
            n += 1
            if n > 1 << width and width < 12:
                width += 1
        elif rng.random() < 0.9:
            reset()
            n = clear + 2
        string = (v,)
    codes.append((table[string], width))
    n += 1
    if n > 1 << width and width < 12:
        width += 1
    codes.append((clear + 1, width))
    packed, held, n_held = bytearray(), 0, 0
    for code, w in codes:
        held |= code << n_held
        n_held += w
        while n_held >= 8:
            packed.append(held & 255)
            held >>= 8
            n_held -= 8
    packed.append(held & 255)
    blocks, at = b"", 0
    while at < len(packed):
        step = rng.choice([1, 100, 255])
        part = bytes(packed[at:at + step])
        blocks += bytes([len(part)]) + part
        at += step
    return bytes([bits]) + blocks + b"\0"


def gif_file(w, h, screen, at, bits, interlaced=False, transparent=None, local=False, global_bits=None, few=False, more=False):
    n = 1 << bits
    indices = nrng.integers(0, n, (h, w)) if rng.random() < 0.5 else picture(w, h, 1)[..., 0].astype(int) * (n - 1) // 255
    rows = [*range(0, h, 8), *range(4, h, 8), *range(2, h, 4), *range(1, h, 2)] if interlaced else range(h)
    global_bits = bits if global_bits is None else global_bits

    def palette(b):
        b = max(1, b - 1) if few else b
        return b - 1, nrng.integers(0, 256, 3 << b, dtype=numpy.uint8).tobytes()

    flag, colours = palette(global_bits) if global_bits else (0, b"")
    out = b"GIF89a" + struct.pack("<HHBBB", *screen, (0x80 if global_bits else 0) | flag, rng.randint(0, 255), 0) + colours
    out += b"!\xfe\x05words\0" + b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"
    if transparent is not None:
        out += b"!\xf9\x04" + struct.pack("<BHB", 1, 10, transparent) + b"\0"
    flag, colours = palette(bits) if local else (0, b"")
    frame = b"," + struct.pack("<HHHHB", *at, w, h, (0x80 if local else 0) | (0x40 if interlaced else 0) | flag) + colours
    frame += gif_codes([int(v) for y in rows for v in indices[y]], max(2, bits))
    return out + frame + (frame if more else b"") + b";"


def gif_cases():
    for mode in ("L", "RGB", "RGBA", "1"):
        for i in range(3):
            im = image("L").convert("1") if mode == "1" else image(mode)
            yield f"gif-{mode}-{i}.gif", saved(im, "GIF", interlace=i % 2), None
    for bits in range(1, 9):
        w, h = size()
        yield f"gif-{bits}.gif", gif_file(w, h, (w, h), (0, 0), bits), None
        yield f"gif-{bits}-interlaced.gif", gif_file(w, h, (w, h), (0, 0), bits, True, rng.randint(0, (1 << bits) - 1), more=True), None
    for i in range(8):
        w, h = size()
        yield (f"gif-part-{i}.gif", gif_file(w, h, (w + 9, h + 7), (rng.randint(0, 9), rng.randint(0, 7)), 4, i % 2 == 1,
                                             7 if i & 2 else None, local=bool(i & 4), global_bits=5), None)
    for i in range(3):
        yield f"gif-beyond-{i}.gif", gif_file(30, 20, (25, 12), (3, 4), 5, i == 1, 3 if i == 2 else None), None
        yield f"gif-no-palette-{i}.gif", gif_file(30, 20, (40, 30), (3, 4), 5, i == 1, 9 if i == 2 else None, global_bits=0), None
        yield f"gif-few-colours-{i}.gif", gif_file(30, 20, (40, 30), (3, 4), 5, few=True, local=i == 1), None
    yield "gif-full-table.gif", gif_file(150, 120, (150, 120), (0, 0), 8), None


# ----------------------------------------------------------------------------------------------------------- comparing


def by_pillow(path):
    im = Image.open(path)
    return ImageOps.exif_transpose(im).convert("RGB")


def changed_size(w, h):
    """A size chosen by one of the rules, with the options that lead to it (computed apart from the program)."""
    longer, kind = max(w, h), rng.randint(0, 2)
    if kind == 0:
        limit = rng.randint(1, longer)
        scale = limit / longer
        return (limit, 0, 0), [(max(1, round(w * scale)), max(1, round(h * scale))) if limit < longer else (w, h)]
    frac, cap = rng.choice([0.3, 0.5, 0.77, 1.5, 2.0, 3.1]), rng.choice([0, 60, 2048])
    target = longer * frac if cap == 0 else min(longer * frac, max(cap, longer))
    ratio = target / longer
    return (0, frac, cap), [(max(1, int(w * ratio + 0.5)), max(1, int(h * ratio + 0.5)))]


def digest(im):
    return hashlib.blake2b(im.tobytes(), digest_size=16).hexdigest()


def shown(lines):
    text = "".join(f"{path}\t{edge}\t{frac!r}\t{cap}\t{patch}\n" for path, edge, frac, cap, patch in lines)
    done = subprocess.run([SHOW], input=text, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{SHOW} ended with {done.returncode}: {done.stderr[-2000:]}\n{done.stdout[-2000:]}")
    out = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(out) == len(lines), (len(out), len(lines))
    return out


def compare(folder, cases):
    lines, wants = [], []
    for name, data, right in cases:
        path = folder / name
        path.write_bytes(data)
        im = by_pillow(path) if right is None else Image.fromarray(right)
        lines.append((path, 0, 0, 0, 40))
        wants.append((name, im.size, im))
        options, sizes = changed_size(*im.size)
        resized = im
        for s in sizes:
            resized = resized.resize(s, Image.LANCZOS) if s != resized.size else resized
        lines.append((path, *options, rng.choice([12, 40])))
        wants.append((f"{name} {options}", im.size, resized))
    formats = {}
    for line, got, (what, original, im) in zip(lines, shown(lines), wants):
        patch = line[-1]
        want = [*original, *im.size, -(-im.height // patch), im.width // patch + 1]
        if got[0] != "OK":
            fail(f"{what}: {got}")
        elif [int(v) for v in got[2:8]] != want:
            fail(f"{what}: sizes {got[2:8]}, expected {want}")
        elif got[8] != digest(im):
            fail(f"{what}: {got[1]}, {im.size}: other pixels than Pillow's")
        formats[got[1]] = formats.get(got[1], 0) + 1
    return len(lines), formats


# ------------------------------------------------------------------------------------------------------------- refusals


def jpeg_with_scans(n):
    """A progressive file of one component: its first scan, then its second, said to be of full precision, again and again."""
    data = saved(Image.fromarray(picture(64, 64, 1)[..., 0]), "JPEG", quality=80, progressive=True)
    starts = [i for i in range(len(data)) if data[i:i + 5] == b"\xff\xda\x00\x08\x01"]
    tables = data.rindex(b"\xff\xc4", 0, starts[1])
    end = data.index(b"\xff\xc4", starts[1])
    scan = data[tables:starts[1] + 9] + b"\0" + data[starts[1] + 10:end]
    return data[:tables] + scan * n + b"\xff\xd9"


def sized_jpeg(w, h):
    data = saved(Image.fromarray(picture(64, 64)), "JPEG", quality=80)
    at = data.index(b"\xff\xc0")
    return data[:at + 5] + struct.pack(">HH", h, w) + data[at + 9:]


def hostile_cases():
    rgb = picture(30, 20)
    yield "huge.png", png_file(rgb, 8, 2, 0, width=100000, height=100000), "E_RANGE", "more than max_pixels"
    yield "wide.png", png_file(rgb, 8, 2, 0, width=0x7fffffff, height=1), "E_RANGE", "a side may have"
    yield "beyond.png", png_file(rgb, 8, 2, 0, width=0xffffffff, height=1), "E_FORMAT", "damaged PNG"
    yield "zero.png", png_file(rgb, 8, 2, 0, width=0, height=10), "E_FORMAT", "PNG"
    yield "lying.png", png_file(rgb, 8, 2, 0, width=8000, height=8000), "E_FORMAT", "PNG"
    yield "depth.png", png_file(rgb, 8, 3, 0), "E_FORMAT", "PNG"
    yield "no-data.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 9, 8, 2, 0, 0, 0)) + chunk(b"IEND", b""), "E_FORMAT", "PNG"
    good = png_file(rgb, 8, 2, 0)
    yield "crc.png", good[:29] + bytes([good[29] ^ 1]) + good[30:], "E_FORMAT", "CRC"
    yield "huge.jpg", sized_jpeg(65500, 65500), "E_RANGE", "more than max_pixels"
    yield "lying.jpg", sized_jpeg(6000, 8000), "E_FORMAT", "JPEG"
    yield "zero.jpg", sized_jpeg(0, 10), "E_FORMAT", "JPEG"
    yield "scans.jpg", jpeg_with_scans(5000), "E_RANGE", "100 scans"
    data = saved(Image.fromarray(rgb), "JPEG")
    at = data.index(b"\xff\xc0")
    yield "lossless.jpg", data[:at + 1] + b"\xc3" + data[at + 2:], "E_UNSUPPORTED", "not read here: Unsupported JPEG process"
    yield "twelve-bits.jpg", data[:at + 4] + b"\x0c" + data[at + 5:], "E_UNSUPPORTED", "not read here: Unsupported JPEG data precision 12"
    yield "tall.jpg", sized_jpeg(10, 65535), "E_RANGE", "too large"
    yield "marker.jpg", saved(Image.fromarray(rgb), "JPEG")[:-40] + b"\xff\xd9", "E_FORMAT", "JPEG"
    webp = saved(Image.fromarray(picture(33, 21)), "WEBP", lossless=True)
    yield "huge.webp", webp[:21] + b"\xff\xff\xff\x0f" + webp[25:], "E_RANGE", "more than max_pixels"
    yield "lying.webp", webp[:21] + struct.pack("<I", 4000 - 1 | 4000 - 1 << 14) + webp[25:], "E_FORMAT", "WebP"
    yield "code.gif", gif_file(9, 9, (9, 9), (0, 0), 3)[:-8] + b"\xff" * 7 + b";", "E_FORMAT", "GIF"
    yield "huge.gif", gif_file(9, 9, (65535, 65535), (0, 0), 3), "E_RANGE", "more than max_pixels"
    yield "corner.gif", gif_file(9, 9, (9, 9), (65535, 65535), 3), "E_RANGE", "more than max_pixels"


def refuse(folder):
    lines, wants = [], []
    for name, data, status, words in hostile_cases():
        (folder / name).write_bytes(data)
        lines.append((folder / name, 0, 0, 0, 40))
        wants.append((name, status, words))
    for name in ("png-2-8-0-0.png", "png-3-4-1-0.png", "jpeg-RGB-False-75-2.jpg", "jpeg-RGB-True-75-2.jpg", "jpeg-CMYK-False-95-0.jpg",
                 "webp-lossy-RGB-0.webp", "webp-lossless-RGBA-0.webp", "webp-animated-0.webp", "gif-5.gif", "gif-part-3.gif"):
        data = (folder / name).read_bytes()
        for tenth in range(10):
            n = max(12, len(data) * tenth // 10)
            (folder / f"cut-{tenth}-{name}").write_bytes(data[:n])
            lines.append((folder / f"cut-{tenth}-{name}", 0, 0, 0, 40))
            wants.append((f"{name}, {n} of {len(data)} bytes", "E_FORMAT", ""))
    began = time.monotonic()
    for got, (what, status, words) in zip(shown(lines), wants):
        if got[0] != status or words not in got[-1] or got[1] != "file":
            fail(f"{what}: {got}, expected {status} with {words!r}")
    seconds, memory = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    if seconds > 60 or memory > 900:
        fail(f"the refused files took {seconds:.1f} s and {memory} MiB")
    return len(lines)


def fixtures():
    """The pictures whose right pixels are given: the files, and the same as raw pixels, which other tests read."""
    folder = pathlib.Path("tests/fixtures/media")
    known = {v["file"]: v["rgb_sha256"] for v in json.loads((folder / "images.json").read_text())["images"]}
    files = sorted(folder.glob("*.png"))
    for path, got in zip(files, shown([(f, 0, 0, 0, 40) for f in files])):
        raw = Image.open(path.with_suffix(".ppm"))
        if path.name in known and hashlib.sha256(raw.tobytes()).hexdigest() != known[path.name]:
            fail(f"{path.name}: its raw pixels are not those of the reference")
        if got[0] != "OK" or got[8] != digest(raw):
            fail(f"{path.name}: {got[:2]}: other pixels than the reference's")
    return len(files)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else temporary)
        folder.mkdir(exist_ok=True)
        cases = [*png_cases(), *jpeg_cases(), *webp_cases(), *gif_cases()]
        compared, formats = compare(folder, cases)
        refused = refuse(folder)
    longest = "PNG, palette, 8-bit, interlaced, alpha dropped, its still picture"  # a description is never cut
    if longest not in formats:
        fail(f"no picture is called {longest!r}")
    given = fixtures()
    for name, n in sorted(formats.items()):
        print(f"{n:4d}  {name}")
    print(f"seed {SEED}: {len(cases)} pictures ({compared} sizes) and {given} fixtures against Pillow, {refused} refused; {len(failures)} failures")
    sys.exit(1 if failures or len(cases) < 200 or given < 11 else 0)


main()
