"""Against llguidance and jsonschema: texts made by walks and damaged at random. Not part of ./check; the wheel is fetched by hand:

    python3 -m pip install --target .cache/llguidance --no-deps llguidance==1.9.1
    python3 tests/grammar/differential.py build/release/tests/grammar/grammar_tool .cache/o200k_base.tiktoken .cache/jsonschema .cache/llguidance

What is accepted here must be valid, and llguidance must accept it too; what only llguidance accepts is counted by reason (it allows other
white space, further keys where none are listed, ...).
"""
import ast
import collections
import json
import pathlib
import random
import subprocess
import sys


def schemas():
    """Those of walk.py, without running it."""
    tree = ast.parse((pathlib.Path(__file__).parent / "walk.py").read_text())
    part = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "SCHEMAS")
    return eval(compile(ast.Expression(part.value), "walk.py", "eval"))


def damage(r, text):
    at = r.randrange(len(text) + 1)
    kind = r.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1:]
    if kind == 1:
        return text[:at] + r.choice("{}[],:\"0a-. \n\\") + text[at:]
    if kind == 2:
        return text[:at] + r.choice("{}[],:\"0a-. \n\\") + text[at + 1:]
    return text[:at]


def run(tool, vocabulary, args, lines):
    done = subprocess.run([tool, vocabulary, *args], input="".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main():
    tool, vocabulary, jsonschema_folder, llguidance_folder = sys.argv[1:5]
    sys.path[:0] = [jsonschema_folder, llguidance_folder]
    import jsonschema
    import llguidance
    tokenizer = llguidance.LLTokenizer("byte")
    r, counts = random.Random(7), collections.Counter()
    cases = schemas()
    walks = run(tool, vocabulary, ["walk", "8", "3"], [f"json\t{json.dumps(s).encode().hex()}\n" for s in cases])
    lines, questions = [], []
    for schema, answer in zip(cases, walks):
        texts = [bytes.fromhex(word).decode() for word in answer.split()]
        texts += [damage(r, t) for t in texts for _ in range(3)]
        for t in texts:
            lines.append(f"json\t{json.dumps(schema).encode().hex()}\t{t.encode().hex()}\n")
            questions.append((schema, t))
    answers = run(tool, vocabulary, ["accept"], lines)
    for (schema, text), answer in zip(questions, answers):
        ours = answer == "1 1"
        if answer not in ("1 1", "0 0"):
            counts["bytes and tokens differ"] += 1
            print("FINDING", schema, repr(text), answer)
        try:
            value = json.loads(text)
            valid = jsonschema.Draft202012Validator(schema).is_valid(value) or (value is None and isinstance(schema, dict) and "nullable" in schema)
        except ValueError:
            valid = False
        if ours and not valid:
            counts["accepted but not valid"] += 1
            print("FINDING", schema, repr(text))
        source = schema if isinstance(schema, dict) and "nullable" not in schema else {}
        try:
            matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(json.dumps(source)))
            if matcher.is_error():
                counts["not understood by llguidance"] += 1
                continue
            theirs = matcher.try_consume_tokens(list(text.encode())) == len(text.encode()) and matcher.is_accepting()
        except Exception:
            counts["not understood by llguidance"] += 1
            continue
        if source == schema:
            counts[f"ours {ours}, theirs {theirs}, valid {valid}"] += 1
            if ours and not theirs:
                print("only ours:", json.dumps(schema)[:120], repr(text)[:120])
    for name, n in sorted(counts.items()):
        print(f"{n:6} {name}")
    sys.exit(1 if counts["accepted but not valid"] or counts["bytes and tokens differ"] else 0)


main()
