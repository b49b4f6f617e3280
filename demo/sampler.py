"""What training sees at a step: a function of (seed, rank, step) alone, so that a run that was killed goes on exactly where it was."""

import pathlib

import numpy as np
import torch

import chat_data
import conf as C
import pictures
import speech
import text_data
from tok import conversation

ROW = 256
CYCLE = ["speech", "object", "speech", "closed", "chat", "object", "speech", "chat"]
# From the second phase on every step has pictures too: after 1300 steps speech was learned and pictures were known by their colour only.
LATER = [("object", "speech"), ("closed", "chat"), ("object", "chat"), ("closed", "speech"), ("object", "chat")]
LATER_ROWS, LATER_PICTURES, LATER_OTHERS = 0.75, 1.1, 0.65  # of rows and shorts


def pad_docs(docs, multiple=16):
    """[(ids, start)] -> ids [B, L], targets and weights [B, L], which positions are real."""
    length = (max(len(d) for d, _ in docs) + multiple - 1) // multiple * multiple
    ids = torch.full((len(docs), length), C.PAD, dtype=torch.long)
    target, weight = ids.clone(), torch.zeros(len(docs), length)
    real = torch.zeros(len(docs), length, dtype=torch.bool)
    for i, (d, start) in enumerate(docs):
        t = torch.tensor(d)
        ids[i, : len(d)] = t
        target[i, : len(d) - 1] = t[1:]
        weight[i, start - 1 : len(d) - 1] = 1
        real[i, : len(d)] = True
    return ids, target, weight, real


class Batch:
    def __init__(self, kind, ids, target, weight, real=None, patches=None, bins=None):
        self.kind, self.ids, self.target, self.weight, self.real, self.patches, self.bins = kind, ids, target, weight, real, patches, bins


class Sampler:
    def __init__(self, work, tok, seed, rank, procs, rows, shorts):
        self.tok, self.seed, self.rank, self.procs, self.rows, self.shorts = tok, seed, rank, procs, rows, shorts
        work = pathlib.Path(work)
        self.text = {n: np.load(work / "text" / (n + ".npy"), mmap_mode="r") for n in text_data.WEIGHT}
        self.names = list(self.text)
        self.p = {
            phase: np.array([w[n] for n in self.names]) / sum(w.values())
            for phase, w in (
                ("mix", text_data.WEIGHT),
                ("see", text_data.WEIGHT),
                ("anneal", text_data.ANNEAL_WEIGHT),
                ("mtp", text_data.ANNEAL_WEIGHT),
            )
        }
        self.pictures = pictures.Pictures(work / "pictures")
        self.speech = speech.Speech(work / "speech" / "train.npz")
        train, _ = chat_data.split(text_data_pairs(work))
        self.groups = chat_data.groups(train)

    def text_batch(self, rng, phase, rows=None):
        out = []
        for _ in range(rows or self.rows):
            a = self.text[self.names[rng.choice(len(self.names), p=self.p[phase])]]
            at = int(rng.integers(0, len(a) - ROW - 1))
            out.append(a[at : at + ROW + 1].astype(np.int64))
        t = torch.from_numpy(np.stack(out))
        return Batch("text", t[:, :-1].contiguous(), t[:, 1:].contiguous(), torch.ones(len(t), ROW))

    def talk(self, rng, question, answer, **media):
        sys = chat_data.SYSTEMS[rng.integers(len(chat_data.SYSTEMS))] if not media else None
        effort = chat_data.EFFORTS[rng.integers(len(chat_data.EFFORTS))]
        return conversation(self.tok, question, answer, effort=effort, system=sys, media_first=bool(rng.random() < 0.3), **media)

    def chat_batch(self, rng, n):
        docs = []
        kinds = list(self.groups)
        for _ in range(n):
            g = self.groups[kinds[rng.integers(len(kinds))]]
            _, q, a = g[rng.integers(len(g))]
            docs.append(self.talk(rng, q, a))
        return Batch("chat", *pad_docs(docs))

    def picture_batch(self, rng, n, kind):
        docs, patches = [], []
        for _ in range(n):
            im, label = getattr(self.pictures, kind)(rng, False)
            q = pictures.QUESTIONS[rng.integers(len(pictures.QUESTIONS))]
            docs.append(self.talk(rng, q, pictures.answer(label), image_rows=pictures.ROWS))
            patches.append(pictures.to_patches(im))
        return Batch(kind, *pad_docs(docs), patches=torch.cat(patches))

    def speech_batch(self, rng, n):
        docs, bins = [], []
        for _ in range(n):
            b, text = self.speech.get(int(rng.integers(len(self.speech))), rng)
            q = speech.QUESTIONS[rng.integers(len(speech.QUESTIONS))]
            docs.append(self.talk(rng, q, text, audio_rows=len(b)))
            bins.append(b)
        return Batch("speech", *pad_docs(docs), bins=torch.from_numpy(np.concatenate(bins)))

    def step(self, step, phase):
        """-> the batches of this rank at this step of the whole run: continuous text, and short documents of one kind or two."""
        rng = np.random.default_rng([self.seed, self.rank, step])
        turn = step * self.procs + self.rank
        if phase == "mix":
            short = self.short_batch(rng, CYCLE[turn % len(CYCLE)], self.shorts)
            return [self.text_batch(rng, phase), short]
        text = self.text_batch(rng, phase, max(1, int(self.rows * LATER_ROWS)))
        if phase == "mtp":
            return [text, self.chat_batch(rng, self.shorts)]
        picture, other = LATER[turn % len(LATER)]
        return [
            text,
            self.short_batch(rng, picture, max(1, int(self.shorts * LATER_PICTURES))),
            self.short_batch(rng, other, max(1, int(self.shorts * LATER_OTHERS))),
        ]

    def short_batch(self, rng, kind, n):
        if kind == "chat":
            return self.chat_batch(rng, n)
        if kind == "speech":
            return self.speech_batch(rng, max(1, n * 2 // 3))
        return self.picture_batch(rng, n, kind)


_pairs = {}


def text_data_pairs(work):
    """All questions and answers, from the raw packages beside the work folder."""
    if work not in _pairs:
        raw = pathlib.Path(work) / "raw"
        _pairs[work] = chat_data.pairs(text_data.countries(raw), text_data.glosses(raw))
    return _pairs[work]
