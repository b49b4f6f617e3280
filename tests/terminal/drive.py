"""A pseudo-terminal with `inkjet` behind it, and a small model to talk to. Standard library only.

The vocabulary is the 256 bytes, some pairs of letters, and the control tokens of the chat format, so that a random model that draws its
tokens produces every kind of block.
"""
import array
import fcntl
import json
import os
import pty
import random
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time

SPECIALS = ["<|endoftext|>", "<|message_user|>", "<|message_model|>", "<|message_system|>", "<|message_tool|>", "<|content_text|>",
            "<|content_image|>", "<|content_thinking|>", "<|end_message|>", "<|content_audio_input|>", "<|content_tool_error|>",
            "<|content_xml|>", "<|audio_end|>", "<|content_invoke_tool_json|>", "<|unused_200053|>", "<|unused_200054|>",
            "<|content_invoke_tool_text|>", "<|content_model_end_sampling|>"]
EXPRESSION = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
N_IDS = 600  # of the synthetic model "tiny", whose end token is the last


def special(name):
    return N_IDS - len(SPECIALS) + SPECIALS.index(name)


def write_tokenizer(path):
    plain = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    others = [b for b in range(256) if b not in plain]
    spelled = {**{b: chr(b) for b in plain}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}
    vocab = {spelled[b]: b for b in range(256)}
    merges = []
    letters = "abcdefghijklmnopqrstuvwxyz"
    for pair in (a + b for a in letters for b in letters):
        if len(vocab) == N_IDS - len(SPECIALS):
            break
        merges.append(" ".join(pair))
        vocab[pair] = len(vocab)
    added = [{"id": special(name), "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for name in SPECIALS]
    document = {
        "version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": EXPRESSION}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "byte_fallback": False, "ignore_merges": True, "vocab": vocab, "merges": merges}}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document, f)


def make_model(program, folder):
    subprocess.run([*program, "bench", "--synthetic", "tiny", "--keep", folder, "--prompt", "1", "--gen", "1", "--repeat", "1",
                    "--threads", "1"], check=True, stdout=subprocess.DEVNULL)
    write_tokenizer(os.path.join(folder, "tokenizer.json"))


def make_towers(folder, hidden, patch=8, seed=1):
    """A checkpoint folder with nothing but random towers for patches of 8 pixels, and dMel bins."""
    r = random.Random(seed)
    widths = [(64, 12), (64, 256), (192, 256), (hidden, 384)]
    shapes = {"model.visual.layers.linear_%d.weight" % i: shape for i, shape in enumerate(widths)}
    shapes |= {"model.visual.layers.norm_%d.weight" % i: (shape[0],) for i, shape in enumerate(widths[:3])}
    shapes |= {"model.visual.final_norm.weight": (hidden,), "model.audio.encoder.weight": (1280, hidden), "model.audio.final_norm.weight": (hidden,)}
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = array.array("f", (r.uniform(-0.3, 0.3) if len(shape) > 1 else 1.0 for _ in range(n)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"model_type": "inkling_mm_model",
                   "vision_config": {"vision_encoder_type": "hmlp", "decoder_dmodel": hidden, "patch_size": patch, "temporal_patch_size": 2,
                                     "n_channels": 3, "n_layers": 4, "use_vision_norm": True},
                   "audio_config": {"audio_mode": "dmel", "decoder_dmodel": hidden, "n_mel_bins": 80, "mel_vocab_size": 16, "dmel_min_value": -7.0,
                                    "dmel_max_value": 2.0, "use_audio_norm": True}}, f)


def gif(path, width, height, pixels):
    """A picture of 0 to 127 grey levels, without compression: a clear code in time keeps every code at 8 bits."""
    codes, bits, n = [], 0, 0
    for i, p in enumerate(pixels):
        if i % 100 == 0:
            codes.append(128)
        codes.append(p)
    codes.append(129)
    out = bytearray()
    for c in codes:
        bits |= c << n
        n += 8
        while n >= 8:
            out.append(bits & 255)
            bits >>= 8
            n -= 8
    with open(path, "wb") as f:
        f.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF6, 0, 0) + bytes(v for i in range(128) for v in (2 * i, 2 * i, 2 * i)))
        f.write(b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x07")
        for at in range(0, len(out), 255):
            f.write(bytes([len(out[at:at + 255])]) + out[at:at + 255])
        f.write(b"\0;")


def wav(path, samples):
    data = struct.pack("<%dh" % len(samples), *samples)
    with open(path, "wb") as f:
        f.write(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16))
        f.write(b"data" + struct.pack("<I", len(data)) + data)


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z~]|\x1b[=>]|\r")
PATIENCE = 120  # seconds, for emulators and sanitizers; nothing waits that long when all is well


class Terminal:
    """The program on a terminal of its own. `seen` is all it has printed; expect() moves `at` behind what it finds."""

    def __init__(self, argv, env=None, folder=None):
        self.seen, self.at = b"", 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.clear()
            os.environ.update({"PATH": "/usr/bin:/bin", "TERM": "xterm", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"} | (env or {}))
            if folder:
                os.chdir(folder)
            try:
                os.execvp(argv[0], argv)
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))

    def read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        try:
            got = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += got
        return bool(got)

    def text(self):
        return ESCAPES.sub("", self.seen.decode("utf-8", "replace"))[self.at:]

    def expect(self, pattern):
        """The match of a regular expression in what comes, escapes left out."""
        end = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.text(), re.S)
            if found:
                self.at += found.end()
                return found
            if time.monotonic() > end or not self.read(max(0.0, end - time.monotonic())):
                raise AssertionError(f"expected {pattern!r}, got {self.text()!r}")

    def send(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            data = data[os.write(self.fd, data):]

    def leave(self, how="\x04"):
        """Ends the conversation and gives the exit code."""
        self.send(how)
        return self.wait()

    def wait(self):
        """The exit code; minus the signal's number when one ended it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0):
                    pass
                self.modes = termios.tcgetattr(self.fd)
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"the program did not end: {self.text()!r}")


def program_from(argument):
    return shlex.split(os.environ.get("INKJET_EMULATOR", "")) + [os.path.abspath(argument)]
