"""Towers of unseen seeds, patches and widths in every form they are stored in, with the oracle's rows beside them.

    python3 make_towers.py OUT COUNT SEED    OUT/towers.txt lists the folders

Each folder is a checkpoint of towers alone, or holds mmproj.gguf, which golden.json then names. What a form decodes to is the truth: the
golden rows are the float64 oracle's on the decoded values.
"""
import json
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import blocks  # noqa: E402
import gguf_file  # noqa: E402
import split_types  # noqa: E402
import towers  # noqa: E402
from inkling_oracle import bf16_to_f64, f32_to_bf16, write_safetensors  # noqa: E402

PATCHES = (8, 12, 16, 18, 20, 24, 27, 30, 36)
MLX = {"layers.linear_": "encoder_layers.", "layers.norm_": "encoder_layers.", "visual.": "vision_tower.", "audio.encoder": "audio_tower.embed_audio_tokens",
       "audio.final_norm": "audio_tower.norm"}


def mlx_name(name, prefix="", nested=False):
    name = name.removeprefix("model.")
    kind = "projection" if ".linear_" in name else "layer_norm" if ".norm_" in name else None
    for old, new in MLX.items():
        name = name.replace(old, new)
    if kind:
        name = name.replace(".weight", f".{kind}.weight")
    return prefix + (name.replace("tokens.weight", "tokens.embed_audio_tokens.weight") if nested else name)


def gguf_name(name):
    for i in range(4):
        name = name.replace(f"model.visual.layers.linear_{i}", f"v.hmlp.{i}.linear").replace(f"model.visual.layers.norm_{i}", f"v.hmlp.{i}.norm")
    return name.replace("model.visual.final_norm", "v.hmlp.final_norm").replace("model.audio.encoder", "a.dmel.embedding").replace(
        "model.audio.final_norm", "a.dmel.final_norm")


def random_values(patch, hidden, rng):
    """As towers.py scales them: values stay near 1 from layer to layer."""
    out = {}
    for name, shape in towers.shapes(patch, hidden).items():
        z = rng.uniform(-1, 1, shape)
        out[name] = (1 + 0.25 * z if len(shape) == 1 else z * 0.5 if "encoder" in name else z * np.sqrt(3 / shape[1])).astype(np.float32)
    return out


def plain(kind, x):
    if kind == "BF16":
        raw = f32_to_bf16(x)
        return raw, bf16_to_f64(raw)
    raw = x.astype("<f2" if kind == "F16" else "<f4")
    return raw, raw.astype(np.float64)


def quantized(form, base, x, rng):
    """-> (suffixes of `base` -> (dtype, array), values), or None where the rows do not divide into groups."""
    if isinstance(form, dict):
        unit = form.get("group", split_types.GROUPS.get(form.get("mode"), 64))
        if x.shape[1] % max(unit, 32):
            return None
        entries, values = split_types.encode(form, x, rng)
        return {base + k: v for k, v in entries.items()}, values
    if x.shape[1] % 16:
        return None
    codes, scales, factor, values = split_types.encode_release(x[None])
    codes, scales, values = codes[0], scales[0], values[0]
    if form == "release":
        return {base + ".weight": ("U8", codes), base + ".weight.scale": ("F8_E4M3", scales), base + ".weight.scale2": ("F32", factor)}, values
    inverse = (1 / factor).astype(np.float32)
    return {base + ".weight_packed": ("U8", codes), base + ".weight_scale": ("F8_E4M3", scales),
            base + ".weight_global_scale": ("F32", inverse)}, values / factor[0].astype(np.float64) / inverse[0].astype(np.float64)


def store(values, form, kind, rename, rng):
    """-> (stored, truth under the original names). All matrices that divide into groups are quantized, but some linear_0."""
    stored, truth = {}, {}
    for name, x in values.items():
        new = rename(name)
        q = quantized(form, new.removesuffix(".weight"), x, rng) if form and x.ndim == 2 else None
        if q:
            stored |= q[0]
            truth[name] = q[1].astype(np.float64)
        else:
            raw, truth[name] = plain(kind, x)
            stored[new] = (kind, raw)
    return stored, truth


def config(patch, hidden, parts):
    out = dict(model_type="inkling_mm_model")
    if "vision" in parts:
        out["vision_config"] = dict(vision_encoder_type="hmlp", decoder_dmodel=hidden, patch_size=patch, temporal_patch_size=2, n_channels=3,
                                    n_layers=4, use_vision_norm=True)
    if "audio" in parts:
        out["audio_config"] = dict(audio_mode="dmel", decoder_dmodel=hidden, n_mel_bins=80, mel_vocab_size=16, dmel_min_value=-7.0,
                                   dmel_max_value=2.0, use_audio_norm=True, bias=False)
    return out


def write_gguf(path, values, patch, hidden, pick):
    """pick(columns) -> the type of a matrix."""
    v = gguf_file.value
    meta = {"general.architecture": "clip", "clip.has_vision_encoder": True, "clip.has_audio_encoder": True,
            "clip.vision.projector_type": "inkling", "clip.vision.projection_dim": v("u32", hidden), "clip.vision.image_size": v("u32", patch),
            "clip.vision.patch_size": v("u32", patch), "clip.vision.embedding_length": v("u32", 3), "clip.vision.feed_forward_length": v("u32", 0),
            "clip.vision.block_count": v("u32", 4), "clip.vision.attention.head_count": v("u32", 1),
            "clip.vision.attention.layer_norm_epsilon": v("f32", 1e-6),
            "clip.vision.image_mean": v("f32", [0.48145466, 0.4578275, 0.40821073]),
            "clip.vision.image_std": v("f32", [0.26862954, 0.26130258, 0.27577711]),
            "clip.audio.projector_type": "inkling", "clip.audio.projection_dim": v("u32", hidden), "clip.audio.embedding_length": v("u32", hidden),
            "clip.audio.feed_forward_length": v("u32", 0), "clip.audio.block_count": v("u32", 0), "clip.audio.attention.head_count": v("u32", 1),
            "clip.audio.attention.layer_norm_epsilon": v("f32", 1e-6), "clip.audio.num_mel_bins": v("u32", 80)}
    tensors, truth = {}, {}
    rng = np.random.default_rng(hidden)
    for name, x in values.items():
        kind = "F32" if x.ndim == 1 else pick(x.shape[1])
        _, n, b = blocks.TYPES[kind]
        if n > 1:
            raw = blocks.random_blocks(kind, rng, x.size // n, x.std()).reshape(x.shape[0], x.shape[1] // n * b)
            truth[name] = blocks.decode(kind, raw).astype(np.float64)
        else:
            raw, truth[name] = plain(kind, x)
            raw = np.ascontiguousarray(raw).view(np.uint8)
        tensors[gguf_name(name)] = (kind, x.shape, raw)
    gguf_file.write(path, meta, tensors)
    return truth


def golden(folder, truth, patch, hidden, rng, model):
    """Three pairs, of which the second has equal slices; seven frames."""
    out = {}
    same = lambda x: x
    if "model.visual.final_norm.weight" in truth:
        pixels = rng.uniform(-2, 2, (3, 2, patch, patch, 3)).astype(np.float32)
        pixels[1, 1] = pixels[1, 0]
        stills = pixels.copy()
        stills[:, 1] = stills[:, 0]
        out |= {"patches": ("F32", pixels), "vision": ("F32", towers.vision(truth, pixels, to_f64=same).astype(np.float32)),
                "stills": ("F32", towers.vision(truth, stills, to_f64=same).astype(np.float32))}
    if "model.audio.final_norm.weight" in truth:
        bins = rng.integers(0, 16, (20, 80)).astype(np.int32)
        out |= {"bins": ("I32", bins), "audio": ("F32", towers.audio(truth, bins, to_f64=same).astype(np.float32))}
    write_safetensors(folder / "golden.safetensors", out)
    (folder / "golden.json").write_text(json.dumps(dict(hidden=hidden, patch=patch if "patches" in out else 0, model=model)))


def only(values, parts):
    return {k: v for k, v in values.items() if ("visual" if "vision" in parts else "-") in k or ("audio" if "audio" in parts else "-") in k}


FORMS = [
    ("bf16", None, "BF16", lambda n: n, "vision audio"),
    ("f32-short-names", None, "F32", lambda n: n.removeprefix("model."), "vision audio"),
    ("f16-mlx-names", None, "F16", mlx_name, "vision audio"),
    ("bf16-module-names", None, "BF16", lambda n: mlx_name(n, "model.", True), "vision audio"),
    ("mlx4", dict(bits=4, group=64), "BF16", lambda n: n, "vision audio"),
    ("mlx8-g32-f16", dict(bits=8, group=32, side="F16"), "F16", mlx_name, "vision audio"),
    ("mlx3-g128", dict(bits=3, group=128), "BF16", mlx_name, "vision audio"),
    ("mlx-mxfp4", dict(mode="mxfp4"), "BF16", lambda n: n, "vision audio"),
    ("nvfp4", "release", "BF16", lambda n: n, "vision audio"),
    ("compressed-tensors", "packed", "BF16", lambda n: n, "vision audio"),
    ("vision-only", None, "BF16", lambda n: n, "vision"),
    ("audio-only", None, "BF16", lambda n: n, "audio"),
]
GGUF = [("gguf-bf16", ("BF16",)), ("gguf-f16", ("F16",)), ("gguf-q8_0", ("Q8_0", "F16")), ("gguf-mixed", ("Q6_K", "Q4_K", "Q5_0", "IQ4_NL", "F32"))]


def main():
    out, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    shutil.rmtree(out / "towers", ignore_errors=True)
    folders = []
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        patch, hidden = int(rng.choice(PATCHES)), int(rng.choice((64, 96, 128, 256, 320)))
        values = random_values(patch, hidden, rng)
        which = i % (len(FORMS) + len(GGUF))
        model = None
        if which < len(FORMS):
            name, form, kind, rename, parts = FORMS[which]
            folder = out / "towers" / f"{i:02d}-{name}"
            folder.mkdir(parents=True)
            stored, truth = store(only(values, parts.split()), form, kind, rename, rng)
            model = "towers.safetensors"  # golden.safetensors lies in the same folder
            write_safetensors(folder / model, {k: stored[k] for k in sorted(stored, key=lambda k: -stored[k][1].itemsize)})
            cfg = config(patch, hidden, parts.split())
            if isinstance(form, dict):
                mode = form.get("mode", "affine")
                cfg["quantization"] = dict(bits=form.get("bits", 4), group_size=form.get("group", split_types.GROUPS.get(mode)), mode=mode)
            (folder / "config.json").write_text(json.dumps(cfg))
        else:
            name, kinds = GGUF[which - len(FORMS)]
            folder = out / "towers" / f"{i:02d}-{name}"
            folder.mkdir(parents=True)
            model = "mmproj.gguf"
            fits = lambda cols: [k for k in kinds if cols % blocks.TYPES[k][1] == 0]
            truth = write_gguf(folder / model, values, patch, hidden, lambda cols: str(rng.choice(fits(cols) or ["F16"])))
        golden(folder, truth, patch, hidden, rng, model)
        folders.append(str(folder))
    (out / "towers.txt").write_text("\n".join(folders) + "\n")


if __name__ == "__main__":
    main()
