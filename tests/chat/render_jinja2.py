"""Renders conversations with the template in Jinja2, as chat_pipe.c does: JSON lines in, JSON strings or null out.

    python3 tests/chat/render_jinja2.py TEMPLATE < REQUESTS

The environment is that of transformers: sandboxed, blocks trimmed, raise_exception, and a tojson that leaves text as it is.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".cache/templates/python"))
import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    template = env.from_string(pathlib.Path(sys.argv[1]).read_text(encoding="utf8"))
    sys.set_int_max_str_digits(0)
    sys.stdin.reconfigure(encoding="utf8", newline="\n")
    for line in sys.stdin:
        try:
            print(json.dumps(template.render(**json.loads(line))))
        except jinja2.exceptions.TemplateError:
            print("null")


main()
