#!/usr/bin/env python3
"""Predicts how fast a model larger than memory runs, from its dimensions, the memory and the drive.

    scripts/streaming_model.py                      prints the tables of docs/streaming.md
    scripts/streaming_model.py --write FILE         puts them between the marks in FILE
    scripts/streaming_model.py --check FILE         1 when FILE does not hold what is printed
    scripts/streaming_model.py --of small --form uniform --memory 20 --drive 5 --weights 40     one case, in full

Everything follows from the dimensions below: bytes of each class of tensors in each form, what fits into memory, which share of the
accesses falls on it when use follows Zipf's law, and the time for one token. The check of the sizes against published totals is the
first table, the check of the speeds against measurements (bench/streaming-measured.json, made by bench/streaming.py) the last one.
Needs Python alone.
"""
import argparse
import json
import math
import os
import sys

GB = 1e9

# Dimensions of the published models, and of the synthetic one (src/tools/synth_plan.c). step: GB of buffers for 512 rows, as `inkjet info --plan` says.
MODELS = {
    "small": dict(name="Inkling-Small 276B-A12B", hidden=4096, layers=42, dense_layers=2, heads=32, kv=8, kv_sliding=8, head=128, window=512,
                  d_rel=16, rel=1024, dense=16384, expert=2048, experts=256, used=6, shared=2, vocab=201024, towers=True, entropy=0.908,
                  step=0.215),
    "large": dict(name="Inkling 975B-A41B", hidden=6144, layers=66, dense_layers=2, heads=64, kv=8, kv_sliding=16, head=128, window=512,
                  d_rel=16, rel=1024, dense=24576, expert=3072, experts=256, used=6, shared=2, vocab=201024, towers=True, entropy=0.922,
                  step=0.334),
    "24b": dict(name="synthetic 24b", hidden=2048, layers=30, dense_layers=2, heads=16, kv=8, kv_sliding=8, head=128, window=512, d_rel=16,
                rel=1024, dense=8192, expert=1024, experts=128, used=6, shared=2, vocab=201024, towers=False,
                entropy=None, step=0.14),
}

# Eight depths that draft tokens come with the published weights; of these, 1 and 3 are global. They are not run yet, but they are in the totals.
MTP_DEPTHS, MTP_GLOBAL = 8, {1, 3}

# Forms: bits per weight by class, with scales. Matrices that nobody quantizes (router) and everything that is no matrix have 16.
FORMS = {
    "bf16": dict(name="BF16", expert=16, first=16, dense=16),
    "uniform": dict(name="4.5 bits everywhere (MLX 4-bit g64; GGUF Q4_K)", expert=4.5, first=4.5, dense=4.5),
    "release": dict(name="NVFP4 release (experts 4.5 bits, all else BF16)", expert=4.5, first=16, dense=16),
}

MEMORY = [16, 24, 48, 64, 128, 192]
DRIVES = [3, 7, 14]
SYSTEM = 2.0      # GB that are left to the system and other programs
WEIGHTS = 40.0    # GB of weights per second that the processor gets through, from memory to products
CONTEXT = 8192    # positions of the session, keys and values in float32
OTHER = 0.2       # GB: tokenizer, tables, the program
ROWS = 512        # of a chunk of a prompt
ROLLBACK = 64     # positions of which the inputs of the short convolutions are kept
PAGE = 4096


class Model:
    """Elements by class, from the dimensions alone."""

    def __init__(self, key):
        d = self.d = MODELS[key]
        self.key = key
        h = d["hidden"]
        self.moe_layers = d["layers"] - d["dense_layers"]
        self.sliding = sum(i % 6 != 5 for i in range(d["layers"]))
        self.global_layers = d["layers"] - self.sliding
        self.expert = 3 * h * d["expert"]
        self.routed = self.moe_layers * d["experts"] * self.expert
        self.shared = self.moe_layers * d["shared"] * self.expert
        self.dense_mlp = d["dense_layers"] * 3 * h * d["dense"]
        self.embed = d["vocab"] * h
        self.attention = sum(self.attention_matrices(i % 6 != 5) for i in range(d["layers"]))
        self.router = self.moe_layers * (d["experts"] + d["shared"]) * h
        self.vectors = sum(self.layer_vectors(i % 6 != 5) for i in range(d["layers"])) + 2 * h
        self.float32 = self.moe_layers * (d["experts"] + 1)    # the router's biases and scales
        self.scalars = d["dense_layers"]

    def attention_matrices(self, sliding):
        d = self.d
        kv = d["kv_sliding"] if sliding else d["kv"]
        return d["hidden"] * (2 * d["heads"] * d["head"] + 2 * kv * d["head"] + d["heads"] * d["d_rel"])

    def layer_vectors(self, sliding):
        """Norms, short convolutions and the table of relative positions of one layer."""
        d = self.d
        kv = (d["kv_sliding"] if sliding else d["kv"]) * d["head"]
        return 2 * d["hidden"] + 2 * d["head"] + 4 * (2 * kv + 2 * d["hidden"]) + d["d_rel"] * (d["window"] if sliding else d["rel"])

    def towers(self):
        h = self.d["hidden"]
        if not self.d["towers"]:
            return 0
        linear = 128 * 75 + 320 * 512 + 4800 * 5120 + h * 9600
        return linear + 128 + 320 + 4800 + h + 1280 * h + h

    def drafting(self):
        """The depths that draft tokens: a decoder layer with a dense MLP, and a projection."""
        h, n = self.d["hidden"], 0
        for depth in range(MTP_DEPTHS):
            sliding = depth not in MTP_GLOBAL
            n += 2 * h + 2 * h * h + self.attention_matrices(sliding) + self.layer_vectors(sliding) + 3 * h * self.d["dense"] + 1
        return n

    def elements(self):
        return (self.routed + self.shared + self.dense_mlp + 2 * self.embed + self.attention + self.router + self.vectors + self.float32 +
                self.scalars + self.towers() + self.drafting())

    def active(self):
        """Parameters for one token, by the count that is usual: both vocabulary matrices, and the experts it uses."""
        return self.trunk_dense() + self.moe_layers * self.d["used"] * self.expert

    def trunk_dense(self):
        return self.shared + self.dense_mlp + 2 * self.embed + self.attention + self.router + self.vectors + self.float32 + self.scalars

    # ---- bytes in a form

    def quantized_dense(self):
        return self.shared + self.dense_mlp + 2 * self.embed + self.attention

    def plain_bytes(self):
        return 2 * (self.router + self.vectors + self.scalars) + 4 * self.float32

    def dense_bytes(self, form):
        return self.quantized_dense() * FORMS[form]["dense"] / 8 + self.plain_bytes()

    def held_bytes(self, form):
        """Of the dense weights, what is kept in memory: all but the table of embeddings, of which a token needs one row."""
        return self.dense_bytes(form) - self.embed * FORMS[form]["dense"] / 8

    def expert_bytes(self, form, first=False):
        """Of one expert; those of the first layer that has any may be stored in another way."""
        factors = 8 if form == "release" and not first else 0   # a float32 for each of two matrices
        return self.expert * FORMS[form]["first" if first else "expert"] / 8 + factors

    def one_of_each(self, form):
        """Bytes of one expert of every layer."""
        return (self.moe_layers - 1) * self.expert_bytes(form) + self.expert_bytes(form, True)

    def routed_bytes(self, form):
        return self.d["experts"] * self.one_of_each(form)

    def trunk_bytes(self, form):
        return self.dense_bytes(form) + self.routed_bytes(form) + 2 * self.towers()

    def session_bytes(self, context=CONTEXT):
        """Keys and values in float32, of which sliding layers keep their window and a chunk; and the last inputs of the short convolutions."""
        d = self.d
        keys = 2 * d["head"] * 4 * (self.global_layers * d["kv"] * context + self.sliding * d["kv_sliding"] * (d["window"] + ROWS))
        channels = d["layers"] * 2 * d["hidden"] + 2 * d["head"] * (self.global_layers * d["kv"] + self.sliding * d["kv_sliding"])
        return keys + 4 * channels * (ROLLBACK + 3)

    def step_bytes(self, form):
        """Of weights, read from memory for one token: what is held of the dense ones, and the experts it uses."""
        return self.held_bytes(form) + self.d["used"] * self.one_of_each(form)


# ------------------------------------------------------------------------------------------------------------ routing


def zipf(n, k, s, cap=1.0):
    """How often each expert of a layer is used per token, most used first: in proportion to rank^-s, but never more than `cap`; sums to k."""
    w = [(i + 1) ** -s for i in range(n)]
    cut = 0
    while True:
        c = (k - cut * cap) / sum(w[cut:])
        if c * w[cut] <= cap:
            return [cap] * cut + [c * x for x in w[cut:]]
        cut += 1


def entropy(p):
    total = sum(p)
    return -sum(x / total * math.log(x / total) for x in p if x > 0) / math.log(len(p))


def exponent_of(value, n, k):
    """The exponent whose law has this normalized entropy."""
    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        if entropy(zipf(n, k, middle)) > value:
            low = middle
        else:
            high = middle
    return low


def hit_rate(p, held):
    """The share of accesses that `held` experts per layer serve when they are the most used ones; held need not be whole."""
    whole = min(int(held), len(p))
    rest = p[whole] * (held - whole) if whole < len(p) else 0
    return min(1.0, (sum(p[:whole]) + rest) / sum(p))


# --------------------------------------------------------------------------------------------------------------- time


def plan(m, form, memory, system=SYSTEM):
    """Experts that fit, of all; None when the rest alone does not."""
    room = (memory - system - OTHER - m.d["step"]) * GB - m.held_bytes(form) - 2 * m.towers() - m.session_bytes()
    slot = m.one_of_each(form) / m.moe_layers + 3 * PAGE
    if room < m.d["used"] * m.expert_bytes(form, True):
        return None
    return min(room / slot, m.moe_layers * m.d["experts"]), m.moe_layers * m.d["experts"]


def token_time(m, form, hit, drive, weights, guessed=0.0):
    """Seconds for one token. drive, weights: bytes per second.

    The reads of a layer begin when its router has spoken. Meanwhile the gate and up products of the shared experts run; then what was read
    is computed. `guessed`: the share of the misses that were read before, during the products of the layer above and attention."""
    d = m.d
    shared = m.shared / m.moe_layers * FORMS[form]["dense"] / 8 / weights
    attention = (m.attention * FORMS[form]["dense"] / 8 + m.plain_bytes()) / d["layers"] / weights
    early = shared * 2 / 3

    def layer(expert):
        read = d["used"] * (1 - hit) * expert / drive
        busy = attention + d["used"] * expert / weights + shared - early
        return max(busy, guessed * read) + max((1 - guessed) * read, early)

    rest = (m.dense_mlp + m.embed) * FORMS[form]["dense"] / 8 / weights + d["dense_layers"] * attention
    return layer(m.expert_bytes(form, True)) + (m.moe_layers - 1) * layer(m.expert_bytes(form)) + rest


def predict(m, form, memory, drive, exponent, weights=WEIGHTS):
    held = plan(m, form, memory)
    if held is None:
        return None
    n, total = held
    hit = hit_rate(zipf(m.d["experts"], m.d["used"], exponent), n / m.moe_layers)
    missed = m.d["used"] * (1 - hit) * m.one_of_each(form)
    return dict(held=n / total, hit=hit, bytes=missed, speed=1 / token_time(m, form, hit, drive * GB, weights * GB))


# ------------------------------------------------------------------------------------------------------------- tables


def sizes():
    """Derived sizes against the totals that were published with the weights."""
    published = [
        ("small", "elements, with towers and drafting depths", lambda m: m.elements(), 265956439090),
        ("small", "bytes in BF16", lambda m: 2 * (m.elements() - m.float32) + 4 * m.float32, 531912898740),
        ("small", "bytes of the NVFP4 release", lambda m: m.trunk_bytes("release") + 2 * m.drafting() + 2 * 78 + 8 * 234, 170733074592),
        ("large", "elements, with towers and drafting depths", lambda m: m.elements(), 952377623626),
        ("large", "bytes in BF16", lambda m: 2 * (m.elements() - m.float32) + 4 * m.float32, 1904755280148),
    ]
    out = ["| model | | derived | published |", "|---|---|---:|---:|"]
    for key, what, f, value in published:
        out.append(f"| {MODELS[key]['name']} | {what} | {f(Model(key)):,.0f} | {value:,} |")
    out += ["", "| model | form | weights, GB | of these dense, in memory | one expert, MB | experts | read from memory per token, GB | of these experts |",
            "|---|---|---:|---:|---:|---:|---:|---:|"]
    for key in ("small", "large"):
        for form in ("uniform", "release"):
            m = Model(key)
            experts = m.d["used"] * m.one_of_each(form)
            first, others = m.expert_bytes(form, True) / 1e6, m.expert_bytes(form) / 1e6
            expert = f"{others:.1f}" if first == others else f"{others:.1f}; {first:.1f} in the first layer"
            out.append(f"| {m.d['name']} | {FORMS[form]['name']} | {m.trunk_bytes(form) / GB:.1f} | {m.held_bytes(form) / GB:.1f} | "
                       f"{expert} | {m.moe_layers * m.d['experts']:,} | {m.step_bytes(form) / GB:.2f} | {experts / GB:.2f} |")
    return out


def rates():
    """Hit rates by exponent and share held."""
    shares = [0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9]
    out = ["| use of experts | " + " | ".join(f"{x * 100:.0f} % held" for x in shares) + " |", "|---|" + "---:|" * len(shares)]
    for name, s in exponents():
        p = zipf(256, 6, s)
        out.append(f"| {name} | " + " | ".join(f"{hit_rate(p, x * 256) * 100:.0f} %" for x in shares) + " |")
    return out


def exponents():
    small, large = (exponent_of(MODELS[k]["entropy"], 256, 6) for k in ("small", "large"))
    return [("even (exponent 0)", 0.0), (f"published for Inkling: normalized entropy {MODELS['large']['entropy']}, exponent {large:.2f}", large),
            (f"published for Inkling-Small: {MODELS['small']['entropy']}, exponent {small:.2f}", small), ("Zipf, exponent 1", 1.0)]


def number(x):
    return f"{x:.2f}" if x < 1 else f"{x:.1f}" if x < 10 else f"{x:.0f}"


def speeds(key, form):
    m = Model(key)
    measured = exponent_of(m.d["entropy"], m.d["experts"], m.d["used"])
    out = ["| memory, GB | experts held | hit rate | read per token, GB | " + " | ".join(f"{x} GB/s" for x in DRIVES) + " |",
           "|---:|---:|---:|---:|" + "---:|" * len(DRIVES)]
    for memory in MEMORY:
        low = [predict(m, form, memory, x, measured) for x in DRIVES]
        high = [predict(m, form, memory, x, 1.0) for x in DRIVES]
        if low[0] is None:
            out.append(f"| {memory} | refused: {m.held_bytes(form) / GB:.1f} GB are dense | | |" + " |" * len(DRIVES))
            continue
        a, b = low[0], high[0]
        held = a["held"] * 100
        cells = [f"{number(x['speed'])} – {number(y['speed'])}" if number(x["speed"]) != number(y["speed"]) else number(x["speed"])
                 for x, y in zip(low, high)]
        out.append(f"| {memory} | {held:.1f} % | {a['hit'] * 100:.0f} – {b['hit'] * 100:.0f} % | {a['bytes'] / GB:.2f} – {b['bytes'] / GB:.2f} | "
                   + " | ".join(cells) + " |")
    return out


def prompts():
    """What one chunk of a prompt reads when nothing is held, and how long a drive takes for it."""
    rows = [32, 128, 512, 2048]
    out = ["| model | tokens in a chunk | experts it needs | read, GB | " + " | ".join(f"{x} GB/s" for x in DRIVES) + " |",
           "|---|---:|---:|---:|" + "---:|" * len(DRIVES)]
    for key in ("small", "large"):
        m = Model(key)
        p = zipf(m.d["experts"], m.d["used"], exponent_of(m.d["entropy"], m.d["experts"], m.d["used"]))
        for n in rows:
            needed = sum(1 - (1 - x) ** n for x in p)
            read = needed * m.one_of_each("uniform")
            out.append(f"| {m.d['name']} | {n} | {needed / m.d['experts'] * 100:.0f} % | {read / GB:.0f} | "
                       + " | ".join(f"{read / GB / x:.0f} s" for x in DRIVES) + " |")
    return out


def measured():
    """Predictions for the synthetic model against bench/streaming-measured.json, which holds what one run measured: the drive's rate, and the
    time of a token whose experts are all in memory."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "streaming-measured.json")
    with open(path, encoding="utf-8") as f:
        records = json.load(f)
    out = ["| model | experts held | hit rate: predicted | measured | GB per token: predicted | measured | tokens/s: predicted | measured | error |",
           "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for r in records:
        m = Model(r["size"])
        held = r["slots"] / m.moe_layers
        hit = hit_rate(zipf(m.d["experts"], m.d["used"], r["zipf"], cap=0.95), held)
        missed = m.d["used"] * (1 - hit) * m.one_of_each("uniform")
        weights = m.step_bytes("uniform") / r["compute_seconds"]
        speed = 1 / token_time(m, "uniform", hit, r["drive_bytes_per_s"], weights)
        out.append(f"| {r['size']}:{r['format']}, zipf {r['zipf']:g} | {held / m.d['experts'] * 100:.1f} % | {hit * 100:.1f} % | {r['hit'] * 100:.1f} % | "
                   f"{missed / GB:.3f} | {r['bytes_per_token'] / GB:.3f} | {speed:.2f} | {r['tokens_per_s']:.2f} | "
                   f"{(speed / r['tokens_per_s'] - 1) * 100:+.0f} % |")
    return out


TABLES = {
    "sizes": sizes,
    "rates": rates,
    "small-uniform": lambda: speeds("small", "uniform"),
    "small-release": lambda: speeds("small", "release"),
    "large-uniform": lambda: speeds("large", "uniform"),
    "large-release": lambda: speeds("large", "release"),
    "prompts": prompts,
    "measured": measured,
}


def fill(text):
    """The document with every table as it is computed now."""
    for name, table in TABLES.items():
        begin, end = f"<!-- table {name} -->\n", f"<!-- end {name} -->\n"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"streaming_model.py: expected one table '{name}' between its marks")
        a, b = text.index(begin) + len(begin), text.index(end)
        text = text[:a] + "\n".join(table()) + "\n" + text[b:]
    return text


def one_case(a):
    m = Model(a.of)
    exponent = a.zipf if a.zipf is not None else exponent_of(m.d["entropy"] or 0.9, m.d["experts"], m.d["used"])
    r = predict(m, a.form, a.memory, a.drive, exponent, a.weights)
    if r is None:
        sys.exit(f"{m.d['name']}: {a.memory:g} GB are too little: {m.held_bytes(a.form) / GB:.1f} GB are dense weights")
    print(f"{m.d['name']}, {FORMS[a.form]['name']}: {a.memory:g} GB, {a.drive:g} GB/s, exponent {exponent:.2f}\n"
          f"{r['held'] * 100:.1f} % of the experts held, hit rate {r['hit'] * 100:.1f} %, {r['bytes'] / GB:.2f} GB read per token, "
          f"{r['speed']:.2f} tokens/s")


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--check", metavar="FILE")
    a.add_argument("--write", metavar="FILE")
    a.add_argument("--of", choices=MODELS)
    a.add_argument("--form", choices=FORMS, default="uniform")
    a.add_argument("--memory", type=float, default=24)
    a.add_argument("--drive", type=float, default=7)
    a.add_argument("--weights", type=float, default=WEIGHTS)
    a.add_argument("--zipf", type=float)
    a = a.parse_args()
    if a.of:
        one_case(a)
    elif a.check or a.write:
        path = a.check or a.write
        with open(path, encoding="utf-8") as f:
            text = f.read()
        new = fill(text)
        if a.write and new != text:
            with open(path, "w", encoding="utf-8") as f:
                f.write(new)
        if a.check and new != text:
            for old, now in zip(text.splitlines(), new.splitlines()):
                if old != now:
                    print(f"- {old}\n+ {now}")
            sys.exit(f"{path} does not hold what this script computes; scripts/streaming_model.py --write {path} brings it up to date")
    else:
        for name, table in TABLES.items():
            print(f"## {name}\n")
            print("\n".join(table()) + "\n")


if __name__ == "__main__":
    main()
