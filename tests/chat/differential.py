"""The renderer in C against the template in two engines, on random conversations.

    python3 tests/chat/differential.py CHAT_PIPE COUNT [SEED]

Each conversation is written twice: for chat_pipe, where arguments of calls may be JSON text, and for the engines, which cannot read JSON
and get them as objects, as those who call them must. Jinja2 gets every number. JavaScript has no integers beyond 2^53 and does not tell
1.0 from 1, so @huggingface/jinja gets conversations of their own, whose numbers and keys it can represent (js=True below).
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = HERE.parents[1] / ".cache/templates"
WORDS = ["", "a", "Hi", "two words", "  lead\n\ttab\r\ntrail \n", "é", "日本語", "🙂👍🏽", "नमस्ते", "e\u0301", "<b>&'\"</b>", "\\", "\"", "{", "}", "{{ x }}",
         "{% raw %}", "<|end_message|>", "<|message_system|>", "\u2028\u2029", "\x7f", "\x01\x1f\x00", "\b\f", "/", "0", "null", "\u00a0x\u00a0", "\ufeff", "\U0010ffff"]


class Raw(str):
    """JSON text that stands for itself."""


class Gen:
    def __init__(self, seed, js):
        self.r, self.js = random.Random(seed), js

    def chance(self, p):
        return self.r.random() < p

    def text(self):
        return "".join(self.r.choice(WORDS) for _ in range(self.r.choice([0, 1, 1, 1, 2, 3])))

    def some_text(self):
        return self.text() or "x"

    def key(self):
        key = self.r.choice(["a", "b", "B", "é", "10", "9", "z z", "", "name", "args", "items", "get", "𐀀", "\ue000", "k" + str(self.r.randrange(30))])
        return "k" if self.js and key in "𐀀\ue000" and key else key  # UTF-16 sorts these two the other way round

    def number(self):
        r = self.r
        if self.js:
            return Raw(str(r.choice([r.randrange(-10, 10), r.randrange(-2**53 + 1, 2**53)])) if self.chance(0.6)
                       else repr(r.choice([0.1, -2.5, 0.0001, 1234.5678, r.uniform(0.001, 1000) + 1e-9])))
        kind = r.randrange(7)
        if kind == 0:
            return Raw(str(r.randrange(-10, 1000)))
        if kind == 1:
            return Raw(str(r.randrange(-10**40, 10**40)))
        if kind == 2:
            return Raw(r.choice(["-0", "-0.0", "0.0", "1.0", "1e0", "1E5", "1e16", "1e15", "0.00001", "1e-4", "123456789012345678.0", "5e-324", "2.2250738585072014e-308",
                                 "1.7976931348623157e308", "9007199254740993.0", "5.684341886080802e-14", "1.50", "100e-2", "12345678901234567890"]))
        if kind == 3:
            return Raw(repr(r.uniform(-1e3, 1e3)))
        if kind == 4:
            return Raw(str(r.choice([-1, 1]) * r.random()) + "e" + str(r.randrange(-320, 300)))
        if kind == 5:
            return Raw(repr(2.0 ** r.randrange(-1074, 1023)))
        return Raw(str(r.randrange(10**6)) + "." + str(r.randrange(10**6)))

    def value(self, depth):
        kind = self.r.randrange(8 if depth < 4 else 5)
        if kind == 0:
            return self.text()
        if kind in (1, 2):
            return self.number()
        if kind == 3:
            return self.chance(0.5)
        if kind == 4:
            return None
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.r.randrange(4))]
        return self.object(depth + 1)

    def object(self, depth=0):
        """Pairs, so that a key can be there twice."""
        return Raw(self.json_object([(self.key(), self.value(depth)) for _ in range(self.r.randrange(5))]))

    # JSON with white space and escapes of all kinds
    def space(self):
        return self.r.choice(["", "", "", " ", "  "])

    def json_object(self, pairs):
        return "{" + ",".join(self.space() + self.json(k) + self.space() + ":" + self.space() + self.json(v) + self.space() for k, v in pairs) + "}"

    def json(self, v):
        if isinstance(v, Raw):
            return v
        if isinstance(v, str):
            return json.dumps(v, ensure_ascii=self.chance(0.3))
        if isinstance(v, dict):
            return self.json_object(list(v.items()))
        if isinstance(v, list):
            return "[" + ",".join(self.space() + self.json(e) for e in v) + self.space() + "]"
        return json.dumps(v)

    # conversations
    def part(self, text_only):
        kind = self.r.randrange(3 if text_only else 6)
        if kind == 0:
            return self.text()
        if kind in (1, 2):
            part = {"type": self.r.choice(["text", "input_text"]), "text": self.text()}
            for name in ("type", "text"):
                if self.chance(0.1):
                    del part[name]
            if self.chance(0.02):
                part["type"] = "video"
            return part
        name = self.r.choice(["image", "input_image", "image_url", "audio", "input_audio", "audio_url"])
        return {"type": name, name: self.value(2)}

    def content(self, text_only=False):
        kind = self.r.randrange(10)
        if kind == 0:
            return None
        if kind in (1, 2, 3):
            return [self.part(text_only) for _ in range(self.r.randrange(4))]
        if kind == 4 and self.chance(0.1):
            return self.value(2)
        return self.text()

    def call(self, ids):
        name = self.r.choice(["get_weather", "f", "é🙂", "a b", "<|end_message|>", self.some_text()])
        function = {"name": name, "arguments": self.r.choice([None, "", " [1] ", self.object(), self.object(), self.object(), self.object()])}
        if isinstance(function["arguments"], Raw) and self.chance(0.5):
            function["arguments"] = AsText(self, function["arguments"])
        if self.chance(0.05):
            function["name"] = None
        if self.chance(0.05):
            del function["arguments"]
        call = {"type": "function", "function": function}
        if self.chance(0.8):
            call["id"] = "c%d" % self.r.randrange(6)
            ids.append(call["id"])
        return call

    def message(self, ids):
        role = self.r.choice(["system", "developer", "user", "user", "assistant", "assistant", "tool"])
        if self.chance(0.005):
            role = "narrator"
        m = {"role": role, "content": self.content(role == "tool")}
        if self.chance(0.05):
            del m["content"]
        if self.chance(0.4 if role == "assistant" else 0.05):
            m[self.r.choice(["reasoning_content", "reasoning_content", "reasoning"])] = self.r.choice([None, self.text()])
        if role == "assistant" and self.chance(0.4):
            m["tool_calls"] = [self.call(ids) for _ in range(self.r.randrange(4))]
        if role == "tool":
            if self.chance(0.3):
                m["name"] = self.r.choice([None, self.text()])
            if self.chance(0.8):
                m["tool_call_id"] = self.r.choice(ids) if ids and self.chance(0.7) else "c%d" % self.r.randrange(6)  # also of later calls
            if self.chance(0.2):
                m["content"] = self.value(1)
        return m

    def tool(self):
        function = {"name": self.some_text(), "description": self.r.choice([None, self.text()]), "parameters": self.r.choice([None, self.object()])}
        for name in list(function):
            if self.chance(0.1):
                del function[name]
        if self.chance(0.2):
            function["strict"] = True
        if self.chance(0.1):
            return function
        tool = {"type": "function", "function": function}
        if self.chance(0.1):
            del tool["type"]
        return tool

    def effort(self):
        r = self.r
        return r.choice([None, "none", "minimal", "low", "medium", "high", "xhigh", "max", "  HiGh ", "0.75", " 0.3", "1", "junk", True, 0, 0.0, 1, -0.1, 0.995, 0.99,
                         r.randrange(199) / 200, r.randrange(100) / 100, r.random(), round(r.random(), 3), 0.125, 0.375, 0.625, 0.875])

    def conversation(self):
        ids = []
        request = {"messages": [self.message(ids) for _ in range(self.r.randrange(7))]}
        if self.chance(0.4):
            request["tools"] = self.r.choice([None, [self.tool() for _ in range(self.r.randrange(4))]])
        if self.chance(0.4):
            request["reasoning_effort"] = self.effort()
        if self.chance(0.3):
            request["preserve_thinking"] = self.chance(0.3)
        request["add_generation_prompt"] = self.chance(0.6)
        if self.chance(0.1):
            request["continue_final_message"] = True
            if self.chance(0.8):
                last = {"role": "assistant", "content": self.r.choice([self.text(), [self.part(False)]]), "reasoning_content": self.text()}
                request["messages"].append(last)
        return request

    def lines(self):
        """-> (for chat_pipe, for an engine)"""
        request = self.conversation()
        state = self.r.getstate()
        c = self.json(resolve(request, True))
        self.r.setstate(state)
        return c, self.json(resolve(request, False))


class AsText:
    """An object that chat_pipe gets as JSON text within a string, among white space."""
    def __init__(self, gen, raw):
        self.text, self.raw = gen.r.choice(["", " ", "\n\t", "\u00a0"]) + raw + gen.r.choice(["", " ", "\r\n"]), raw


def resolve(v, text):
    if isinstance(v, AsText):
        return v.text if text else v.raw
    if isinstance(v, dict):
        return {k: resolve(e, text) for k, e in v.items()}
    return [resolve(e, text) for e in v] if isinstance(v, list) else v


def run(command, lines):
    with tempfile.TemporaryFile("w+b") as f:
        f.write(("\n".join(lines) + "\n").encode("utf8"))
        f.seek(0)
        out = subprocess.run(command, stdin=f, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in out.decode("utf8").split("\n") if line]


def compare(name, command, pipe, seed, count, js):
    gen = Gen(seed, js)
    pairs = [gen.lines() for _ in range(count)]
    ours, theirs = run([pipe], [p[0] for p in pairs]), run(command, [p[1] for p in pairs])
    assert len(ours) == len(theirs) == count, (len(ours), len(theirs), count)
    bad = [i for i in range(count) if ours[i] != theirs[i]]
    refused = sum(o is None for o in ours)
    for i in bad[:5]:
        print(f"{name}: conversation {i} of seed {seed}:\n  request {pairs[i][0]}\n  ours    {ours[i]}\n  theirs  {theirs[i]}")
    print(f"{name}: {count} conversations, {refused} refused by both, {sum(map(len, filter(None, ours)))} characters, {len(bad)} differ")
    return len(bad) == 0 and refused < count / 3


def main():
    pipe, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if not (ENGINES / "python/jinja2").is_dir() or not (ENGINES / "package").is_dir():
        print("skipped: tests/chat/fetch-engines.sh fetches the template engines")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "chat_template.jinja"
        template.write_bytes(subprocess.run([pipe, "template"], stdout=subprocess.PIPE, check=True).stdout)
        ok = compare("Jinja2", [sys.executable, HERE / "render_jinja2.py", template], pipe, seed, count, False)
        ok &= compare("@huggingface/jinja", ["node", HERE / "render_hf.mjs", template], pipe, seed + 1, count, True)
    sys.exit(0 if ok else 1)


main()
