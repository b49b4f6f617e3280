"""Clients that behave badly, against http_probe, a server on http.h alone.

    test_http.py PROBE [TEST...]
"""
import functools
import json
import os
import random
import resource
import select
import socket
import sys
import threading
import time

from clients import (Failed, Reader, Server, ask, check, equal, request, reset, run, send_raw, wait_until)

PROBE = sys.argv[1]
TESTS = []
SLOW = bool(os.environ.get("INKJET_SANITIZED"))


def test(*options):
    """A test with a server of its own, which must end well and give all its memory back."""

    def wrap(function):
        @functools.wraps(function)
        def whole():
            server = Server(PROBE, *options)
            try:
                function(server)
                equal(ask(server, "GET", "/hello").status, 200, "afterwards, /hello")
                equal(server.close_input(), "0", "blocks of memory left")
            finally:
                server.kill()

        TESTS.append((function.__name__, whole))
        return whole

    return wrap


def stats(server):
    return ask(server, "GET", "/stats").json()


def grown(server, before):
    """How much memory the server has taken since; sanitizers keep what is freed, so there nothing can be said."""
    return 0 if SLOW else server.resident() - before


def checksum(body):
    n = 0
    for b in body:
        n = (n * 31 + b) & 0xFFFFFFFF
    return f"{len(body)} {n}\n".encode()


# ------------------------------------------------------------------------------------------------------ methods and paths


@test()
def methods_and_paths(server):
    r = ask(server, "GET", "/hello")
    equal((r.status, r.body), (200, b"hello\n"))
    r = ask(server, "HEAD", "/hello", head_only=True)
    equal((r.status, r.headers["content-length"]), (200, "6"), "HEAD")
    for path in ("/", "/hell", "/hello/", "/hello/x", "/query/", "/hello%00", "/hello%00x", "//hello", "/../hello"):
        r = ask(server, "GET", path)
        equal((r.status, r.error()), (404, "not_found"), path)
    equal(ask(server, "GET", "/hel%6co").status, 200, "an escaped letter")
    for target, status in (("http://localhost/hello", 200), ("HTTP://localhost:80/hello?a", 200), ("https://127.0.0.1/hello", 200), ("http://localhost", 404),
                           ("http://localhost/", 404), ("http:/hello", 404), ("http://hello", 421), ("http:///hello", 421), ("ftp://localhost/hello", 404)):
        equal(ask(server, "GET", target).status, status, target)
    equal(ask(server, "GET", "http://localhost/query/a?q=1&r", headers={"X-Test": "yes"}).body, b"/query/a|1|yes\n", "an absolute target")
    equal(ask(server, "GET", "/query/a%2Fb?q=1%202+3&r", headers={"X-Test": "yes"}).body, b"/query/a/b|1 2 3|yes\n")
    for method, path, allow in (("PUT", "/hello", "GET, HEAD, OPTIONS"), ("GET", "/echo", "POST, OPTIONS"), ("BREW", "/hello", "GET, HEAD, OPTIONS"),
                                ("DELETE", "/wait", "GET, HEAD, POST, OPTIONS"), ("get", "/hello", "GET, HEAD, OPTIONS")):
        r = ask(server, method, path)
        equal((r.status, r.headers["allow"], r.error()), (405, allow, "method_not_allowed"), f"{method} {path}")
    r = ask(server, "OPTIONS", "/echo")
    equal((r.status, r.headers["allow"], "access-control-allow-origin" in r.headers), (204, "POST, OPTIONS", False))


@test()
def a_handler_without_an_answer(server):
    r = ask(server, "GET", "/nothing")
    equal((r.status, r.error()), (500, "no_answer"))
    with server.connect() as s:
        s.sendall(request("GET", "/forget"))
        reader = Reader(s)
        try:
            equal(reader.head()[0], 200)
            b"".join(reader.chunks())
        except (Failed, ConnectionResetError):
            return
    raise Failed("a stream that was forgotten looks complete")


# ---------------------------------------------------------------------------------------------------------------- bodies


@test("max_body=100000")
def bodies(server):
    for n in (0, 1, 1000, 65536, 100000):
        body = bytes(i * 7 & 255 for i in range(n))
        equal(ask(server, "POST", "/echo", body=body).body, checksum(body), f"{n} bytes")
    body = bytes(range(256)) * 100
    chunked = b"".join(b"%x;note=1\r\n" % len(body[i:i + 1000]) + body[i:i + 1000] + b"\r\n" for i in range(0, len(body), 1000)) + b"0\r\n\r\n"
    head = request("POST", "/echo", {"Transfer-Encoding": "chunked", "Content-Type": "application/json"})
    equal(send_raw(server, head + chunked).body, checksum(body), "chunked")
    with server.connect() as s:  # piece by piece
        s.sendall(head)
        for i in range(0, len(chunked), 4001):
            s.sendall(chunked[i:i + 4001])
            time.sleep(0.001)
        equal(Reader(s).reply().body, checksum(body), "chunked in pieces")


@test("max_body=100000")
def bodies_too_large(server):
    before = server.resident()
    for n in (100001, 200000, 1 << 30, (1 << 63) + 5, 10**19 - 1):
        head = request("POST", "/echo", {"Content-Length": str(n), "Content-Type": "application/json"})
        r = send_raw(server, head + b"x" * min(n, 5 << 20))
        equal((r.status, r.error()), (413, "body_too_large"), f"{n} bytes")
    r = send_raw(server, request("POST", "/echo", {"Content-Length": str(10**20), "Content-Type": "application/json"}))
    equal(r.status, 413, "more than a size can say")
    head = request("POST", "/echo", {"Content-Length": str(1 << 30), "Content-Type": "application/json", "Expect": "100-continue"})
    r = send_raw(server, head)
    equal((r.status, r.interim), (413, 0), "the client asked first")
    head = request("POST", "/echo", {"Transfer-Encoding": "chunked", "Content-Type": "application/json"})
    r = send_raw(server, head + (b"10000\r\n" + b"y" * 65536 + b"\r\n") * 100)
    equal((r.status, r.error()), (413, "body_too_large"), "chunked")
    r = send_raw(server, head + b"7fffffff\r\n" + b"y" * 3000000)
    equal((r.status, r.error()), (413, "body_too_large"), "one chunk")
    check(grown(server, before) < 8 << 20, f"memory grew by {grown(server, before)}")


@test("max_body=1000000000", "request_seconds=60")
def a_gigabyte(server):
    """Announced, and really sent: the server reads a little of it, and says why it stops."""
    before = server.resident()
    for head in (request("POST", "/hello", {"Content-Length": str(1 << 30)}),
                 request("POST", "/echo", {"Content-Length": str(1 << 30), "Content-Type": "application/json"})):
        with server.connect() as s:
            block, sent = bytes(1 << 20), 0
            try:
                s.sendall(head)
                while sent < 1 << 30:
                    s.sendall(block)
                    sent += len(block)
            except (BrokenPipeError, ConnectionResetError):
                pass
            r = Reader(s).reply()
            check(r.status in (405, 413), f"status {r.status}")
    check(grown(server, before) < 16 << 20, f"memory grew by {grown(server, before)}")


@test("max_body=10000000", "request_seconds=100", "idle_seconds=100")
def many_bodies_share_a_bound(server):
    """Eight bodies' worth is all that may be held; what is announced only costs nothing."""
    socks = [server.connect() for _ in range(30)]
    for s in socks:
        s.sendall(request("POST", "/echo", {"Content-Length": "10000000", "Content-Type": "application/json"}))
    time.sleep(0.1)
    check(stats(server)["bodies"] < 1 << 20, "announced bodies take memory")
    refused = 0
    for s in socks:
        try:
            s.sendall(b"z" * 9000000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        if select.select([s], [], [], 0.05)[0]:
            r = Reader(s).reply()
            equal((r.status, r.error(), r.headers["retry-after"]), (503, "overloaded", "1"))
            refused += 1
    check(refused >= 20, f"{refused} of 30 were refused")
    check(stats(server)["bodies"] <= 80000000, "the bound does not hold")
    for s in socks:
        s.close()
    wait_until(lambda: stats(server)["bodies"] == 0, 3, "bodies are given back")


@test()
def body_kinds(server):
    post = {"Content-Type": "application/json"}
    for headers, status in (({}, 415), ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
                            ({"Content-Type": "application/json; charset=utf-8"}, 200), ({"Content-Type": "Application/JSON"}, 200),
                            ({"Content-Type": "application/ld+json"}, 200), ({"Content-Type": "application/jsonp"}, 415),
                            ({**post, "Content-Encoding": "gzip"}, 415), ({**post, "Content-Encoding": "identity"}, 200)):
        r = send_raw(server, request("POST", "/echo", {**headers, "Content-Length": "2"}) + b"{}")
        equal(r.status, status, str(headers))
        if status == 415:
            check(r.error().startswith("unsupported_"), "the reason")
    equal(send_raw(server, request("POST", "/echo", post)).error(), "length_required", "no length")
    with server.connect() as s:  # a refused request leaves the connection usable
        s.sendall(request("POST", "/echo", {"Content-Type": "a/b", "Content-Length": "5"}) + b"01234" + request("GET", "/hello"))
        reader = Reader(s)
        equal((reader.reply().status, reader.reply().status), (415, 200))


# --------------------------------------------------------------------------------------------------------------- framing


@test()
def ambiguous_framing(server):
    json_type = [("Content-Type", "application/json")]
    for headers, status in (([("Content-Length", "5"), ("Content-Length", "6")], 400), ([("Content-Length", "5"), ("Content-Length", "5")], 400),
                            ([("Content-Length", "5"), ("Transfer-Encoding", "chunked")], 400), ([("Transfer-Encoding", "gzip, chunked")], 501),
                            ([("Transfer-Encoding", "identity")], 501), ([("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")], 400),
                            ([("Content-Length", "-1")], 400), ([("Content-Length", "+5")], 400), ([("Content-Length", "5x")], 400),
                            ([("Content-Length", "0x5")], 400), ([("Content-Length", "")], 400), ([("Host", "localhost"), ("Content-Length", "5")], 400)):
        r = send_raw(server, request("POST", "/echo", json_type + headers) + b"01234")
        equal(r.status, status, str(headers))
        if status == 400 and len(headers) > 1:  # the others are refused by the library
            text = json.loads(r.body)["error"]["message"]
            check("both" in text if headers[1][0] == "Transfer-Encoding" and headers[0][0] == "Content-Length" else "more than one" in text, text)
    for raw in (b"GET /hello HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n",
                b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n"):
        with server.connect(5) as s:
            s.sendall(raw)
            try:
                status = Reader(s).head()[0]
            except Failed:
                status = 400  # closed without a word, which is fine for what is not HTTP
            check(status in (400, 505), f"{raw[:40]!r}: {status}")


@test("max_body=5000", "request_seconds=2")
def mutations(server):
    """Valid requests with random damage: whatever comes back, the server stays (and under sanitizers says nothing)."""
    seeds = [request("GET", "/query/%41%zz%?q=%31&%00=2&=&&a", {"X-Test": "1"}),
             request("POST", "/echo", {"Origin": "http://localhost", "Authorization": "Bearer x"}, body=b"{}" * 100),
             request("POST", "/echo", {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}) + b"5\r\nhello\r\n0\r\nA: b\r\n\r\n",
             request("OPTIONS", "/wait", {"Origin": "null", "Access-Control-Request-Headers": "a,b", "Host": "[::1]:1"}),
             request("GET", "/stream?n=2&ms=1", host="[::1") + request("HEAD", "/hello", host="127.0.0.1:x")]
    random_bytes = random.Random(7)
    for i in range(100 if SLOW else 400):
        data = bytearray(seeds[i % len(seeds)])
        for _ in range(random_bytes.randrange(1, 6)):
            at = random_bytes.randrange(len(data))
            what = random_bytes.randrange(4)
            if what == 0:
                data[at] = random_bytes.choice(b"\0\r\n\t %:;,/\xff\x80[]0") if random_bytes.random() < 0.7 else random_bytes.randrange(256)
            elif what == 1:
                del data[at:at + random_bytes.randrange(1, 30)]
            elif what == 2:
                data[at:at] = data[:random_bytes.randrange(1, 40)]
            else:
                data[at:at] = random_bytes.choice((b"%", b"\r\n", b"\r\n\r\n", b"-1", b"f" * 300, b"Host: a\r\n"))
            if not data:
                data = bytearray(b"G")
        with server.connect() as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            s.settimeout(0.02)
            try:
                while s.recv(65536):
                    pass
            except OSError:
                pass


@test()
def header_floods(server):
    before = server.resident()
    r = send_raw(server, request("GET", "/hello", {"X-Long": "a" * 20000}))
    equal((r.status, r.error()), (431, "header_too_large"))
    for headers in ([("X-Long", "a" * 1000000)], [(f"X-{i}", "b") for i in range(20000)], [("X", "")] * 50000, [("Cookie", "c=d; " * 100000)]):
        try:
            status = send_raw(server, request("GET", "/hello", headers)).status
        except (Failed, ConnectionResetError):
            status = 431  # cut while it was still sending
        equal(status, 431, f"{len(headers)} headers")
    try:
        status = send_raw(server, request("GET", "/hello?" + "q" * 1000000)).status
    except (Failed, ConnectionResetError):
        status = 414
    check(status in (414, 431), f"a long path: {status}")
    check(grown(server, before) < 8 << 20, f"memory grew by {grown(server, before)}")


# ------------------------------------------------------------------------------------------------- time and connections


def dribble(server, data, pause):
    """One byte at a time, until the server has had enough; the reply and when it came."""
    with server.connect() as s:
        began = time.monotonic()
        s.settimeout(pause)
        got = b""
        for i in range(len(data)):
            try:
                s.sendall(data[i:i + 1])
                piece = s.recv(65536)
                got += piece
                if not piece:
                    break
            except socket.timeout:
                continue
            except (BrokenPipeError, ConnectionResetError):
                break
        took = time.monotonic() - began
        check(got.startswith(b"HTTP/1.1 408 "), f"after {took:.1f} s: {got[:80]!r}")
        equal(json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]["code"], "request_timeout")
        return took


@test("request_seconds=1", "idle_seconds=5")
def slow_loris(server):
    head = request("POST", "/echo", {"Content-Type": "application/json", "Content-Length": "1000"})
    took = []
    threads = [threading.Thread(target=lambda d=d: took.append(dribble(server, d, 0.1))) for d in
               (b"X" * 100, b"GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 100, head + b"a" * 100, head[:-2] + b"X-A: " + b"a" * 50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(len(took), len(threads), "all were told 408")
    with server.connect() as s:  # a body that stops
        s.sendall(head + b"a" * 10)
        began = time.monotonic()
        equal(Reader(s).reply().status, 408)
        check(0.9 < time.monotonic() - began < 2.5, "the time of a request")


@test("request_seconds=1", "idle_seconds=1")
def idle_connections_close(server):
    with server.connect() as s:
        s.sendall(request("GET", "/hello"))
        reader = Reader(s)
        equal(reader.reply().status, 200)
        began = time.monotonic()
        check(reader.ended(), "an idle connection is closed")
        check(time.monotonic() - began < 4, "in time")


@test("max_connections=20", "idle_seconds=30")
def idle_connections_make_room(server):
    idle = [server.connect() for _ in range(60)]
    equal(ask(server, "GET", "/hello").status, 200, "with 60 idle connections and room for 20")
    s = stats(server)
    check(s["connections"] <= 20 and s["shed"] >= 40, str(s))
    check(Reader(idle[0]).ended(), "the oldest was closed")
    time.sleep(0.5)  # the connection that asked has its answer before the server knows that it is idle
    busy = [server.connect() for _ in range(20)]
    for c in busy:
        c.sendall(request("GET", "/wait?ms=6000"))
    time.sleep(2 if SLOW else 1)
    with server.connect() as c:
        r = Reader(c).reply()
        equal((r.status, r.error(), r.headers["retry-after"]), (503, "too_many_connections", "1"), "all at work")
    for c in busy:
        equal(Reader(c).reply().status, 200, "work was not cut")
    for c in idle + busy:
        c.close()


@test("max_per_address=5")
def one_address(server):
    held = [server.connect() for _ in range(12)]
    equal(ask(server, "GET", "/hello").status, 200)
    check(stats(server)["connections"] <= 5, "more than one address may have")
    for c in held:
        c.close()


def idle_thousands(server, n):
    """Idle connections cost little, and a client that works is served while they are there."""
    before = server.resident()
    idle = [server.connect() for _ in range(n)]
    began = time.monotonic()
    equal(ask(server, "GET", "/hello").status, 200)
    took = time.monotonic() - began
    more = grown(server, before)
    print(f"{n} idle connections: {more / n / 1024:.1f} KB each, an answer beside them in {took * 1000:.1f} ms, "
          f"{stats(server)['connections']} kept")
    check(more < n * 24576 + (4 << 20), f"{n} idle connections take {more} bytes")
    check(took < (10 if SLOW else 2), "an answer is slow beside them")
    for c in idle:
        c.close()


FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
MANY = min(2000, FILES - 300)


@test(f"max_connections={MANY - 100}", "idle_seconds=100", "request_seconds=100")
def many_idle_connections(server):
    idle_thousands(server, MANY)


# --------------------------------------------------------------------------------------------- pipelining and half sockets


@test()
def pipelining(server):
    with server.connect() as s:
        n, data = 200, b""
        for i in range(n):
            body = b"%d" % i * (i % 50)
            data += request("POST", "/echo", body=body) if i % 2 else request("GET", f"/query/{i}")
        threading.Thread(target=s.sendall, args=(data,)).start()
        reader = Reader(s)
        for i in range(n):
            want = checksum(b"%d" % i * (i % 50)) if i % 2 else f"/query/{i}||\n".encode()
            equal(reader.reply().body, want, f"reply {i}")
    with server.connect() as s:  # a slow one, a stream and a refusal hold back what is behind them
        s.sendall(request("GET", "/wait?ms=200") + request("GET", "/stream?n=3&ms=20") + request("GET", "/no") + request("GET", "/hello"))
        reader = Reader(s)
        replies = [reader.reply() for _ in range(4)]
        equal([(r.status, r.body[:5]) for r in replies], [(200, b"late\n"), (200, b"data:"), (404, b'{"err'), (200, b"hello")])


@test()
def half_closed(server):
    """A client that has said all it will say, and reads: every answer arrives."""
    for path, body in (("/hello", b"hello\n"), ("/wait?ms=1800", b"late\n")):
        with server.connect() as s:
            s.sendall(request("GET", path))
            s.shutdown(socket.SHUT_WR)
            r = Reader(s).reply()
            equal((r.status, r.body), (200, body), path)
    body = b"{}" * 50000
    with server.connect() as s:
        s.sendall(request("POST", "/echo", body=body) + request("GET", "/hello"))
        s.shutdown(socket.SHUT_WR)
        reader = Reader(s)
        equal((reader.reply().body, reader.reply().body), (checksum(body), b"hello\n"), "two requests, then the end")
    with server.connect() as s:
        s.sendall(request("GET", "/stream?n=4&ms=600"))
        s.shutdown(socket.SHUT_WR)
        r = Reader(s).reply()
        events = [e for e in r.body.split(b"\n\n") if e and not e.startswith(b":")]
        equal(events, [b"data: %d" % i for i in range(4)], "a stream")
        check(b": keep-alive\n\n" in r.body, "the server has looked whether the client is there")
    equal(stats(server)["gone"], 0, "nobody was taken for gone")
    half = request("POST", "/echo", {"Content-Length": "10", "Content-Type": "application/json"}) + b"123"
    ends = [server.connect() for _ in range(20)]  # half a request, none, a whole one; then the end
    for i, s in enumerate(ends):
        s.sendall((half, b"", request("GET", "/hello"), b"GET /he")[i % 4])
        s.shutdown(socket.SHUT_WR)
    for i, s in enumerate(ends):
        reader = Reader(s)
        if i % 4 == 2:
            equal(reader.reply().body, b"hello\n", "a whole request")
        check(reader.ended(), "the other side closes too")
    wait_until(lambda: stats(server)["connections"] == 1, 3, "the connections are closed")


@test()
def handlers_all_busy(server):
    """What only looks is answered while every other thread is at work on requests with bodies."""
    busy = [server.connect() for _ in range(8)]
    for s in busy:
        s.sendall(request("POST", "/busy?ms=1500", body=b"1"))
    time.sleep(0.3)
    equal(ask(server, "GET", "/hello").status, 200, "/hello")
    ready, _, _ = select.select(busy, [], [], 0)
    check(not ready, "answered only after the others")
    for s in busy:
        equal(Reader(s).reply().body, b"done\n", "the others are answered too")
        s.close()


@test()
def clients_that_leave(server):
    """Seen within a second, also while nothing is written; a machine that has much else to do may be late once."""
    gone, times = 0, []
    for path, version in (("/wait?ms=9000", "1.1"), ("/wait?ms=9000", "1.0"), ("/stream?n=1&ms=9000", "1.1")):
        for leave in (reset, lambda s: s.close()):
            s = server.connect()
            s.sendall(request("GET", path, version=version))
            wait_until(lambda: stats(server)["live"] == 1, 2, "at work")
            time.sleep(0.1)
            leave(s)
            gone += 1
            times.append(wait_until(lambda: stats(server)["gone"] == gone, 5, f"{path} HTTP/{version} left"))
    s = server.connect()  # after it has read some of a stream
    s.sendall(request("GET", "/stream?n=100&ms=100"))
    Reader(s).head()
    s.close()
    times.append(wait_until(lambda: stats(server)["gone"] == gone + 1, 5, "left in a stream"))
    check(sorted(times)[len(times) // 2] < (2.0 if SLOW else 1.0), f"seen after {times} s")


# --------------------------------------------------------------------------------------------------------------- streams


@test("ping_seconds=1")
def quiet_streams(server):
    with server.connect() as s:
        began = time.monotonic()
        s.sendall(request("GET", "/stream?n=2&ms=2500"))
        r = Reader(s).reply()
        took = time.monotonic() - began
        equal(r.headers["content-type"], "text/event-stream")
        equal(r.headers["cache-control"], "no-cache")
        parts = r.body.split(b"data: ")
        equal(len(parts), 3)
        comments = [p.count(b": keep-alive\n\n") for p in parts]
        check(comments[0] >= 1 and comments[1] >= 1 and sum(comments) <= took, f"comments in {took:.1f} s: {r.body!r}")
    with server.connect() as s:  # a reply that is no event stream has none
        s.sendall(request("GET", "/wait?ms=2500"))
        r = Reader(s).reply()
        equal((r.body, r.interim), (b"late\n", 0))


@test()
def events_come_at_once(server):
    with server.connect() as s:
        s.sendall(request("GET", "/stream?n=20&ms=50"))
        reader = Reader(s)
        reader.head()
        times = []
        for i, chunk in enumerate(reader.chunks()):
            equal(chunk, b"data: %d\n\n" % i)
            times.append(time.monotonic())
        gaps = sorted(b - a for a, b in zip(times, times[1:]))
        check(gaps[len(gaps) // 2] < 0.5, f"the median gap is {gaps[len(gaps) // 2]:.3f} s")


@test()
def a_reader_that_does_not_read(server):
    before = server.resident()
    s = server.connect(receive_buffer=4096)
    s.sendall(request("GET", "/flood"))
    wait_until(lambda: stats(server)["live"] == 0, 5, "the flood ends")
    check(stats(server)["written"] < 1000, "what nobody reads is not written for ever")
    check(grown(server, before) < 40 << 20, f"memory grew by {grown(server, before)}")
    s.close()


@test()
def http_1_0(server):
    with server.connect() as s:
        s.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
        reader = Reader(s)
        equal(reader.reply().body, b"hello\n")
        check(reader.ended(), "the connection is closed")
    with server.connect() as s:
        s.sendall(b"GET /stream?n=3&ms=10 HTTP/1.0\r\n\r\n")
        r = Reader(s).reply()
        check("transfer-encoding" not in r.headers, "chunks are not for HTTP/1.0")
        equal(r.body, b"data: 0\n\ndata: 1\n\ndata: 2\n\n")


# -------------------------------------------------------------------------------------------------------- who may come in


@test("key=s3cret", "origin=https://good.example")
def keys_and_origins(server):
    for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Bearer s3cre"}, 401),
                            ({"Authorization": "Bearer s3crets3cret"}, 401), ({"Authorization": "Basic s3cret"}, 401), ({"X-Api-Key": ""}, 401),
                            ({"Authorization": "Bearer s3cret"}, 200), ({"authorization": "bearer  s3cret"}, 200), ({"X-API-KEY": "s3cret"}, 200)):
        r = ask(server, "POST", "/echo", headers=headers, body=b"{}")
        equal(r.status, status, str(headers))
        if status == 401:
            equal((r.error(), r.headers["www-authenticate"]), ("invalid_api_key", "Bearer"))
    equal(ask(server, "GET", "/hello").status, 200, "an open path")
    equal(ask(server, "GET", "/no").status, 404)
    r = send_raw(server, request("POST", "/echo", {"Content-Length": "1000000", "Content-Type": "application/json"}))
    equal(r.status, 401, "without a key no body is read")

    good, bad, key = {"Origin": "https://good.example"}, {"Origin": "https://bad.example"}, {"X-Api-Key": "s3cret"}
    r = ask(server, "OPTIONS", "/echo", headers={**good, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type, x-a"})
    equal((r.status, r.headers["access-control-allow-origin"], r.headers["access-control-allow-headers"]),
          (204, "https://good.example", "content-type, x-a"), "preflight")
    check("POST" in r.headers["access-control-allow-methods"], "methods")
    r = ask(server, "OPTIONS", "/echo", headers={**good, "Access-Control-Request-Headers": "a\tb"})
    check("\t" not in r.headers["access-control-allow-headers"], "a strange list is not sent back")
    r = ask(server, "OPTIONS", "/echo", headers={**bad, "Access-Control-Request-Method": "POST"})
    check("access-control-allow-origin" not in r.headers, "another origin's preflight")
    r = ask(server, "POST", "/echo", headers={**good, **key}, body=b"{}")
    equal((r.status, r.headers["access-control-allow-origin"], r.headers["vary"]), (200, "https://good.example", "Origin"))
    r = ask(server, "POST", "/echo", headers=good, body=b"{}")
    equal((r.status, r.headers["access-control-allow-origin"]), (401, "https://good.example"), "pages can read refusals")
    r = ask(server, "POST", "/echo", headers={**bad, **key}, body=b"{}")
    equal((r.status, r.error()), (403, "origin_not_allowed"))
    check("access-control-allow-origin" not in ask(server, "GET", "/hello", headers=bad).headers, "another origin")


@test()
def no_origins(server):
    for origin, status in (("https://a.example", 403), ("null", 403), ("http://localhost", 200), ("http://localhost:1", 403)):
        r = ask(server, "POST", "/echo", headers={"Origin": origin}, body=b"{}")
        equal(r.status, status, origin)
        check(not any(h.startswith("access-control") for h in r.headers), "no such headers unless asked for")


@test("origin=*", "allowed_host=my.name")
def hosts(server):
    for host, status in (("localhost", 200), ("localhost:1", 200), ("127.0.0.1:80", 200), ("[::1]:80", 200), ("a.localhost", 200), ("my.name:7", 200),
                         ("MY.name", 200), ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("notlocalhost", 421),
                         ("[::2]", 421), ("127.evil", 421), ("", 421)):
        r = ask(server, "GET", "/hello", host=host)
        equal(r.status, status, host)
        if status == 421:
            equal(r.error(), "unknown_host")
        if host not in ("", "localhost"):  # what a target names counts, whatever Host says
            equal(ask(server, "GET", f"http://{host}/hello", host="localhost").status, status, f"{host} in the target")
            equal(ask(server, "GET", "http://localhost/hello", host=host).status, 200, f"{host} beside the target")
    for user in ("localhost", "localhost:80"):
        equal(ask(server, "GET", f"http://{user}@evil.example/hello").status, 421, f"{user}, a user in the target")
    equal(ask(server, "POST", "/echo", headers={"Origin": "https://any.example"}, body=b"{}").headers["access-control-allow-origin"], "https://any.example")


# --------------------------------------------------------------------------------------------------------------- the end


def ends_with_work_in_hand():
    """Streams, waits, half requests and idle connections: the end comes soon, nothing is left, nothing crashes."""
    server = Server(PROBE)
    try:
        socks = [server.connect() for _ in range(40)]
        for i, s in enumerate(socks):
            s.sendall((request("GET", "/stream?n=1000&ms=50"), request("GET", "/wait?ms=60000"), b"GET /he", b"",
                       request("POST", "/echo", {"Content-Length": "10", "Content-Type": "application/json"}) + b"1")[i % 5])
        wait_until(lambda: stats(server)["live"] == 16, 3, "at work")
        began = time.monotonic()
        equal(server.close_input(), "0", "blocks of memory left")
        check(time.monotonic() - began < 6, "the end takes too long")
        for s in socks:
            s.close()
    finally:
        server.kill()


TESTS.append(("ends_with_work_in_hand", ends_with_work_in_hand))

if __name__ == "__main__":
    if sys.argv[2:3] == ["--idle"]:  # test_http.py PROBE --idle N: N idle connections, all kept; needs 2 N descriptors in all
        count = int(sys.argv[3])
        probe = Server(PROBE, f"max_connections={count + 10}", "idle_seconds=600", "request_seconds=600")
        idle_thousands(probe, count)
        equal(probe.close_input(), "0", "blocks of memory left")
    else:
        run(TESTS)
