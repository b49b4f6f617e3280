"""Pictures and sounds for the tests of the server, and towers for its small model: the standard library is enough.

The towers have random weights: nothing can be recognized, but every row of every medium is another one.
"""
import array
import base64
import io
import json
import os
import random
import shutil
import struct
import wave
import zlib

from dialect_kit import make_model

PATCH = 12
LAYERS = [(64, 27), (128, 256), (448, 512)]  # widths of the vision tower for patches of 12 pixels


def tower_tensors(hidden, rng):
    def matrix(*shape):
        n, width = shape[0] * (shape[1] if len(shape) > 1 else 1), shape[-1]
        return shape, array.array("f", (rng.gauss(0, width ** -0.5) if len(shape) > 1 else 1 + 0.1 * rng.gauss(0, 1) for _ in range(n)))

    out = {}
    for i, (rows, cols) in enumerate(LAYERS):
        out[f"model.visual.layers.linear_{i}.weight"] = matrix(rows, cols)
        out[f"model.visual.layers.norm_{i}.weight"] = matrix(rows)
    out["model.visual.layers.linear_3.weight"] = matrix(hidden, 2 * LAYERS[2][0])
    out["model.visual.final_norm.weight"] = matrix(hidden)
    out["model.audio.encoder.weight"] = matrix(1280, hidden)
    out["model.audio.final_norm.weight"] = matrix(hidden)
    return out


def write_safetensors(path, tensors):
    head, at = {}, 0
    for name, (shape, values) in tensors.items():
        n = 4 * len(values)
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            f.write(values.tobytes())


def make_model_with_towers(program, folder):
    if os.path.exists(os.path.join(folder, "processor_config.json")):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    make_model(program, folder)
    add_towers(folder, 5)
    return folder


def add_towers(folder, seed, leave_out=None):
    """leave_out: how the names of tensors begin that are not written, though the config tells of them."""
    paths = {name: os.path.join(folder, name) for name in ("config.json", "model.safetensors.index.json", "processor_config.json")}
    config, index = (json.load(open(paths[n])) for n in ("config.json", "model.safetensors.index.json"))
    hidden = config.get("text_config", config)["hidden_size"]
    tensors = tower_tensors(hidden, random.Random(seed))
    tensors = {name: t for name, t in tensors.items() if not (leave_out and name.startswith(leave_out))}
    write_safetensors(os.path.join(folder, "towers.safetensors"), tensors)
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if file != "towers.safetensors"}
    index["weight_map"].update({name: "towers.safetensors" for name in tensors})
    config["vision_config"] = {"vision_encoder_type": "hmlp", "decoder_dmodel": hidden, "patch_size": PATCH, "temporal_patch_size": 2,
                               "n_channels": 3, "n_layers": 4, "use_vision_norm": True}
    config["audio_config"] = {"audio_mode": "dmel", "decoder_dmodel": hidden, "n_mel_bins": 80, "mel_vocab_size": 16, "use_audio_norm": True,
                              "dmel_min_value": -7.0, "dmel_max_value": 2.0}
    for name, value in (("config.json", config), ("model.safetensors.index.json", index),
                        ("processor_config.json", {"image_processor": {"patch_size": PATCH, "rescale_image_frac": None}})):
        with open(paths[name], "w") as f:
            json.dump(value, f, indent=1)


def png(width, height, seed, level=6):
    """A picture of noise in large squares."""
    rng = random.Random(seed)
    squares = [[bytes(rng.randrange(256) for _ in range(3)) for _ in range(width // 5 + 1)] for _ in range(height // 5 + 1)]
    lines = b"".join(b"\0" + b"".join(squares[y // 5][x // 5] for x in range(width)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines, level)) + chunk(b"IEND", b""))


def gif(width, height, n_frames, hundredths=50):
    """An animation whose frames are each of one colour."""

    def frame(colour):
        data = bytearray()  # codes of 8 bits, so bytes; cleared before they grow
        for i in range(0, width * height, 100):
            data += bytes([128]) + bytes([colour]) * min(100, width * height - i)
        data.append(129)
        blocks = b"".join(bytes([len(data[i:i + 255])]) + bytes(data[i:i + 255]) for i in range(0, len(data), 255))
        return (struct.pack("<BBBBHBB", 0x21, 0xF9, 4, 0, hundredths, 0, 0) + struct.pack("<BHHHHB", 0x2C, 0, 0, width, height, 0) + b"\7" + blocks + b"\0")

    palette = b"".join(bytes([(i * 37) % 256, (i * 91) % 256, (i * 53) % 256]) for i in range(128))
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF6, 0, 0) + palette + b"".join(frame(i % 128) for i in range(n_frames)) + b";"


def picture_rows(width, height):
    return -(-height // PATCH) * (width // PATCH + 1)


def wav(seconds, seed, rate=16000):
    rng = random.Random(seed)
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(array.array("h", (rng.randrange(-9000, 9000) for _ in range(int(seconds * rate)))).tobytes())
    return out.getvalue()


def sound_rows(seconds, rate=16000):
    return -(-int(seconds * rate) // 800)


def b64(data):
    return base64.b64encode(data).decode()


def data_url(data, kind="image/png"):
    return f"data:{kind};base64,{b64(data)}"
