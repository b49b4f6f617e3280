"""The first N ranks of o200k_base as a vocabulary: encode, decode, and the tokenizer.json that goes with the model."""

import base64
import json
import pathlib

import regex

import conf as C

PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def byte_letters():
    keep = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    out, extra = {}, 0
    for b in range(256):
        if b in keep:
            out[b] = chr(b)
        else:
            out[b] = chr(256 + extra)
            extra += 1
    return out


class Tok:
    def __init__(self, path):
        self.bytes = []
        for line in pathlib.Path(path).read_bytes().splitlines():
            text, rank = line.split()
            assert int(rank) == len(self.bytes)
            if len(self.bytes) == C.N_RANKS:
                break
            self.bytes.append(base64.b64decode(text))
        self.rank = {b: i for i, b in enumerate(self.bytes)}
        self.pattern = regex.compile(PATTERN)
        self.cache = {}

    def merge(self, piece, below=1 << 30):
        parts = [bytes([b]) for b in piece]
        while len(parts) > 1:
            best, at = below, -1
            for i in range(len(parts) - 1):
                r = self.rank.get(parts[i] + parts[i + 1], below)
                if r < best:
                    best, at = r, i
            if at < 0:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def encode(self, text):
        out = []
        for piece in self.pattern.findall(text):
            ids = self.cache.get(piece)
            if ids is None:
                ids = self.cache[piece] = [self.rank[p] for p in self.merge(piece.encode())]
            out += ids
        return out

    def decode(self, ids):
        return b"".join(
            self.bytes[i] if i < C.N_RANKS else C.SPECIALS[i - C.N_RANKS].encode() if i < C.UNPADDED else b"" for i in ids
        ).decode("utf8", "replace")

    def json(self):
        letters = byte_letters()
        spell = ["".join(letters[b] for b in t) for t in self.bytes]
        merges = []
        for i, t in enumerate(self.bytes):
            if len(t) > 1:
                left, right = self.merge(t, i)
                merges.append(spell[self.rank[left]] + " " + spell[self.rank[right]])
        added = [
            {"id": C.ID[s], "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for s in C.SPECIALS
        ]
        split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": added,
                "normalizer": None,
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
                "post_processor": None,
                "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                "model": {
                    "type": "BPE",
                    "dropout": None,
                    "unk_token": None,
                    "continuing_subword_prefix": None,
                    "end_of_word_suffix": None,
                    "fuse_unk": False,
                    "byte_fallback": False,
                    "ignore_merges": True,
                    "vocab": {s: i for i, s in enumerate(spell)},
                    "merges": merges,
                },
            },
            ensure_ascii=False,
        )


def block(role, kind, body):
    return [C.ID["<|message_%s|>" % role], C.ID[kind]] + body + [C.ID["<|end_message|>"]]


def conversation(tok, question, answer=None, image_rows=0, audio_rows=0, media_first=False, effort="0.9", system=None):
    """-> (ids, index of the first id that is the model's own). With answer None: the prompt alone."""
    ids = block("system", "<|content_text|>", tok.encode(system)) if system else []
    ids += block("system", "<|content_text|>", tok.encode("Thinking effort level: " + effort))
    text = block("user", "<|content_text|>", tok.encode(question)) if question else []
    media = []
    if image_rows:
        media = block("user", "<|content_image|>", [C.IMAGE_ID] * image_rows)
    if audio_rows:
        media = block("user", "<|content_audio_input|>", [C.AUDIO_ID] * audio_rows + [C.ID["<|audio_end|>"]])
    ids += media + text if media_first else text + media
    ids.append(C.ID["<|message_model|>"])
    start = len(ids)
    if answer is not None:
        ids += [C.ID["<|content_text|>"]] + tok.encode(answer) + [C.ID["<|end_message|>"], C.EOS]
    return ids, start
