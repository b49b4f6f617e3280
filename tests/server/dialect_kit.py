"""What the tests of the API dialects share: a small model with a vocabulary of its own, a server, requests, and streams put back together.

The model has random weights and 600 ids: the 256 bytes, pairs of common characters, and the control tokens of the chat format under
numbers of their own. It is small enough for builds with sanitizers, and its answers wander through all kinds of blocks.
"""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time

SPECIALS = """endoftext message_user message_model message_system message_tool content_text content_image content_thinking end_message
content_audio_input content_tool_error unused_200024 audio_end content_invoke_tool_json unused_200053 unused_200054
content_invoke_tool_text unused_7 content_model_end_sampling""".split()
N_IDS = 600


class Failed(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failed(what)


def equal(got, want, what):
    if got != want:
        raise Failed(f"{what}:\n  got      {got!r}\n  expected {want!r}")


# --- the model

def spelling(b):
    """The character by which tokenizer.json spells a byte."""
    plain = [c for c in range(256) if 0x21 <= c <= 0x7E or 0xA1 <= c <= 0xAC or c >= 0xAE]
    return chr(b) if b in plain else chr(256 + [c for c in range(256) if c not in plain].index(b))


def tokenizer_json(pattern):
    vocab = {spelling(b): b for b in range(256)}
    merges = []
    letters = 'etaoinshrdlu ,."{}'
    for left in letters:
        for right in letters:
            merges.append((spelling(ord(left)), spelling(ord(right))))
    merges.append((spelling(0xC3), spelling(0xA9)))
    for left, right in merges:
        vocab[left + right] = len(vocab)
    first = N_IDS - len(SPECIALS)
    assert len(vocab) == first, len(vocab)
    added = [{"id": first + i, "content": f"<|{name}|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, name in enumerate(SPECIALS)]
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}, "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": True, "vocab": vocab,
                      "merges": [f"{a} {b}" for a, b in merges]}}


def pattern_of_family():
    contraction = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    prefix = r"[^\r\n\p{L}\p{N}]?"
    return "|".join([prefix + upper + "*" + lower + "+" + contraction, prefix + upper + "+" + lower + "*" + contraction, r"\p{N}{1,3}",
                     r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def make_model(program, folder):
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    subprocess.run([program, "bench", "--synthetic", "tiny", "--keep", folder, "--prompt", "1", "--gen", "1", "--repeat", "1"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(tokenizer_json(pattern_of_family()), f)
    return folder


# --- the server

class Server:
    def __init__(self, program, model, *options):
        self.process = subprocess.Popen([program, "serve", "-m", model, "--port", "0", "--threads", "2", *options], stdout=subprocess.PIPE)
        line = self.process.stdout.readline().decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        check(found, f"the server does not say where it listens: {line!r}")
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        if error[0] is None:
            equal(code, 0, "the server's exit status")

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def send(self, path, body, headers=None, method="POST"):
        """(status, headers, bytes)"""
        c = self.connect()
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        c.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        r = c.getresponse()
        out = r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()
        c.close()
        return out

    def ask(self, path, body):
        status, _, data = self.send(path, body)
        if status != 200:
            raise Failed(f"{path} {json.dumps(body)[:300]}: {status} {data.decode()[:500]}")
        return json.loads(data)

    def refused(self, path, body, status, **headers):
        got, head, data = self.send(path, body, headers)
        if got != status:
            raise Failed(f"{path} {str(body)[:300]}: expected {status}, got {got} {data.decode()[:300]}")
        return json.loads(data), head

    def events(self, path, body):
        """The events of a stream: (name or None, parsed data or the text "[DONE]")."""
        status, headers, data = self.send(path, {**body, "stream": True})
        if status != 200:
            raise Failed(f"{path} {json.dumps(body)[:300]}: {status} {data.decode()[:500]}")
        check(headers["content-type"].startswith("text/event-stream"), headers)
        return list(parse_events(data))

    def metrics(self):
        _, _, data = self.send("/metrics", b"", method="GET")
        return {line.split()[0]: float(line.split()[1]) for line in data.decode().splitlines() if line and line[0] != "#"}


def parse_events(data):
    text = data.decode()
    check(text.endswith("\n\n"), "a stream ends with an empty line")
    for block in text[:-2].split("\n\n"):
        name = None
        for line in block.split("\n"):
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, line[6:] if line == "data: [DONE]" else json.loads(line[6:])
            else:
                check(line.startswith(":"), f"not a line of an event stream: {line!r}")


# --- streams put back together, in the form of the whole reply

def join_chat(events):
    check(events[-1] == (None, "[DONE]"), "the stream ends with [DONE]")
    choices, usage = {}, None
    for _, chunk in events[:-1]:
        check("error" not in chunk, f"an error in a stream: {chunk}")
        equal(chunk["object"], "chat.completion.chunk", "object")
        usage = chunk.get("usage") or usage
        for part in chunk["choices"]:
            c = choices.setdefault(part["index"], {"content": None, "reasoning": None, "calls": [], "finish": None, "logprobs": [],
                                                   "first": True})
            delta = part["delta"]
            check(c["finish"] is None, "nothing comes after a finish_reason")
            equal("role" in delta, c["first"], "the role comes first, once")
            if delta.get("content") is not None and not c["first"]:
                c["content"] = (c["content"] or "") + delta["content"]
            c["first"] = False
            if "reasoning_content" in delta:
                c["reasoning"] = (c["reasoning"] or "") + delta["reasoning_content"]
            for call in delta.get("tool_calls", []):
                if call["index"] == len(c["calls"]):
                    check(call["id"].startswith("call_") and call["type"] == "function", call)
                    c["calls"].append([call["function"]["name"], ""])
                c["calls"][call["index"]][1] += call["function"]["arguments"]
            if part["logprobs"]:
                c["logprobs"] += part["logprobs"]["content"]
            c["finish"] = part["finish_reason"]
    for c in choices.values():
        del c["first"]
        if c["content"] is None and not c["calls"]:
            c["content"] = ""
    return [choices[i] for i in sorted(choices)], usage


def plain_chat(reply):
    out = []
    for c in reply["choices"]:
        m = c["message"]
        calls = [[t["function"]["name"], t["function"]["arguments"]] for t in m.get("tool_calls", [])]
        out.append({"content": m["content"], "reasoning": m.get("reasoning_content"), "calls": calls, "finish": c["finish_reason"],
                    "logprobs": (c["logprobs"] or {"content": []})["content"]})
    return out, reply["usage"]


def join_completions(events):
    check(events[-1] == (None, "[DONE]"), "the stream ends with [DONE]")
    choices, usage = {}, None
    for _, chunk in events[:-1]:
        usage = chunk.get("usage") or usage
        for part in chunk["choices"]:
            c = choices.setdefault(part["index"], {"text": "", "finish": None, "logprobs": {}})
            c["text"] += part["text"]
            c["finish"] = part["finish_reason"]
            for key, values in (part["logprobs"] or {}).items():
                c["logprobs"].setdefault(key, []).extend(values)
    return [choices[i] for i in sorted(choices)], usage


def plain_completions(reply):
    return [{"text": c["text"], "finish": c["finish_reason"], "logprobs": {k: v for k, v in (c["logprobs"] or {}).items() if v}}
            for c in reply["choices"]], reply["usage"]


def without_ids(value):
    """Random ids, and times, out."""
    if isinstance(value, list):
        return [without_ids(v) for v in value]
    if isinstance(value, dict):
        return {k: without_ids(v) for k, v in value.items() if k not in ("id", "call_id", "created_at", "completed_at", "created")}
    return value


def join_responses(events):
    """The final response; every delta, done and added event is held against it."""
    numbers = [e["sequence_number"] for _, e in events]
    equal(numbers, list(range(len(events))), "sequence numbers")
    for name, e in events:
        equal(e["type"], name, "the name of an event")
    equal([n for n, _ in events[:2]], ["response.created", "response.in_progress"], "the first events")
    check(events[-1][0] in ("response.completed", "response.incomplete"), events[-1][0])
    final = events[-1][1]["response"]
    text, added, done = {}, {}, {}
    for name, e in events[2:-1]:
        i = e["output_index"]
        if name == "response.output_item.added":
            equal(i, len(added), "items come in order")
            added[i] = e["item"]
            equal(e["item"]["status"], "in_progress", "the status of a new item")
            text[i] = ""
        elif name == "response.output_item.done":
            done[i] = e["item"]
        else:
            check(i not in done, f"{name} after the item is done")
            equal(e["item_id"], added[i]["id"], "item_id")
        if name.endswith(".delta"):
            text[i] += e["delta"]
        if name in ("response.output_text.done", "response.reasoning_text.done"):
            equal(e["text"], text[i], name)
        if name == "response.function_call_arguments.done":
            equal(e["arguments"], text[i], name)
    equal([done[i] for i in sorted(done)], final["output"], "the items of the final response")
    for i, item in enumerate(final["output"]):
        whole = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        equal(text[i], whole, "the pieces of an item")
    return without_ids(final)


def join_messages(events):
    """The message, in the form of the whole reply."""
    equal(events[0][0], "message_start", "the first event")
    equal([n for n, _ in events[-2:]], ["message_delta", "message_stop"], "the last events")
    message, open_block, partial = events[0][1]["message"], None, ""
    for name, e in events:
        equal(e["type"], name, "the name of an event")
        if name == "content_block_start":
            check(open_block is None, "one block at a time")
            equal(e["index"], len(message["content"]), "blocks come in order")
            open_block, partial = e["content_block"], ""
            message["content"].append(open_block)
        elif name == "content_block_delta":
            d = e["delta"]
            equal(e["index"], len(message["content"]) - 1, "the block of a delta")
            if d["type"] == "input_json_delta":
                partial += d["partial_json"]
            else:
                key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}[d["type"]]
                open_block[key] += d[key]
        elif name == "content_block_stop":
            if open_block["type"] == "tool_use":
                try:
                    open_block["input"] = json.loads(partial)
                except ValueError:
                    open_block["input"] = {"INVALID_JSON": partial}
            open_block = None
        elif name == "message_delta":
            message.update(e["delta"])
            message["usage"] = e["usage"]
    return without_ids(message)


def run_tests(tests, *args):
    failed = 0
    for test in tests:
        try:
            test(*args)
        except (Failed, KeyError, IndexError, TypeError, ValueError, OSError) as why:
            failed += 1
            print(f"FAIL {test.__name__}: {type(why).__name__}: {why}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not tests else 0)


def run_with_one_server(make, options, shared, own):
    """A test program: PROGRAM WORK_FOLDER [TEST...]. The shared tests get one server, the own ones the program and the model."""
    program, work, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    model = make(program, os.path.join(work, "model"))

    def bind(test, *args):
        def bound():
            began = time.monotonic()
            test(*args)
            print(f"{test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        bound.__name__ = test.__name__
        return bound

    wanted = [(t, t in own) for t in shared + own if not names or t.__name__ in names]
    try:
        with Server(program, model, *options) as server:
            run_tests([bind(t, program, model) if is_own else bind(t, server) for t, is_own in wanted])
    except Failed as why:
        sys.exit(f"FAIL {why}")
