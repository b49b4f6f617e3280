"""The baseline: a byte 5-gram, interpolated (Witten-Bell) down to single bytes and the uniform distribution,
counted on the training text."""

import numpy as np


class Ngram:
    def __init__(self, blob, order=5):
        x = np.frombuffer(blob, np.uint8).astype(np.int64)
        self.order, self.tables = order, []
        code = np.zeros(len(x), np.int64)
        for n in range(1, order + 1):  # code of the n bytes that end at each place
            code = x.copy() if n == 1 else code
            if n > 1:
                code = np.zeros(len(x) - n + 1, np.int64)
                for j in range(n):
                    code = code * 256 + x[j : len(x) - n + 1 + j]
            grams, counts = np.unique(code, return_counts=True)
            context = grams >> 8
            ctx, first = np.unique(context, return_index=True)
            total = np.add.reduceat(counts, first)
            kinds = np.diff(np.append(first, len(grams)))
            self.tables.append((grams, counts, ctx, total, kinds))

    @staticmethod
    def lookup(keys, wanted):
        i = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return i, keys[i] == wanted

    def bits(self, blob):
        """Bits of every byte, with what precedes it in the same document."""
        x = np.frombuffer(blob, np.uint8).astype(np.int64)
        p = np.full(len(x), 1 / 256)
        for n, (grams, counts, ctx, total, kinds) in enumerate(self.tables, 1):
            at = np.arange(n - 1, len(x))
            code = np.zeros(len(at), np.int64)
            for j in range(n):
                code = code * 256 + x[at - (n - 1) + j]
            i, known = self.lookup(ctx, code >> 8)
            g, seen = self.lookup(grams, code)
            c = np.where(seen, counts[g], 0)
            q = (c + kinds[i] * p[at]) / (total[i] + kinds[i])
            p[at] = np.where(known, q, p[at])
        return -np.log2(p)
