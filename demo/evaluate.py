"""Every figure that the demo reports, from the saved folder (so: from the weights as they ship), on data that training never saw.

    python3 evaluate.py --model .cache/demo/model [--only text,pictures,...] [--scale 0.1]

Writes results.json and figures.md into the work folder. --scale shortens everything for a smoke test; such figures mean nothing.
"""

import argparse
import concurrent.futures
import json
import math
import multiprocessing
import pathlib
import time

import numpy as np
import torch

import chat_data
import ckpt
import conf as C
import net
import ngram
import pictures
import speech
import text_data
from sampler import pad_docs, text_data_pairs
from tok import Tok, conversation

SEED = 99
END = C.ID["<|end_message|>"]


def generate(P, prompts, most, patches=None, bins=None, stop=(C.EOS,)):
    """Greedy continuation of prompts of any length (padding stands on the right, where nothing looks)."""
    docs, outs, live = [list(p) for p in prompts], [[] for _ in prompts], set(range(len(prompts)))
    for _ in range(most):
        if not live:
            break
        ids, _, _, _ = pad_docs([(d, 1) for d in docs])
        h = net.trunk(P, net.embed(P, ids, patches, bins))
        last = h[torch.arange(len(docs)), torch.tensor([len(d) - 1 for d in docs])]
        z = net.logits(P, last)
        z[:, [C.IMAGE_ID, C.AUDIO_ID]] = -1e30
        for i, t in enumerate(z.argmax(-1).tolist()):
            if i in live:
                outs[i].append(t)
                docs[i].append(t)
                if t in stop:
                    live.discard(i)
    return outs


def said(tok, out):
    """The text of a generated turn, and whether it ended as the family's turns end."""
    well = len(out) >= 3 and out[0] == C.ID["<|content_text|>"] and out[-2:] == [END, C.EOS]
    return tok.decode([t for t in out if t < C.N_RANKS]), well


def nll(P, ids):
    """Natural-log losses of tokens 1.. of a document, each with at least 128 tokens before it where there are so many."""
    out, window, stride = [], 256, 128
    starts = list(range(0, max(1, len(ids) - stride), stride))
    for a in range(0, len(starts), 16):
        group = [ids[s : s + window + 1] for s in starts[a : a + 16]]
        full, _, _, _ = pad_docs([(list(g), 1) for g in group], 64)
        h = net.trunk(P, net.embed_text(P, full))
        for i, g in enumerate(group):
            lp = torch.log_softmax(net.logits(P, h[i, : len(g) - 1]), -1).gather(1, torch.tensor(np.asarray(g[1:], np.int64))[:, None])[
                :, 0
            ]
            out.append(-(lp if starts[a + i] == 0 else lp[stride:]))
    return torch.cat(out)


def text(P, tok, work, scale, log):
    held = json.loads((work / "text/held.json").read_text())
    train = b"\n\n".join((work / "text" / (n + ".txt")).read_bytes() for n in text_data.WEIGHT)
    if scale < 1:
        train = train[: int(len(train) * scale)]
    base = ngram.Ngram(train)
    per_source = int(240_000 * scale)
    out = {}
    for name in dict.fromkeys(n for n, _ in held):
        left, bits, five, size = per_source, 0.0, 0.0, 0
        docs = [t for n, t in held if n == name]
        for t in docs:
            t = t[: min(max(2000, per_source // len(docs)), left)]
            if len(t) < 600:
                continue
            ids = tok.encode(t)
            losses = nll(P, ids)
            skip = len(tok.bytes[ids[0]])  # the first token has nothing before it: it counts for neither
            bits += float(losses.sum()) / math.log(2)
            five += float(base.bits(t.encode())[skip:].sum())
            size += len(t.encode()) - skip
            left -= len(t)
            if left <= 600:
                break
        out[name] = dict(bytes=size, bits_per_byte=bits / size, fivegram=five / size)
        log("text %s: %s" % (name, out[name]))
    real = [v for k, v in out.items() if k != "stories"]
    n = sum(v["bytes"] for v in real)
    out["all but stories"] = dict(
        bytes=n,
        bits_per_byte=sum(v["bits_per_byte"] * v["bytes"] for v in real) / n,
        fivegram=sum(v["fivegram"] * v["bytes"] for v in real) / n,
    )
    return out


def picture_cases(work, kind, n, held, seed):
    art = pictures.Pictures(work / "pictures")
    rng = np.random.default_rng([SEED, seed])
    return [getattr(art, kind)(rng, held) for _ in range(n)]


def score_pictures(P, tok, cases):
    right, wrong, well = 0, {}, 0
    for a in range(0, len(cases), 64):
        part = cases[a : a + 64]
        prompts = [conversation(tok, pictures.QUESTIONS[i % 3], image_rows=pictures.ROWS)[0] for i in range(len(part))]
        outs = generate(P, prompts, 14, patches=torch.cat([pictures.to_patches(im) for im, _ in part]))
        for (_, label), o in zip(part, outs):
            s, ended = said(tok, o)
            ok = s == pictures.answer(label)
            right += ok
            well += ended
            if not ok:
                wrong.setdefault(label, []).append(s)
    worst = sorted(wrong.items(), key=lambda kv: -len(kv[1]))[:8]
    return dict(n=len(cases), accuracy=right / len(cases), ended_well=well / len(cases), worst={k: v[:4] for k, v in worst})


def picture_report(P, tok, work, scale, log):
    out = {}
    for name, kind, n, held, seed in (
        ("closed, held-out fonts and drawings", "closed", 800, True, 1),
        ("objects, held-out style", "object", 840, True, 2),
        ("objects, training styles, new drawings", "object", 400, False, 3),
    ):
        out[name] = score_pictures(P, tok, picture_cases(work, kind, max(8, int(n * scale)), held, seed))
        log("pictures %s: %s" % (name, out[name]))
    return out


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, prev = [i] + [0] * len(b), row
        for j, y in enumerate(b, 1):
            row[j] = min(prev[j] + 1, row[j - 1] + 1, prev[j - 1] + (x != y))
    return row[-1]


def speech_report(P, tok, work, scale, log):
    s = speech.Speech(work / "speech/held.npz")
    assert not set(s.voices) & set(speech.VOICES), "a held-out voice is a training voice"
    n = max(4, int(len(s) * scale))
    errors = words = exact = 0
    examples = []
    for a in range(0, n, 32):
        part = [s.get(i) for i in range(a, min(n, a + 32))]
        prompts = [conversation(tok, speech.QUESTIONS[0], audio_rows=len(b))[0] for b, _ in part]
        outs = generate(P, prompts, 24, bins=torch.from_numpy(np.concatenate([b for b, _ in part])))
        for (_, t), o in zip(part, outs):
            got, _ = said(tok, o)
            errors += distance(t.split(), got.split())
            words += len(t.split())
            exact += got == t
            examples.append([t, got])
    out = dict(
        utterances=n, words=words, word_error=errors / words, exact=exact / n, voices=sorted(set(map(str, s.voices))), examples=examples[:8]
    )
    log("speech: %s" % out)
    return out


def chat_report(P, tok, work, scale, log):
    _, held = chat_data.split(text_data_pairs(work))
    rng = np.random.default_rng(SEED)
    out = {}
    for g, pairs in chat_data.groups(held).items():
        n = min(len(pairs), max(4, int(150 * scale)))
        part = [pairs[i] for i in rng.permutation(len(pairs))[:n]]
        right = well = 0
        examples = []
        for a in range(0, n, 50):
            sub = part[a : a + 50]
            outs = generate(P, [conversation(tok, q)[0] for _, q, _ in sub], 32)
            for (_, q, want), o in zip(sub, outs):
                got, ended = said(tok, o)
                right += got == want
                well += ended
                examples.append([q, got])
        out[g] = dict(n=n, exact=right / n, ended_well=well / n, examples=examples[:5])
        log("chat %s: %s" % (g, out[g]))
    return out


def routing(P, tok, work, scale, log):
    """Counts per layer, expert and modality over a mixed validation set: held-out text, pictures (both kinds), held-out voices."""
    counts = torch.zeros(3, C.LAYERS, C.EXPERTS)

    def run(docs, patches=None, bins=None):
        ids, _, _, real = pad_docs(docs)
        stats = net.Stats()
        stats.picks = []
        net.trunk(P, net.embed(P, ids, patches, bins), stats)
        mode = torch.where(ids == C.IMAGE_ID, 1, torch.where(ids == C.AUDIO_ID, 2, 0))
        for layer, idx in stats.picks:
            for m in range(3):
                counts[m, layer] += torch.bincount(idx[(mode == m) & real].reshape(-1), minlength=C.EXPERTS)

    held = [t for n, t in json.loads((work / "text/held.json").read_text())]
    rng = np.random.default_rng(SEED)
    for _ in range(max(1, int(24 * scale))):
        docs = []
        for _ in range(8):
            t = held[rng.integers(len(held))]
            at = int(rng.integers(0, max(1, len(t) - 1200)))
            docs.append((tok.encode(t[at : at + 1200])[:256], 1))
        run(docs)
    for kind, n in (("closed", 200), ("object", 200)):
        cases = picture_cases(work, kind, max(4, int(n * scale)), True, 7)
        run(
            [conversation(tok, "What is this?", pictures.answer(l), image_rows=pictures.ROWS) for _, l in cases],
            patches=torch.cat([pictures.to_patches(im) for im, _ in cases]),
        )
    s = speech.Speech(work / "speech/held.npz")
    part = [s.get(i) for i in range(min(len(s), max(4, int(160 * scale))))]
    run(
        [conversation(tok, "What was said?", t, audio_rows=len(b)) for b, t in part],
        bins=torch.from_numpy(np.concatenate([b for b, _ in part])),
    )
    out = {}
    names = ["text", "image", "audio"]
    for layer in range(C.DENSE_LAYERS, C.LAYERS):
        c = counts[:, layer]
        rate = c / c.sum(1, keepdim=True).clamp_min(1)  # share of a modality's choices that go to an expert
        driven = rate / rate.sum(0).clamp_min(1e-9)
        p = c.sum(0) / c.sum()
        entropy = {n: float(-(r * (r + 1e-12).log()).sum() / math.log(C.EXPERTS)) for n, r in zip(names + ["all"], list(rate) + [p])}
        out["layer %d" % layer] = dict(
            unused=int((c.sum(0) == 0).sum()),
            least_share=float(p.min()),
            most_share=float(p.max()),
            entropy=entropy,
            mostly={n: int((driven[m] > 0.5).sum()) for m, n in enumerate(names)},
        )
        log("routing layer %d: %s" % (layer, out["layer %d" % layer]))
    return out


def mtp_report(P, tok, work, scale, log):
    held = [t for n, t in json.loads((work / "text/held.json").read_text()) if n in ("speeches", "austen", "factbook")]
    rng = np.random.default_rng(SEED + 1)
    n = max(4, int(96 * scale))
    prompts = []
    for _ in range(n):
        t = held[rng.integers(len(held))]
        at = int(rng.integers(0, max(1, len(t) - 1600)))
        prompts.append(tok.encode(t[at : at + 1600])[:256])

    def agreement(ids, first):
        e = net.embed_text(P, ids)
        h = net.trunk(P, e)
        trunk_says = net.logits(P, h).argmax(-1)  # row j: the trunk's choice for j + 1
        draft = net.logits(P, net.mtp(P, h[:, :-1], e[:, 1:])).argmax(-1)  # row j: the draft for j + 2
        return float((draft[:, first:] == trunk_says[:, 1:][:, first:]).float().mean())

    full = torch.tensor([p for p in prompts if len(p) == 256][:32])
    forced = agreement(full, 0) if len(full) else float("nan")
    starts = [p[:64] for p in prompts]
    new = max(8, int(64 * scale))
    grown = [s + o for s, o in zip(starts, generate(P, starts, new, stop=()))]
    free = agreement(torch.tensor(grown), 64)
    out = dict(prompts=n, greedy_acceptance=free, teacher_forced_agreement=forced)
    log("multi-token prediction: %s" % out)
    return out


def samples(P, tok, work, scale, log):
    out = {}
    for p in ("Once upon a time", "It is a truth universally acknowledged", "My fellow citizens,", "And God said", "The capital of France"):
        ids = tok.encode(p)
        out[p] = tok.decode(generate(P, [ids], max(8, int(60 * scale)), stop=())[0])
        log("%s >%s" % (p, out[p].replace("\n", " / ")))
    for q in ("What is the capital of France?", "What is 3 plus 4?", "What is the opposite of hot?"):
        out[q] = said(tok, generate(P, [conversation(tok, q)[0]], 32)[0])[0]
        log("%s > %s" % (q, out[q]))
    return out


REPORTS = dict(text=text, pictures=picture_report, speech=speech_report, chat=chat_report, routing=routing, mtp=mtp_report, samples=samples)


def figures(r):
    rows = []
    if "text" in r:
        for k, v in r["text"].items():
            rows.append(
                (
                    "bits per byte, held-out %s (%d kB)" % (k, v["bytes"] // 1000),
                    "%.3f; 5-gram %.3f; gain %.3f" % (v["bits_per_byte"], v["fivegram"], v["fivegram"] - v["bits_per_byte"]),
                    "gain 0.4" if k.startswith("all") else "",
                )
            )
    for k, v in r.get("pictures", {}).items():
        rows.append(
            (
                "pictures: " + k,
                "%.1f %% of %d" % (100 * v["accuracy"], v["n"]),
                "90 %" if k.startswith("closed") else "60 %" if "held-out style" in k else "",
            )
        )
    if "speech" in r:
        rows.append(
            (
                "word error, %d held-out voices" % len(r["speech"]["voices"]),
                "%.1f %% of %d words" % (100 * r["speech"]["word_error"], r["speech"]["words"]),
                "15 %",
            )
        )
    for k, v in r.get("chat", {}).items():
        rows.append(
            (
                "questions held out: " + k,
                "%.1f %% exact of %d, %.1f %% end as they should" % (100 * v["exact"], v["n"], 100 * v["ended_well"]),
                "",
            )
        )
    for k, v in r.get("routing", {}).items():
        rows.append(
            (
                "routing, " + k,
                "unused %d; entropy %s; mostly image %d, audio %d"
                % (v["unused"], ", ".join("%s %.3f" % x for x in v["entropy"].items()), v["mostly"]["image"], v["mostly"]["audio"]),
                "unused 0",
            )
        )
    if "mtp" in r:
        rows.append(
            (
                "depth 1 accepted, greedy decoding",
                "%.1f %% (%.1f %% on held-out text itself)"
                % (100 * r["mtp"]["greedy_acceptance"], 100 * r["mtp"]["teacher_forced_agreement"]),
                "60 %",
            )
        )
    return "| what | measured | wanted |\n|---|---|---|\n" + "".join("| %s | %s | %s |\n" % x for x in rows)


_report = None


def _call(name):  # a function that a worker finds by its name; what it calls came with the fork
    return _report(name)


def in_turns(report, names, procs):
    """{name: report(name)}, at most `procs` of them at a time, each in a process of its own."""
    global _report
    _report = report
    with concurrent.futures.ProcessPoolExecutor(procs, mp_context=multiprocessing.get_context("fork")) as pool:
        return dict(zip(names, pool.map(_call, names)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default=".cache/demo")
    ap.add_argument("--vocab", default=".cache/o200k_base.tiktoken")
    ap.add_argument("--model", default=".cache/demo/model")
    ap.add_argument("--only")
    ap.add_argument("--procs", type=int, default=2, help="reports made at a time")
    ap.add_argument("--scale", type=float, default=1.0)
    a = ap.parse_args()
    torch.set_num_threads(1)
    work, began = pathlib.Path(a.work), time.time()

    def log(s):
        print("%6.0f s  %s" % (time.time() - began, s), flush=True)

    w = net.Weights(seed=0)
    ckpt.load(a.model, w)
    P = {n: w.view(n) for n in w.shapes}
    tok = Tok(a.vocab)

    def report(name):
        with torch.no_grad():
            return REPORTS[name](P, tok, work, a.scale, log)

    results = in_turns(report, a.only.split(",") if a.only else list(REPORTS), a.procs)
    if a.scale != 1:
        results["scale"] = a.scale
    (work / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (work / "figures.md").write_text(figures(results))
    print(figures(results))


if __name__ == "__main__":
    main()
