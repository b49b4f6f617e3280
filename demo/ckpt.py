"""From weights to a checkpoint folder and back: safetensors, BF16, NVFP4 routed experts, interleaved w13.

quantize() is what training sees in its last phase (straight-through), so the file holds exactly what was trained.
"""

import json
import pathlib
import struct

import numpy as np
import torch

import conf as C

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
EDGES = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
DTYPES = {"F32": "<f4", "BF16": "<u2", "U8": "u1", "F8_E4M3": "u1", "I64": "<i8"}


def e4m3_values():
    c = np.arange(0x7F)
    e, m = c >> 3, c & 7
    return np.where(e == 0, m / 8 * 2.0**-6, (1 + m / 8) * 2.0 ** (e - 7.0)).astype(np.float32)


E4M3 = e4m3_values()
E4M3_EDGES = torch.from_numpy((E4M3[1:] + E4M3[:-1]) / 2)


def nvfp4_codes(w):
    """w [E, rows, cols] -> magnitudes' codes, scale codes [E, rows, cols / 16], scale2 [E]"""
    g = w.reshape(*w.shape[:-1], -1, 16)
    amax = g.abs().amax(-1)
    scale2 = amax.flatten(1).amax(1).clamp_min(1e-12) / (6 * 448)
    s = torch.bucketize(amax / 6 / scale2.view(-1, 1, 1), E4M3_EDGES).clamp_min_(1)
    step = torch.from_numpy(E4M3)[s] * scale2.view(-1, 1, 1)
    code = torch.bucketize(g.abs() / step.unsqueeze(-1), EDGES)
    return code, s, scale2, step


def quantize_nvfp4(w):
    code, _, _, step = nvfp4_codes(w)
    g = w.reshape(*w.shape[:-1], -1, 16)
    return (torch.from_numpy(E2M1)[code] * step.unsqueeze(-1) * torch.sign(g)).view_as(w)


def is_routed(name):
    return ".mlp.experts." in name


def is_f32(name):
    return name.endswith(("gate.bias", "gate.global_scale"))


def quantize(name, w):
    """The value that the file will hold."""
    if is_routed(name):
        return quantize_nvfp4(w)
    return w if is_f32(name) else w.bfloat16().float()


def interleave(name, w):
    if "w13" not in name:
        return w
    i = w.shape[-2] // 2
    return np.stack([w[..., :i, :], w[..., i:, :]], -2).reshape(w.shape)


def deinterleave(name, w):
    return np.concatenate([w[..., 0::2, :], w[..., 1::2, :]], -2) if "w13" in name else w


def write_safetensors(path, tensors):
    header, at, blobs = {}, 0, []
    for name, (dt, a) in tensors.items():
        data = np.ascontiguousarray(a).astype(DTYPES[dt], copy=False).tobytes()
        header[name] = {"dtype": dt, "shape": list(a.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        blobs.append(data)
    h = json.dumps(header, separators=(",", ":")).encode()
    h += b" " * (-len(h) % 8)
    part = pathlib.Path(str(path) + ".part")
    part.write_bytes(struct.pack("<Q", len(h)) + h + b"".join(blobs))
    part.replace(path)
    return 8 + len(h) + at


def read_safetensors(path):
    blob = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack("<Q", blob[:8])
    out = {}
    for name, t in json.loads(blob[8 : 8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = (t["dtype"], np.frombuffer(blob[8 + n + a : 8 + n + b], DTYPES[t["dtype"]]).reshape(t["shape"]))
    return out


def bf16_bits(w):
    u = np.ascontiguousarray(w, "<f4").view("<u4")
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2")


def stored(name, w):
    """name, float32 torch tensor -> entries of the file"""
    if is_routed(name):
        code, s, scale2, _ = nvfp4_codes(w)
        code = (code | (torch.signbit(w).view_as(code).long() << 3)).view(w.shape).numpy().astype(np.uint8)
        code, s = interleave(name, code), interleave(name, s.numpy().astype(np.uint8))
        return {
            name: ("U8", code[..., 0::2] | code[..., 1::2] << 4),
            name + ".scale": ("F8_E4M3", s),
            name + ".scale2": ("F32", scale2.numpy()),
            name + ".original_shape": ("I64", np.array(w.shape)),
        }
    w = interleave(name, w.numpy())
    return {name: ("F32", w)} if is_f32(name) else {name: ("BF16", bf16_bits(w))}


def save(folder, weights, extra_files=()):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    for name in weights.shapes:
        out.update(stored(name, weights.view(name).detach().clone()))
    size = write_safetensors(folder / "model.safetensors", out)
    total = sum(a.nbytes for _, a in out.values())
    index = {"metadata": {"total_size": total}, "weight_map": {n: "model.safetensors" for n in out}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(C.config(), indent=2) + "\n")
    quant = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(quant, indent=1) + "\n")
    (folder / "processor_config.json").write_text(
        json.dumps(
            {
                "image_processor": {
                    "patch_size": C.PATCH,
                    "temporal_patch_size": 2,
                    "image_mean": C.MEAN,
                    "image_std": C.STD,
                    "rescale_image_frac": None,
                },
                "feature_extractor": {
                    "feature_size": 80,
                    "sampling_rate": 16000,
                    "audio_token_duration_s": 0.05,
                    "window_size_multiplier": 2.0,
                    "hop_length": 800,
                    "window_size": 1600,
                    "n_fft": 1600,
                },
                "num_dmel_bins": 16,
                "dmel_min_value": -7.0,
                "dmel_max_value": 2.0,
            },
            indent=1,
        )
        + "\n"
    )
    for name, text in extra_files:
        (folder / name).write_text(text)
    return size


def load(folder, weights):
    """Fills the weights with what the file decodes to."""
    raw = {n: (dt, a.copy()) for n, (dt, a) in read_safetensors(pathlib.Path(folder) / "model.safetensors").items()}
    for name in weights.shapes:
        dt, a = raw[name]
        if dt == "U8":
            code = np.stack([a & 15, a >> 4], -1).reshape(*a.shape[:-1], -1)
            step = E4M3[raw[name + ".scale"][1]] * raw[name + ".scale2"][1][:, None, None]
            w = np.where(code & 8, -E2M1[code & 7], E2M1[code & 7]) * np.repeat(step, 16, -1)
        elif dt == "BF16":
            w = (a.astype("<u4") << 16).view("<f4")
        else:
            w = a
        weights.view(name).copy_(torch.from_numpy(np.ascontiguousarray(deinterleave(name, w), np.float32)).view(weights.shapes[name]))
