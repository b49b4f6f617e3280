"""Training: two processes with one set of weights in shared memory, each with its own batches; a killed run goes on from its last state.

Phases (see PHASES): "mix" at a constant rate, "see" the same with pictures in every step, "anneal" with a falling rate and the weights
as the file will hold them (NVFP4 experts, BF16 elsewhere; straight-through), "mtp" for depth 1 of multi-token prediction on the frozen trunk, towards
what the trunk itself would say next. The expert balance is kept by moving gate.bias against the load, never by a loss.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import time

import numpy as np
import torch
import torch.multiprocessing as mp

import ckpt
import conf as C
import net
from sampler import Sampler
from tok import Tok

SEED = 20261129
# steps of two processes; one of mix is about 2 x (8 x 256 of text + 36 short documents) = 7,400 tokens
TEMPLATE = pathlib.Path(__file__).parent.parent / "src/chat/chat_template.jinja"  # what inkjet writes, for other programs
PHASES = [("mix", 1300), ("see", 1300), ("anneal", 600), ("mtp", 250)]
RATE = {"mix": 2.0e-3, "see": 2.0e-3, "anneal": 2.0e-3, "mtp": 2.0e-3}
FLOOR, WARMUP, DECAY, BETA, CLIP = 0.03, 100, 0.1, (0.9, 0.95), 1.0
BALANCE = {"mix": 2e-3, "see": 1e-3, "anneal": 5e-4, "mtp": 0.0}
TEXT_SHARE = {"mix": 0.6, "see": 0.5, "anneal": 0.55}  # of the loss; the rest is shared alike


def rate_at(phase, i, n):
    if phase == "mix":
        return RATE[phase] * min(1.0, (i + 1) / WARMUP)
    if phase == "see":
        return RATE[phase]
    warm = min(1.0, (i + 1) / 20) if phase == "mtp" else 1.0
    return RATE[phase] * warm * (FLOOR + (1 - FLOOR) * (1 - i / n))


class Shared:
    def __init__(self, procs, weights):
        n = len(weights.flat)
        self.procs = procs
        self.flat, self.used = weights.flat.share_memory_(), torch.zeros(n).share_memory_()
        self.grad = torch.zeros(procs, n).share_memory_()
        self.m, self.v = torch.zeros(n).share_memory_(), torch.zeros(n).share_memory_()
        self.counts = torch.zeros(procs, C.LAYERS, C.EXPERTS).share_memory_()
        self.loss = torch.zeros(procs, 8, 2, dtype=torch.double).share_memory_()
        self.norm = torch.zeros(procs, dtype=torch.double).share_memory_()
        self.times = torch.zeros(procs, 2, dtype=torch.double).share_memory_()  # seconds of computing: wall, processor
        self.tokens = torch.zeros(procs, dtype=torch.double).share_memory_()
        self.barrier = mp.get_context("fork").Barrier(procs)

    def wait(self):
        self.barrier.wait(timeout=1800)


KINDS = ["text", "speech", "object", "closed", "chat", "mtp"]


def masks(weights, phase):
    """(which weights move, which decay) as flat vectors"""
    move, decay = torch.zeros_like(weights.flat), torch.zeros_like(weights.flat)
    for n in weights.shapes:
        if n.endswith(net.FROZEN) or n.startswith("model.mtp.") != (phase == "mtp"):
            continue
        weights.view(n, move).fill_(1)
        if len(weights.shapes[n]) > 1 and "sconv" not in n and not n.endswith(("embed.weight", "encoder.weight", ".proj")):
            weights.view(n, decay).fill_(1)
    return move, decay


def trunk_loss(P, batch, stats, share):
    stats.real = batch.real
    h = net.trunk(P, net.embed(P, batch.ids, batch.patches, batch.bins), stats)
    w = batch.weight.reshape(-1)
    keep = w.nonzero().squeeze(1)
    total = float(w.sum())
    loss = net.HeadLoss.apply(
        h.reshape(-1, C.H).index_select(0, keep), P["model.llm.unembed.weight"], batch.target.reshape(-1)[keep], w[keep] * (share / total)
    )
    loss.backward()
    return float(loss) / share


def mtp_loss(P, batch):
    with torch.no_grad():
        e = net.embed(P, batch.ids, batch.patches, batch.bins)
        h = net.trunk(P, e)
        said = torch.cat([net.logits(P, c).argmax(-1) for c in h[:, 1:].reshape(-1, C.H).split(512)])
    g = net.mtp(P, h[:, :-1], e[:, 1:])
    w = batch.weight[:, 1:].reshape(-1)
    keep = w.nonzero().squeeze(1)
    loss = net.HeadLoss.apply(
        g.reshape(-1, C.H).index_select(0, keep), P["model.llm.unembed.weight"].detach(), said[keep], w[keep] / float(w.sum())
    )
    loss.backward()
    return float(loss)


def quantize_share(shared, weights, used, rank):
    for i, n in enumerate(weights.shapes):
        if i % shared.procs == rank:
            used.view(n).copy_(ckpt.quantize(n, weights.view(n)))


def worker(rank, shared, args, start, log):
    torch.set_num_threads(1)
    os.nice(args.nice)
    weights, used = net.Weights(shared.flat), net.Weights(shared.used)
    tok = Tok(args.vocab)
    sampler = Sampler(args.work, tok, SEED, rank, shared.procs, args.rows, args.shorts)
    n = len(weights.flat)
    lo, hi = n * rank // shared.procs, n * (rank + 1) // shared.procs
    step, began, saved, parent = 0, time.time(), time.time(), os.getppid()
    for phase, steps in args.phases:
        if step + steps <= start:
            step += steps
            continue
        move, decay = (x[lo:hi] for x in masks(weights, phase))
        quant = phase in ("anneal", "mtp")
        P = (used if quant else weights).leaves(shared.grad[rank])
        if phase == "mtp":
            P = {k: t if k.startswith("model.mtp.") else t.detach() for k, t in P.items()}
        for i in range(steps):
            if step < start:
                step += 1
                continue
            if os.getppid() != parent:
                os._exit(1)  # the run was killed: nothing may go on alone
            t0, c0 = time.time(), time.process_time()
            if quant:
                quantize_share(shared, weights, used, rank)
                shared.wait()
            stats = net.Stats()
            shared.loss[rank].zero_()
            batches = sampler.step(step, phase)
            shared.tokens[rank] += sum(b.ids.numel() if b.real is None else int(b.real.sum()) for b in batches)
            for b in batches:
                if phase == "mtp":
                    if b.kind in ("text", "chat"):
                        shared.loss[rank, KINDS.index("mtp")] += torch.tensor([mtp_loss(P, b), 1.0], dtype=torch.double)
                else:
                    share = TEXT_SHARE[phase] if b.kind == "text" else (1 - TEXT_SHARE[phase]) / (len(batches) - 1)
                    value = trunk_loss(P, b, stats, share / shared.procs)
                    shared.loss[rank, KINDS.index(b.kind)] += torch.tensor([value, 1.0], dtype=torch.double)
            shared.counts[rank].copy_(stats.counts)
            shared.times[rank] = torch.tensor([time.time() - t0, time.process_time() - c0], dtype=torch.double)
            shared.wait()
            g = shared.grad[:, lo:hi].sum(0)
            shared.norm[rank] = float(g.double().pow(2).mul_(move).sum())
            shared.wait()
            norm = math.sqrt(float(shared.norm.sum()))
            g.mul_(min(1.0, CLIP / (norm + 1e-9)))
            shared.grad[:, lo:hi].zero_()
            rate = rate_at(phase, i, steps)
            m, v, w = shared.m[lo:hi], shared.v[lo:hi], shared.flat[lo:hi]
            t = i + 1 if phase == "mtp" else step + 1
            m.mul_(BETA[0]).add_(g, alpha=1 - BETA[0])
            v.mul_(BETA[1]).addcmul_(g, g, value=1 - BETA[1])
            update = (m / (1 - BETA[0] ** t)).div_((v / (1 - BETA[1] ** t)).sqrt_().add_(1e-9)).addcmul_(w, decay, value=DECAY)
            w.addcmul_(update, move, value=-rate)
            shared.wait()
            if rank == 0:
                balance(shared, weights, BALANCE[phase])
                step_log(log, shared, phase, step, rate, norm, began)
                if not math.isfinite(norm):
                    log("the gradient is not finite at step %d: stopping" % step)
                    os._exit(1)
                if time.time() - saved > args.save_every:
                    save_state(args, shared, step + 1)
                    saved = time.time()
            shared.wait()
            step += 1
            if args.stop_at and step >= args.stop_at:
                if rank == 0:
                    save_state(args, shared, step)
                return
        if rank == 0:  # kept, so that a later phase can be tried again
            save_state(args, shared, step)
            shutil.copy(pathlib.Path(args.work) / "state.pt", pathlib.Path(args.work) / ("state-after-%s.pt" % phase))


def balance(shared, weights, rate):
    if not rate:
        return
    total = shared.counts.sum(0)
    for layer in range(C.DENSE_LAYERS, C.LAYERS):
        b = weights.view("model.llm.layers.%d.mlp.gate.bias" % layer)
        b += rate * torch.sign(total[layer].mean() - total[layer])
        b -= b.mean()


def step_log(log, shared, phase, step, rate, norm, began):
    s = shared.loss.sum(0)
    losses = " ".join("%s %.3f" % (k, float(s[i, 0] / s[i, 1])) for i, k in enumerate(KINDS) if s[i, 1] > 0)
    load = shared.counts.sum(0)[C.DENSE_LAYERS :]
    top = float((load.max(1)[0] / load.mean(1).clamp_min(1)).max())
    log(
        "step %d %s %s rate %.2e norm %.2f busiest expert %.2f wall %.2f s processor %.2f s tokens %.3f M elapsed %.0f s"
        % (step, phase, losses, rate, norm, top, *shared.times.max(0)[0].tolist(), float(shared.tokens.sum()) / 1e6, time.time() - began)
    )


def save_state(args, shared, step):
    part = pathlib.Path(args.work) / "state.part"
    torch.save({"step": step, "tokens": shared.tokens, "phases": args.phases, "flat": shared.flat, "m": shared.m, "v": shared.v}, part)
    part.replace(pathlib.Path(args.work) / "state.pt")


def gemm_check():
    """Old BLAS builds choose wrong or slow kernels on new processors: products must be right, and not absurdly slow."""
    for n, k, m in ((2048, 256, 256), (340, 64, 256), (128, 340, 256), (512, 256, C.UNPADDED), (7, 33, 5)):
        a, b = torch.randn(n, k), torch.randn(m, k)
        for x, y in ((a, b.t()), (a.t().contiguous().t(), b.t().contiguous())):
            e = float((x @ y - (x.double() @ y.double()).float()).abs().max()) / math.sqrt(k)
            if e > 1e-4:
                raise SystemExit("this BLAS multiplies wrongly (%d x %d x %d: %.2g); choose another OPENBLAS_CORETYPE" % (n, k, m, e))
    a, b, best = torch.randn(2048, 256), torch.randn(256, 256), 1e9
    for _ in range(20):
        t = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - t)
    return 2 * 2048 * 256 * 256 / best / 1e9


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default=".cache/demo")
    ap.add_argument("--vocab", default=".cache/o200k_base.tiktoken")
    ap.add_argument("--out", default=".cache/demo/model")
    ap.add_argument("--procs", type=int, default=2)
    ap.add_argument("--rows", type=int, default=8, help="rows of 256 tokens of text per process and step")
    ap.add_argument("--shorts", type=int, default=36, help="short documents per process and step")
    ap.add_argument("--steps", help="steps of the phases, for example 1300,1800,700,300")
    ap.add_argument("--stop-at", type=int, default=0, help="leave after this many steps, as a killed run would")
    ap.add_argument("--save-every", type=float, default=120, help="seconds between states")
    ap.add_argument("--export", help="write the folder from this state and leave; nothing is trained")
    ap.add_argument("--nice", type=int, default=0)
    args = ap.parse_args()
    counts = [int(x) for x in args.steps.split(",")] if args.steps else [n for _, n in PHASES]
    args.phases = [(p, n) for (p, _), n in zip(PHASES, counts)]
    work = pathlib.Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    log_file = open(work / "train.log", "a", buffering=1)

    def log(line):
        print(line, flush=True)
        log_file.write(line + "\n")

    torch.set_num_threads(1)
    weights = net.Weights(seed=SEED)
    if args.export:
        weights.flat.copy_(torch.load(args.export)["flat"])
        write_model(args, weights, log)
        return
    shared = Shared(args.procs, weights)
    start = 0
    state = work / "state.pt"
    if state.exists():
        s = torch.load(state)
        if s["phases"] != args.phases:
            raise SystemExit("%s belongs to a run with phases %s; remove it or ask for those" % (state, s["phases"]))
        start = s["step"]
        for name in ("flat", "m", "v", "tokens"):
            getattr(shared, name).copy_(s[name])
    log(
        "%s at step %d of %d; %.2f M weights; %.0f GFLOPS in one product; %s"
        % (
            "going on" if start else "starting",
            start,
            sum(counts),
            len(weights.flat) / 1e6,
            gemm_check(),
            json.dumps(dict(torch=torch.__version__, procs=args.procs, phases=args.phases, rows=args.rows, shorts=args.shorts, seed=SEED)),
        )
    )
    ctx = mp.get_context("fork")
    workers = [ctx.Process(target=worker, args=(r, shared, args, start, log)) for r in range(args.procs)]
    for p in workers:
        p.start()
    while any(p.is_alive() for p in workers):
        time.sleep(0.2)
        if any(p.exitcode not in (None, 0) for p in workers):
            for p in workers:
                p.terminate()
            raise SystemExit("a worker failed; the last state is in %s" % state)
    write_model(args, net.Weights(shared.flat), log)


def write_model(args, weights, log):
    size = ckpt.save(
        args.out,
        weights,
        [
            ("tokenizer.json", Tok(args.vocab).json()),
            ("chat_template.jinja", TEMPLATE.read_text()),
            ("tokenizer_config.json", json.dumps({"tokenizer_class": "TokenizersBackend", "add_bos_token": False}) + "\n"),
        ],
    )
    log("written: %s, %.2f MB of weights" % (args.out, size / 1e6))


if __name__ == "__main__":
    main()
