"""What the server tests share: starting a server, raw connections, reading replies as strictly as a client may."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time


PATIENCE = 120 if os.environ.get("INKJET_SANITIZED") else 30  # seconds


class Failed(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failed(what)


def equal(got, want, what=""):
    if got != want:
        raise Failed(f"{what}: got {got!r}, expected {want!r}")


class Server:
    """A child that prints where it listens on its first line."""

    def __init__(self, *command, env=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        line = self.process.stdout.readline().decode()
        numbers = re.findall(r"\d+", line)
        check(numbers, f"{command[0]} does not say where it listens: {line!r}")
        self.port = int(numbers[-1])

    def connect(self, timeout=PATIENCE, receive_buffer=0):
        s = socket.socket()
        s.settimeout(timeout)
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.connect(("127.0.0.1", self.port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024

    def terminate(self, limit=PATIENCE):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit)

    def close_input(self, limit=PATIENCE):
        """For http_probe: ends it and returns what it printed last."""
        self.process.stdin.close()
        rest = self.process.stdout.read().decode()
        self.process.stdout.close()
        code = self.process.wait(limit)
        check(code == 0, f"the server ended with {code}")
        return rest.strip()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Reply:
    def __init__(self, status, headers, body, interim):
        self.status, self.headers, self.body, self.interim = status, headers, body, interim

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error's code, after checking that it has the shape that clients of OpenAI's API read."""
        equal(self.headers.get("content-type"), "application/json", "the type of an error")
        e = self.json()["error"]
        check(set(e) == {"message", "type", "param", "code"}, f"the members of an error: {e}")
        check(isinstance(e["message"], str) and e["message"], "an error has a message")
        return e["code"]


class Reader:
    """Replies from one connection, in order."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def more(self):
        piece = self.sock.recv(65536)
        self.data += piece
        return bool(piece)

    def line(self):
        while b"\n" not in self.data:
            check(self.more(), f"the connection ended in a line: {self.data[:100]!r}")
        line, self.data = self.data.split(b"\n", 1)
        return line.rstrip(b"\r").decode("latin-1")

    def exactly(self, n):
        while len(self.data) < n:
            check(self.more(), "the connection ended in a body")
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def head(self):
        version, status = self.line().split(" ", 2)[:2]
        check(version.startswith("HTTP/1."), f"not a status line: {version}")
        headers = {}
        while line := self.line():
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        return int(status), headers

    def chunks(self):
        while True:
            n = int(self.line(), 16)
            piece = self.exactly(n)
            equal(self.line(), "", "after a chunk")
            if n == 0:
                return
            yield piece

    def reply(self, head_only=False):
        interim = 0
        status, headers = self.head()
        while 100 <= status < 200:
            interim += 1
            status, headers = self.head()
        if head_only or status == 204:
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = b"".join(self.chunks())
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            while self.more():
                pass
            body, self.data = self.data, b""
        return Reply(status, headers, body, interim)

    def ended(self):
        """True when nothing more comes and the other side has closed."""
        try:
            return not self.data and not self.more()
        except ConnectionResetError:
            return True


def request(method, path, headers=(), body=None, host="localhost", version="1.1"):
    lines = [f"{method} {path} HTTP/{version}", f"Host: {host}"]
    lines += [f"{k}: {v}" for k, v in (headers.items() if isinstance(headers, dict) else headers)]
    if body is not None:
        lines += ["Content-Type: application/json"] if not any(l.lower().startswith("content-type") for l in lines) else []
        lines += [f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def ask(server, *args, head_only=False, **kw):
    with server.connect() as s:
        s.sendall(request(*args, **kw))
        return Reader(s).reply(head_only)


def send_raw(server, data, limit=PATIENCE):
    """Sends whatever fits, and reads a reply even if the server has closed meanwhile."""
    with server.connect(limit) as s:
        try:
            s.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return Reader(s).reply()


def reset(sock):
    """Closes with RST instead of FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def wait_until(condition, limit, what):
    """Polls; returns how long it took."""
    began = time.monotonic()
    while not condition():
        check(time.monotonic() - began < limit, f"{what}: not within {limit} s")
        time.sleep(0.02)
    return time.monotonic() - began


def run(tests):
    """Runs (name, function) pairs, a few at a time because they mostly wait; exits."""
    chosen = sys.argv[2:]
    lock, failed, done = threading.Lock(), [], []

    def work(queue):
        while True:
            with lock:
                if not queue:
                    return
                name, function = queue.pop(0)
            began = time.monotonic()
            try:
                function()
                text = ""
            except (Failed, OSError, ValueError, KeyError, AssertionError) as e:
                text = f"FAIL {name}: {type(e).__name__}: {e}"
            with lock:
                done.append(name)
                if text:
                    failed.append(name)
                    print(text)
                elif os.environ.get("VERBOSE"):
                    print(f"ok   {name} {time.monotonic() - began:.2f} s")

    queue = [t for t in tests if not chosen or t[0] in chosen]
    threads = [threading.Thread(target=work, args=(queue,)) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"{len(done) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed or not done else 0)
