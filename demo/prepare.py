"""Raw packages -> everything training and evaluation read. Each part is skipped when it is there."""

import argparse
import pathlib
import time

import pictures
import speech
import text_data
from multiprocessing import Process
from tok import Tok


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default=".cache/demo")
    ap.add_argument("--vocab", default=".cache/o200k_base.tiktoken")
    ap.add_argument("--utterances", type=int, default=12000)
    ap.add_argument("--held-utterances", type=int, default=400)
    a = ap.parse_args()
    work, began = pathlib.Path(a.work), time.time()

    def log(s):
        print("%6.0f s  %s" % (time.time() - began, s), flush=True)

    jobs = [Process(target=speech.utterances, args=(a.utterances, speech.VOICES, 11, work / "speech", log, "train"))]
    jobs[0].start()
    if not (work / "text/held.json").exists():
        text_data.prepare(work / "raw", work / "text", Tok(a.vocab), log)
    pictures.rasterize(work / "raw", work / "pictures", log)
    speech.utterances(a.held_utterances, speech.HELD, 12, work / "speech", log, "held")
    for j in jobs:
        j.join()
        if j.exitcode:
            raise SystemExit("making speech failed")
    log("data is ready")


if __name__ == "__main__":
    main()
