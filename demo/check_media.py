"""Pictures and spoken words through the C program alone, against what the trainer measured.

    python3 demo/check_media.py --work .cache/demo --model .cache/demo/model --program build/release/inkjet [--scale 0.1] [--trainer]

--work is the folder that the preparation of the demo model made. Every held-out picture is written as a PNG file and every held-out clip
as a WAV file; `inkjet chat --load` answers the question that the trainer's evaluation asks, greedily, and the answers are counted as there.
The figures to reach come from results.json of the work folder, or, with --trainer, from the trainer's network on the very same cases
(--scale < 1 needs that). The exit code is 1 when a figure is more than --within points worse (default 1).

The folder of the trainer (evaluate.py, pictures.py, speech.py) is this one; --demo names another.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import wave
from concurrent.futures import ThreadPoolExecutor

import numpy as np

PICTURES = (("closed, held-out fonts and drawings", "closed", 800, True, 1), ("objects, held-out style", "object", 840, True, 2),
            ("objects, training styles, new drawings", "object", 400, False, 3))
BATCH = 64  # of pictures: the evaluation chooses its question by the place in a batch


class Program:
    """One answer per process, several processes at once."""

    def __init__(self, options, folder):
        self.argv = [options.program, "chat", "-m", options.model, "--threads", "1", *options.option]
        self.folder, self.workers = pathlib.Path(folder), options.jobs

    def answer(self, index, question, media, most):
        text = [{"type": "text", "text": question}] if question else []
        file = self.folder / ("%d.json" % index)
        file.write_text(json.dumps([{"role": "user", "content": text + [media]}]))
        done = subprocess.run([*self.argv, "-n", str(most), "--json", "--load", str(file)], stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise SystemExit("%s: exit code %d: %s" % (file, done.returncode, done.stderr.decode("utf-8", "replace")))
        return json.loads(done.stdout)["content"]

    def answers(self, cases, most):
        """cases: [(question, content part)]"""
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda c: self.answer(c[0], c[1][0], c[1][1], most), enumerate(cases)))


def picture_file(folder, name, pixels):
    from PIL import Image

    path = folder / (name + ".png")
    Image.fromarray(pixels).save(path)
    return {"type": "image_url", "image_url": {"url": path.as_uri()}}


def sound_file(folder, name, samples):
    path = folder / (name + ".wav")
    with wave.open(str(path), "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(16000)
        f.writeframes(samples.astype("<i2").tobytes())
    return {"type": "audio_url", "audio_url": {"url": path.as_uri()}}


def pictures(program, folder, work, scale):
    import evaluate
    import pictures as art

    for name, kind, n, held, seed in PICTURES:
        cases = evaluate.picture_cases(work, kind, max(8, int(n * scale)), held, seed)
        asked = [(art.QUESTIONS[i % BATCH % 3], picture_file(folder, "%d-%d" % (seed, i), im)) for i, (im, _) in enumerate(cases)]
        got = program.answers(asked, 14)
        right = sum(g == art.answer(label) for g, (_, label) in zip(got, cases))
        yield "pictures: " + name, 100 * right / len(cases), len(cases)


def speech(program, folder, work, scale):
    import evaluate
    import speech as voices

    s = voices.Speech(work / "speech/held.npz")
    n = max(4, int(len(s) * scale))
    asked = []
    for i in range(n):
        samples = s.samples[s.ends[i - 1] if i else 0:s.ends[i]]
        asked.append((voices.QUESTIONS[0], sound_file(folder, "s%d" % i, np.asarray(samples))))
    errors = words = 0
    for i, got in enumerate(program.answers(asked, 24)):
        want = str(s.texts[i]).split()
        errors += evaluate.distance(want, got.split())
        words += len(want)
    return 100 * errors / words, n


def trainer_figures(options, work):
    """The trainer's own, computed now."""
    import torch

    import ckpt
    import evaluate
    import net
    from tok import Tok

    torch.set_num_threads(1)
    w = net.Weights(seed=0)
    ckpt.load(options.model, w)
    P, tok = {n: w.view(n) for n in w.shapes}, Tok(options.vocab)
    with torch.no_grad():
        return {"pictures": evaluate.picture_report(P, tok, work, options.scale, lambda s: None),
                "speech": evaluate.speech_report(P, tok, work, options.scale, lambda s: None)}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default=".cache/demo")
    ap.add_argument("--model", default=".cache/demo/model")
    ap.add_argument("--program", default="build/release/inkjet")
    ap.add_argument("--demo", default=str(pathlib.Path(__file__).resolve().parent))
    ap.add_argument("--vocab", default=".cache/o200k_base.tiktoken")
    ap.add_argument("--scale", type=float, default=1.0)
    ap.add_argument("--within", type=float, default=1.0, help="points that a figure may be worse than the trainer's")
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    ap.add_argument("--option", action="append", default=[], help="another option for the program, such as --option=--kv=bf16")
    ap.add_argument("--only", choices=["pictures", "speech"])
    ap.add_argument("--trainer", action="store_true")
    options = ap.parse_args()
    sys.path.insert(0, options.demo)
    work, began, rows = pathlib.Path(options.work), time.time(), []
    want = trainer_figures(options, work) if options.trainer else json.loads((work / "results.json").read_text())
    if options.scale != want.get("scale", 1) and not options.trainer:
        raise SystemExit("results.json was measured at another scale than %g: pass --trainer, or the same --scale" % options.scale)
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options, folder)
        if options.only != "speech":
            for name, got, n in pictures(program, pathlib.Path(folder), work, options.scale):
                v = want["pictures"][name[len("pictures: "):]]
                if v["n"] != n:
                    raise SystemExit("%s: the trainer looked at %d cases, and here are %d" % (name, v["n"], n))
                rows.append((name, n, got, 100 * v["accuracy"], 100 * v["accuracy"] - got))
                print("%6.0f s  %s: %.2f %%, trainer %.2f %%" % (time.time() - began, name, got, 100 * v["accuracy"]), flush=True)
        if options.only != "pictures":
            got, n = speech(program, pathlib.Path(folder), work, options.scale)
            v = want["speech"]
            if v["utterances"] != n:
                raise SystemExit("the trainer listened to %d clips, and here are %d" % (v["utterances"], n))
            rows.append(("word error, held-out voices", n, got, 100 * v["word_error"], got - 100 * v["word_error"]))
            print("%6.0f s  speech: word error %.2f %%, trainer %.2f %%" % (time.time() - began, got, 100 * v["word_error"]), flush=True)
    print("| what | cases | program | trainer | worse by |\n|---|---|---|---|---|")
    for r in rows:
        print("| %s | %d | %.2f %% | %.2f %% | %.2f |" % r)
    bad = [r[0] for r in rows if r[4] > options.within]
    print("within %g points" % options.within if not bad else "not within %g points: %s" % (options.within, "; ".join(bad)))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
