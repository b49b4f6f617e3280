"""Checkpoints that nobody has looked at: random dimensions and weights, with the oracle's answers beside them.

    python3 make_fresh.py OUT COUNT SEED    OUT/fresh-00 .. , a line of dimensions each
    python3 make_fresh.py OUT COUNT SEED media    OUT/media-00 .. , the same with rows of media in the prompts
    python3 make_fresh.py OUT fixtures      the committed fixtures: weights regenerated from their seeds, checked against nano.sha256

Head counts, windows, extents, widths and expert counts are mostly not powers of two. Every case has greedy margins wide enough that ids may be
compared exactly; a draw without them is replaced by the next seed.
"""
import hashlib
import json
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import make_checkpoint as mk  # noqa: E402
import make_golden as mg  # noqa: E402

FIXTURES = HERE.parent / "fixtures"
LAYOUTS = ["native-f32", "native-bf16", "hf-bf16"]


def dimensions(rng):
    pick = lambda *a: int(rng.choice(a))
    layers = pick(3, 4, 5, 6, 7)
    kv, swa_kv = pick(1, 2, 3), pick(1, 2, 3)
    heads = int(np.lcm(kv, swa_kv)) * pick(1, 2, 3)
    experts = pick(4, 5, 7, 9, 11, 12, 17)
    local = sorted(int(x) for x in rng.choice(layers, size=int(rng.integers(0, layers + 1)), replace=False))
    vocab = pick(320, 401, 517, 640)
    return dict(hidden=pick(40, 48, 56, 72, 80, 100), layers=layers, heads=heads, kv=kv, swa_kv=swa_kv, head_dim=pick(8, 12, 16, 20, 24, 36),
                window=pick(3, 5, 11, 16, 23, 70), d_rel=pick(3, 5, 8, 16), extent=pick(7, 13, 24, 31, 90), floor=pick(10, 20, 33, 1000),
                dense=pick(40, 72, 96, 136), moe=pick(24, 40, 56, 72), experts=experts, top_k=pick(1, 2, 3, 4), shared=pick(1, 2, 3),
                n_dense=int(rng.integers(0, layers)), vocab=vocab, unpadded=vocab - pick(0, 1, 17), mup=float(pick(1, 3, 4, 16)),
                local=local, mtp=pick(0, 1), mtp_local=[0])


def fresh(out, count, seed, kind="fresh"):
    for i in range(count):
        layout = LAYOUTS[i % len(LAYOUTS)]
        for attempt in range(20):
            case = seed + 1000 * i + attempt
            p = dimensions(np.random.default_rng(case))
            mk.PRESETS["fresh"] = p
            folder = out / f"{kind}-{i:02d}"
            shutil.rmtree(folder, ignore_errors=True)
            stored, cfg = mk.write(folder, layout, "fresh", case, shards=1 + i % 3)
            mg.golden(folder, layout, stored, cfg, case, kind == "media")
            g = json.loads((folder / "golden.json").read_text())
            if min(g["margin"], g["short_margin"]) > 1e-3:
                break
        else:
            sys.exit(f"no seed near {seed + 1000 * i} gives a clear greedy path")
        print(folder.name, layout, "seed", case, json.dumps(p))


def fixtures(out):
    for name, layout, preset, seed in mg.CASES:
        if not (FIXTURES / name).is_dir():
            continue
        mk.write(out / name, layout, preset, seed)
        for f in ("golden.json", "golden.safetensors", "config.json"):
            shutil.copyfile(FIXTURES / name / f, out / name / f)
    for line in (FIXTURES / "nano.sha256").read_text().splitlines():
        want, name = line.split()
        if hashlib.sha256((out / name).read_bytes()).hexdigest() != want:
            sys.exit(f"{name} does not have the recorded sha256: is this NumPy's random generator another one?")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    if sys.argv[2] == "fixtures":
        fixtures(target)
    else:
        fresh(target, int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:5])
