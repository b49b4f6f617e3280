"""Regular expressions: what is accepted must be what Python's re matches, for whole texts and inside JSON strings.

    python3 tests/grammar/expressions.py GRAMMAR_TOOL VOCABULARY [IGNORED [SEED [PATTERNS]]]
"""
import json
import pathlib
import random
import re
import subprocess
import sys

FIXED = [
    "", "a", "abc", "a|b", "a|", "(a|bc)*d", "a{3}", "a{2,}", "a{1,3}b", "(ab){2,3}?", "[abc]+", "[^abc]", "[a-c0-9_-]{2}", "[\\]\\\\^-]", "\\d+\\.\\d*",
    "\\w+@\\w+", "\\s?x\\S", ".", "a.c", "x*", "(x*)*", "(a*b*)*c", "^a$", "^", "$", "^$", "a^", "$a", "(^a|b)c", "a($|b)", "\\t\\n\\r\\f\\v", "\\x41\\u00e9",
    "é+", "日|本", "[à-ü]", "[^\\x00-\\x7f]", "\\.\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|\\^\\$\\/", "a{", "a{x}", "{}", "a]", "\\-", "(?:a|b)c", "(?P<n>a)b", "(a|ab)(c|bcd)",
    "(?:[A-Z][a-z]{1,3} ?){1,3}", "(0|[1-9][0-9]*)(\\.[0-9]+)?", "\"\\w\"", "\\\\", "[\"\\\\/]", "[^\"]*", "a\\0b", "(((((a)))))", "(a?){5}a{5}", "[\\d\\s]", "[^\\d\\s]",
    "\U0001F600", "[\U0001F600-\U0001F64F]", "(?:ab|a)(?:bc|c)?$", "^(?:a|b)*abb",
]
# Characters from here on may be written as \\u escapes only where a set holds all of them.
PLANE = "\U00010000"
REFUSED = ["(", ")", "a)", "[", "[a", "*", "a**", "a{2,1}", "(?=a)", "(?!a)", "(?<=a)b", "\\b", "\\1", "(a)\\1", "\\p{L}", "[]a]", "a{1,99999}", "((a{100}){100}){100}", "^*", "(?i)a", "\\",
           "\\u12", "[b-a]", "[\\d-z]", "\\ud800", "a++", "\\q", "a{,3}"]
ALPHABET = ["a", "b", "c", "d", "A", "Z", "0", "9", " ", "\n", "\t", "_", "-", ".", "é", "日", "\U0001F600", "\"", "\\", "/", "$", "^", "x"]


def random_pattern(r, depth=0):
    kind = r.randrange(9 if depth < 4 else 3)
    if kind == 0:
        return re.escape(r.choice(ALPHABET)) if r.random() < 0.8 else r.choice(["\\d", "\\w", "\\s", ".", "\\D", "\\W"])
    if kind == 1:
        return r.choice("abcd")
    if kind == 2:
        return "[" + ("^" if r.random() < 0.3 else "") + "".join(r.choice(["a", "b-d", "0-9", "é", "\\\"", "\\d", "_"]) for _ in range(r.randrange(1, 4))) + "]"
    if kind in (3, 4):
        return "".join(random_pattern(r, depth + 1) for _ in range(r.randrange(1, 4)))
    if kind == 5:
        return "(" + "|".join(random_pattern(r, depth + 1) for _ in range(r.randrange(1, 4))) + ")"
    if kind in (6, 7):
        return "(?:" + random_pattern(r, depth + 1) + ")" + r.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
    return r.choice(["^", "$"]) if r.random() < 0.3 else random_pattern(r, depth + 1)


def texts_for(r, pattern):
    """Short texts, some made of the characters of the pattern so that many match."""
    letters = [c for c in pattern if c not in "()[]{}*+?|^$\\"] + ALPHABET[:4]
    out = {"", "a", "ab", "abc", "a\nb", "aa", "aaa"}
    while len(out) < 14:
        out.add("".join(r.choice(letters if r.random() < 0.8 else ALPHABET) for _ in range(r.randrange(1, 9))))
    return sorted(out)


# ECMAScript's white space and the dot, where they are not Python's; the rest of the dialect is the part both share.
SPACE = "\\t\\n\\v\\f\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"


def python_pattern(pattern):
    out, i, in_set = "", 0, False
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            d = pattern[i + 1]
            out += {"s": SPACE if in_set else "[" + SPACE + "]", "S": "[^" + SPACE + "]", "/": "/"}.get(d, c + d)
            i += 2
            continue
        if c == "[" and not in_set:
            in_set = True
        elif c == "]":
            in_set = False
        out += "(?:[^\\n\\r\\u2028\\u2029])" if c == "." and not in_set else "\\Z" if c == "$" and not in_set else c
        i += 1
    return out


def main():
    tool, vocabulary = sys.argv[1:3]
    seed, n_random = (int(x) for x in (sys.argv[4:6] + ["1", "60"][len(sys.argv[4:6]):]))
    if not pathlib.Path(vocabulary).is_file():
        print("the vocabulary (scripts/fetch-vocab.sh) is missing")
        sys.exit(77)
    r = random.Random(seed)
    patterns = FIXED + [random_pattern(r) for _ in range(n_random)]
    lines, wants = [], []
    for pattern in patterns:
        compiled, texts = re.compile(python_pattern(pattern), re.ASCII), texts_for(r, pattern)
        for text in texts:
            lines.append(f"regex\t{pattern.encode().hex()}\t{text.encode().hex()}")
            wants.append((pattern, text, compiled.fullmatch(text) is not None))
        schema = json.dumps({"type": "string", "pattern": pattern})
        for text in texts:
            lines.append(f"json\t{schema.encode().hex()}\t{json.dumps(text, ensure_ascii=max(text, default=str()) < PLANE and r.random() < 0.3).encode().hex()}")
            wants.append((schema, text, compiled.search(text) is not None))
    for pattern in REFUSED:
        lines.append(f"regex\t{pattern.encode().hex()}\t")
        wants.append((pattern, None, None))
    done = subprocess.run([tool, vocabulary, "accept"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"grammar_tool: status {done.returncode}: {done.stderr}")
    answers = done.stdout.splitlines()
    assert len(answers) == len(wants), (len(answers), len(wants))
    n_wrong = n_match = n_empty = 0
    for (pattern, text, want), answer in zip(wants, answers):
        if want is None:
            good = answer.startswith("error E_UNSUPPORTED") or answer.startswith("error E_ARGUMENT")
        elif "contradict" in answer:  # nothing can match, as with "a^"
            good = not want
            n_empty += 1
        else:
            good = answer == ("1 1" if want else "0 0")
            n_match += want
        if not good:
            n_wrong += 1
            print(f"{pattern!r} on {text!r}: expected {want}, found {answer}")
    print(f"{len(patterns)} expressions, {len(wants)} questions, {n_match} matches, {n_empty} about expressions without any, {n_wrong} wrong")
    sys.exit(1 if n_wrong or n_match < len(wants) // 20 else 0)


main()
