"""The first N ranks of o200k_base as a vocabulary: encode, decode, and the tokenizer.json that goes with the model."""
import base64
import json
import pathlib

import regex

import conf as C

PATTERN = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


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
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
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
        return b"".join(self.bytes[i] if i < C.N_RANKS else C.SPECIALS[i - C.N_RANKS].encode() if i < C.UNPADDED else b"" for i in ids).decode("utf8", "replace")

    def json(self):
        letters = byte_letters()
        spell = ["".join(letters[b] for b in t) for t in self.bytes]
        merges = []
        for i, t in enumerate(self.bytes):
            if len(t) > 1:
                left, right = self.merge(t, i)
                merges.append(spell[self.rank[left]] + " " + spell[self.rank[right]])
        added = [{"id": C.ID[s], "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                 for s in C.SPECIALS]
        split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                           "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": None,
                           "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                                     "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                                     "vocab": {s: i for i, s in enumerate(spell)}, "merges": merges}}, ensure_ascii=False)


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


CHAT_TEMPLATE = """{#- Inkling chat format: text, image and audio parts, effort block before the first message that is not a system message. -#}
{%- set table = {'none': 0, 'minimal': 0.1, 'low': 0.2, 'medium': 0.7, 'high': 0.9, 'xhigh': 0.99, 'max': 0.99} -%}
{%- set effort = reasoning_effort if reasoning_effort is defined and reasoning_effort is not none else 'high' -%}
{%- if effort is string %}{% set effort = table.get(effort | trim | lower, effort | trim | float) %}{% endif -%}
{%- set effort = '%.2f' | format(effort | float) -%}
{%- set effort = effort[:-3] if effort.endswith('.00') else effort[:-1] if effort.endswith('0') else effort -%}
{%- macro body(role, content) -%}
{%- if content is string -%}
{%- if content %}{{ '<|message_' + role + '|><|content_text|>' + content + '<|end_message|>' }}{% endif -%}
{%- elif content -%}
{%- for part in content -%}
{%- if part.type in ['image', 'input_image', 'image_url'] -%}
{{ '<|message_' + role + '|><|content_image|><|unused_200054|><|end_message|>' }}
{%- elif part.type in ['audio', 'input_audio', 'audio_url'] -%}
{{ '<|message_' + role + '|><|content_audio_input|><|unused_200053|><|audio_end|><|end_message|>' }}
{%- else -%}
{{ '<|message_' + role + '|><|content_text|>' + (part.text or '') + '<|end_message|>' }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(done=false) -%}
{%- for m in messages -%}
{%- set role = {'developer': 'system', 'assistant': 'model'}.get(m.role, m.role) -%}
{%- if role != 'system' and not ns.done -%}
{{ '<|message_system|><|content_text|>Thinking effort level: ' ~ effort ~ '<|end_message|>' }}
{%- set ns.done = true -%}
{%- endif -%}
{%- if role == 'model' and m.reasoning_content -%}
{{ '<|message_model|><|content_thinking|>' + m.reasoning_content + '<|end_message|>' }}
{%- endif -%}
{{ body(role, m.content) }}
{%- if role == 'model' and (m.content or m.reasoning_content) %}{{ '<|content_model_end_sampling|>' }}{% endif -%}
{%- endfor -%}
{%- if not ns.done %}{{ '<|message_system|><|content_text|>Thinking effort level: ' ~ effort ~ '<|end_message|>' }}{% endif -%}
{%- if add_generation_prompt %}{{ '<|message_model|>' }}{% endif -%}
"""
