"""A pseudo-terminal with `inkjet` behind it, and a small model to talk to. Standard library only.

The vocabulary is the 256 bytes, some pairs of letters, and the control tokens of the chat format, so that a random model that draws its
tokens produces every kind of block.
"""
import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time

SPECIALS = ["<|endoftext|>", "<|message_user|>", "<|message_model|>", "<|message_system|>", "<|message_tool|>", "<|content_text|>",
            "<|content_image|>", "<|content_thinking|>", "<|end_message|>", "<|content_audio_input|>", "<|content_tool_error|>",
            "<|content_xml|>", "<|audio_end|>", "<|content_invoke_tool_json|>", "<|unused_200053|>", "<|unused_200054|>",
            "<|content_invoke_tool_text|>", "<|content_model_end_sampling|>"]
EXPRESSION = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
N_IDS = 600  # of the synthetic model "tiny", whose end token is the last


def special(name):
    return N_IDS - len(SPECIALS) + SPECIALS.index(name)


def write_tokenizer(path):
    plain = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    others = [b for b in range(256) if b not in plain]
    spelled = {**{b: chr(b) for b in plain}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}
    vocab = {spelled[b]: b for b in range(256)}
    merges = []
    letters = "abcdefghijklmnopqrstuvwxyz"
    for pair in (a + b for a in letters for b in letters):
        if len(vocab) == N_IDS - len(SPECIALS):
            break
        merges.append(" ".join(pair))
        vocab[pair] = len(vocab)
    added = [{"id": special(name), "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for name in SPECIALS]
    document = {
        "version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": EXPRESSION}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "byte_fallback": False, "ignore_merges": True, "vocab": vocab, "merges": merges}}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document, f)


def make_model(program, folder):
    subprocess.run([*program, "bench", "--synthetic", "tiny", "--keep", folder, "--prompt", "1", "--gen", "1", "--repeat", "1",
                    "--threads", "1"], check=True, stdout=subprocess.DEVNULL)
    write_tokenizer(os.path.join(folder, "tokenizer.json"))


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z~]|\x1b[=>]|\r")
PATIENCE = 120  # seconds, for emulators and sanitizers; nothing waits that long when all is well


class Terminal:
    """The program on a terminal of its own. `seen` is all it has printed; expect() moves `at` behind what it finds."""

    def __init__(self, argv, env=None, folder=None):
        self.seen, self.at = b"", 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.clear()
            os.environ.update({"PATH": "/usr/bin:/bin", "TERM": "xterm", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"} | (env or {}))
            if folder:
                os.chdir(folder)
            try:
                os.execvp(argv[0], argv)
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))

    def read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        try:
            got = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += got
        return bool(got)

    def text(self):
        return ESCAPES.sub("", self.seen.decode("utf-8", "replace"))[self.at:]

    def expect(self, pattern):
        """The match of a regular expression in what comes, escapes left out."""
        end = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.text(), re.S)
            if found:
                self.at += found.end()
                return found
            if time.monotonic() > end or not self.read(max(0.0, end - time.monotonic())):
                raise AssertionError(f"expected {pattern!r}, got {self.text()!r}")

    def send(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            data = data[os.write(self.fd, data):]

    def leave(self, how="\x04"):
        """Ends the conversation and gives the exit code."""
        self.send(how)
        return self.wait()

    def wait(self):
        """The exit code; minus the signal's number when one ended it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0):
                    pass
                self.modes = termios.tcgetattr(self.fd)
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"the program did not end: {self.text()!r}")


def program_from(argument):
    return shlex.split(os.environ.get("INKJET_EMULATOR", "")) + [os.path.abspath(argument)]
