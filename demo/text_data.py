"""Text: raw packages -> documents per source, split by construction into train and held-out, and token arrays.

Held out: the speeches of the last five presidents, one novel (Persuasion), every 20th country. Nothing of them is seen in training,
and the baseline of byte 5-grams counts the training documents only.
"""

import glob
import json
import pathlib
import random
import re
import struct
import subprocess
import zlib

import numpy as np

WEIGHT = {"speeches": 0.22, "austen": 0.26, "bible": 0.12, "factbook": 0.10, "wordnet": 0.08, "moby": 0.10, "stories": 0.12}
# While the rate falls: more of the long-form English that the model is for, less of what is easy or archaic.
ANNEAL_WEIGHT = {"speeches": 0.30, "austen": 0.28, "bible": 0.06, "factbook": 0.16, "wordnet": 0.04, "moby": 0.06, "stories": 0.10}


def speeches(raw):
    files = sorted(glob.glob(str(raw / "datasets/package/sotu/data/*.txt")))
    who = [re.sub(r"^\d+_|_[a-z]+\.txt$", "", pathlib.Path(f).name) for f in files]
    last = []
    for w in reversed(who):
        if w not in last:
            last.append(w)
    for f, w in zip(files, who):
        yield w in last[:5], clean(pathlib.Path(f).read_text(errors="replace"))


def moby(raw):
    files = glob.glob(str(raw / "datasets/package/moby-dick/data/chapter_*.txt"))
    for f in sorted(files, key=lambda f: int(re.search(r"chapter_(\d+)", f).group(1))):
        yield False, clean(pathlib.Path(f).read_text(errors="replace"))


def r_strings(blob):
    """The first long character vector in a serialized R object, or None. Only what this package holds is understood."""
    at = blob.find(struct.pack(">i", 16), 0)
    while 0 <= at < 4096:
        n = struct.unpack(">i", blob[at + 4 : at + 8])[0]
        if 1000 < n < 200000:
            out, p = [], at + 8
            for _ in range(n):
                flags, size = struct.unpack(">ii", blob[p : p + 8])
                if flags & 0xFF != 9:
                    return None
                p += 8
                out.append("" if size < 0 else blob[p : p + size].decode("utf8", "replace"))
                p += max(size, 0)
            return out
        at = blob.find(struct.pack(">i", 16), at + 1)
    return None


def austen(raw):
    (path,) = glob.glob(str(raw / "austen/usr/lib/R/site-library/janeaustenr/data/*.rdb"))
    blob = pathlib.Path(path).read_bytes()
    seen, at = 0, 0
    while at + 4 < len(blob):
        d = zlib.decompressobj()
        try:
            data = d.decompress(blob[at + 4 :])
        except zlib.error as e:
            raise ValueError("%s: not a lazy-load file as expected at byte %d" % (path, at)) from e
        at = len(blob) - len(d.unused_data)
        lines = r_strings(data)
        if lines:
            seen += 1
            text = "\n".join(lines)
            yield "PERSUASION" in text[:400].upper(), unwrap(text)
    if seen < 6:
        raise ValueError("%s: expected six novels, found %d" % (path, seen))


def bible(raw):
    out = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True, cwd=raw).stdout
    books = {}
    for line in out.splitlines():
        m = re.match(r"(\S+?)(\d+):\d+\s+(.*)", line.strip())
        if m:
            books.setdefault((m.group(1), m.group(2)), []).append(m.group(3))
    for verses in books.values():
        yield False, "\n".join(verses)


def countries(raw):
    """[(name, capital or None, sections [(title, text)])] in order of file name."""
    out = []
    for f in sorted(glob.glob(str(raw / "factbook/package/*/*.json"))):
        d = json.loads(pathlib.Path(f).read_text())
        sections = []

        def walk(x, path):
            if isinstance(x, dict):
                if isinstance(x.get("text"), str):
                    sections.append((path[-1], clean(x["text"])))
                for k, v in x.items():
                    if k != "text":
                        walk(v, path + [k])

        walk(d, [""])
        gov = d.get("Government", {})
        name = clean(gov.get("Country name", {}).get("conventional short form", {}).get("text", ""))
        capital = clean(gov.get("Capital", {}).get("name", {}).get("text", ""))
        capital = re.split(r"[;,(]", capital)[0].strip()
        if not name or name == "none" or len(name) > 40:
            name = None
        out.append((name, capital if 0 < len(capital) < 30 else None, sections))
    return out


def factbook(raw):
    for i, (_, _, sections) in enumerate(countries(raw)):
        yield i % 20 == 7, "\n".join("%s: %s" % (t, s) for t, s in sections if len(s) > 30)


def glosses(raw):
    for part in ("noun", "verb", "adj", "adv"):
        for line in (raw / "wordnet/usr/share/wordnet" / ("data." + part)).read_text(errors="replace").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            head, gloss = line.split("|", 1)
            yield part, head.split()[4].replace("_", " "), gloss.strip()


def wordnet(raw):
    lines = ["%s: %s." % (w, g.rstrip(".")) for _, w, g in glosses(raw)]
    random.Random(4).shuffle(lines)
    for i in range(0, len(lines), 200):
        yield False, "\n".join(lines[i : i + 200])


NAMES = "Anna Ben Clara David Emma Frank Grace Henry Ida Jack Kate Leo Mary Nora Oliver Paul Rosa Sam Tom Lucy".split()
BEASTS = "cat dog fox hen horse rabbit bear bird mouse duck goat sheep frog owl pig".split()
PLACES = "the forest,the garden,the village,the river,the old mill,the market,the hill,the sea,the barn,the castle".split(",")
THINGS = "key ball apple book lamp rope basket hat coin bell kite drum cake spoon".split()
KINDS = "little old brave clever kind shy young happy lonely quiet".split()
FEELS = "happy sad tired hungry afraid proud glad cold".split()


def story(rng):
    c = rng.choice
    name, beast, place, thing, kind, feel = c(NAMES), c(BEASTS), c(PLACES), c(THINGS), c(KINDS), c(FEELS)
    girl = name in ("Anna Clara Emma Grace Ida Kate Mary Nora Rosa Lucy".split())
    he, him, his = ("she", "her", "her") if girl else ("he", "him", "his")
    child = "girl" if girl else "boy"
    other = c([n for n in NAMES if n != name])
    s = [
        c(
            [
                "Once upon a time there was a %s %s named %s." % (kind, child, name),
                "Once upon a time, a %s %s lived near %s. %s name was %s." % (kind, child, place, his.capitalize(), name),
                "There was once a %s %s called %s." % (kind, child, name),
            ]
        )
    ]
    middle = [
        "%s had a %s that %s loved very much." % (he.capitalize(), thing, he),
        "One day %s went to %s to look for a %s." % (he, place, thing),
        "There %s met a %s %s." % (he, c(KINDS), beast),
        "The %s was %s and did not know what to do." % (beast, feel),
        '"Why are you so %s?" asked %s.' % (feel, name),
        '"I have lost my %s," said the %s.' % (c(THINGS), beast),
        "So they walked together to %s and looked everywhere." % c(PLACES),
        "They asked %s, but %s had not seen it." % (other, other),
        "It was getting dark, and the wind was cold.",
        "At last %s found the %s under a tree." % (he, thing),
        "%s gave it to the %s." % (name, beast),
        "In the morning the sun was shining again.",
        "The %s laughed and thanked %s." % (beast, him),
    ]
    keep = sorted(rng.sample(range(len(middle)), rng.randint(5, 9)))
    s += [middle[i] for i in keep]
    s.append(
        c(
            [
                "From that day on they were good friends.",
                "Then %s went home to %s mother and slept well." % (he, his),
                "And they lived happily ever after.",
                "%s never forgot the %s." % (name, beast),
            ]
        )
    )
    return " ".join(s)


def stories(raw):
    rng = random.Random(5)
    for i in range(1500):
        yield i % 20 == 7, "\n\n".join(story(rng) for _ in range(5))


def clean(s):
    s = re.sub(r"<[^>]*>", " ", s).replace("&nbsp;", " ").replace("&amp;", "&").replace("\r", "")
    return re.sub(r"[ \t]+", " ", re.sub(r"\n{3,}", "\n\n", s)).strip()


def unwrap(s):
    """Hard line ends inside a paragraph become spaces."""
    return "\n\n".join(re.sub(r"\s*\n\s*", " ", p).strip() for p in re.split(r"\n\s*\n", s) if p.strip())


SOURCES = dict(speeches=speeches, austen=austen, bible=bible, factbook=factbook, wordnet=wordnet, moby=moby, stories=stories)


def prepare(raw, out, tok, log):
    out.mkdir(parents=True, exist_ok=True)
    held_text = []
    for name, make in SOURCES.items():
        ids, n_train, docs = [], 0, []
        for held, text in make(raw):
            if held:
                held_text.append((name, text))
                continue
            docs.append(text)
            n_train += len(text.encode())
            ids += tok.encode(text + "\n\n")
        np.save(out / (name + ".npy"), np.array(ids, np.uint16))
        (out / (name + ".txt")).write_text("\n\n".join(docs))
        log("text %-9s %8.2f MB, %9d tokens, %.2f bytes per token" % (name, n_train / 1e6, len(ids), n_train / max(1, len(ids))))
    (out / "held.json").write_text(json.dumps(held_text))
    log("text held out: " + ", ".join("%s %.2f MB" % (n, sum(len(t) for m, t in held_text if m == n) / 1e6) for n in SOURCES))
