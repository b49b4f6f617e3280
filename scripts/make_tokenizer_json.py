#!/usr/bin/env python3
"""Makes a tokenizer.json from a tiktoken rank file, with every split of every token as a merge, as the usual conversion does.

Usage: scripts/make_tokenizer_json.py RANKS OUT [--pairs] [--first N] [--no-ignore-merges]

--pairs writes merges as ["left", "right"] instead of "left right"; --first keeps only the first N ranks (and no special tokens
unless all are kept). For tests: the family's own file comes with its checkpoint.
"""
import argparse
import base64
import json

EXPRESSION = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIALS = {199999: "<|endoftext|>", 200000: "<|message_user|>", 200001: "<|message_model|>", 200002: "<|message_system|>",
            200003: "<|message_tool|>", 200004: "<|content_text|>", 200005: "<|content_image|>",
            200006: "<|content_model_end_sampling|>", 200008: "<|content_thinking|>", 200010: "<|end_message|>",
            200020: "<|content_audio_input|>", 200022: "<|content_tool_error|>", 200024: "<|content_xml|>",
            200043: "<|audio_end|>", 200049: "<|content_invoke_tool_json|>", 200057: "<|content_invoke_tool_text|>"}
N_ORDINARY, N_FULL = 199998, 200058


def spelling():
    plain = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks")
    parser.add_argument("out")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--first", type=int, default=N_ORDINARY)
    parser.add_argument("--no-ignore-merges", action="store_true")
    args = parser.parse_args()
    ranks = {}
    with open(args.ranks, "rb") as f:
        for line in f:
            token, rank = line.split()
            if int(rank) < args.first:
                ranks[base64.b64decode(token)] = int(rank)
    char = spelling()
    spell = {token: "".join(char[b] for b in token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.get):
        found = [(ranks[token[:i]], ranks[token[i:]], token[:i], token[i:]) for i in range(1, len(token))
                 if token[:i] in ranks and token[i:] in ranks]
        merges += [[spell[a], spell[b]] for _, _, a, b in sorted(found)]
    added = []
    if len(ranks) == N_ORDINARY:
        added = [{"id": i, "content": SPECIALS.get(i, f"<|unused_{i}|>"), "single_word": False, "lstrip": False, "rstrip": False,
                  "normalized": False, "special": True} for i in range(N_ORDINARY, N_FULL)]
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": EXPRESSION}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": not args.no_ignore_merges,
                  "vocab": {spell[t]: r for t, r in sorted(ranks.items(), key=lambda item: item[1])},
                  "merges": merges if args.pairs else [f"{a} {b}" for a, b in merges]}}
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(document, f, ensure_ascii=False, indent=2 if args.pairs else 1)
    print(f"{args.out}: {len(ranks)} tokens, {len(merges)} merges, {len(added)} added tokens")


main()
