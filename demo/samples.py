"""The few pictures and the sound in samples/, for a first try and for tests: nothing that training saw.

python3 demo/samples.py --work .cache/demo
"""

import argparse
import pathlib
import wave

import numpy as np
from PIL import Image

import pictures
import speech


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default=".cache/demo")
    a = ap.parse_args()
    out = pathlib.Path(__file__).parent / "samples"
    out.mkdir(exist_ok=True)
    art, rng = pictures.Pictures(pathlib.Path(a.work) / "pictures"), np.random.default_rng(2026)
    drawn = [
        ("seven.png", pictures.draw_digit(7, rng, True)),
        ("star.gif", pictures.draw_shape("star", pictures.COLOURS["purple"], rng)),
        ("elephant.png", art.art["noto"][art.names.index("elephant")]),
    ]
    for name, rgba in drawn:
        im = Image.fromarray(pictures.compose(rgba, rng, 5, False))
        (im.quantize(256, kmeans=4) if name.endswith("gif") else im).save(out / name, optimize=True)
    x = speech.trim(speech.say("hello green bird", "Alex", "en-us", 170, 50))
    with wave.open(str(out / "words.wav"), "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(speech.RATE)
        f.writeframes((np.clip(x, -1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    main()
