"""The include table: each folder of src/ may include only what is listed here. Also: file names are unique, files are not too long.

    python3 tests/house/check_includes.py ROOT
"""
import collections
import pathlib
import re
import sys

PUBLIC, STATUS, CHAT, MEDIA = "inkjet.h", "inkjet_status.h", "inkjet_chat.h", "inkjet_media.h"
ALLOWED = {
    "core": {STATUS},
    "quant": {"core", STATUS},
    "kernels": {"core"},
    "io": {"core", STATUS},
    "cache": {"core", "quant", "io", STATUS},
    "text": {"core", "io", STATUS},
    "media": {"core", "io", "video/protocol.h", "video/sampling.h", PUBLIC, MEDIA, STATUS},
    "video": {STATUS},
    "model": {"core", "quant", "kernels", "io", "cache", STATUS},
    "engine": {"core", "quant", "kernels", "io", "cache", "text", "media", "model", PUBLIC, MEDIA, STATUS},
    "tools": {PUBLIC, MEDIA, STATUS, "core", "quant", "io", "model/names.h", "model/config.h"},
    "chat": {PUBLIC, CHAT, MEDIA, STATUS, "core", "io/json.h"},
    "grammar": {PUBLIC, CHAT, MEDIA, STATUS, "core", "io/json.h"},
    "server": {PUBLIC, CHAT, MEDIA, STATUS, "core", "io/json.h"},
    "cli": {PUBLIC, CHAT, MEDIA, STATUS, "core", "io/json.h", "tools", "server"},
}
# The one door to a vendored library.
THIRD_PARTY = {"yyjson/yyjson_unit.h": "src/io/json.c"}
# Kernels may see block layouts of the formats, and nothing else of quant.
EXTRA = {"kernels": re.compile(r"quant/fmt_\w+\.h")}
MAX_LINES = 800
LONG_BY_NATURE = re.compile(r"_tables\.c$")


def folder_of(path, root):
    return path.relative_to(root / "src").parts[0]


def check_include(name, here, path, root):
    if name in THIRD_PARTY:
        return None if path == root / THIRD_PARTY[name] else f"only {THIRD_PARTY[name]} may include {name}"
    if name in (PUBLIC, STATUS, CHAT, MEDIA):
        return None if name in ALLOWED[here] else f"{here}/ may not include {name}"
    if "/" not in name:
        return f'"{name}" has no folder: write it as "{here}/{name}"'
    folder = name.split("/")[0]
    if not (root / "src" / name).is_file():
        return f'"{name}" is not a file of src/'
    if folder == here or folder in ALLOWED[here] or name in ALLOWED[here]:
        return None
    if here in EXTRA and EXTRA[here].fullmatch(name):
        return None
    return f"{here}/ may not include {name}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = sorted(p for p in (root / "src").rglob("*.[ch]"))
    problems, names, checked = [], collections.defaultdict(list), 0
    for path in files:
        rel, text = path.relative_to(root), path.read_text()
        here = folder_of(path, root)
        if here not in ALLOWED:
            problems.append(f"{rel}: folder {here}/ is not in the table")
            continue
        names[path.name].append(str(rel))
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if m:
                checked += 1
                why = check_include(m.group(1), here, path, root)
                if why:
                    problems.append(f"{rel}:{number}: {why}")
        if not text.startswith("/*"):
            problems.append(f"{rel}: does not open with a paragraph about itself")
        if text.count("\n") > MAX_LINES and not LONG_BY_NATURE.search(path.name):
            problems.append(f"{rel}: {text.count(chr(10))} lines, more than {MAX_LINES}")
    problems += [f"{name} names {len(where)} files: {', '.join(where)}" for name, where in names.items() if len(where) > 1]
    print("\n".join(problems) if problems else f"{checked} includes in {len(files)} files follow the table")
    sys.exit(1 if problems or checked == 0 else 0)


main()
