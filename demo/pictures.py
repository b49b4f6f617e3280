"""Pictures of 48 x 48: coloured shapes and digits drawn here, and common objects from icon sets in several drawing styles.

Closed set: 8 shapes in 6 colours and 10 digits (58 classes). Objects: 40, in 14 training styles and one held-out style that no
training step sees. Digits come from fonts; the held-out faces are never drawn in training. A picture is a function of (seed, index).
"""

import glob
import json
import pathlib
import subprocess

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

import conf as C

SHAPES = ["circle", "square", "triangle", "star", "cross", "ring", "diamond", "heart"]
COLOURS = {
    "red": (214, 40, 40),
    "green": (40, 160, 60),
    "blue": (40, 80, 210),
    "yellow": (240, 205, 40),
    "purple": (135, 50, 160),
    "black": (25, 25, 25),
}
DIGITS = "zero one two three four five six seven eight nine".split()
CLOSED = ["%s %s" % (c, s) for c in COLOURS for s in SHAPES] + ["digit " + d for d in DIGITS]
OBJECTS = {
    n: n.split("red-")[-1].replace("evergreen-", "").replace("-", " ")
    for n in (
        "red-apple banana strawberry watermelon grapes pineapple carrot mushroom evergreen-tree cactus tulip sunflower fish whale octopus "
        "snail butterfly penguin turtle elephant frog house bicycle airplane rocket sailboat umbrella star red-heart sun key hammer scissors "
        "pizza hamburger guitar trumpet crown basketball camera candle balloon"
    ).split()
}
ALSO_SHAPES = ("star", "heart")  # in the sets of drawings, but left to the closed set, which names their colour
COLOURED = ["noto", "noto-v1", "twemoji", "fluent-emoji-flat", "emojione", "fxemoji", "streamline-emojis"]
INK = ["fluent-emoji-high-contrast", "emojione-monotone", "icon-park", "ph", "mdi", "tabler", "lucide"]  # one ink; some are outlines
TRAIN_STYLES = COLOURED + INK
HELD_STYLES = ["openmoji"]
# What sets that do not use the names of emoji call the objects; an object without an entry is looked up by its own name, then left out.
KEYS = {
    "fxemoji": {
        "apple": "redapple",
        "tree": "christmastree",
        "house": "housebuilding",
        "heart": "redheart",
        "sun": "blacksunwithrays",
        "pizza": "sliceofpizza",
        "scissors": "blackscissors",
    },
    "streamline-emojis": {
        "strawberry": "strawberry-1",
        "watermelon": "watermelon-1",
        "cactus": "cactus-1",
        "sunflower": "sunflower-1",
        "penguin": "penguin-1",
        "frog": "frog-face",
        "pizza": "pizza-1",
        "hamburger": "hamburger-1",
        "tree": "christmas-tree",
        "house": "house-with-garden",
    },
    "mdi": {
        "apple": "food-apple",
        "grapes": "fruit-grapes",
        "pineapple": "fruit-pineapple",
        "watermelon": "fruit-watermelon",
        "tulip": "flower-tulip",
        "tree": "pine-tree",
        "sailboat": "sail-boat",
        "house": "home",
        "guitar": "guitar-acoustic",
        "sun": "white-balance-sunny",
    },
    "ph": {"apple": None, "tulip": "flower-tulip", "tree": "tree-evergreen"},
    "tabler": {"grapes": "grape", "house": "home", "bicycle": None, "basketball": "ball-basketball", "watermelon": None},
    "lucide": {"grapes": "grape", "tree": "tree-pine", "bicycle": None},
    "icon-park": {
        "house": "home",
        "bicycle": "bike",
        "watermelon": "watermelon-one",
        "tree": "christmas-tree",
        "scissors": None,
        "heart": None,
        "rocket": None,
    },
}
FONTS = [
    "dejavu/DejaVuSans",
    "dejavu/DejaVuSans-Bold",
    "dejavu/DejaVuSansMono",
    "dejavu/DejaVuSansMono-Bold",
    "dejavu/DejaVuSerif",
    "dejavu/DejaVuSerif-Bold",
    "liberation/LiberationSans-Regular",
    "liberation/LiberationSans-Bold",
    "liberation/LiberationMono-Regular",
    "crosextra/Caladea-Regular",
    "crosextra/Caladea-Bold",
    "crosextra/Carlito-Bold",
    "freefont/FreeMonoBold",
    "freefont/FreeSans",
    "freefont/FreeSerif",
    "freefont/FreeSerifBold",
    "lato/Lato-Regular",
    "lato/Lato-Black",
    "open-sans/OpenSans-Bold",
    "roboto/unhinted/RobotoTTF/Roboto-Regular",
    "roboto/unhinted/RobotoTTF/Roboto-Bold",
]
HELD_FONTS = ["liberation/LiberationSerif-Regular", "liberation/LiberationSerif-Bold", "liberation/LiberationMono-Bold"]
QUESTIONS = ["What is in the picture?", "What is this?", "What do you see?", None]


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def answer(label):
    if label.startswith("digit "):
        return "The digit %s." % label[6:]
    return {"grapes": "Grapes.", "scissors": "Scissors.", "sun": "The sun."}.get(
        label, article(label)[0].upper() + article(label)[1:] + "."
    )


def find_icon(d, style, name, label):
    """The name of the drawing of an object in a set, or None."""
    keys = [KEYS[style][label]] if label in KEYS.get(style, {}) else [name] if style not in KEYS else [name, label.replace(" ", "-")]
    for key in keys:
        while key is not None and key not in d["icons"]:
            key = d.get("aliases", {}).get(key, {}).get("parent")
        if key is not None:
            return key
    return None


def rasterize(raw, out, log):
    """Every object in every style as 96 x 96 RGBA, through librsvg."""
    out.mkdir(parents=True, exist_ok=True)
    for style in TRAIN_STYLES + HELD_STYLES:
        dest = out / (style + ".npy")
        if dest.exists():
            continue
        d = json.loads((raw / "icons" / style / "package/icons.json").read_text())
        rows = []
        for name, label in OBJECTS.items():
            key = find_icon(d, style, name, label)
            if key is None:
                rows.append(np.zeros((96, 96, 4), np.uint8))
                continue
            icon = d["icons"][key]
            w, h = icon.get("width", d.get("width", 16)), icon.get("height", d.get("height", 16))
            svg = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="%s %s %s %s">%s</svg>' % (
                icon.get("left", 0),
                icon.get("top", 0),
                w,
                h,
                icon["body"],
            )
            png = out / "one.png"
            subprocess.run(["rsvg-convert", "-w", "96", "-h", "96", "-o", str(png)], input=svg.encode(), check=True)
            rows.append(np.asarray(Image.open(png).convert("RGBA").resize((96, 96))))
            png.unlink()
        np.save(dest, np.stack(rows))
        log("pictures: %d objects in style %s" % (sum(bool(r[..., 3].any()) for r in rows), style))


def draw_shape(shape, colour, rng):
    s = 192
    im = Image.new("RGBA", (s, s), (0, 0, 0, 0))
    d = ImageDraw.Draw(im)
    rgb = tuple(int(np.clip(v + rng.integers(-18, 19), 0, 255)) for v in colour) + (255,)
    a, b, m = 0.12 * s, 0.88 * s, s / 2

    def ring_points(n, radii, turn=-np.pi / 2):
        return [
            (m + r * np.cos(turn + 2 * np.pi * i / n), m + r * np.sin(turn + 2 * np.pi * i / n))
            for i in range(n)
            for r in [radii[i % len(radii)]]
        ]

    if shape == "circle":
        d.ellipse([a, a, b, b], fill=rgb)
    elif shape == "square":
        d.rectangle([a, a, b, b], fill=rgb)
    elif shape == "triangle":
        d.polygon(ring_points(3, [0.42 * s]), fill=rgb)
    elif shape == "star":
        d.polygon(ring_points(10, [0.42 * s, 0.17 * s]), fill=rgb)
    elif shape == "cross":
        d.rectangle([m - 0.12 * s, a, m + 0.12 * s, b], fill=rgb)
        d.rectangle([a, m - 0.12 * s, b, m + 0.12 * s], fill=rgb)
    elif shape == "ring":
        d.ellipse([a, a, b, b], outline=rgb, width=int(0.12 * s))
    elif shape == "diamond":
        d.polygon([(m, a), (m + 0.26 * s, m), (m, b), (m - 0.26 * s, m)], fill=rgb)
    else:
        t = np.linspace(0, 2 * np.pi, 60)
        x, y = 16 * np.sin(t) ** 3, -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
        d.polygon([(m + 0.024 * s * u, m + 0.024 * s * v) for u, v in zip(x, y)], fill=rgb)
    return np.asarray(im.resize((96, 96), Image.LANCZOS))


_fonts = {}


def draw_digit(digit, rng, held):
    faces = HELD_FONTS if held else FONTS
    face = faces[rng.integers(len(faces))]
    if face not in _fonts:
        (path,) = glob.glob("/usr/share/fonts/truetype/%s*/%s.ttf" % tuple(face.split("/", 1)))
        _fonts[face] = ImageFont.truetype(path, 84)
    im = Image.new("RGBA", (96, 96), (0, 0, 0, 0))
    d = ImageDraw.Draw(im)
    dark = tuple(int(v) for v in rng.integers(0, 90, 3)) + (255,)
    box = d.textbbox((0, 0), str(digit), font=_fonts[face])
    d.text((48 - (box[0] + box[2]) / 2, 48 - (box[1] + box[3]) / 2), str(digit), font=_fonts[face], fill=dark)
    return np.asarray(im)


def compose(rgba, rng, turn, flip, warp=0.0):
    """Random turn, size, place, light and background -> [48, 48, 3] uint8. warp: how far sides may stretch and lean."""
    t = torch.from_numpy(rgba.astype(np.float32)).permute(2, 0, 1)[None] / 255
    angle = float(rng.uniform(-turn, turn)) * np.pi / 180
    scale = float(rng.uniform(1.0, 1.45 + 1.5 * warp))
    sx = scale * (-1 if flip and rng.random() < 0.5 else 1)
    c, s = np.cos(angle), np.sin(angle)
    room = max(0.0, 1 - 1 / scale) * scale
    lean, stretch = float(rng.uniform(-warp, warp)), float(np.exp(rng.uniform(-warp, warp)))
    theta = torch.tensor(
        [
            [
                [c * sx * stretch, (lean * c - s) * scale, float(rng.uniform(-room, room))],
                [s * sx * stretch, (lean * s + c) * scale, float(rng.uniform(-room, room))],
            ]
        ],
        dtype=torch.float32,
    )
    t[:, :3] *= t[:, 3:]
    # the source is twice as fine as the picture: sample at 96, then average
    grid = F.affine_grid(theta, (1, 4, 96, 96), align_corners=False)
    t = F.avg_pool2d(F.grid_sample(t, grid, align_corners=False), 2)[0]
    ground = rng.uniform(0.72, 1.0, 3) if rng.random() < 0.7 else np.ones(3)
    im = t[:3] + (1 - t[3:]) * torch.tensor(ground, dtype=torch.float32)[:, None, None]
    im = im * float(rng.uniform(0.85, 1.1)) + torch.from_numpy(rng.normal(0, rng.uniform(0, 0.03), (3, C.SIDE, C.SIDE))).float()
    return (im.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()


class Pictures:
    def __init__(self, folder):
        self.art = {s: np.load(pathlib.Path(folder) / (s + ".npy")) for s in TRAIN_STYLES + HELD_STYLES}
        self.names = list(OBJECTS.values())
        self.kinds = [k for k, n in enumerate(self.names) if n not in ALSO_SHAPES]

    def closed(self, rng, held):
        k = int(rng.integers(len(CLOSED) + 10))  # digits twice as often as one coloured shape
        k = k if k < len(CLOSED) else k - 10
        label = CLOSED[k]
        if label.startswith("digit "):
            return compose(draw_digit(DIGITS.index(label[6:]), rng, held), rng, 12, False, 0 if held else 0.2), label
        colour, shape = label.split(" ")
        turn = 0 if shape in ("square", "diamond", "cross") else 25
        return compose(draw_shape(shape, COLOURS[colour], rng), rng, turn + 8, shape in ("circle", "ring", "heart", "star")), label

    def object(self, rng, held):
        if held:
            k, style = self.kinds[rng.integers(len(self.kinds))], HELD_STYLES[rng.integers(len(HELD_STYLES))]
            return compose(self.art[style][k], rng, 5, False), self.names[k]
        ink = rng.random() < 0.35
        while True:
            k, style = self.kinds[rng.integers(len(self.kinds))], (INK if ink else COLOURED)[rng.integers(len(INK if ink else COLOURED))]
            rgba = self.art[style][k]
            if rgba[..., 3].any():
                break
        rgba = self.colour_in(rgba, k, rng) if ink else cartoon(rgba, rng) if rng.random() < 0.4 else rgba
        return compose(restyle(rgba, rng), rng, 20, True, 0.15), self.names[k]

    def colour_in(self, rgba, k, rng):
        """A drawing of one ink: dark lines around what they enclose, or the whole shape, in a colour of the object elsewhere or in any."""
        ink = rgba[..., 3].astype(np.float32) / 255
        with_rim = np.pad((ink > 0.3).astype(np.uint8) * 255, 1)
        outside = Image.fromarray(with_rim).copy()  # what comes from an array is not written to
        ImageDraw.floodfill(outside, (0, 0), 128)
        inside = (np.asarray(outside)[1:-1, 1:-1] == 0).astype(np.float32)
        ref = self.art[COLOURED[rng.integers(5)]][k]
        solid = ref[..., :3][ref[..., 3] > 200].astype(np.float32)
        colour = solid[rng.integers(len(solid))] if len(solid) and rng.random() < 0.7 else rng.uniform(60, 255, 3)
        dark = rng.uniform(0, 50, 3)
        lines, body = (dark, colour) if rng.random() < 0.6 else (colour, np.full(3, 255.0) if rng.random() < 0.5 else dark)
        alpha = np.maximum(ink, inside if rng.random() < 0.8 else 0)
        rgb = lines * ink[..., None] + body * (1 - ink[..., None])
        return np.concatenate([rgb, alpha[..., None] * 255], -1).clip(0, 255).astype(np.uint8)


def cartoon(rgba, rng):
    """A few flat colours with dark lines between them and around."""
    seen = rgba[..., 3] > 100
    flat = np.asarray(Image.fromarray(rgba[..., :3]).quantize(int(rng.integers(3, 8)), kmeans=1))
    colour = np.zeros((int(flat.max()) + 1, 3), np.float32)
    for i in range(len(colour)):
        at = (flat == i) & seen
        if at.any():
            colour[i] = rgba[..., :3][at].mean(0)
    x = colour[flat]
    region = np.where(seen, flat.astype(np.int32), -1)
    edge = np.zeros(region.shape, bool)
    edge[:, 1:] |= region[:, 1:] != region[:, :-1]
    edge[1:] |= region[1:] != region[:-1]
    # lines between colours only where regions are large enough to be meant
    wide = (
        F.max_pool2d(torch.from_numpy(edge.astype(np.float32))[None, None], 3, 1, 1)[0, 0].numpy()
        if rng.random() < 0.7
        else edge.astype(np.float32)
    )
    x = x * (1 - wide[..., None]) + rng.uniform(0, 40) * wide[..., None]
    return np.concatenate([x, (np.maximum(seen, wide) * 255)[..., None]], -1).clip(0, 255).astype(np.uint8)


def restyle(rgba, rng):
    """What styles differ in, made up: outlines, flat or pale colours, little saturation."""
    x = rgba.astype(np.float32)
    if rng.random() < 0.3:  # a dark outline around the drawing
        a = torch.from_numpy(x[..., 3] / 255)[None, None]
        r = int(rng.integers(1, 4))
        wide = F.max_pool2d(a, 2 * r + 1, 1, r)[0, 0].numpy()
        inner = x[..., 3:] / 255
        x[..., :3] = x[..., :3] * inner + 20 * (1 - inner)
        x[..., 3] = wide * 255
    if rng.random() < 0.3:  # dark inner edges
        g = x[..., :3].mean(-1)
        e = np.abs(np.diff(g, axis=0, prepend=g[:1])) + np.abs(np.diff(g, axis=1, prepend=g[:, :1]))
        x[..., :3] *= np.clip(1 - e / 60, 0.1, 1)[..., None]
    if rng.random() < 0.4:
        g = x[..., :3].mean(-1, keepdims=True)
        x[..., :3] = g + (x[..., :3] - g) * rng.uniform(0.2, 1.3)
    if rng.random() < 0.4:
        x[..., :3] += rng.normal(0, 22, 3)
    if rng.random() < 0.3:
        x[..., :3] = 255 * (np.clip(x[..., :3], 0, 255) / 255) ** rng.uniform(0.5, 1.6)
    return np.clip(x, 0, 255).astype(np.uint8)


def to_patches(im):
    """[H, W, 3] uint8 -> [rows * (W / p + 1), 1, p, p, 3] normalized, one column more than needed, rounded to BF16 (the family's way)."""
    h, w, _ = im.shape
    p = C.PATCH
    rows, cols = -(-h // p), w // p + 1
    x = np.full((rows * p, cols * p, 3), -1, np.float32)
    x[:h, :w] = im
    x = (x * np.float32(1 / 255) - np.array(C.MEAN, np.float32)) / np.array(C.STD, np.float32)
    x = x.reshape(rows, p, cols, p, 3).transpose(0, 2, 1, 3, 4).reshape(rows * cols, 1, p, p, 3)
    return torch.from_numpy(np.ascontiguousarray(x)).bfloat16().float()


ROWS = -(-C.SIDE // C.PATCH) * (C.SIDE // C.PATCH + 1)
