"""The whole program as a server, with a small random model: what clients may send to it, and how it begins and ends.

    test_serve.py PROGRAM FOLDER [TEST...]        FOLDER: where the model is made
"""
import functools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import dialect_kit
from clients import Failed, Reader, Server, ask, check, equal, request, run, wait_until

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
del sys.argv[2]  # for run()
MODEL = str(FOLDER / "model")
SLOW = bool(os.environ.get("INKJET_SANITIZED"))
TESTS = []
POSTS = ["/tokenize", "/detokenize", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"]


def test(*options):
    """A test with a server of its own, which must end well."""

    def wrap(function):
        @functools.wraps(function)
        def whole():
            server = Server(PROGRAM, "serve", "-m", MODEL, "--port", "0", "--threads", "1", "--ctx", "4000", *(() if "--parallel" in options else ("--parallel", "2")),
                            *options)
            try:
                function(server)
                equal(ask(server, "GET", "/health").status, 200, "afterwards, /health")
                equal(server.terminate(), 0, "exit code")
            finally:
                server.kill()
                server.process.stdin.close()
                server.process.stdout.close()

        TESTS.append((function.__name__, whole))
        return function

    return wrap


def grown(server, before):
    return 0 if SLOW else server.resident() - before


# ----------------------------------------------------------------------------------------------------------- the endpoints


@test("--model-name", 'na"me/x')
def endpoints(server):
    equal(ask(server, "GET", "/health").json(), {"status": "ok"})
    models = ask(server, "GET", "/v1/models").json()
    equal((models["object"], len(models["data"]), models["first_id"]), ("list", 1, 'na"me/x'))
    equal(ask(server, "GET", "/v1/models/na%22me/x").json(), models["data"][0])
    equal(models["data"][0]["meta"]["vocab"], 600)
    r = ask(server, "GET", "/v1/models/other")
    equal((r.status, r.error()), (404, "model_not_found"))
    equal(ask(server, "HEAD", "/v1/models", head_only=True).status, 200)
    r = ask(server, "DELETE", "/v1/models")
    equal((r.status, r.headers["allow"]), (405, "GET, HEAD, OPTIONS"))


def read_metrics(server):
    r = ask(server, "GET", "/metrics")
    equal(r.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
    values = {}
    for line in r.body.decode().splitlines():
        if m := re.fullmatch(r"# (?:HELP (inkjet_\w+) \S.*|TYPE (inkjet_\w+) (?:counter|gauge))", line):
            values.setdefault(m.group(1) or m.group(2), [0, None])[0] += 1
        else:
            name, value = re.fullmatch(r"(inkjet_\w+) (\S+)", line).groups()
            values[name][1] = float(value)
    check(all(n == 2 and v is not None for n, v in values.values()), "each has help, type and value")
    return {name: v for name, (_, v) in values.items()}


@test()
def metrics(server):
    ask(server, "POST", "/tokenize", body=b'{"content":"hello"}')
    values = read_metrics(server)
    for name in ("jobs_running", "jobs_waiting", "prefill_seconds_total", "decode_seconds_total", "prompt_tokens_total", "generated_tokens_total",
                 "prefix_cache_hits_total", "http_connections", "uptime_seconds", "heap_bytes"):
        check(f"inkjet_{name}" in values, name)
    equal((values["inkjet_http_requests_total"], values["inkjet_http_connections_busy"]), (2, 1))
    check(not any("expert" in name for name in values), "nothing is counted where nothing is read")


def experts_from_disk():
    """The metrics tell how they are read; their use is kept at the end."""
    kept = FOLDER / "serve.usage"
    kept.unlink(missing_ok=True)
    server = Server(PROGRAM, "serve", "-m", MODEL, "--port", "0", "--threads", "1", "--ctx", "200", "--parallel", "1", "--cache", "0", "--home", "streamed",
                    "--predict", "off", "--usage", kept)
    try:
        r = ask(server, "POST", "/v1/completions", body=b'{"prompt":"hello world","max_tokens":5,"temperature":0}')
        equal(r.status, 200)
        values = {name.removeprefix("inkjet_"): v for name, v in read_metrics(server).items()}
        check(values["expert_misses_total"] > 0 and values["expert_hits_total"] > 0, "some experts were read, and some were there")
        check(values["expert_read_bytes_total"] > values["expert_misses_total"] and values["expert_read_seconds_total"] > 0, "bytes and seconds")
        check(values["expert_wait_seconds_total"] > 0 and values["experts_room"] > 0, "waiting, room")
        equal([values[f"expert_guesses_{name}total"] for name in ("", "used_", "cancelled_")], [0, 0, 0])
        equal(values["evaluated_tokens_total"], r.json()["usage"]["total_tokens"] - 1, "the last token is not evaluated")
        equal(server.terminate(), 0, "exit code")
        equal(kept.stat().st_size, 288, "bytes that are kept")
    finally:
        server.kill()
        server.process.stdin.close()
        server.process.stdout.close()


TESTS.append(("experts_from_disk", experts_from_disk))


@test()
def text_and_ids(server):
    for text in ("", "hello world", "caf\u00e9 \U0001f600 \0 \u2028 \"\\\n", "the " * 1000):
        ids = ask(server, "POST", "/tokenize", body=repr_json({"content": text})).json()
        equal(ids["count"], len(ids["tokens"]))
        equal(ask(server, "POST", "/detokenize", body=repr_json({"tokens": ids["tokens"]})).json(), {"content": text})
    equal(ask(server, "POST", "/tokenize", body=b'{"content":"<|message_user|>"}').json()["count"] > 1, True, "text of users is no control token")
    ids = ask(server, "POST", "/tokenize", body=b'{"content":"<|message_user|>","parse_special":true}').json()["tokens"]
    equal(ask(server, "POST", "/detokenize", body=repr_json({"tokens": ids})).json(), {"content": "<|message_user|>"})
    equal(len(ids), 1)
    equal(ask(server, "POST", "/detokenize", body=b'{"tokens":[195]}').json(), {"content": "\ufffd"}, "half a character")
    for body, code in (({"tokens": [600]}, "invalid_token"), ({"tokens": [-1]}, "invalid_token"), ({"tokens": [1.5]}, "invalid_token"),
                       ({"tokens": ["1"]}, "invalid_token"), ({"tokens": [2**40]}, "invalid_token"), ({"tokens": "1"}, "invalid_type"),
                       ({}, "invalid_type"), ({"tokens": [], "x": 1}, "unknown_field")):
        r = ask(server, "POST", "/detokenize", body=repr_json(body))
        equal((r.status, r.error()), (400, code), str(body))
    r = ask(server, "POST", "/detokenize", body='{"\u00e9\u20ac":1}'.encode())
    equal(r.json()["error"]["message"], 'unknown field "\u00e9\u20ac"', "characters of a message stay whole")
    for body, code in (({"content": 1}, "invalid_type"), ({"content": None}, "invalid_type"), ({"content": "", "parse_special": 1}, "invalid_type"),
                       ({"content": "", "Content": ""}, "unknown_field"), ([], "invalid_type"), ("x", "invalid_type"), (1, "invalid_type")):
        r = ask(server, "POST", "/tokenize", body=repr_json(body))
        equal((r.status, r.error()), (400, code), str(body))


def repr_json(value):
    return json.dumps(value, ensure_ascii=False).encode()


# -------------------------------------------------------------------------------------------------------------- bad bodies

BAD = {
    "empty": b"", "blank": b"   ", "half": b'{"content":', "deep arrays": b"[" * 200000, "deep objects": b'{"a":' * 200000,
    "deep and closed": b'{"content":' + b"[" * 100000 + b"]" * 100000 + b"}", "no UTF-8": b'{"content":"\xff"}',
    "surrogate": b'{"content":"\xed\xa0\x80"}', "overlong": b'{"content":"\xc0\xaf"}', "lone escape": b'{"content":"\\ud800"}',
    "NUL": b'{"content":"a\0b"}', "control": b'{"content":"\n"}', "BOM": b'\xef\xbb\xbf{"content":""}', "two values": b'{"content":""}{}',
    "same key twice": b'{"content":"a","content":"b"}', "comment": b'{"content":""/**/}', "NaN": b'{"content":NaN}', "comma": b'{"content":"",}',
    "quotes": b"{'content':''}", "number": b'{"content":' + b"1" * 100000 + b"}", "exponent": b'{"content":1e999999999}', "binary": bytes(range(256)) * 100,
}


@test()
def bad_bodies(server):
    before = server.resident()
    for path in POSTS:
        for name, body in BAD.items():
            r = ask(server, "POST", path, body=body)
            equal(r.status, 400, f"{path}: {name}")
            if path.startswith("/v1/messages"):
                equal((r.json()["type"], r.json()["error"]["type"]), ("error", "invalid_request_error"), f"{path}: {name}")
            else:
                r.error()
    check(grown(server, before) < 256 << 20, f"memory grew by {grown(server, before)}")
    before = server.resident()
    for _ in range(1 if SLOW else 5):
        for body in BAD.values():
            equal(ask(server, "POST", "/tokenize", body=body).status, 400)
    check(grown(server, before) < 64 << 20, f"memory went on growing by {grown(server, before)}")


@test("--max-body", "4")
def large_bodies(server):
    """A gigabyte, announced and not; memory stays where it is."""
    before = server.resident()
    json_type = {"Content-Type": "application/json"}
    for headers, first in (({**json_type, "Content-Length": str(1 << 30)}, b'{"content":"'),
                           ({**json_type, "Transfer-Encoding": "chunked"}, b"40000000\r\n" + b'{"content":"')):
        with server.connect() as s:
            try:
                s.sendall(request("POST", "/tokenize", headers) + first)
                for _ in range(1024):
                    s.sendall(b"x" * (1 << 20))
            except (BrokenPipeError, ConnectionResetError):
                pass
            r = Reader(s).reply()
            equal((r.status, r.error()), (413, "body_too_large"), first)
    body = b'{"content":"' + b"hello " * (100000 if SLOW else 690000) + b'"}'  # what fits is taken
    equal(ask(server, "POST", "/tokenize", body=body).status, 200, f"{len(body)} bytes")
    check(grown(server, before) < 256 << 20, f"memory grew by {grown(server, before)}")


@test("--max-body", "4")
def many_small_values(server):
    """What a body is parsed into counts as bodies do: 64 MB for all of them here, of which three million marks would take 96."""
    before = server.resident()
    for path in ("/tokenize", "/v1/chat/completions"):
        r = ask(server, "POST", path, body=b'{"messages":[' + b"[]," * 1300000 + b"[]]}")
        equal((r.status, r.error()), (413, "body_too_large"), path)
    check(grown(server, before) < 32 << 20, f"memory grew by {grown(server, before)}")
    r = ask(server, "POST", "/tokenize", body=b'{"content":"' + b"a, " * 300000 + b'"}')
    equal(r.status, 200, "text with many commas")


@test("--request-timeout", "1", "--max-connections", "100")
def a_crowd_of_bad_clients(server):
    """Slow ones, idle ones, half ones and leaving ones at once, while a good one works."""
    before = server.resident()
    head = request("POST", "/tokenize", {"Content-Type": "application/json", "Content-Length": "100000"})
    crowd = []
    for i in range(400):
        s = server.connect()
        s.sendall((b"", b"GET /hea", head, head + b'{"content":"' + b"a" * 5000, request("GET", "/metrics") * 20)[i % 5])
        if i % 7 == 0:
            s.shutdown(socket.SHUT_WR)
        crowd.append(s)
        if i % 40 == 0:
            equal(ask(server, "POST", "/tokenize", body=b'{"content":"q"}').json()["count"], 1)
    time.sleep(1.6)
    check(b" 408 " in crowd[-2].recv(100), "the last slow ones were told")
    equal(ask(server, "GET", "/health").status, 200)
    for s in crowd:
        s.close()
    check(grown(server, before) < 64 << 20, f"memory grew by {grown(server, before)}")


# --------------------------------------------------------------------------------------------------------------- options


def keys_from_a_file():
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder, "keys")
        keys.write_text("# two keys\n\n first \nsecond\r\n")
        server = Server(PROGRAM, "serve", "-m", MODEL, "--port", "0", "--ctx", "64", "--api-key-file", keys, "--cors-origin",
                        "https://a.example, https://b.example, null,http://[::1]:443,http://127.0.0.1:3000,app+x://my_app", "--allow-host", "my.name,[fe80::1],A_b.c")
        try:
            for headers, status in (({}, 401), ({"Authorization": "Bearer first"}, 200), ({"x-api-key": "second"}, 200),
                                    ({"x-api-key": "# two keys"}, 401), ({"x-api-key": "third"}, 401)):
                equal(ask(server, "GET", "/v1/models", headers=headers).status, status, str(headers))
                equal(ask(server, "GET", "/metrics", headers=headers).status, status, str(headers))
            for path in ("/health", "/"):
                equal(ask(server, "GET", path).status, 200, path)
            equal(ask(server, "GET", "/health", headers={"Origin": "https://b.example"}).headers["access-control-allow-origin"], "https://b.example")
            equal((ask(server, "GET", "/health", host="my.name").status, ask(server, "GET", "/health", host="other").status), (200, 421))
            equal(server.terminate(), 0)
        finally:
            server.kill()


TESTS.append(("keys_from_a_file", keys_from_a_file))


# What no browser sends as Origin, and no client as the name in Host.
UNSENT_ORIGINS = ("foo", "https://a.b/path", "https://a.b/", "https://", "https://A.b", "HTTPS://a.b", "https://a.b:443", "http://a.b:80", "http://a.b:", "http://a.b:x",
                  "http://a.b:080", "http://a.b:70000", "http://[::1", "http://a b", "a.b:8080", "//a.b", "", " , ", "https://a.b,c")
UNSENT_HOSTS = ("a b", "a:80", "http://a", "a/b", "[::1", "[]", "::1", "*", "", ",", "a,b c")


def refusals_at_the_start():
    """What cannot be served is said at once, with the right exit code."""
    with tempfile.TemporaryDirectory() as folder:
        empty = pathlib.Path(folder, "empty")
        empty.write_text("# no key\n")
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for options, code, words in ((["--port", port], 1, "cannot listen"), (["--host", "192.0.2.1"], 1, "cannot listen"),
                                     (["--host", "no.such.host.invalid"], 2, "not one of this machine"), (["--port", "65536"], 2, "65535"),
                                     (["--api-key-file", str(empty)], 2, "no key"), (["--api-key-file", folder + "/none"], 3, "No such file"),
                                     (["--cache-dir-size", "5"], 2, "--cache-dir"), (["--ctx", "100000000"], 2, "--ctx: 100000000 positions exceed the model's 4096"),
                                     (["--cache", "0", "--cache-dir", folder], 2, "leave one out"),
                                     *((["--cors-origin", text], 2, "--cors-origin: ") for text in UNSENT_ORIGINS),
                                     *((["--allow-host", text], 2, "--allow-host: ") for text in UNSENT_HOSTS),
                                     (["--max-connections", "1000000"], 2, "descriptors"), (["--model-name", ""], 2, "empty")):
            if "--max-connections" in options and subprocess.run("ulimit -Hn", shell=True, capture_output=True, text=True).stdout.strip() == "unlimited":
                continue
            r = subprocess.run([PROGRAM, "serve", "-m", MODEL, *(options if "--port" in options else ["--port", "0", *options])], capture_output=True,
                               text=True, timeout=60)
            equal(r.returncode, code, f"{options}: {r.stderr}")
            check(words in r.stderr, f"{options}: {r.stderr}")
        taken.close()


TESTS.append(("refusals_at_the_start", refusals_at_the_start))


# --------------------------------------------------------------------------------------------------------------- the end


def the_end():
    """Idle and half requests do not hold it up; a second one on an open connection is told; new clients are refused."""
    server = Server(PROGRAM, "serve", "-m", MODEL, "--port", "0", "--ctx", "64")
    try:
        idle = [server.connect() for _ in range(20)]
        for s in idle[::2]:
            s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: local")
        with server.connect() as s:
            s.sendall(request("GET", "/health"))
            equal(Reader(s).reply().status, 200)
            began = time.monotonic()
            equal(server.terminate(), 0, "exit code")
            check(time.monotonic() - began < (20 if SLOW else 5), "the end takes too long")
            check(Reader(s).ended(), "the connection is closed")
        try:
            server.connect().close()
        except ConnectionRefusedError:
            return
        raise Failed("somebody still listens")
    finally:
        server.kill()


TESTS.append(("the_end", the_end))

LONG = {"model": "m", "prompt": "Once upon a time", "stream": True, "temperature": 1, "seed": 1, "logit_bias": {}}


def long_request(n, **more):
    return request("POST", "/v1/completions", body=repr_json({**LONG, "max_tokens": n, **more}))


def running(server):
    text = ask(server, "GET", "/metrics").body.decode()
    return {k: int(re.search(rf"^inkjet_jobs_{k} (\d+)", text, re.M).group(1)) for k in ("running", "waiting", "refused_total", "cancelled_total")}


@test("--parallel", "1", "--queue", "2")
def a_full_queue(server):
    socks = [server.connect() for _ in range(8)]
    for s in socks:
        s.sendall(long_request(300, stream=False))
    statuses = sorted(Reader(s).reply().status for s in socks)
    for s in socks:
        s.close()
    check(set(statuses) == {200, 429} and statuses.count(200) >= 3, str(statuses))
    equal(running(server)["refused_total"], statuses.count(429))


@test()
def clients_that_leave(server):
    """Their work ends, streamed or whole, running or waiting."""
    for stream in (True, False):
        socks = [server.connect() for _ in range(6)]
        for s in socks:
            s.sendall(long_request(3500, stream=stream))
        wait_until(lambda: running(server)["running"] == 2, 10, "at work")
        for s in socks:
            s.close()
        took = wait_until(lambda: (running(server)["running"], running(server)["waiting"]) == (0, 0), 10, "the work ends")
        check(took < 8, f"after {took:.1f} s")


def the_end_with_work(seconds, finished):
    server = Server(PROGRAM, "serve", "-m", MODEL, "--port", "0", "--threads", "1", "--ctx", "4000", "--parallel", "2", "--drain", seconds)
    try:
        socks = [server.connect(120) for _ in range(4)]
        for s in socks:
            s.sendall(long_request(300 if finished else 3900))
        readers = [Reader(s) for s in socks]
        wait_until(lambda: running(server)["running"] == 2 and running(server)["waiting"] == 2, 10, "two at work and two in the queue")
        texts = [b""] * 4

        def read(i):
            try:
                texts[i] = readers[i].reply().body
            except (Failed, OSError):
                pass

        threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        equal(server.terminate(120), 0, "exit code")
        for t in threads:
            t.join()
        done = sum(t.endswith(b"data: [DONE]\n\n") and b'"finish_reason":"' in t for t in texts)
        equal(done == 4, finished, f"{done} of 4 answers were finished")
    finally:
        server.kill()


TESTS.append(("running_answers_are_finished", lambda: the_end_with_work("100", True)))
TESTS.append(("the_end_does_not_wait_for_ever", lambda: the_end_with_work("0", False)))

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    dialect_kit.make_model(PROGRAM, MODEL)
    run(TESTS)
