"""Files that another program quantized, against logits that someone computed from their exactly decoded weights.

    python3 check_external.py FOLDER [--inkjet PROGRAM] [--bound 1e-3]

FOLDER holds k256-NAME.gguf, and split*/PREFIX-NAME-00001-of-N.gguf and its other parts if any; golden.safetensors with logits_NAME [n, vocab];
golden.json with "prompt" and, under "files" and NAME, "greedy" ids. Prints a line for each file, and fails when the relative RMS error of one is
above the bound or a greedy id is another.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
from inkling_oracle import read_safetensors  # noqa: E402


def run(program, *args):
    r = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError(r.stderr.strip().replace("\n", " / "))
    return r.stdout


def check(program, path, prompt, want, greedy):
    ids = ",".join(map(str, prompt))
    with tempfile.TemporaryDirectory() as d:
        run(program, "logits", "-m", path, "--ids", ids, "--all", "--kv", "f32", "--out", f"{d}/out.safetensors")
        got = read_safetensors(f"{d}/out.safetensors")["logits"][1].astype(np.float64)[:, :want.shape[1]]
    out = run(program, "run", "-m", path, "--ids", ids, "-n", len(greedy), "--ids-out", "--ignore-eos", "--kv", "f32")
    same = sum(a == b for a, b in zip(map(int, out.split()), greedy))
    rms = np.sqrt(((got - want) ** 2).mean() / (want ** 2).mean())
    cosine = (got * want).sum(1) / np.sqrt((got ** 2).sum(1) * (want ** 2).sum(1))
    return rms, np.abs(got - want).max(), 1 - cosine.min(), same


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("--inkjet", default=str(HERE.parent.parent / "build" / "release" / "inkjet"))
    ap.add_argument("--bound", type=float, default=1e-3)
    a = ap.parse_args()
    about, golden = json.loads((a.folder / "golden.json").read_text()), read_safetensors(a.folder / "golden.safetensors")
    files = [(f, f.stem.split("-", 1)[1]) for f in sorted(a.folder.glob("k256-*.gguf"))]
    files += [(f, f.name.split("-")[1]) for f in sorted(a.folder.glob("split*/*-00001-of-*.gguf"))]
    failed = 0
    print(f"{'file':38} {'relative RMS':>12} {'largest':>9} {'1 - cosine':>10}  greedy ids")
    for path, name in files:
        want, greedy = golden[f"logits_{name}"][1].astype(np.float64), about["files"][name]["greedy"]
        try:
            rms, largest, angle, same = check(a.inkjet, path, about["prompt"], want, greedy)
            good = rms <= a.bound and same == len(greedy)
            print(f"{path.name:38} {rms:12.2e} {largest:9.1e} {angle:10.1e}  {same} of {len(greedy)}{'' if good else '  FAILED'}")
        except RuntimeError as e:
            good = False
            print(f"{path.name:38} {e}")
        failed += not good
    print(f"{len(files) - failed} of {len(files)} files pass")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
