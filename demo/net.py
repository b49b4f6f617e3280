"""The Inkling network in PyTorch for training on processors: one flat vector of weights, functions over views of it.

Shapes are those of the files except w13, which is kept as [gate rows, up rows] here and interleaved when written. What costs time has
its own backward pass (norm, short convolution, SwiGLU, routed experts, head): PyTorch 1.13 fuses nothing on a processor.
"""

import math

import torch
import torch.nn.functional as F

import conf as C

# ---------------------------------------------------------------- the weights


def shapes():
    """name -> (shape, how it starts): a float is a standard deviation, a string a constant."""
    out = {}
    s = 1 / math.sqrt(C.H)

    def block(p, kv, extent, dense):
        q, w = C.HEADS * C.HEAD_DIM, kv * C.HEAD_DIM
        out[p + "attn_norm.weight"] = ((C.H,), "1")
        out[p + "attn.wq_du.weight"] = ((q, C.H), s)
        out[p + "attn.wk_dv.weight"] = ((w, C.H), s)
        out[p + "attn.wv_dv.weight"] = ((w, C.H), s)
        out[p + "attn.wr_du.weight"] = ((C.HEADS * C.D_REL, C.H), s)
        out[p + "attn.wo_ud.weight"] = ((C.H, q), 0.3 * s)
        # scores are divided by d, not by its root: the gains of the two norms start at d^(1/4) each
        out[p + "attn.q_norm.weight"] = ((C.HEAD_DIM,), "4")
        out[p + "attn.k_norm.weight"] = ((C.HEAD_DIM,), "4")
        out[p + "attn.k_sconv.weight"] = ((w, 1, C.KERNEL), 0.05)
        out[p + "attn.v_sconv.weight"] = ((w, 1, C.KERNEL), 0.05)
        out[p + "attn.rel_logits_proj.proj"] = ((C.D_REL, extent), 0.05)
        out[p + "attn_sconv.weight"] = ((C.H, 1, C.KERNEL), 0.02)
        out[p + "mlp_norm.weight"] = ((C.H,), "1")
        out[p + "mlp_sconv.weight"] = ((C.H, 1, C.KERNEL), 0.02)
        if dense:
            out[p + "mlp.w13_dn.weight"] = ((2 * C.DENSE, C.H), s)
            out[p + "mlp.w2_md.weight"] = ((C.H, C.DENSE), 0.5 / math.sqrt(C.DENSE))
            out[p + "mlp.global_scale"] = ((1,), "1")
        else:
            out[p + "mlp.gate.weight"] = ((C.EXPERTS + C.SHARED, C.H), 0.5 * s)
            out[p + "mlp.gate.bias"] = ((C.EXPERTS,), "0")
            out[p + "mlp.gate.global_scale"] = ((1,), "1")
            out[p + "mlp.experts.w13_weight"] = ((C.EXPERTS, 2 * C.EXPERT, C.H), s)
            out[p + "mlp.experts.w2_weight"] = ((C.EXPERTS, C.H, C.EXPERT), 0.5 / math.sqrt(C.EXPERT))
            out[p + "mlp.shared_experts.shared_w13_weight"] = ((C.SHARED, 2 * C.EXPERT, C.H), s)
            out[p + "mlp.shared_experts.shared_w2_weight"] = ((C.SHARED, C.H, C.EXPERT), 0.5 / math.sqrt(C.EXPERT))

    out["model.llm.embed.weight"] = ((C.VOCAB, C.H), 0.5)
    out["model.llm.embed_norm.weight"] = ((C.H,), "1")
    for i in range(C.LAYERS):
        local = i in C.LOCAL
        block("model.llm.layers.%d." % i, C.KV_SLIDING if local else C.KV_GLOBAL, C.WINDOW if local else C.EXTENT, i < C.DENSE_LAYERS)
    out["model.llm.norm.weight"] = ((C.H,), "1")
    out["model.llm.unembed.weight"] = ((C.VOCAB, C.H), 0.5 * C.MUP * s)
    plan = C.scale_plan(C.PATCH, 2, C.VISION_LAYERS)
    channels = 3
    for j, (fs, ft, width) in enumerate(plan):
        fan, last = channels * fs * fs * ft, j == len(plan) - 1
        channels = C.H if last else width
        out["model.visual.layers.linear_%d.weight" % j] = ((channels, fan), 1 / math.sqrt(fan))
        if not last:
            out["model.visual.layers.norm_%d.weight" % j] = ((channels,), "1")
    out["model.visual.final_norm.weight"] = ((C.H,), "1")
    out["model.audio.encoder.weight"] = ((80 * 16, C.H), 0.1)
    out["model.audio.final_norm.weight"] = ((C.H,), "1")
    m = "model.mtp.layers.0."
    out[m + "embed_norm.weight"] = ((C.H,), "1")
    out[m + "hidden_norm.weight"] = ((C.H,), "1")
    out[m + "input_proj.weight"] = ((C.H, 2 * C.H), s)
    block(m + "transformer_block.", C.KV_SLIDING, C.WINDOW, True)
    return out


FROZEN = ("gate.bias",)  # moved by the balance rule, not by a gradient


class Weights:
    """All weights as views of one flat float32 vector (in shared memory, so that worker processes train the same one)."""

    def __init__(self, flat=None, seed=1):
        sh = shapes()
        self.sizes = {n: math.prod(s) for n, (s, _) in sh.items()}
        self.shapes = {n: s for n, (s, _) in sh.items()}
        total = sum(self.sizes.values())
        fresh = flat is None
        self.flat = torch.zeros(total) if fresh else flat
        self.span, at = {}, 0
        for n in sh:
            self.span[n] = (at, at + self.sizes[n])
            at += self.sizes[n]
        if fresh:
            self.init(sh, seed)

    def init(self, sh, seed):
        g = torch.Generator().manual_seed(seed)
        for n, (s, how) in sh.items():
            v = self.view(n)
            if isinstance(how, str):
                v.fill_(math.sqrt(math.sqrt(C.HEAD_DIM)) if how == "4" else float(how))
            else:
                v.copy_(torch.randn(s, generator=g) * how)
        self.view("model.llm.embed.weight")[C.UNPADDED :].zero_()
        self.view("model.llm.unembed.weight")[C.UNPADDED :].zero_()

    def view(self, name, of=None):
        a, b = self.span[name]
        return (self.flat if of is None else of)[a:b].view(self.shapes[name])

    def leaves(self, grad_flat):
        """name -> tensor that collects its gradient in grad_flat."""
        out = {}
        for n in self.shapes:
            t = self.view(n).detach()
            if not n.endswith(FROZEN):
                t.requires_grad_(True)
                t.grad = self.view(n, grad_flat)
            out[n] = t
        return out


# ---------------------------------------------------------------- pieces with their own backward pass


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps):
        r = torch.linalg.vector_norm(x, dim=-1, keepdim=True).pow_(2).div_(x.shape[-1]).add_(eps).rsqrt_()
        xn = x * r
        ctx.save_for_backward(xn, r, w)
        return xn * w

    @staticmethod
    def backward(ctx, g):
        xn, r, w = ctx.saved_tensors
        gx = g * xn
        gw = gx.reshape(-1, w.shape[0]).sum(0)
        m = torch.matmul(gx, w.unsqueeze(1)).div_(w.shape[0])
        return (g * w).sub_(xn * m).mul_(r), gw, None


class Sconv(torch.autograd.Function):
    """y = x + conv(x), causal; x [B, L, C], w [C, 1, K]."""

    @staticmethod
    def forward(ctx, x, w):
        taps = w[:, 0, :].t().contiguous()
        k = len(taps)
        y = x * (1 + taps[k - 1])
        for j in range(k - 1):
            s = k - 1 - j
            if s < x.shape[1]:
                y[:, s:].addcmul_(x[:, :-s], taps[j])
        ctx.save_for_backward(x, taps)
        return y

    @staticmethod
    def backward(ctx, g):
        x, taps = ctx.saved_tensors
        k = len(taps)
        dx = g * (1 + taps[k - 1])
        dw = torch.zeros_like(taps)
        dw[k - 1] = (g * x).sum((0, 1))
        for j in range(k - 1):
            s = k - 1 - j
            if s < x.shape[1]:
                dx[:, :-s].addcmul_(g[:, s:], taps[j])
                dw[j] = (g[:, s:] * x[:, :-s]).sum((0, 1))
        return dx, dw.t().unsqueeze(1)


def swiglu_forward(h):
    i = h.shape[-1] // 2
    return F.silu(h[..., :i]).mul_(h[..., i:])


def swiglu_backward(h, da, dh=None):
    i = h.shape[-1] // 2
    gate, up = h[..., :i], h[..., i:]
    sg = torch.sigmoid(gate)
    dh = torch.empty_like(h) if dh is None else dh
    si = gate * sg
    torch.mul(da, si, out=dh[..., i:])
    # the derivative of silu is s + silu (1 - s)
    t = si * sg
    sg.add_(si).sub_(t).mul_(up).mul_(da)
    dh[..., :i] = sg
    return dh


class Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        ctx.save_for_backward(h)
        return swiglu_forward(h)

    @staticmethod
    def backward(ctx, da):
        return swiglu_backward(ctx.saved_tensors[0], da)


class Experts(torch.autograd.Function):
    """Rows sorted by expert, one pair of products per expert, gathered back through the inverse order (no scattered additions)."""

    @staticmethod
    def forward(ctx, x, idx, wt, w13, w2):
        n, k = idx.shape
        order = torch.argsort(idx.reshape(-1), stable=True)
        counts = torch.bincount(idx.reshape(-1), minlength=len(w13)).tolist()
        inv = torch.empty_like(order)
        inv[order] = torch.arange(len(order))
        rows = torch.div(order, k, rounding_mode="floor")
        xs = x.index_select(0, rows)
        h = x.new_empty(n * k, w13.shape[1])
        y = x.new_empty(n * k, x.shape[1])
        ws = wt.reshape(-1).index_select(0, order).unsqueeze(1)
        at = 0
        for e, c in enumerate(counts):
            if c:
                torch.mm(xs[at : at + c], w13[e].t(), out=h[at : at + c])
                at += c
        a = swiglu_forward(h)
        aw, at = a * ws, 0
        for e, c in enumerate(counts):
            if c:
                torch.mm(aw[at : at + c], w2[e].t(), out=y[at : at + c])
                at += c
        ctx.save_for_backward(xs, h, a, aw, ws, rows, inv, w13, w2)
        ctx.counts, ctx.nk = counts, (n, k)
        return y.index_select(0, inv).view(n, k, -1).sum(1)

    @staticmethod
    def backward(ctx, g):
        xs, h, a, aw, ws, rows, inv, w13, w2 = ctx.saved_tensors
        n, k = ctx.nk
        gs = g.index_select(0, rows)
        da = torch.empty_like(a)
        d2, d13 = torch.zeros_like(w2), torch.zeros_like(w13)
        at = 0
        for e, c in enumerate(ctx.counts):
            if c:
                s = slice(at, at + c)
                torch.mm(gs[s], w2[e], out=da[s])
                torch.mm(gs[s].t(), aw[s], out=d2[e])
                at += c
        dwt = (da * a).sum(1)
        dh = swiglu_backward(h, da.mul_(ws))
        dxs, at = torch.empty_like(xs), 0
        for e, c in enumerate(ctx.counts):
            if c:
                s = slice(at, at + c)
                torch.mm(dh[s], w13[e], out=dxs[s])
                torch.mm(dh[s].t(), xs[s], out=d13[e])
                at += c
        dx = dxs.index_select(0, inv).view(n, k, -1).sum(1)
        return dx, None, dwt.index_select(0, inv).view(n, k), d13, d2


class HeadLoss(torch.autograd.Function):
    """Sum of weighted cross entropies of rows x against targets; logits never exist for more than CHUNK rows."""

    CHUNK = 512

    @staticmethod
    def forward(ctx, x, w, target, weight):
        v = C.UNPADDED
        dx, dw = torch.empty_like(x), torch.zeros_like(w)
        total = 0.0
        for a in range(0, len(x), HeadLoss.CHUNK):
            s = slice(a, a + HeadLoss.CHUNK)
            z = torch.mm(x[s], w[:v].t()).div_(C.MUP)
            t = target[s].unsqueeze(1)
            picked = z.gather(1, t)
            m = z.max(1, keepdim=True)[0]
            z.sub_(m).exp_()
            norm = z.sum(1, keepdim=True)
            total += float(((norm.log() + m - picked).squeeze(1) * weight[s]).sum())
            z.mul_((weight[s] / C.MUP).unsqueeze(1) / norm)
            z.scatter_add_(1, t, -(weight[s] / C.MUP).unsqueeze(1))
            torch.mm(z, w[:v], out=dx[s])
            dw[:v].addmm_(z.t(), x[s])
        ctx.save_for_backward(dx, dw)
        return torch.tensor(total)

    @staticmethod
    def backward(ctx, g):
        dx, dw = ctx.saved_tensors
        return dx * g, dw * g, None, None


# ---------------------------------------------------------------- the network


def rms(x, w):
    return Norm.apply(x, w, C.EPS)


_masks = {}


def dense_mask(length, window):
    key = (length, window)
    if key not in _masks:
        d = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        hidden = (d < 0) | (d >= window) if window else d < 0
        _masks[key] = torch.zeros(length, length).masked_fill_(hidden, -1e30)
    return _masks[key]


def block_mask(blocks, w):
    key = ("block", blocks, w)
    if key not in _masks:
        i, j = torch.arange(w)[:, None], torch.arange(2 * w)[None, :]
        d = i + w - j
        m = torch.zeros(blocks, w, 2 * w).masked_fill_((d < 0) | (d >= w), -1e30)
        m[0, :, :w] = -1e30
        _masks[key] = m
    return _masks[key]


def skew(rel, length, shift):
    """rel [.., rows, R] with the largest distance first -> [.., rows, length], row i moved right by i - shift."""
    rows, r = rel.shape[-2:]
    flat = F.pad(rel, (0, length + 1 - r)).flatten(-2)
    flat = flat[..., shift:] if shift >= 0 else F.pad(flat, (-shift, 0))
    need = rows * length
    flat = F.pad(flat, (0, max(0, need - flat.shape[-1])))[..., :need]
    return flat.view(*rel.shape[:-1], length)


def tau_of(length, offset):
    p = torch.arange(length, dtype=torch.float32) + offset
    return 1 + C.ALPHA * torch.log(torch.clamp((p + 1) / C.N_FLOOR, min=1))


def attention(P, p, x, local, tau_offset=0):
    b, n, _ = x.shape
    kv = C.KV_SLIDING if local else C.KV_GLOBAL
    rep = C.HEADS // kv
    d = C.HEAD_DIM
    q = F.linear(x, P[p + "wq_du.weight"])
    k = Sconv.apply(F.linear(x, P[p + "wk_dv.weight"]), P[p + "k_sconv.weight"])
    v = Sconv.apply(F.linear(x, P[p + "wv_dv.weight"]), P[p + "v_sconv.weight"])
    r = F.linear(x, P[p + "wr_du.weight"])
    q = rms(q.view(b, n, C.HEADS, d), P[p + "q_norm.weight"]) * (1 / d)
    k = rms(k.view(b, n, kv, d), P[p + "k_norm.weight"])
    if not local and C.N_FLOOR and n + tau_offset > C.N_FLOOR:
        tau = tau_of(n, tau_offset)
        q, r = q * tau[:, None, None], r * tau[:, None]
    proj = P[p + "rel_logits_proj.proj"]
    v, r = v.view(b, n, kv, d), r.view(b, n, C.HEADS, C.D_REL)
    w = C.WINDOW
    if local and n > 2 * w and n % w == 0:
        nb = n // w
        q5 = q.view(b, nb, w, C.HEADS, d).permute(0, 3, 1, 2, 4)  # b, h, nb, w, d
        r5 = r.view(b, nb, w, C.HEADS, C.D_REL).permute(0, 3, 1, 2, 4)

        def pairs(t):  # b, kv, nb, 2w, d: the block before and the block itself
            t = t.view(b, nb, w, kv, d).permute(0, 3, 1, 2, 4)
            return torch.cat([F.pad(t, (0, 0, 0, 0, 1, 0))[:, :, :-1], t], 3)

        bias = skew(torch.matmul(r5, proj.flip(1)), 2 * w, -1)
        k2, v2 = pairs(k), pairs(v)
        s = torch.matmul(q5.reshape(b, kv, rep, nb, w, d), k2.transpose(-1, -2).unsqueeze(2))
        s = s.view(b, C.HEADS, nb, w, 2 * w) + bias.add_(block_mask(nb, w))
        o = torch.matmul(torch.softmax(s, -1).view(b, kv, rep, nb, w, 2 * w), v2.unsqueeze(2))
        o = o.view(b, C.HEADS, nb, w, d).permute(0, 2, 3, 1, 4).reshape(b, n, C.HEADS * d)
    else:
        ext = min(proj.shape[1], n)
        bias = skew(torch.matmul(r.permute(0, 2, 1, 3), proj[:, :ext].flip(1)), n, ext - 1)
        qh = q.permute(0, 2, 1, 3).reshape(b, kv, rep * n, d)
        s = torch.matmul(qh, k.permute(0, 2, 3, 1)).view(b, C.HEADS, n, n)
        s = s + bias.add_(dense_mask(n, w if local else 0))
        o = torch.matmul(torch.softmax(s, -1).view(b, kv, rep * n, n), v.permute(0, 2, 1, 3))
        o = o.view(b, C.HEADS, n, d).permute(0, 2, 1, 3).reshape(b, n, C.HEADS * d)
    return F.linear(o, P[p + "wo_ud.weight"])


def dense_mlp(P, p, x):
    return F.linear(Swiglu.apply(F.linear(x, P[p + "w13_dn.weight"])), P[p + "w2_md.weight"]) * P[p + "global_scale"]


class Stats:
    """What the router did: counts per layer and expert, for the balance rule and for the report."""

    def __init__(self):
        self.counts = torch.zeros(C.LAYERS, C.EXPERTS)
        self.picks = None  # a list to keep (layer, idx) when a report wants it
        self.real = None  # [B, n] bool: positions that are no padding


def moe(P, p, x, layer, stats):
    b, n, _ = x.shape
    x = x.reshape(b * n, -1)
    z = F.linear(x, P[p + "gate.weight"])
    with torch.no_grad():
        idx = torch.topk(torch.sigmoid(z[:, : C.EXPERTS]) + P[p + "gate.bias"], C.TOP_K, dim=1)[1]
        if stats is not None:
            stats.counts[layer] += torch.bincount(idx.view(-1), minlength=C.EXPERTS)
            if stats.picks is not None:
                stats.picks.append((layer, idx.view(b, n, -1)))
    lp = F.logsigmoid(torch.cat([z.gather(1, idx), z[:, C.EXPERTS :]], 1))
    wt = torch.softmax(lp, 1) * (C.ROUTE_SCALE * P[p + "gate.global_scale"])
    y = Experts.apply(x, idx, wt[:, : C.TOP_K], P[p + "experts.w13_weight"], P[p + "experts.w2_weight"])
    s13, s2 = P[p + "shared_experts.shared_w13_weight"], P[p + "shared_experts.shared_w2_weight"]
    for s in range(C.SHARED):
        a = Swiglu.apply(F.linear(x, s13[s])) * wt[:, C.TOP_K + s : C.TOP_K + s + 1]
        y = y + F.linear(a, s2[s])
    return y.view(b, n, -1)


def decoder_layer(P, p, x, local, dense, layer=0, stats=None, tau_offset=0):
    x = x + Sconv.apply(attention(P, p + "attn.", rms(x, P[p + "attn_norm.weight"]), local, tau_offset), P[p + "attn_sconv.weight"])
    n = rms(x, P[p + "mlp_norm.weight"])
    m = dense_mlp(P, p + "mlp.", n) if dense else moe(P, p + "mlp.", n, layer, stats)
    return x + Sconv.apply(m, P[p + "mlp_sconv.weight"])


def vision(P, patches):
    """[n, 2, p, p, 3] normalized pixels -> [n, H]. A still picture may come with one time slice: both halves of the last layer see it."""
    x = patches
    plan = C.scale_plan(C.PATCH, 2, C.VISION_LAYERS)
    still = x.shape[1] == 1
    for j, (fs, ft, _) in enumerate(plan):
        n, t, h, w, c = x.shape
        weight = P["model.visual.layers.linear_%d.weight" % j]
        if j == len(plan) - 1 and still:
            x = torch.cat([x, x], 1)
            t = 2
        x = x.reshape(n, t // ft, ft, h // fs, fs, w // fs, fs, c).permute(0, 1, 3, 5, 2, 4, 6, 7)
        x = F.linear(x.reshape(n, t // ft, h // fs, w // fs, ft * fs * fs * c), weight)
        if j < len(plan) - 1:
            x = F.gelu(rms(x, P["model.visual.layers.norm_%d.weight" % j]))
    return rms(x.reshape(len(patches), -1), P["model.visual.final_norm.weight"])


def audio(P, bins):
    """[n, 80] integers -> [n, H]"""
    rows = bins.long() + torch.arange(80) * 16
    return rms(F.embedding_bag(rows, P["model.audio.encoder.weight"], mode="sum"), P["model.audio.final_norm.weight"])


def embed_text(P, ids):
    return rms(F.embedding(ids, P["model.llm.embed.weight"]), P["model.llm.embed_norm.weight"])


def embed(P, ids, patches=None, bins=None):
    """Media rows replace the rows of their placeholders, in order."""
    h = embed_text(P, ids)
    for rows, tower, mark in ((patches, vision, C.IMAGE_ID), (bins, audio, C.AUDIO_ID)):
        if rows is not None and len(rows):
            where = (ids.reshape(-1) == mark).nonzero().squeeze(1)
            assert len(where) == len(rows), "placeholders %d, rows %d" % (len(where), len(rows))
            flat = h.reshape(-1, C.H)
            h = flat.index_copy(0, where, tower(P, rows)).view_as(h)
    return h


def trunk(P, h, stats=None):
    """-> final-normed hidden states"""
    for i in range(C.LAYERS):
        h = decoder_layer(P, "model.llm.layers.%d." % i, h, i in C.LOCAL, i < C.DENSE_LAYERS, i, stats)
    return rms(h, P["model.llm.norm.weight"])


def logits(P, h):
    return F.linear(h, P["model.llm.unembed.weight"][: C.UNPADDED]) / C.MUP


def mtp(P, hidden, next_rows):
    """hidden [B, n, H]: final-normed states of rows j; next_rows: embedding rows of the tokens at j + 1 -> states that predict j + 2."""
    m = "model.mtp.layers.0."
    x = torch.cat([rms(hidden, P[m + "hidden_norm.weight"]), rms(next_rows, P[m + "embed_norm.weight"])], -1)
    x = F.linear(x, P[m + "input_proj.weight"])
    return decoder_layer(P, m + "transformer_block.", x, 0 in C.MTP_LOCAL, True, tau_offset=1)
