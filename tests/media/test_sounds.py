"""Sounds to dMel bins, against the formulas in double precision.

    python3 tests/media/test_sounds.py SOUND_PIPE [--coded] [--count N] [--seed S] [--emulator PROGRAM]

Clips of every content, rate, channel count and WAV coding are written here, read by the program, and computed here again with NumPy: mean
of the channels, the resampler term by term, windows, spectrum, mel bands, logarithm, bins. Bins must be equal except where the logarithm
lies within 1e-5 of a boundary. --coded: also FLAC, MP3, Ogg Vorbis and Ogg Opus, made with the module soundfile.
"""
import argparse
import hashlib
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

RATES = [8000, 16000, 44100, 48000, 22050, 11025, 24000, 32000, 12000, 96000, 192000, 88200, 44101, 176400, 37800, 15999]
LAYOUTS = [1, 2, 6]
CODINGS = ["u8", "s16", "s24", "s32", "f32", "f64"]
BANK_SHA = "43eba99f883271737483bb1c3ec09fc58b7acefe144cf29f4b52ba06c076c903"

# ------------------------------------------------------------------------------------------------ the reference


def resampled(x, rate):
    """Output o = q * b + p is the sum over j in -W .. W + a - 1 of k[p][j] * x[q * a + j], the formula written out."""
    if rate == 16000:
        return x
    g = np.gcd(rate, 16000)
    a, b = int(rate // g), int(16000 // g)
    base = 0.99 * min(a, b)
    w = int(np.ceil(6 * a / base))
    o = np.arange(-(-b * len(x) // a))
    q, p = o // b, o % b
    near = int(np.ceil(6 * a / base / 1)) + 1
    j = (p * a // b)[:, None] + np.arange(-near, near + 2)[None]
    t = (j / a - p[:, None] / b) * base
    inside = (np.abs(t) < 6) & (j >= -w) & (j <= w + a - 1)
    t = np.clip(t, -6, 6)
    k = np.where(inside, np.cos(t * np.pi / 12) ** 2 * np.sinc(t) * base / a, 0.0)
    i = q[:, None] * a + j
    return (k * np.where((i >= 0) & (i < len(x)), x[np.clip(i, 0, len(x) - 1)], 0.0)).sum(1)


def mel_bank():
    def mel(f):
        return 3 * f / 200 if f < 1000 else 15 + 27 * np.log(f / 1000) / np.log(6.4)

    m = np.linspace(0, mel(8000.0), 82)
    e = np.where(m < 15, 200 * m / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))
    f = 10.0 * np.arange(801)
    bank = [np.maximum(0, np.minimum((f - e[i]) / (e[i + 1] - e[i]), (e[i + 2] - f) / (e[i + 2] - e[i + 1]))) * 2 / (e[i + 2] - e[i])
            for i in range(80)]
    return np.array(bank).astype(np.float32).astype(np.float64)


BANK = mel_bank()
HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1600) / 1600)


def logarithms(x):
    """16 kHz -> [ceil(n / 800), 80] log10 of the mel bands."""
    frames = -(-len(x) // 800)
    padded = np.zeros(800 * (frames + 1))
    padded[800:800 + len(x)] = x
    windows = np.lib.stride_tricks.sliding_window_view(padded, 1600)[::800][:frames] * HANN
    s = np.fft.rfft(windows, axis=1)
    magnitude = np.sqrt(np.maximum(s.real ** 2 + s.imag ** 2, 1e-10))
    return np.clip(np.log10(np.maximum(magnitude @ BANK.T, 1e-10)), -7, 2)


def bins_of(y):
    return np.clip(np.ceil((y + 7) / 9 * 15 - 0.5), 0, 15).astype(int)


# ------------------------------------------------------------------------------------------------------ clips


def speech(rng, t):
    """Pulses of a moving pitch, as harmonics under four formants that change with every syllable, and pauses."""
    pitch = rng.uniform(80, 250) * (1 + 0.1 * np.sin(2 * np.pi * rng.uniform(1, 4) * t))
    phase = 2 * np.pi * np.cumsum(pitch) * (t[1] - t[0] if len(t) > 1 else 0)
    syllable = (t * rng.uniform(3, 7)).astype(int)
    formants = rng.uniform([250, 800, 2000, 3000], [900, 2300, 3000, 4200], (syllable.max() + 1, 4))[syllable]
    x = np.zeros(len(t))
    for h in range(1, 30):
        gain = (1 / (1 + ((h * pitch[:, None] - formants) / 120) ** 2)).sum(1)
        x += gain * np.sin(h * phase) * (h * pitch < 0.45 / max(t[1] - t[0], 1e-9) if len(t) > 1 else 1)
    return 0.2 * x * (syllable % 3 != 2)


def music(rng, t):
    x = np.zeros(len(t))
    for _ in range(8):
        f, at = 110 * 2 ** (rng.integers(0, 60) / 12), rng.uniform(0, t[-1] + 1e-9)
        x += np.where(t >= at, np.exp(-6 * np.maximum(t - at, 0)) * np.sin(2 * np.pi * f * (t - at)), 0)
    return 0.2 * x


def impulses(rng, t):
    x = np.zeros(len(t))
    x[rng.integers(0, len(t), 5)] = rng.uniform(-1, 1, 5)
    return x


def sweep(rng, t):
    top = 0.5 / (t[1] - t[0]) if len(t) > 1 else 1
    return 0.5 * np.sin(np.pi * top * t * t / (t[-1] + 1e-9))


CONTENTS = {
    "speech": speech,
    "noise": lambda rng, t: 0.2 * rng.normal(size=len(t)),
    "silence": lambda rng, t: np.zeros(len(t)),
    "impulses": impulses,
    "music": music,
    "sweep": sweep,
    "quiet": lambda rng, t: 3e-5 * rng.normal(size=len(t)),
    "loud": lambda rng, t: 3 * np.sign(rng.normal(size=len(t))),
    "tone": lambda rng, t: np.where(t < t[-1] / 2, 0.5 * np.sin(2 * np.pi * rng.uniform(50, 7900) * t), 0),
    "offset": lambda rng, t: 0.25 + 0.01 * np.sin(2 * np.pi * 300 * t),
}


def clip(rng, content, rate, channels):
    n = int(rng.choice([1, 2, 799, 800, 801])) if rng.random() < 0.06 else int(rate * rng.uniform(0.1, 0.45))
    t = np.arange(n) / rate
    return np.stack([CONTENTS[content](rng, t) * (0.3 if c else 1) for c in range(channels)], 1)


def quantized(x, coding):
    """-> the bytes of a WAV data chunk, and what they mean."""
    if coding[0] == "f":
        v = x.astype("<f4" if coding == "f32" else "<f8")
        return v.tobytes(), v.astype(np.float64)
    bits = int(coding[1:])
    v = np.clip(np.round(x * 2 ** (bits - 1)), -2 ** (bits - 1), 2 ** (bits - 1) - 1).astype(np.int64)
    if bits == 8:
        raw = (v + 128).astype(np.uint8).tobytes()
    elif bits == 24:
        raw = v.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3].tobytes()
    else:
        raw = v.astype("<i%d" % (bits // 8)).tobytes()
    return raw, v / 2.0 ** (bits - 1)


def wav(raw, coding, rate, channels, extensible=False, extra=b""):
    bits, tag = int(coding[1:]), 3 if coding[0] == "f" else 1
    head = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    if extensible:
        head += struct.pack("<HHIH", 22, bits, 0, tag) + bytes.fromhex("000000001000800000aa00389b71")
    body = b"WAVE" + extra + b"fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(raw)) + raw
    body += b"\0" * (len(raw) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


# ------------------------------------------------------------------------------------------------------- tests


class Tests:
    def __init__(self, program, folder):
        self.program, self.folder, self.bad, self.n, self.near = program, folder, 0, 0, 0

    def fail(self, *what):
        self.bad += 1
        print("FAIL", *what)

    def run(self, paths, *options):
        r = subprocess.run(self.program + list(options) + [str(p) for p in paths], capture_output=True, text=True)
        if r.returncode != 0 or r.stderr:
            self.fail("the program ended with %d and said %r" % (r.returncode, r.stderr[:500]))
        lines = [line.split("\t") for line in r.stdout.splitlines()]
        if len(lines) != len(paths):
            raise SystemExit("%d answers to %d files" % (len(lines), len(paths)))
        return lines

    def compare(self, name, answer, x, rate, margin=1e-5):
        """x: [n][channels], what is in the file."""
        self.n += 1
        if answer[0] != "OK":
            return self.fail(name, *answer)
        mono = resampled(x.mean(1), rate)
        y = logarithms(mono)
        got = np.array([int(c, 16) for c in answer[6]]).reshape(-1, 80)
        if answer[1:5] != [str(rate), str(x.shape[1]), str(len(mono)), str(len(y))] or got.shape != y.shape:
            return self.fail(name, "announced as", answer[1:6], "expected", rate, x.shape[1], len(mono), len(y))
        want = bins_of(y)
        near = np.minimum(np.abs((y + 6.7) / 0.6 - np.round((y + 6.7) / 0.6)) * 0.6, 1) <= margin
        wrong = np.where(near, np.abs(got - want) > 1, got != want)
        self.near += int(near.sum())
        if wrong.any():
            f, m = np.argwhere(wrong)[0]
            self.fail(name, "%d of %d bins, first frame %d mel %d: %d, expected %d (%.7f)"
                      % (wrong.sum(), wrong.size, f, m, got[f, m], want[f, m], y[f, m]))

    def bank(self):
        sha = hashlib.sha256(subprocess.run(self.program + ["--filterbank"], capture_output=True, check=True).stdout).hexdigest()
        self.n += 1
        if sha != BANK_SHA:
            self.fail("the filterbank has SHA-256", sha)

    def wavs(self, rng, count):
        made = []
        contents = list(CONTENTS)
        for i in range(count):
            content, rate, coding = contents[i % len(contents)], RATES[(i // 3) % len(RATES)], CODINGS[(i + i // 6) % 6]
            channels, extensible = LAYOUTS[(i + i // 7) % 3], i % 4 == 1
            raw, x = quantized(clip(rng, content, rate, channels), coding)
            path = self.folder / ("%03d-%s-%d-%d-%s%s.wav" % (i, content, rate, channels, coding, "-ext" if extensible else ""))
            path.write_bytes(wav(raw, coding, rate, channels, extensible, b"LIST\3\0\0\0abc\0" if i % 5 == 0 else b""))
            made.append((path, x, rate))
        for (path, x, rate), answer in zip(made, self.run([m[0] for m in made])):
            self.compare(path.name, answer, x, rate)
            coding = path.stem.split("-")[4]
            if answer[0] == "OK" and answer[5] != "WAV, %s-bit%s" % (coding[1:], " float" if coding[0] == "f" else ""):
                self.fail(path.name, "is called", answer[5])

    def coded(self, rng, count):
        """The samples are those that libsndfile decodes; it takes another of the MP3 decoders in libmpg123: there the margin is wider."""
        import soundfile

        kinds = [("FLAC", "PCM_16", "FLAC, 16-bit"), ("FLAC", "PCM_24", "FLAC, 24-bit"), ("FLAC", "PCM_S8", "FLAC, 8-bit"),
                 ("MP3", "MPEG_LAYER_III", "MP3"), ("OGG", "VORBIS", "Ogg Vorbis"), ("OGG", "OPUS", "Ogg Opus")]
        made = []
        for i in range(count):
            form, sub, said = kinds[i % len(kinds)]
            rate = {"OPUS": [48000, 24000, 16000, 8000], "MPEG_LAYER_III": [44100, 48000, 32000, 16000]}.get(sub, RATES[:10])[i // 6 % 4]
            channels = 1 + i // 12 % 2
            path = self.folder / ("%03d-%s.%s" % (i, sub, form.lower()))
            content = ["speech", "noise", "music", "sweep", "silence", "impulses", "tone"][i % 7]
            x = np.clip(clip(np.random.default_rng([i, 1]), content, rate, channels), -1, 1)
            x = np.concatenate([x, x, np.zeros((2000, channels))])
            soundfile.write(path, x, rate, subtype=sub, format=form)
            made.append((path, soundfile.read(path, dtype="float64", always_2d=True)[0], rate, said))
            if sub == "PCM_16" and np.abs(made[-1][1] - x).max() > 1.1 / 32768:
                self.fail(path.name, "is not what was written")
        for (path, x, rate, said), answer in zip(made, self.run([m[0] for m in made])):
            self.compare(path.name, answer, x, rate, 2e-3 if said == "MP3" else 1e-5)
            if answer[0] == "OK" and answer[5] != said:
                self.fail(path.name, "is called", answer[5], "and not", said)
        self.damaged([m[0] for m in made[:6]])
        self.streamed(*made[0])
        self.long(soundfile)

    def streamed(self, path, x, rate, said):
        """A FLAC file of a program that wrote to a pipe has 0 where the number of samples stands: its 36 bits end at byte 26."""
        whole = path.read_bytes()
        path = self.folder / "streamed.flac"
        path.write_bytes(whole[:21] + bytes([whole[21] & 0xF0]) + bytes(4) + whole[26:])
        self.compare(path.name, self.run([path])[0], x, rate)
        turned = bytearray(path.read_bytes())
        turned[len(turned) // 2] ^= 0x55
        path.write_bytes(turned)
        answer = self.run([path])[0]
        self.n += 1
        if answer[0] != "E_FORMAT" or "damaged" not in answer[1]:
            self.fail("a damaged FLAC file without its number of samples gave", answer[:6])

    def damaged(self, paths):
        """A file that was cut anywhere is refused, and told why; the same for bits that were turned, where a format can know."""
        cut = []
        for path in paths:
            whole = path.read_bytes()
            for k in list(range(1, 40, 3)) + [len(whole) * k // 23 for k in range(1, 23)] + [len(whole) - 1]:
                cut.append(self.folder / ("cut-%s-%d%s" % (path.stem, k, path.suffix)))
                cut[-1].write_bytes(whole[:k])
            if path.suffix != ".mp3":
                for k in range(1, 12):
                    turned = bytearray(whole)
                    turned[len(whole) * k // 12] ^= 0x55
                    cut.append(self.folder / ("turned-%s-%d%s" % (path.stem, k, path.suffix)))
                    cut[-1].write_bytes(turned)
        for path, answer in zip(cut, self.run(cut)):
            self.n += 1
            if answer[0] not in ("E_FORMAT", "E_UNSUPPORTED") or len(answer[1]) < 20:
                self.fail(path.name, "gave", answer[:6])

    def long(self, soundfile):
        """An hour of silence in a few kilobytes: over the limit at once, and within a larger one all of it."""
        path = self.folder / "hour.flac"
        with soundfile.SoundFile(path, "w", 16000, 1, "PCM_16") as f:
            for _ in range(60):
                f.write(np.zeros(60 * 16000, np.int16))
        short, whole = self.run([path])[0], self.run([path], "--max-rows", "72000")[0]
        self.n += 2
        if short[0] != "E_RANGE" or "72000" not in short[1] or "32768" not in short[1]:
            self.fail("an hour of silence", short[:6])
        if whole[0] != "OK" or whole[4] != "72000" or set(whole[6]) != {"2"}:
            self.fail("an hour of silence, all of it", whole[:6])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("--coded", action="store_true")
    p.add_argument("--count", type=int, default=144)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--emulator", default="")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(a.emulator.split() + [a.program], pathlib.Path(folder))
        t.bank()
        t.wavs(np.random.default_rng(a.seed), a.count)
        if a.coded:
            t.coded(np.random.default_rng(a.seed), a.count // 4)
        print("%d checks, %d values within the margin of a boundary, %d failed" % (t.n, t.near, t.bad))
    sys.exit(1 if t.bad or t.n == 0 else 0)


main()
