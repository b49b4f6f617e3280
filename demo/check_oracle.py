"""The saved folder through the float64 oracle and through the trainer's network: logits, depth 1 of multi-token prediction, both towers.

    python3 check_oracle.py CHECKPOINT [--inkjet PROGRAM] [--bound 1e-3]

The prompt is longer than the window, the extent and the floor of the position scaling. With --inkjet the program's logits are held
against the trainer's too. Exit status 1 when a difference is above the bound.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import ckpt
import conf as C
import net

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "oracle"))
import inkling_oracle as oracle  # noqa: E402
import towers  # noqa: E402


def vision_oracle(ck, patches):
    """The tower of the oracle for any scale plan (towers.py knows the one of patch 40)."""
    x = patches.astype(np.float64)
    plan = C.scale_plan(C.PATCH, 2, C.VISION_LAYERS)
    for i, (fs, ft, _) in enumerate(plan[:-1]):
        assert ft == 1
        x = towers.fold(x, fs) @ ck.get("model.visual.layers.linear_%d.weight" % i).T
        x = towers.gelu(oracle.rms_norm(x, ck.get("model.visual.layers.norm_%d.weight" % i), 1e-6))
    x = x.reshape(len(x), -1) @ ck.get("model.visual.layers.linear_%d.weight" % (len(plan) - 1)).T
    return oracle.rms_norm(x, ck.get("model.visual.final_norm.weight"), 1e-6)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("checkpoint")
    ap.add_argument("--inkjet")
    ap.add_argument("--bound", type=float, default=1e-3)
    ap.add_argument("--length", type=int, default=192)
    a = ap.parse_args()
    torch.set_num_threads(1)
    folder = pathlib.Path(a.checkpoint)
    w = net.Weights(seed=0)
    ckpt.load(folder, w)
    P = {n: w.view(n) for n in w.shapes}
    rng = np.random.default_rng(5)
    ids = rng.integers(0, C.UNPADDED, a.length)
    results = {}
    with torch.no_grad():
        t = torch.from_numpy(ids)[None]
        emb = net.embed_text(P, t)
        hidden = net.trunk(P, emb)
        mine = net.logits(P, hidden)[0].numpy()
        deep = net.logits(P, net.mtp(P, hidden[:, :-1], emb[:, 1:]))[0].numpy()
        patches = rng.normal(size=(7, 2, C.PATCH, C.PATCH, 3)).astype(np.float32)
        bins = rng.integers(0, 16, (9, 80))
        seen, heard = net.vision(P, torch.from_numpy(patches)).numpy(), net.audio(P, torch.from_numpy(bins)).numpy()
    m = oracle.Model(folder)
    results["logits, trainer and oracle"] = np.abs(m.forward(ids) - mine).max()
    results["depth 1, trainer and oracle"] = np.abs(oracle.mtp_teacher_forced(m, ids, 1)[0] - deep[: len(ids) - 1]).max()
    raw = {n: m.ck.raw[n][1] for n in m.ck.raw if n.startswith(("model.audio", "model.visual"))}
    results["audio tower"] = np.abs(towers.audio(raw, bins) - heard).max()
    results["vision tower"] = np.abs(vision_oracle(m.ck, patches) - seen).max()
    if a.inkjet:
        with tempfile.TemporaryDirectory() as tmp:
            out = tmp + "/logits.safetensors"
            subprocess.run([a.inkjet, "logits", "-m", str(folder), "--ids", ",".join(map(str, ids)), "--out", out, "--all"], check=True)
            theirs = ckpt.read_safetensors(out)["logits"][1]
        results["logits, trainer and inkjet"] = np.abs(theirs[:, : C.UNPADDED] - mine).max()
    bad = 0
    print("logits: root of mean square %.3g" % np.sqrt((mine**2).mean()))
    for what, diff in results.items():
        bad += not diff <= a.bound
        print("%-30s largest difference %.3g %s" % (what, diff, "" if diff <= a.bound else "  TOO LARGE"))
    print(json.dumps({k: float(v) for k, v in results.items()}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
