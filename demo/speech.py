"""Speech: a closed vocabulary of 48 words said by many synthetic voices; dMel frames as the family computes them.

Voices, not sentences, are held out: the voices of HELD say nothing in training. Raw 16 kHz audio is kept and turned into frames when it
is used, after a random gain and noise in training.
"""

import io
import pathlib
import subprocess
import wave

import numpy as np

WORDS = (
    "zero one two three four five six seven eight nine ten red green blue yellow black white up down left right stop go yes no open close "
    "light door water music play cat dog bird fish house tree car book sun moon north south east west hello goodbye"
).split()
VOICES = (
    "m1 m2 m3 m4 m5 m6 m7 m8 f1 f2 f3 f4 Andy Annie Alicia Gene Jacky Lee Marco Mario Storm Tweaky adam anika antonio aunty benjamin "
    "boris caleb david ed edward gustave john kaukovalta linda marcelo max Michael michel miguel Mike norbert pablo paul pedro quincy rob "
    "robert sandro shelby travis victor zac"
).split()
HELD = "f5 klatt2 Alex Andrea belinda Diogo Henrique Hugo iven2 steph grandma Denis".split()
ACCENTS = ["en-us", "en-gb", "en-gb-scotland", "en-029"]
QUESTIONS = ["What was said?", "Write down what you hear.", None]
RATE = 16000


def resample(x, rate):
    """Windowed sinc, half width 6, roll-off 0.99."""
    if rate == RATE:
        return x
    g = np.gcd(rate, RATE)
    a, b = rate // g, RATE // g
    base = 0.99 * min(a, b)
    w = int(np.ceil(6 * a / base))
    j = np.arange(-w, w + a)
    p = np.arange(b)[:, None]
    t = np.clip((j / a - p / b) * base, -6, 6)
    k = np.cos(t * np.pi / 12) ** 2 * np.sinc(t) * base / a
    n_out = -(-b * len(x) // a)
    blocks = -(-n_out // b)
    xp = np.concatenate([np.zeros(w), x, np.zeros(w + a * (blocks + 1))])
    rows = np.lib.stride_tricks.sliding_window_view(xp, 2 * w + a)[::a][:blocks]
    return (rows @ k.T).reshape(-1)[:n_out].astype(np.float32)


def say(text, voice, accent, speed, pitch):
    cmd = ["espeak-ng", "-v", "%s+%s" % (accent, voice), "-s", str(speed), "-p", str(pitch), "--stdout", text]
    blob = subprocess.run(cmd, capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(blob)) as f:
        rate = f.getframerate()
    x = np.frombuffer(blob[44:], "<i2").astype(np.float32) / 32768
    return resample(x, rate)


def trim(x):
    """Leaves 50 ms around what is louder than a hundredth of the peak."""
    loud = np.nonzero(np.abs(x) > 0.01 * np.abs(x).max())[0]
    return x[max(0, loud[0] - 800) : loud[-1] + 800] if len(loud) else x


def utterances(count, voices, seed, folder, log, name):
    """folder/name.npz: int16 samples back to back, ends, and the texts. Deterministic."""
    dest = pathlib.Path(folder) / (name + ".npz")
    if dest.exists():
        return
    known = subprocess.run(["espeak-ng", "--voices=variant"], capture_output=True, text=True, check=True).stdout
    missing = [v for v in voices if "!v/%s\n" % v not in known.replace(" \n", "\n") and "!v/%s " % v not in known]
    if missing:  # it would speak with its default voice and say nothing
        raise ValueError("espeak-ng has no voices " + " ".join(missing))
    dest.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    parts, ends, texts, who = [], [], [], []
    for i in range(count):
        n = int(rng.choice([1, 2, 3, 4], p=[0.25, 0.3, 0.3, 0.15]))
        text = " ".join(WORDS[k] for k in rng.integers(0, len(WORDS), n))
        v = voices[int(rng.integers(len(voices)))]
        x = trim(say(text, v, ACCENTS[int(rng.integers(len(ACCENTS)))], int(rng.integers(140, 215)), int(rng.integers(25, 75))))
        parts.append((np.clip(x, -1, 1) * 32767).astype(np.int16))
        ends.append(sum(map(len, parts[-1:])) + (ends[-1] if ends else 0))
        texts.append(text)
        who.append(v)
        if i % 1000 == 999:
            log("speech %s: %d of %d" % (name, i + 1, count))
    part = dest.with_suffix(".part.npz")
    np.savez(part, samples=np.concatenate(parts), ends=np.array(ends), texts=np.array(texts), voices=np.array(who))
    part.rename(dest)


def mel_bank():
    def mel(f):
        return 3 * f / 200 if f < 1000 else 15 + 27 * np.log(f / 1000) / np.log(6.4)

    m = np.linspace(0, mel(8000.0), 82)
    e = np.where(m < 15, 200 * m / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))
    f = 10.0 * np.arange(801)
    bank = np.zeros((80, 801))
    for i in range(80):
        up, down = (f - e[i]) / (e[i + 1] - e[i]), (e[i + 2] - f) / (e[i + 2] - e[i + 1])
        bank[i] = np.maximum(0, np.minimum(up, down)) * 2 / (e[i + 2] - e[i])
    return bank.astype(np.float32)


BANK = mel_bank()
HANN = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1600) / 1600)).astype(np.float32)


def dmel(x):
    """16 kHz samples -> [ceil(n / 800), 80] bins 0..15"""
    frames = -(-len(x) // 800)
    xp = np.zeros(800 * (frames + 1), np.float32)
    xp[800 : 800 + len(x)] = x
    win = np.lib.stride_tricks.sliding_window_view(xp, 1600)[::800][:frames] * HANN
    s = np.fft.rfft(win, axis=1)
    mag = np.sqrt(np.maximum(s.real**2 + s.imag**2, 1e-10)).astype(np.float32)
    y = np.clip(np.log10(np.maximum(mag @ BANK.T, 1e-10)), -7, 2).astype(np.float64)
    return np.clip(np.ceil((y + 7) / 9 * 15 - 0.5), 0, 15).astype(np.uint8)


class Speech:
    def __init__(self, path):
        d = np.load(path)
        self.samples, self.ends, self.texts, self.voices = d["samples"], d["ends"], d["texts"], d["voices"]

    def __len__(self):
        return len(self.ends)

    def get(self, i, rng=None):
        """-> (bins, text); with rng: random gain, noise and silence around."""
        x = self.samples[self.ends[i - 1] if i else 0 : self.ends[i]].astype(np.float32) / 32768
        if rng is not None:
            x = np.concatenate([np.zeros(int(rng.integers(0, 1600)), np.float32), x, np.zeros(int(rng.integers(0, 1600)), np.float32)])
            x = x * 10 ** rng.uniform(-0.7, 0.25)
            x = x + rng.normal(0, 10 ** rng.uniform(-4.5, -2.2), len(x)).astype(np.float32)
        return dmel(np.clip(x, -1, 1)), str(self.texts[i])
