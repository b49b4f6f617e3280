"""One model in every published layout: names, shapes, orders of rows, and which file holds what.

A layout says, for each tensor of the original names, under which names its parts are stored and how each part is cut out of it and put back.
So a checkpoint is written in one pass: cut, encode, store; decode, put back. What is put back is the truth that the oracle computes with.

    write(folder, layout, t, text, p, recipe, rng)   -> (truth: original name -> ("F64", array), config as the oracle reads it)
    from_gguf(path)                                  -> the same two for a GGUF file that someone else wrote

layout: A (original names), C1, C2, C2-fused, C2-merged (fused qkvr and merged shared experts), E, D (GGUF). recipe(base, class, w) -> how
the part is stored: "F32", "BF16", "F16", a dict for split_types, or a block type of GGUF; class is one of CLASSES below, or "small" for what is
never quantized.
"""
import json
import pathlib

import numpy as np

import blocks
import gguf_file
import make_checkpoint as mk
import split_types
from inkling_oracle import bf16_to_f64, f32_to_bf16, write_safetensors

NEVER = 1000  # a floor of the log scaling beyond all test prompts
CLASSES = ("embed", "unembed", "attn", "dense", "experts", "shared")


class Part:
    """base: stored path; suffix: what follows it when it is a plain tensor; take, put: between the original array and the stored one."""

    def __init__(self, base, cls, take=None, put=None, suffix=".weight"):
        self.base, self.cls, self.suffix = base, cls, suffix
        self.take = take or (lambda w: w)
        self.put = put or (lambda dest, v: dest.__setitem__(..., v.reshape(dest.shape)))


def _gate(base, cls, **kw):
    return Part(base, cls, lambda w: w[..., 0::2, :], lambda dest, v: dest.__setitem__((..., slice(0, None, 2), slice(None)), v), **kw)


def _up(base, cls, **kw):
    return Part(base, cls, lambda w: w[..., 1::2, :], lambda dest, v: dest.__setitem__((..., slice(1, None, 2), slice(None)), v), **kw)


def _merged_rows(part):
    """[SH, I, H] -> [SH * I, H]"""
    take, put = part.take, part.put
    part.take = lambda w: take(w).reshape(-1, w.shape[-1])
    part.put = lambda dest, v: put(dest, v.reshape(dest.shape[0], -1, dest.shape[-1]))
    return part


def _merged_columns(base, cls):
    """[SH, H, I] -> [H, SH * I]"""
    return Part(base, cls, lambda w: w.transpose(1, 0, 2).reshape(w.shape[1], -1),
                lambda dest, v: dest.__setitem__(..., v.reshape(dest.shape[1], dest.shape[0], -1).transpose(1, 0, 2)))


def _blocked(base, cls):
    """gate and up in turns -> all gate rows, then all up rows"""
    def put(dest, v):
        half = v.shape[-2] // 2
        dest[..., 0::2, :], dest[..., 1::2, :] = v[..., :half, :], v[..., half:, :]
    return Part(base, cls, lambda w: np.concatenate([w[..., 0::2, :], w[..., 1::2, :]], -2), put, suffix="")


ATTN = {"wq_du": "q", "wk_dv": "k", "wv_dv": "v", "wr_du": "r", "wo_ud": "o"}


def _split_name(name):
    if name.startswith("model.llm.layers."):
        i, rest = name[len("model.llm.layers."):].split(".", 1)
        return i, rest[:-7] if rest.endswith(".weight") else rest
    return None, name


def _class_of(rest):
    if rest.startswith("attn.w"):
        return "attn"
    return "dense" if rest in ("mlp.w13_dn", "mlp.w2_md") else "experts" if rest.startswith("mlp.experts.") else \
        "shared" if rest.startswith("mlp.shared_experts.") else "small"


def parts_a(name):
    i, rest = _split_name(name)
    cls = _class_of(rest) if i is not None else {"model.llm.embed.weight": "embed", "model.llm.unembed.weight": "unembed"}.get(name, "small")
    return [Part(name[:-7], cls) if name.endswith(".weight") else Part(name, cls, suffix="")]


def _conv(w):
    return w.transpose(0, 2, 1)


def _put_conv(dest, v):
    dest[...] = v.reshape(len(dest), 4, 1).transpose(0, 2, 1)


def _three(prefix, rest, cls, suffix=".weight"):
    """The gate, up and down of a SwiGLU from the original pair."""
    if "w13" in rest:
        return [_gate(prefix + ".gate_proj", cls, suffix=suffix), _up(prefix + ".up_proj", cls, suffix=suffix)]
    return [Part(prefix + ".down_proj", cls, suffix=suffix)]


def parts_c1(name):
    i, rest = _split_name(name)
    if i is None:
        return [] if name.startswith("model.mtp.") else parts_a(name)
    p, cls = f"model.llm.layers.{i}.", _class_of(rest)
    if cls in ("dense", "experts", "shared"):
        return _three(p + {"dense": "mlp", "experts": "mlp.experts", "shared": "mlp.shared_experts"}[cls], rest, cls)
    if "sconv" in rest:
        return [Part(p + rest, "small", _conv, _put_conv)]
    return parts_a(name)


def parts_c2(name, merged=False):
    i, rest = _split_name(name)
    top = {"model.llm.embed.weight": ("model.embed_tokens", "embed"), "model.llm.unembed.weight": ("lm_head", "unembed"),
           "model.llm.embed_norm.weight": ("model.embed_norm", "small"), "model.llm.norm.weight": ("model.norm", "small")}
    if i is None:
        if name.startswith("model.audio."):
            return [Part({"encoder": "audio_tower.embed_audio_tokens", "final_norm": "audio_tower.norm"}[name.split(".")[2]], "small")]
        return [Part("language_model." + top[name][0], top[name][1])] if name in top else []
    p, cls = f"language_model.model.layers.{i}.", _class_of(rest)
    if cls == "attn":
        return [Part(p + f"self_attn.{ATTN[rest[5:]]}_proj", cls)]
    if cls == "shared" and merged:
        return [_merged_rows(x) for x in _three(p + "mlp.shared_experts", rest, cls)] if "w13" in rest \
            else [_merged_columns(p + "mlp.shared_experts.down_proj", cls)]
    if cls in ("dense", "experts", "shared"):
        return _three(p + {"dense": "mlp", "experts": "mlp.switch_mlp", "shared": "mlp.shared_experts"}[cls], rest, cls)
    if "sconv" in rest:
        return [Part(p + rest.replace("attn.", "self_attn.") + ".conv", "small", _conv, _put_conv)]
    plain = {"attn.q_norm": "self_attn.q_norm.weight", "attn.k_norm": "self_attn.k_norm.weight", "attn.rel_logits_proj.proj": "self_attn.rel_proj",
             "attn_norm": "input_layernorm.weight", "mlp_norm": "post_attention_layernorm.weight", "mlp.global_scale": "mlp.global_scale",
             "mlp.gate": "mlp.gate_weight", "mlp.gate.bias": "mlp.e_score_correction_bias", "mlp.gate.global_scale": "mlp.global_scale"}
    return [Part(p + plain[rest], "small", suffix="")]


def parts_e(name, prefix="model.language_model.", newer=False):
    i, rest = _split_name(name)
    top = {"model.llm.embed.weight": (prefix + "embed_tokens", "embed"), "model.llm.unembed.weight": ("lm_head", "unembed"),
           "model.llm.embed_norm.weight": (prefix + ("embed_tokens." if newer else "") + "embed_norm", "small"),
           "model.llm.norm.weight": (prefix + "norm", "small"),
           "model.audio.encoder.weight": ("model.audio_tower.embed_audio_tokens.embed_audio_tokens", "small"),
           "model.audio.final_norm.weight": ("model.audio_tower.norm", "small")}
    if i is None:
        return [Part(*top[name])] if name in top else []
    p, cls = f"{prefix}layers.{i}.", _class_of(rest)
    if cls == "attn":
        return [Part(p + f"self_attn.{ATTN[rest[5:]]}_proj", cls)]
    if cls == "dense":
        return _three(p + "mlp", rest, cls)
    if cls == "experts":
        return [_blocked(p + "mlp.experts.gate_up_proj", cls)] if "w13" in rest else [Part(p + "mlp.experts.down_proj", cls, suffix="")]
    if cls == "shared":
        return _three(p + "mlp.shared_experts", rest, cls, suffix="")
    if "sconv" in rest:
        return [Part(p + rest.replace("attn.", "self_attn.") + ".conv1d", "small")]
    plain = {"attn.q_norm": "self_attn.q_norm.weight", "attn.k_norm": "self_attn.k_norm.weight",
             "attn.rel_logits_proj.proj": "self_attn.rel_logits_proj.proj", "attn_norm": "input_layernorm.weight",
             "mlp_norm": "post_attention_layernorm.weight", "mlp.global_scale": "mlp.global_scale", "mlp.gate": "mlp.gate.weight",
             "mlp.gate.bias": "mlp.gate.e_score_correction_bias", "mlp.gate.global_scale": "mlp.gate.global_scale"}
    return [Part(p + plain[rest], "small", suffix="")]


def parts_d(name):
    i, rest = _split_name(name)
    top = {"model.llm.embed.weight": ("token_embd", "embed"), "model.llm.unembed.weight": ("output", "unembed"),
           "model.llm.embed_norm.weight": ("token_embd_norm", "small"), "model.llm.norm.weight": ("output_norm", "small")}
    if i is None:
        return [Part(*top[name])] if name in top else []
    p, cls = f"blk.{i}.", _class_of(rest)
    if cls == "attn":
        return [Part(p + {"q": "attn_q", "k": "attn_k", "v": "attn_v", "r": "attn_r", "o": "attn_output"}[ATTN[rest[5:]]], cls)]
    if cls in ("dense", "experts", "shared"):
        end = {"dense": "", "experts": "_exps", "shared": "_shexp"}[cls]
        return [_gate(f"{p}ffn_gate{end}", cls), _up(f"{p}ffn_up{end}", cls)] if "w13" in rest else [Part(f"{p}ffn_down{end}", cls)]
    if "sconv" in rest:
        return [Part(p + "shortconv_" + rest.replace("attn.", "").replace("_sconv", ""), "small", lambda w: w.reshape(len(w), 4))]
    plain = {"attn.q_norm": "attn_q_norm", "attn.k_norm": "attn_k_norm", "attn.rel_logits_proj.proj": "attn_rel_proj", "attn_norm": "attn_norm",
             "mlp_norm": "ffn_norm", "mlp.global_scale": "ffn_gscale", "mlp.gate": "ffn_gate_inp", "mlp.gate.global_scale": "ffn_gscale"}
    if rest == "mlp.gate.bias":
        return [Part(p + "exp_probs_b.bias", "small", suffix="")]
    return [Part(p + plain[rest], "small")]


PARTS = {"A": parts_a, "C1": parts_c1, "C2": parts_c2, "C2-fused": parts_c2, "C2-merged": lambda n: parts_c2(n, True), "E": parts_e,
         "E-text": lambda n: parts_e(n, "model.", True), "D": parts_d}


def _plain(kind, w):
    """-> (raw storage, the values it holds)"""
    w = np.ascontiguousarray(w, np.float32)
    if kind == "BF16":
        raw = f32_to_bf16(w)
        return raw, bf16_to_f64(raw)
    raw = w.astype("<f2" if kind == "F16" else "<f4")
    return raw, raw.astype(np.float64)


def _fuse(out):
    """q, k, v and r of a layer below each other, and so their scales and biases."""
    for name in [n for n in out if ".self_attn.q_proj." in n]:
        kinds, arrays = zip(*(out.pop(name.replace("q_proj", f"{x}_proj")) for x in "qkvr"))
        assert len(set(kinds)) == 1
        out[name.replace("q_proj", "qkvr_proj")] = (kinds[0], np.concatenate(arrays))


def store(layout, t, recipe, rng):
    """-> (stored: name -> (dtype, raw array); in layout D: (type, shape, raw bytes)), truth)"""
    out, truth = {}, {}
    for name, w in t.items():
        parts = PARTS[layout](name)
        if not parts:
            continue
        dest = np.full(w.shape, np.nan)
        for part in parts:
            x = part.take(w)
            spec = recipe(part.base, part.cls, x)
            if isinstance(spec, dict):
                entries, values = split_types.encode(spec, x, rng)
                out.update((part.base + k, v) for k, v in entries.items())
            elif layout == "D" and spec not in ("F32", "BF16", "F16"):
                _, n, b = blocks.TYPES[spec]
                raw = blocks.random_blocks(spec, rng, x.size // n, x.std()).reshape(*x.shape[:-1], x.shape[-1] // n * b)
                out[part.base + part.suffix] = (spec, x.shape, raw)
                values = blocks.decode(spec, raw)
            else:
                raw, values = _plain(spec, x)
                out[part.base + part.suffix] = (spec, raw) if layout != "D" else (spec, x.shape, raw.view(np.uint8))
            part.put(dest, values.astype(np.float64))
        assert not np.isnan(dest).any(), name
        truth[name] = ("F64", dest)
    if layout in ("C2-fused", "C2-merged"):
        _fuse(out)
    return out, truth


def put_factors(stored, truth, p, rng):
    """Layout C2: gate_scale and out_scale of the routed experts. The gate pre-activation is multiplied by the first, the result by the second, so
    in the original names gate * gate_scale and down * out_scale."""
    for i in range(p["n_dense"], p["layers"]):
        base = f"language_model.model.layers.{i}.mlp.switch_mlp."
        gate, out = (np.exp(rng.uniform(-.5, .5, p["experts"])).astype(np.float32) for _ in range(2))
        stored[base + "gate_scale"], stored[base + "out_scale"] = ("F32", gate), ("F32", out)
        o = f"model.llm.layers.{i}.mlp.experts."
        truth[o + "w13_weight"][1][:, 0::2] *= gate[:, None, None]
        truth[o + "w2_weight"][1][...] *= out[:, None, None]


def put_nvfp4(stored, truth, form, first, powers_of_two=False):
    """Replaces the routed experts from layer `first` on: form "release" or "compressed-tensors". Layout A."""
    for name in [n for n in stored if ".mlp.experts.w" in n and int(n.split(".")[3]) >= first]:
        w = truth[name][1]
        codes, scales, factor, values = split_types.encode_release(w, powers_of_two)
        kind = stored.pop(name)[0]
        assert kind != "U8"
        if form == "release":
            stored[name], stored[name + ".scale"], stored[name + ".scale2"] = ("U8", codes), ("F8_E4M3", scales), ("F32", factor)
            stored[name + ".input_amax"] = ("BF16", f32_to_bf16(np.ones(1, np.float32)))
            stored[name + ".original_shape"] = ("I64", np.array(w.shape))
        else:  # the reciprocal convention, with the values that the reciprocal in float32 really gives
            inverse = (1 / factor).astype(np.float32)
            values = values / factor.astype(np.float64)[:, None, None] / inverse.astype(np.float64)[:, None, None]
            stored[name + ".weight_packed"], stored[name + ".weight_scale"] = ("U8", codes), ("F8_E4M3", scales)
            stored[name + ".weight_global_scale"] = ("F32", inverse)
            stored[name + ".input_global_scale"] = ("F32", np.ones(len(w), np.float32))
        truth[name] = ("F64", values)


def write_shards(folder, stored, shards=2):
    """In a shard the widest elements come first, as writers of safetensors do it, so that all are aligned."""
    folder.mkdir(parents=True, exist_ok=True)
    names, weight_map = list(stored), {}
    for i in range(shards):
        f = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        group = names[len(names) * i // shards:len(names) * (i + 1) // shards]
        write_safetensors(folder / f, {k: stored[k] for k in sorted(group, key=lambda k: -stored[k][1].itemsize)})
        weight_map |= {k: f for k in group}
    total = sum(a.nbytes for _, a in stored.values())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))


def _unit(n):
    """The printable stand-ins of byte-level BPE for bytes 0 .. 255."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = {b: 256 + k for k, b in enumerate(b for b in range(256) if b not in keep)}
    return chr(n if n in keep else rest[n])


def gguf_meta(text, p):
    v = gguf_file.value
    i, u = "inkling.", lambda x: v("u32", int(x))
    kinds = [k in p["local"] for k in range(p["layers"])]
    ids = p["vocab"]
    tokens = [_unit(k) for k in range(256)] + ["he"] + [f"<|{k}|>" for k in range(257, ids)]  # "he" is what the one merge makes
    meta = {"general.architecture": "inkling", "general.name": "fresh", i + "context_length": u(4096), i + "embedding_length": u(p["hidden"]),
            i + "block_count": u(p["layers"]), i + "feed_forward_length": u(p["dense"]), i + "attention.head_count": u(p["heads"]),
            i + "attention.head_count_kv": v("i32", [p["swa_kv"] if k else p["kv"] for k in kinds]),
            i + "attention.key_length": u(p["head_dim"]), i + "attention.value_length": u(p["head_dim"]),
            i + "attention.layer_norm_rms_epsilon": v("f32", text["rms_norm_eps"]), i + "expert_count": u(p["experts"]),
            i + "expert_used_count": u(p["top_k"]), i + "vocab_size": u(ids), i + "expert_feed_forward_length": u(p["moe"]),
            i + "expert_shared_count": u(p["shared"]), i + "expert_weights_scale": v("f32", text["route_scale"]), i + "expert_gating_func": u(2),
            i + "attention.sliding_window": u(p["window"]), i + "attention.sliding_window_pattern": kinds, i + "d_rel": u(p["d_rel"]),
            i + "rel_extent": u(p["extent"]), i + "rel_extent_swa": u(p["window"]), i + "shortconv_kernel": u(4),
            i + "dense_block_count": u(p["n_dense"]), i + "logit_scale_denom": v("f32", p["mup"]), i + "log_scaling_n_floor": u(p["floor"]),
            i + "log_scaling_alpha": v("f32", 0.1), i + "unpadded_vocab_size": u(p["unpadded"]), "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "inkling", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": v("i32", [1 if k < 257 else 3 for k in range(ids)]), "tokenizer.ggml.merges": ["h e"],
            "tokenizer.ggml.eos_token_id": u(p["unpadded"] - 1), "tokenizer.ggml.bos_token_id": u(p["unpadded"] - 1),
            "tokenizer.ggml.add_bos_token": False, "general.quantization_version": u(2)}
    if p["floor"] == NEVER:  # optional keys, left out where that changes nothing
        del meta[i + "log_scaling_n_floor"], meta[i + "log_scaling_alpha"]
    if p["unpadded"] == ids:
        del meta[i + "unpadded_vocab_size"]
    return meta


def from_gguf(path):
    """A GGUF file or the first part of a split set -> (truth, config), as the oracle reads them."""
    path = pathlib.Path(path)
    g = gguf_file.read(path)
    tensors, m = dict(g.tensors), {k.removeprefix("inkling."): v for k, v in g.meta.items()}
    for k in range(1, m.get("split.count", 1)):
        tensors |= gguf_file.read(path.with_name(path.name.replace("-00001-", f"-{k + 1:05d}-"))).tensors
    local = [k for k, x in enumerate(m["attention.sliding_window_pattern"]) if x]
    kv = m["attention.head_count_kv"]
    p = dict(hidden=m["embedding_length"], layers=m["block_count"], heads=m["attention.head_count"],
             kv=next((n for k, n in enumerate(kv) if k not in local), kv[0]), swa_kv=kv[local[0]] if local else kv[0],
             head_dim=m["attention.key_length"], window=m["attention.sliding_window"], d_rel=m["d_rel"], extent=m["rel_extent"],
             floor=m.get("log_scaling_n_floor", 0), dense=m["feed_forward_length"], moe=m["expert_feed_forward_length"], experts=m["expert_count"],
             top_k=m["expert_used_count"], shared=m["expert_shared_count"], n_dense=m["dense_block_count"], vocab=m["vocab_size"],
             unpadded=m.get("unpadded_vocab_size", 0) or m["vocab_size"], mup=m["logit_scale_denom"], local=local, mtp=0, mtp_local=[])
    mk.PRESETS["from-gguf"] = p
    shapes, text, _ = mk.build("from-gguf", 0)  # only its names and shapes are of use here
    text |= dict(rms_norm_eps=m["attention.layer_norm_rms_epsilon"], log_scaling_alpha=m.get("log_scaling_alpha", 0.0),
                 route_scale=m["expert_weights_scale"])
    truth = {}
    for name, w in shapes.items():
        dest = np.full(w.shape, np.nan)
        for part in parts_d(name):
            kind, _, raw = tensors.pop(part.base + part.suffix)
            part.put(dest, blocks.decode(kind, raw).astype(np.float64))
        if parts_d(name):
            truth[name] = ("F64", dest)
    assert not tensors, f"not placed: {list(tensors)}"
    return truth, mk.config_for("native-bf16", text, p)
