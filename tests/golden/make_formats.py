"""Checkpoints of unseen seeds in every format and layout, with the oracle's answers beside them.

    python3 make_formats.py OUT SEED [EVERY]    OUT/formats.txt and others list the folders; EVERY > 1 makes fewer

GGUF in each block type (odd numbers of experts, widths that are whole blocks), with another type for each matrix, split; NVFP4 as released and as
compressed-tensors; MLX in its layouts, widths, groups, types of scales and modes; names of transformers. What a format decodes to is the truth:
the golden logits are the float64 oracle's on the decoded values under their original names.

`golden.json` names the file to open where that is not the folder. A folder `decoded` inside holds the same values in float32 under original names:
there the logits must have the same bits, or be close where products are in integers (equal.c). The folders of layouts.txt are one model
without quantization: they must agree with the first in bits.
"""
import collections
import hashlib
import json
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import blocks  # noqa: E402
import gguf_file  # noqa: E402
import layouts  # noqa: E402
import make_checkpoint as mk  # noqa: E402
import make_golden as mg  # noqa: E402
from inkling_oracle import greedy, write_safetensors  # noqa: E402

BLOCK_TYPES = [k for k, (_, n, _) in blocks.TYPES.items() if n > 1]
CLEAR = 1e-3  # a smaller gap between the best and the second logit on the greedy path, and the next seed is taken


def dimensions(rng, unit):
    """Every row of a matrix is a multiple of `unit` long."""
    pick = lambda *a: int(rng.choice(a))
    wide = unit * max(1, 96 // unit)
    while True:
        kv, swa_kv, head_dim = pick(1, 2, 3), pick(1, 2, 3), pick(8, 12, 16, 20, 32, 64)
        heads = int(np.lcm(kv, swa_kv)) * pick(1, 2, 3, 4, 5, 6, 8, 10, 16)
        if heads * head_dim % unit == 0 and heads * head_dim <= max(256, 2 * unit):
            break
    experts, layers, vocab = pick(5, 7, 9), pick(2, 3), pick(320, 333, 401)
    local = sorted(int(x) for x in rng.choice(layers, size=int(rng.integers(0, layers + 1)), replace=False))
    return dict(hidden=wide + unit * pick(0, 1) * (unit < 256), layers=layers, heads=heads, kv=kv, swa_kv=swa_kv, head_dim=head_dim,
                window=pick(5, 11, 16, 23), d_rel=pick(3, 8, 16), extent=pick(7, 13, 24, 31), floor=pick(10, 20, layouts.NEVER),
                dense=unit * pick(1, 2, 3) if unit < 256 else unit * pick(1, 2), moe=unit * pick(1, 2) if unit < 256 else unit, experts=experts,
                top_k=pick(1, 2, 3), shared=pick(1, 2, 3), n_dense=pick(0, 1, 1), vocab=vocab, unpadded=vocab - pick(0, 1, 17),
                mup=float(pick(1, 4, 16)), local=local, mtp=0, mtp_local=[])


def golden(folder, truth, cfg, seed, model=None):
    """-> the smallest margin. Golden files as make_golden.py writes them, for fewer tokens."""
    m = mg.Traced(mg.InMemory(truth, cfg))
    prompt = [int(x) for x in np.random.default_rng(seed).integers(0, m.c.unpadded - 8, 40)]
    trace = []
    logits = m.forward(prompt, trace=trace)
    ids, margins = greedy(m, prompt, 24)
    short, short_margins = greedy(m, prompt[:3], 12)
    out = {"logits": logits, "trace": np.stack(trace)}
    write_safetensors(folder / "golden.safetensors", {k: ("F32", v.astype(np.float32)) for k, v in out.items()})
    about = dict(prompt=prompt, greedy=ids, margin=min(margins), short_prompt=prompt[:3], short_greedy=short, short_margin=min(short_margins))
    (folder / "golden.json").write_text(json.dumps(about | ({"model": model} if model else {})))
    return min(margins + short_margins)


class Case:
    """One checkpoint: a name; make(folder, seed) -> (truth, config, file to open or None); whether a decoded copy lies beside it."""

    def __init__(self, name, make, decoded=False, kind=""):
        self.name, self.make, self.decoded, self.kind = name, make, decoded, kind


def model(seed, unit, **changes):
    p = dimensions(np.random.default_rng(seed), unit) | changes
    mk.PRESETS["format"] = p
    t, text, _ = mk.build("format", seed)
    # as a published model: BF16 throughout but for the router's vectors
    return {k: w if k.endswith(("gate.bias", "global_scale")) else mk.bf16_to_f64(mk.f32_to_bf16(w)) for k, w in t.items()}, text, p


def decoded_copy(folder, truth, cfg):
    for name, (_, w) in truth.items():
        assert (w.astype(np.float32) == w).all(), f"{name} is not made of float32 numbers"
    layouts.write_shards(folder / "decoded", {k: ("F32", w.astype(np.float32)) for k, (_, w) in truth.items()}, 1)
    (folder / "decoded" / "config.json").write_text(json.dumps(cfg))


# ---- GGUF

def write_gguf(folder, stored, text, p, parts=1, first_is_empty=False, alignment=32):
    meta = layouts.gguf_meta(text, p)
    if parts == 1:
        gguf_file.write(folder / "model.gguf", meta, stored, alignment)
        return "model.gguf"
    return gguf_file.write_split(folder / "model", meta, stored, parts, first_is_empty, alignment)[0].name


def gguf_of(kind):
    unit = max(blocks.TYPES[kind][1], 32)

    def make(folder, seed):
        t, text, p = model(seed, unit)
        stored, truth = layouts.store("D", t, lambda base, cls, w: "F32" if cls == "small" else kind, np.random.default_rng(seed))
        return truth, mk.config_for("native-bf16", text, p), write_gguf(folder, stored, text, p)
    return make


def gguf_mixed(kinds, **how):
    """Each matrix of each layer in a type of its own: the gate and the up projection of one expert differ as well."""
    def make(folder, seed):
        t, text, p = model(seed, 256)
        rng = np.random.default_rng(seed)
        stored, truth = layouts.store("D", t, lambda base, cls, w: "F32" if cls == "small" else str(rng.choice(kinds)), rng)
        return truth, mk.config_for("native-bf16", text, p), write_gguf(folder, stored, text, p, **how)
    return make


def gguf_cases():
    yield from (Case(f"gguf-{kind}", gguf_of(kind), kind="gguf") for kind in BLOCK_TYPES)
    k = [x for x in BLOCK_TYPES if x.endswith("_K")]
    iq = [x for x in BLOCK_TYPES if x.startswith("IQ")]
    rest = [x for x in BLOCK_TYPES if x not in k + iq] + ["F32", "F16", "BF16"]
    yield Case("gguf-mixed-k", gguf_mixed(k), decoded=True, kind="gguf-mixed")
    yield Case("gguf-mixed-iq", gguf_mixed(iq, parts=3, first_is_empty=True), decoded=True, kind="gguf-mixed")
    yield Case("gguf-mixed-rest", gguf_mixed(rest, parts=2, alignment=64), decoded=True, kind="gguf-mixed")


# ---- NVFP4 of the release

def nvfp4(form, powers_of_two):
    def make(folder, seed):
        t, text, p = model(seed, 16, hidden=48 + 16 * (seed % 4), moe=48, layers=3, n_dense=0, mtp=1, mtp_local=[0])
        recipe = lambda base, cls, w: "F32" if base.endswith(("gate.bias", "global_scale")) else "BF16"
        stored, truth = layouts.store("A", t, recipe, np.random.default_rng(seed))
        layouts.put_nvfp4(stored, truth, form, first=1, powers_of_two=powers_of_two)
        layouts.write_shards(folder, stored)
        excluded = ["model.llm.layers.0.mlp.experts"]
        if form == "release":
            about = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": excluded}}
            (folder / "hf_quant_config.json").write_text(json.dumps(about))
        cfg = mk.config_for("native-bf16", text, p)
        if form != "release":
            weights = {"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group", "symmetric": True, "dynamic": False}
            cfg["quantization_config"] = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": excluded,
                                          "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}
        (folder / "config.json").write_text(json.dumps(cfg))
        return truth, cfg, None
    return make


def nvfp4_cases():
    yield Case("nvfp4", nvfp4("release", False), kind="nvfp4")
    yield Case("nvfp4-exact", nvfp4("release", True), decoded=True, kind="nvfp4")
    yield Case("nvfp4-compressed", nvfp4("compressed-tensors", False), kind="nvfp4")
    yield Case("nvfp4-compressed-exact", nvfp4("compressed-tensors", True), decoded=True, kind="nvfp4")


# ---- MLX

def as_config(spec):
    mode = spec.get("mode", "affine")
    if mode == "affine":
        return dict(group_size=spec["group"], bits=spec["bits"])
    return dict(group_size=layouts.split_types.GROUPS[mode], bits=layouts.split_types.BITS[mode], mode=mode)


def mlx(layout, default, choose=None, unit=128, factors=False, recipe_name=None, again=False, cast=False):
    """choose(rng, base, cls) -> another spec, or False for not quantized, or None for the default. again: the config says it twice, with the mode,
    and names modules without the leading `language_model.`; cast: the router's vectors went through BF16."""
    def make(folder, seed):
        t, text, p = model(seed, unit)
        rng = np.random.default_rng(seed)
        quantization, chosen = dict(as_config(default)) | ({"mode": "affine"} if again else {}), {}
        if recipe_name:
            quantization["recipe"] = recipe_name

        def recipe(base, cls, w):
            if cls == "small":
                return "F32" if not cast and base.endswith(("gate.bias", "global_scale", "correction_bias")) else "BF16"
            # the rows of one fused matrix have one format, and the entry names the first
            fused = layout in ("C2-fused", "C2-merged") and base[-7:] in (".k_proj", ".v_proj", ".r_proj")
            key = base[:-6] + "q_proj" if fused else base
            if key not in chosen:
                chosen[key] = choose(rng, base, cls) if choose else None
            spec = chosen[key]
            if spec is False:
                quantization[key.removeprefix("language_model.") if again else key] = False
                return "BF16"
            if spec is None:
                return default
            if as_config(spec) != as_config(default):
                quantization[key.removeprefix("language_model.") if again else key] = as_config(spec)
            return spec
        stored, truth = layouts.store(layout, t, recipe, rng)
        if layout.startswith("C2"):
            ones = {f"language_model.model.layers.{i}.mlp.switch_mlp.{x}_scale": ("F32", np.ones(p["experts"], np.float32))
                    for i in range(p["n_dense"], p["layers"]) for x in ("gate", "out")}
            stored |= ones
            if factors:
                layouts.put_factors(stored, truth, p, rng)
        layouts.write_shards(folder, stored)
        cfg = mk.config_for("native-bf16", text, p) | {"quantization": quantization}
        if again:
            cfg["quantization_config"] = quantization
        (folder / "config.json").write_text(json.dumps(cfg))
        return truth, cfg, None
    return make


def any_affine(rng, base, cls):
    return dict(bits=int(rng.choice([2, 3, 4, 5, 6, 8])), group=int(rng.choice([32, 64, 128])), side=str(rng.choice(["BF16", "F16", "F32"])))


def overrides(rng, base, cls):
    r = rng.random()
    return False if r < .2 else any_affine(rng, base, cls) | {"side": "BF16"} if r < .6 else None


def mlx_cases():
    sides = ["BF16", "F16", "F32"]
    for k, bits in enumerate([2, 3, 4, 5, 6, 8]):
        group = [32, 64, 128][k % 3]
        spec = dict(bits=bits, group=group, side=sides[(k + k // 3) % 3])
        yield Case(f"mlx-c1-{bits}x{group}", mlx("C1", spec, unit=group, recipe_name="uniform"), kind="mlx-uniform")
    four = dict(bits=4, group=64, side="BF16")
    experts_only = lambda rng, base, cls: None if cls in ("dense", "experts", "shared") else False
    yield Case("mlx-c1-wide", mlx("C1", four, unit=256, recipe_name="uniform"), decoded=True, kind="mlx-wide")
    yield Case("mlx-c1-experts-only", mlx("C1", four, experts_only, unit=64, recipe_name="experts_only"), kind="mlx")
    yield Case("mlx-c1-any", mlx("C1", four, any_affine), decoded=True, kind="mlx-mixed")
    yield Case("mlx-c2", mlx("C2", four, overrides, factors=True), kind="mlx")
    yield Case("mlx-c2-any", mlx("C2", four, any_affine), decoded=True, kind="mlx-mixed")
    yield Case("mlx-c2-fused", mlx("C2-fused", four, overrides, factors=True, again=True), kind="mlx")
    yield Case("mlx-c2-merged", mlx("C2-merged", dict(bits=5, group=32, side="F16"), overrides, again=True, cast=True), decoded=True,
               kind="mlx-mixed")
    for mode in ("mxfp4", "mxfp8", "nvfp4"):
        yield Case(f"mlx-{mode}", mlx("C2", dict(mode=mode), unit=32, factors=mode == "nvfp4"), decoded=mode != "nvfp4", kind="mlx-fp")
    mode_of = lambda rng, base, cls: dict(mode=str(rng.choice(["mxfp4", "mxfp8", "nvfp4"]))) if rng.random() < .5 else any_affine(rng, base, cls)
    yield Case("mlx-modes-mixed", mlx("C2", four, mode_of), decoded=True, kind="mlx-mixed")


# ---- names of transformers, and one model in all layouts

def plain(layout):
    def make(folder, seed):
        t, text, p = model(seed, 8)
        stored, truth = layouts.store(layout, t, published, np.random.default_rng(seed))
        layouts.write_shards(folder, stored)
        cfg = mk.config_for("hf-bf16", text, p)
        (folder / "config.json").write_text(json.dumps(cfg))
        return truth, cfg, None
    return make


def published(base, cls, w):
    return "F32" if base.endswith(("gate.bias", "global_scale", "correction_bias", "ffn_gscale", "exp_probs_b.bias")) else "BF16"


def gguf_published(base, cls, w):
    return "F32" if cls == "small" else "BF16"


def one_model(out, seed):
    t, text, p = model(seed, 32, n_dense=1, layers=3, shared=2)
    folders = []
    for layout in ("A", "C1", "C2", "C2-fused", "C2-merged", "E", "E-text", "D"):
        folder = fresh_folder(out / f"layout-{layout}")
        stored, truth = layouts.store(layout, t, gguf_published if layout == "D" else published, np.random.default_rng(0))
        cfg = mk.config_for("hf-bf16" if layout.startswith("E") else "native-bf16", text, p)
        file = None
        if layout == "D":
            file = write_gguf(folder, stored, text, p)
        else:
            layouts.write_shards(folder, stored)
            (folder / "config.json").write_text(json.dumps(cfg))
        golden(folder, truth, cfg, seed, file)
        folders.append(folder)
    return folders


def plain_cases():
    yield Case("names-e", plain("E"), kind="names")
    yield Case("names-e-text", plain("E-text"), kind="names")


def fresh_folder(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def make(case, out, seed):
    seed += int(hashlib.sha256(case.name.encode()).hexdigest()[:6], 16)
    for attempt in range(20):
        folder = fresh_folder(out / case.name)
        truth, cfg, file = case.make(folder, seed + attempt)
        if golden(folder, truth, cfg, seed + attempt, file) > CLEAR:
            break
    else:
        sys.exit(f"{case.name}: no seed near {seed} gives a clear greedy path")
    if case.decoded:
        decoded_copy(folder, truth, cfg)
    print(case.name, "seed", seed + attempt)
    return folder


def main(out, seed, every):
    cases = [*gguf_cases(), *nvfp4_cases(), *mlx_cases(), *plain_cases()]
    seen = collections.Counter(c.kind for c in cases)
    thin = []
    for kind, many in seen.items():  # every n-th of the kinds with many, fewer left out of the others
        thin += [c for c in cases if c.kind == kind][::every if many > 5 else max(1, every // 4)]
    folders = {c.name: make(c, out, seed) for c in thin}
    same = [n for n in ("gguf-mixed-k", "mlx-c2-fused", "gguf-mixed-iq", "nvfp4-compressed", "gguf-mixed-rest", "mlx-modes-mixed") if n in folders]
    lists = {"formats": list(folders.values()), "decoded": [folders[c.name] for c in thin if c.decoded], "layouts": one_model(out, seed),
             "same": [folders[n] for n in same[::max(1, every // 2)]]}
    for name, paths in lists.items():
        (out / f"{name}.txt").write_text("".join(f"{x}\n" for x in paths))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
