"""Many clients at once, for a while: every answer must be the one that the same request gets alone, and memory must stay flat.

    python3 tests/server/soak.py PROGRAM MODEL [--clients 64] [--seconds 300] [--threads N]

Clients stream, in all four dialects, long and short prompts, with stop strings, schemas and forced calls; some leave in the middle.
"""
import argparse
import http.client
import json
import os
import random
import sys
import threading
import time

from dialect_kit import Failed, Server, join_chat, join_completions, join_messages, join_responses

CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": CITY, "strict": True}}


def requests():
    out = []
    for i in range(48):
        words = " ".join(random.Random(i).choice("red blue one two three the of and tea sun".split()) for _ in range(5 + 60 * (i % 5)))
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": words}]
        n = 8 + 7 * (i % 6)
        chat = {"messages": messages, "seed": i, "max_tokens": n}
        if i % 6 == 0:
            out.append(("/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 2, "n": 1 + i % 2}))
        elif i % 6 == 1:
            out.append(("/v1/chat/completions", {**chat, "reasoning_effort": "none", "max_tokens": 200,
                                                 "response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": CITY,
                                                                                                            "strict": True}}}))
        elif i % 6 == 2:
            out.append(("/v1/chat/completions", {**chat, "reasoning_effort": "none", "max_tokens": 200, "tools": [TOOL],
                                                 "tool_choice": "required", "parallel_tool_calls": False}))
        elif i % 6 == 3:
            out.append(("/v1/completions", {"prompt": words, "seed": i, "max_tokens": n, "stop": ["q", "e "]}))
        elif i % 6 == 4:
            out.append(("/v1/responses", {"input": words, "seed": i, "max_output_tokens": n}))
        else:
            out.append(("/v1/messages", {"model": "m", "messages": messages[1:], "max_tokens": n, "top_k": 1}))
    return out


def joined(path, events):
    if path.endswith("chat/completions"):
        return join_chat(events)[0]
    if path.endswith("completions"):
        return join_completions(events)[0]
    if path.endswith("responses"):
        whole = join_responses(events)
        del whole["usage"]
        return whole
    whole = join_messages(events)
    del whole["usage"]
    return whole


class Soak:
    def __init__(self, server, seconds):
        self.server = server
        self.cases = requests()
        self.alone = [joined(path, server.events(path, body)) for path, body in self.cases]
        self.until = time.monotonic() + seconds
        self.lock, self.n, self.n_left, self.problems = threading.Lock(), 0, 0, []

    def leave(self, rng):
        path, body = rng.choice(self.cases)
        c = self.server.connect()
        c.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        r = c.getresponse()
        r.read(rng.randrange(1, 400))
        r.close()
        c.close()

    def client(self, number):
        rng = random.Random(number)
        while time.monotonic() < self.until and len(self.problems) < 5:
            try:
                if rng.random() < 0.05:
                    self.leave(rng)
                    with self.lock:
                        self.n_left += 1
                    continue
                i = rng.randrange(len(self.cases))
                path, body = self.cases[i]
                got = joined(path, self.server.events(path, body))
                with self.lock:
                    self.n += 1
                    if got != self.alone[i]:
                        self.problems.append(f"{path}, request {i}: got {str(got)[:300]}, alone {str(self.alone[i])[:300]}")
            except (Failed, OSError, ValueError, LookupError, http.client.HTTPException) as e:
                with self.lock:
                    self.problems.append(f"{type(e).__name__}: {e}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("model")
    p.add_argument("--clients", type=int, default=64)
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--cache", default="64")
    a = p.parse_args()
    with Server(a.program, a.model, "--ctx", "2048", "--queue", "256", "--cache", a.cache) as server:
        soak = Soak(server, a.seconds)
        threads = [threading.Thread(target=soak.client, args=(i,)) for i in range(a.clients)]
        for t in threads:
            t.start()
        began, memory = time.monotonic(), []
        while any(t.is_alive() for t in threads):
            time.sleep(max(0.2, a.seconds / 40))
            memory.append(server.resident() >> 10)
        for t in threads:
            t.join()
        took = time.monotonic() - began
        m = server.metrics()
    # The cache and the sessions fill up first; after that nothing may grow.
    quarter = max(1, len(memory) // 4)
    settled, last = max(memory[quarter:2 * quarter] or memory), max(memory[-quarter:])
    print(f"{soak.n} answers equal to those alone, {soak.n_left} clients left, {a.clients} at once, {took:.0f} s, "
          f"{m['inkjet_generated_tokens_total'] / took:.0f} tokens/s; resident KiB at most {settled} in the second quarter, {last} in the last")
    for problem in soak.problems:
        print("FAIL", problem)
    grown = last - settled
    if grown > 0.05 * settled + 4096:
        soak.problems.append("memory")
        print(f"FAIL memory grew by {grown} KiB: {memory}")
    sys.exit(1 if soak.problems or soak.n == 0 else 0)


main()
