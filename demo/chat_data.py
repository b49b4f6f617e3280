"""Questions and answers of a closed domain: capitals, sums, opposites, plurals, counting, definitions, simple facts.

A question is held out when the hash of its text says so (one in 20): the fact may be in training under another wording, the question
itself is not. For sums both wordings of a pair of numbers go to the same side.
"""

import zlib

OPPOSITES = (
    "hot cold,big small,up down,old new,good bad,fast slow,light dark,day night,happy sad,open closed,full empty,high low,hard soft,"
    "long short,rich poor,strong weak,wet dry,early late,near far,left right,true false,loud quiet,thick thin,clean dirty,"
    "black white,first last,easy difficult,young old,wide narrow,deep shallow"
).split(",")
PLURALS = (
    "box:boxes cat:cats dog:dogs house:houses child:children man:men woman:women mouse:mice foot:feet tooth:teeth goose:geese "
    "city:cities leaf:leaves knife:knives wolf:wolves tree:trees bus:buses baby:babies star:stars book:books bird:birds church:churches"
)
COLOURS = {
    "grass": "green",
    "snow": "white",
    "coal": "black",
    "blood": "red",
    "the sky": "blue",
    "a lemon": "yellow",
    "milk": "white",
    "a carrot": "orange",
    "a leaf in summer": "green",
    "the sea": "blue",
    "a tomato": "red",
    "a raven": "black",
    "gold": "yellow",
}
LEGS = {
    "dog": "four",
    "cat": "four",
    "bird": "two",
    "spider": "eight",
    "horse": "four",
    "fly": "six",
    "snake": "no",
    "man": "two",
    "bee": "six",
    "cow": "four",
}
SOUNDS = {
    "dog": "barks",
    "cat": "meows",
    "cow": "moos",
    "duck": "quacks",
    "lion": "roars",
    "horse": "neighs",
    "pig": "grunts",
    "frog": "croaks",
    "wolf": "howls",
    "bee": "buzzes",
    "sheep": "bleats",
    "hen": "clucks",
    "owl": "hoots",
    "snake": "hisses",
}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
SYSTEMS = [None, None, None, "You are a helpful assistant.", "Be brief."]
EFFORTS = ["0.9"] * 6 + ["0", "0.2", "0.7", "0.99"]


def pairs(countries, glosses):
    """[(key, question, answer)]: everything that can be asked. The key decides the side."""
    out = []

    def add(key, answer, *questions):
        for q in questions:
            out.append((key if key else q, q, answer))

    for name, capital, _ in countries:
        if name and capital and capital.lower() != "none":
            add(
                None,
                "The capital of %s is %s." % (name, capital),
                "What is the capital of %s?" % name,
                "Which city is the capital of %s?" % name,
                "Tell me the capital of %s." % name,
                "What's the capital city of %s?" % name,
                "%s: what is its capital?" % name,
            )
            add(None, "%s is the capital of %s." % (capital, name), "Of which country is %s the capital?" % capital)
    for a in range(21):
        for b in range(21):
            add(
                "+%d,%d" % (min(a, b), max(a, b)),
                "%d plus %d is %d." % (a, b, a + b),
                "What is %d plus %d?" % (a, b),
                "What is %d + %d?" % (a, b),
            )
            if a >= b:
                add("-%d,%d" % (a, b), "%d minus %d is %d." % (a, b, a - b), "What is %d minus %d?" % (a, b), "What is %d - %d?" % (a, b))
            if a <= 10 and b <= 10:
                add("*%d,%d" % (min(a, b), max(a, b)), "%d times %d is %d." % (a, b, a * b), "What is %d times %d?" % (a, b))
    for p in OPPOSITES:
        x, y = p.split()
        for u, v in ((x, y), (y, x)):
            add(
                None,
                "The opposite of %s is %s." % (u, v),
                "What is the opposite of %s?" % u,
                "Tell me the opposite of %s." % u,
                "Opposite of %s?" % u,
            )
    for p in PLURALS.split():
        if p.count(":") == 1:
            x, y = p.split(":")
            if len(y) > len(x) or x in ("man", "woman", "mouse", "foot", "tooth", "goose", "wolf", "leaf", "knife"):
                add(
                    None,
                    "The plural of %s is %s." % (x, y),
                    "What is the plural of %s?" % x,
                    "Plural of %s?" % x,
                    "Tell me the plural of %s." % x,
                )
    for x, y in COLOURS.items():
        s = "%s is %s." % (x[0].upper() + x[1:], y)
        add(None, s, "What colour is %s?" % x, "Which colour has %s?" % x, "What is the colour of %s?" % x)
    for x, y in LEGS.items():
        add(None, "A %s has %s legs." % (x, y), "How many legs has a %s?" % x, "How many legs does a %s have?" % x)
    for x, y in SOUNDS.items():
        add(None, "A %s %s." % (x, y), "What does a %s do?" % x, "Which sound does a %s make?" % x, "What sound does a %s make?" % x)
    for what, row in (("day", DAYS), ("month", MONTHS)):
        for i, d in enumerate(row):
            after, before = row[(i + 1) % len(row)], row[i - 1]
            add(None, "%s comes after %s." % (after, d), "Which %s comes after %s?" % (what, d), "What %s follows %s?" % (what, d))
            add(None, "%s comes before %s." % (before, d), "Which %s comes before %s?" % (what, d))
    for n in range(1, 60):
        add(None, "%d comes after %d." % (n + 1, n), "Which number comes after %d?" % n, "What number follows %d?" % n)
    seen = set()
    for part, word, gloss in glosses:
        first = gloss.split(";")[0].strip()
        if (
            part == "noun"
            and word.isalpha()
            and word.islower()
            and 3 <= len(word) <= 8
            and 15 < len(first) < 60
            and word not in seen
            and zlib.crc32(word.encode()) % 8 == 0
        ):
            seen.add(word)
            art = "An" if word[0] in "aeiou" else "A"
            add(
                None,
                "%s %s is %s." % (art, word, first),
                "What is %s %s?" % (art.lower(), word),
                "Tell me what %s %s is." % (art.lower(), word),
            )
    for q in ("Hello!", "Hi!", "Hello", "Good morning!", "Good day!", "Hi there!"):
        add("greet", "Hello! How can I help you?", q)
    add("greet", "I am a very small Inkling model.", "Who are you?", "What are you?", "What is your name?")
    add("greet", "You are welcome.", "Thank you!", "Thanks!")
    return out


def is_held(key):
    return key != "greet" and zlib.crc32(key.encode()) % 20 == 0


def split(all_pairs):
    """Sums are many: they are thinned by the sampler, see groups()."""
    return [p for p in all_pairs if not is_held(p[0])], [p for p in all_pairs if is_held(p[0])]


def groups(pairs_):
    """Four groups that the sampler visits equally often: capitals, arithmetic, definitions, the rest."""
    out = {"capital": [], "sum": [], "define": [], "rest": []}
    for p in pairs_:
        g = (
            "sum"
            if p[0][0] in "+-*"
            else "capital" if "capital" in p[1] else "define" if p[1].startswith(("What is a", "Tell me what a")) else "rest"
        )
        out[g].append(p)
    return {k: v for k, v in out.items() if v}
