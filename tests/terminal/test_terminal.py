"""`inkjet chat` on a pseudo-terminal and in a pipe, against itself: what a conversation answers must be what single runs answer.

    python3 test_terminal.py PROGRAM WORK_FOLDER
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import time

from drive import Terminal, gif, make_model, make_towers, program_from, special, wav

SPEED = r"\[(\d+) tokens?(?:, [\d.]+ tokens/s)?, first after [\d.]+ s; prompt of (\d+) tokens, (\d+) cached([^\]]*)\](?:\n\[[^\n]*\])*\n> "
DRAW = ["--temp", "1", "--seed", "5"]

program, work = program_from(sys.argv[1]), os.path.abspath(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
model = os.path.join(work, "model")
make_model(program, model)
chat = [*program, "chat", "-m", model, "--threads", "1"]  # so small a model gains nothing by more


def path(name):
    return os.path.join(work, name)


def check(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: expected {want!r}, got {got!r}")


def once(*options, text=None, stdin="", rc=0):
    """One run without a terminal: its standard output and standard error."""
    run = subprocess.run([*chat, *options, *([text] if text is not None else [])], input=stdin.encode(), capture_output=True, check=False)
    check(run.returncode, rc, f"exit code of {options} {run.stderr!r}")
    return run.stdout, run.stderr.decode()


def write(name, value):
    with open(path(name), "w", encoding="utf-8") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))
    return path(name)


def saved(name):
    with open(path(name), encoding="utf-8") as f:
        return json.load(f)


def talk(*options, term="xterm", env=None):
    t = Terminal([*chat, *options], {"TERM": term} | (env or {}), work)
    t.plain = "plain lines" in t.expect(r"leaves\.(.*?)\n> ").group(1)
    return t


def say(t, text):
    """Sends a message: (tokens of the prompt, of these cached, how it ended)."""
    t.send(text + "\r")
    found = t.expect(SPEED)
    return int(found.group(2)), int(found.group(3)), found.group(4)


def command(t, text, answer):
    t.send(text + "\r")
    return t.expect(answer + r".*?\n> ")


def alone(messages, *options):
    """What a single run answers to these messages."""
    out, _ = once(*options, "--json", "--load", write("alone.json", messages))
    got = json.loads(out)
    check(set(got), {"content", "reasoning", "tool_calls", "finish_reason", "usage"}, "keys")
    return got


def check_conversation(messages, *options):
    """Every answer in it is the one that a single run gives to the messages before it."""
    n = 0
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        got = alone(messages[:i], *options)
        if not any(c.get("malformed") for c in got["tool_calls"]):
            check(message["content"], got["content"], f"content of message {i}")
        check(message.get("reasoning_content", ""), got["reasoning"], f"reasoning of message {i}")
        n += 1
    return n


# ------------------------------------------------------------------------------------------------------------------ tests

def conversation_equals_single_runs():
    options = [*DRAW, "-n", "60"]
    t = talk(*options, "--system", "Be brief.")
    n, cached, _ = say(t, "Hello there")
    check(cached, 0, "cached before anything was there")
    for text in ("And again", "A third time \u00e9\u4e2d", "//not a command"):
        before = n
        n, cached, _ = say(t, text)
        if cached < before:
            raise AssertionError(f"the conversation of {before} tokens was not reused: {cached} of {n}")
    command(t, "/save all.json", "9 messages are in all.json")
    check(t.leave(), 0, "exit code")
    messages = saved("all.json")
    check([m["role"] for m in messages], ["system"] + ["user", "assistant"] * 4, "roles")
    check(messages[-2]["content"], "/not a command", "a message that begins with a slash")
    check(check_conversation(messages, *options), 4, "answers")


def undo_and_regen_equal_fresh_runs():
    options = [*DRAW, "-n", "50"]
    t = talk(*options)
    say(t, "One")
    say(t, "Two")
    command(t, "/undo", r"\[taken back: Two\]")
    say(t, "Three")
    n, cached, _ = say(t, "/regen")
    check(cached, n - 1, "cached for another answer")
    command(t, "/save undo.json", "4 messages")
    check(t.leave("/exit\r"), 0, "exit code")
    messages = saved("undo.json")
    check([m["content"] for m in messages if m["role"] == "user"], ["One", "Three"], "messages")
    check(check_conversation(messages[:2], *options), 1, "answers")
    again = alone(messages[:3], "--temp", "1", "--seed", "6", "-n", "50")
    check(messages[3]["content"], again["content"], "an answer drawn with the next seed")


def long_answers_go_back_to_a_copy():
    """More tokens than a session takes back: the turn start was copied in time."""
    options = ["--temp", "1", "--seed", "9", "-n", "300", "--logit-bias", "599:-inf"]
    for name in ("<|endoftext|>", "<|message_user|>", "<|message_system|>", "<|message_tool|>"):
        options += ["--logit-bias", f"{special(name)}:-inf"]
    t = talk(*options)
    first, _, _ = say(t, "Tell me all")
    n, cached, end = say(t, "And more")
    check(end, "; stopped by -n", "end")
    start = n
    command(t, "/undo", "taken back")
    n, cached, _ = say(t, "And less")
    if cached < first + 200:
        raise AssertionError(f"the earlier exchange was read again: {cached} of {n} tokens cached, {start} before")
    n, cached, _ = say(t, "/regen")
    if cached < first + 200:
        raise AssertionError(f"the earlier exchange was read again: {cached} of {n} tokens cached")
    command(t, "/undo", "taken back")
    command(t, "/undo", "taken back")
    command(t, "/undo", "nothing to take back")
    say(t, "From the start")
    command(t, "/save long.json", "2 messages")
    t.leave()
    check(check_conversation(saved("long.json"), *options), 1, "answers")


def an_answer_can_be_stopped():
    options = [*DRAW, "--logit-bias", "599:-inf"]
    for name in ("<|endoftext|>", "<|message_user|>", "<|message_system|>", "<|message_tool|>"):
        options += ["--logit-bias", f"{special(name)}:-inf"]
    t = talk(*options)
    t.send("Go on and on\r")
    t.expect(r"\n[^\n]{20}")
    t.send("\x03")
    stopped = t.expect(SPEED)
    check(stopped.group(4), "; stopped", "end")
    command(t, "/save stopped.json", "2 messages")
    command(t, "/stats", r"answers +1\n")
    t.send("/undo\r")
    t.expect("taken back: Go on and on")
    t.expect("> ")
    t.send("half a line")
    t.expect("half a line")
    t.send("\x03")
    t.expect("> ")
    check(t.leave(), 0, "exit code")
    check(check_conversation(saved("stopped.json"), *options, "-n", stopped.group(1)), 1, "answers")


def commands_do_what_they_say():
    t = talk("-n", "8")
    command(t, "/help", "/system.*/exit")
    command(t, "/system", "there is no system text")
    command(t, "/system You are a pirate.", "")
    command(t, "/system", "You are a pirate")
    command(t, "/effort", r"\[effort: high \(the default\)\]")
    command(t, "/effort lots", "/effort: .*lots")
    command(t, "/effort low", "")
    command(t, "/effort", r"\[effort: low\]")
    command(t, "/image", "needs FILE")
    command(t, "/image missing.png", "missing.png: .*it is not attached")
    gif(path("plain.gif"), 2, 2, [1, 2, 3, 4])
    command(t, "/image plain.gif", "this model has no vision tower.*it is not attached")
    command(t, "/audio -", "nothing was attached")
    command(t, "/undo now", "takes nothing after it")
    command(t, "/save", "needs FILE")
    command(t, "/fly", "there is no command /fly")
    command(t, "/regen", "no message to answer")
    command(t, "/result 5", "no call waits")
    command(t, "/load missing.json", "missing.json: ")
    command(t, "/save missing/folder.json", "folder.json")
    say(t, "Hi")
    command(t, "/save some.json", "3 messages")
    command(t, "/reset", "same system text")
    command(t, "/save none.json", "1 messages")
    command(t, "/load some.json", "3 messages")
    command(t, "/system -", "no system text now")
    command(t, "/save some2.json", "2 messages")
    command(t, "/undo", "taken back: Hi")
    write("waits.json", {"messages": [{"role": "user", "content": "Well?"}], "model": "x"})
    command(t, "/load waits.json", "only the messages are used, not model.*1 messages.*/regen answers")
    say(t, "/regen")
    write("picture.json", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}])
    command(t, "/load picture.json", "picture.json: a picture: this model has no vision tower")
    command(t, "/save last.json", "2 messages")
    check(t.leave(), 0, "exit code")
    check(saved("some2.json"), saved("some.json")[1:], "messages without the system text")
    check(saved("none.json"), [{"role": "system", "content": "You are a pirate."}], "messages after /reset")


def a_full_context_ends_an_answer_but_not_the_conversation():
    t = talk("--ctx", "64", "--logit-bias", "599:-inf")
    t.send("x " * 40 + "\r")
    t.expect(r"the context 64 positions: raise --ctx\n\[there is no answer; the message is taken back\]\n> ")
    check(say(t, "Hi")[2], "; the context is full", "end")
    t.send("Hi\r")
    t.expect(r"raise --ctx.*taken back\]\n> ")
    command(t, "/save full.json", "2 messages")
    check(t.leave(), 0, "exit code")
    out, err = once("--ctx", "64", "--logit-bias", "599:-inf", text="Hi")
    check("the context of 64 positions is full" in err, True, f"a remark in {err!r}")
    t = talk("--load", path("full.json"), "-n", "2")
    t.leave()
    check(b"2 messages from" in t.seen, True, "a remark on what was loaded")


def several_lines_are_one_message():
    t = talk("-n", "4")
    t.send("one\\\r")
    t.expect(r"\. ")
    say(t, "two")
    t.send('"""a\r')
    t.expect('"" ')
    t.send("  b\\\r")
    t.expect('"" ')
    say(t, 'c"""')
    want = ["one\ntwo", "a\n  b\\\nc"]
    if not t.plain:
        say(t, "x\x1b[200~def f():\r\r  return '\u00e9'\x1b[201~y")
        want.append("xdef f():\n\n  return '\u00e9'y")
        say(t, "\x1b[A!")
        want.append(want[-1] + "!")
    command(t, "/save lines.json", "messages are in")
    t.leave()
    check([m["content"] for m in saved("lines.json") if m["role"] == "user"], want, "messages")


def reasoning_is_dimmed_and_folds():
    often = ["--temp", "1", "-n", "60"]
    for name in ("<|content_thinking|>", "<|content_text|>"):
        often += ["--logit-bias", f"{special(name)}:4"]
    for seed in range(60):  # one whose answer thinks and then says something
        options = [*often, "--seed", str(seed)]
        got = json.loads(once(*options, "--json", text="Think")[0])
        if len(got["reasoning"]) > 5 and len(got["content"]) > 5:
            break
    t = talk(*options)
    at = len(t.seen)
    say(t, "Think")
    shown = t.seen[at:]
    check(b"\x1b[2m[thinking]\r\n" in shown, True, "reasoning is dimmed")
    command(t, "/think", "reasoning is folded")
    t.send("/regen\r")
    t.expect(r"\[seed")
    t.expect(SPEED)
    command(t, "/undo", "taken back")
    at = len(t.seen)
    say(t, "Think")
    check(b"[thinking]\r\n" in t.seen[at:], False, "folded reasoning is not shown")
    check(b"[thought for" in t.seen[at:], True, "folded reasoning leaves a line")
    command(t, "/think", r"reasoning is shown.*\[thinking\]")
    t.leave()
    t = talk(*options, env={"NO_COLOR": "1"})
    at = len(t.seen)
    say(t, "Think")
    check(b"\x1b[2m" in t.seen[at:], False, "colour with NO_COLOR")
    check(b"[thinking]\r\n" in t.seen[at:], True, "reasoning without colour")
    t.leave()


def nothing_of_the_model_moves_the_cursor():
    """Hundreds of random bytes, on a terminal without editing: no control character is left."""
    t = talk(*DRAW, "-n", "300", term="dumb")
    check(t.plain, True, "plain lines on a dumb terminal")
    for text in ("a", "b", "c"):
        say(t, text)
    command(t, "/save bytes.json", "messages are in")
    t.leave()
    raw = "".join(m.get("content", "") + m.get("reasoning_content", "") for m in saved("bytes.json") if m["role"] == "assistant")
    if not any(ord(c) < 32 for c in raw):
        raise AssertionError("the model has produced no control character: nothing was tested")
    text = t.seen.decode("utf-8")
    bad = {c for c in text if (ord(c) < 32 and c not in "\r\n\t") or 127 <= ord(c) < 160}
    check(bad, set(), "control characters on the terminal")


def a_request_to_end_restores_the_terminal():
    t = talk()
    os.kill(t.pid, signal.SIGTERM)
    code = t.wait()
    if t.plain:
        check(code, 130, "exit code")
    else:
        check(code, -signal.SIGTERM, "exit code")
        check(bool(t.modes[3] & termios.ICANON and t.modes[3] & termios.ECHO), True, "the terminal is as it was")


def one_answer_in_a_pipe():
    out, err = once("-n", "20", text="Hello")
    check(once("-n", "20", stdin="Hello\n")[0], out, "text on standard input")
    check(once("-n", "20", stdin="Hello")[0], out, "text on standard input without a line end")
    check("[thinking]" in err, False, "reasoning where there is no terminal")
    usage = json.loads(once("-n", "20", "--json", text="Hello")[0])["usage"]
    check(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"], "usage")
    thinking = ["-n", "6", "--logit-bias", f"{special('<|content_thinking|>')}:1e4"]
    out, err = once(*thinking, text="Hello")
    check(out, b"", "content of an answer without any")
    check("no content" in err, True, "a remark on an answer without content")
    for options, stdin, text, rc, message in (
            ([], "", None, 2, "the message is empty"), ([], "", "", 2, "the message is empty"),
            (["--effort", "lots"], "", "x", 2, "--effort: "), (["--ctx", "99999"], "", "x", 2, "--ctx: "),
            (["--ctx", "10"], "", "a long message", 1, "raise --ctx"), (["--load", "missing"], "", "x", 3, "missing"),
            (["--tools", write("t.json", "{}")], "", "x", 3, "t.json: expected an array"),
            (["--tools", write("u.json", "[1]")], "", "x", 3, "u.json: "), (["--schema", write("s.json", "")], "", "x", 3, "s.json: "),
            (["--system", "a", "--load", write("sys.json", [{"role": "system", "content": "b"}])], "", "x", 2, "both give a system text"),
            (["--load", write("bad.json", [{"role": "user", "content": 5}])], "", "x", 3, "bad.json: ")):
        _, err = once(*options, stdin=stdin, text=text, rc=rc)
        check(message in err, True, f"{options}: {err!r} has {message!r}")


def answers_keep_to_a_schema():
    schema = write("schema.json", {"type": "object", "properties": {"n": {"enum": [1, 2]}, "ok": {"type": "boolean"}},
                                   "required": ["n", "ok"], "additionalProperties": False})
    for seed in range(5):
        got = json.loads(once("--schema", schema, "--json", "--temp", "1", "--seed", str(seed), "-n", "400", text="Answer")[0])
        if got["finish_reason"] == "stop":
            value = json.loads(got["content"])
            check(set(value), {"n", "ok"}, "members")
            check(value["n"] in (1, 2) and isinstance(value["ok"], bool), True, f"values of {value}")
            return
    raise AssertionError("no answer came to its end")


def calls_are_printed():
    tools = write("tools.json", [{"type": "function", "function": {"name": "add", "description": "adds", "parameters": {
        "type": "object", "properties": {"a": {"enum": [1, 2, 3]}}, "required": ["a"], "additionalProperties": False}}}])
    bias = ["--logit-bias", f"{special('<|content_invoke_tool_json|>')}:30", "--logit-bias", f"{special('<|content_thinking|>')}:-inf",
            "--logit-bias", "599:12"]
    for seed in range(20):
        options = ["--tools", tools, "--temp", "1", "--seed", str(seed), "-n", "200", *bias]
        got = json.loads(once(*options, "--json", text="Add")[0])
        if got["finish_reason"] != "tool_calls":
            continue
        call = got["tool_calls"][0]
        check(call["function"]["name"], "add", "name")
        check(set(json.loads(call["function"]["arguments"])), {"a"}, "arguments")
        out, _ = once(*options, text="Add")
        check(f"add {call['function']['arguments']}\n".encode() in out, True, f"a call in {out!r}")
        t = talk(*options)
        t.send("Add\r")
        t.expect(r"\[add waits: /result TEXT gives what it returned\]\n> ")
        command(t, "/save call.json", "2 messages")
        t.leave()
        check(saved("call.json")[1]["tool_calls"][0]["function"], call["function"], "the call in the messages")
        return
    raise AssertionError("no seed gave a call")


def media_folder():
    """Towers for the model, two pictures of one size, and a sound."""
    towers = path("towers")
    if not os.path.exists(towers):
        make_towers(towers, saved("model/config.json")["text_config"]["hidden_size"])
        gif(path("a b%.gif"), 20, 12, [i * 7 % 128 for i in range(240)])
        gif(path("b.gif"), 20, 12, [i * 5 % 128 for i in range(240)])
        wav(path("c.wav"), [i * 97 % 20000 for i in range(4000)])
    return ["--mmproj", towers]


def uri(name):
    return "file://" + path(name).replace("%", "%25").replace(" ", "%20")


def picture(name):
    return {"type": "image_url", "image_url": {"url": uri(name)}}


def media_stand_in_a_conversation():
    """They cost what is said, are kept by path, are read once, and no other picture of the same size is taken for them."""
    options = [*media_folder(), *DRAW, "-n", "40"]
    t = talk(*options, "--system", "Look.")
    command(t, "/image a b%.gif", r"\[a b%.gif: picture, 20 x 12: 6 tokens; it goes with the next message\]")
    command(t, "/audio c.wav", r"\[c.wav: sound, 0.25 s: 5 tokens; it goes with the next message\]")
    t.send("What is this?\r")
    found = t.expect(r"a b%.gif: picture, 20 x 12: 6 tokens\nc.wav: sound, 0.25 s: 5 tokens\n.*?" + SPEED)
    n, cached = int(found.group(2)), int(found.group(3))
    check(cached, 0, "cached before anything was there")
    t.send("And now?\r")
    found = t.expect(SPEED)
    if "picture" in found.string[:found.end()] or int(found.group(3)) < n - 1:
        raise AssertionError(f"what was read is read again: {found.string[:found.end()]!r}")
    command(t, "/save media.json", "5 messages")
    command(t, "/undo", r"\[taken back: And now\?\]")
    command(t, "/undo", r"\[taken back: \[image_url\] \[audio_url\] What is this\?\]")
    command(t, "/image b.gif", "b.gif: picture, 20 x 12: 6 tokens")
    command(t, "/audio c.wav", "c.wav: sound")
    other, cached, _ = say(t, "What is this?")
    check(other, n, "tokens with another picture of the same size")
    behind = 6 + 1 + 4 + 5 + 3 + 1  # rows and the end of the picture, the sound, the text, the model's role: at least
    if cached > n - behind:
        raise AssertionError(f"{cached} tokens of {n} were taken from another picture")
    command(t, "/image b.gif", "b.gif")
    command(t, "/image -", "nothing is attached now")
    command(t, "/save other.json", "3 messages")
    check(t.leave(), 0, "exit code")
    messages = saved("media.json")
    check(messages[1]["content"], [picture("a b%.gif"), {"type": "audio_url", "audio_url": {"url": uri("c.wav")}}, {"type": "text", "text": "What is this?"}],
          "the message with media")
    check(check_conversation(messages, *options), 2, "answers")
    check(check_conversation(saved("other.json"), *options), 1, "answers with the other picture")


def media_on_the_command_line():
    towers = media_folder()
    names = [os.path.join(work, name) for name in ("a b%.gif", "c.wav", "b.gif")]
    media = ["--image", names[0], "--audio", names[1], "--image", names[2]]
    out, said = once(*towers, *media, "-n", "8", "--json", text="Hm?")
    costs = "a b%.gif: picture, 20 x 12: 6 tokens\nc.wav: sound, 0.25 s: 5 tokens\nb.gif: picture, 20 x 12: 6 tokens\n"
    check(said[:len(costs)], costs, "costs")
    messages = [{"role": "user", "content": [picture("a b%.gif"), {"type": "audio_url", "audio_url": {"url": uri("c.wav")}}, picture("b.gif"),
                                             {"type": "text", "text": "Hm?"}]}]
    check(alone(messages, *towers, "-n", "8"), json.loads(out), "the answer to the same messages")
    n_full, n_small = [json.loads(once(*towers, "--image", names[2], *edge, "-n", "1", "--json", stdin="")[0])["usage"]["prompt_tokens"]
                       for edge in ([], ["--max-long-edge", "8"])]
    check(n_full - n_small, 4, "tokens that a picture alone saves when it is reduced")
    _, said = once(*towers, *media, "--ctx", "40", text="Hm?", rc=1)
    check("context 40 positions" in said and "encod" not in said, True, f"too much for the context: {said}")
    _, said = once(*towers, "--image", names[1], text="Hm?", rc=3)
    check("messages[0].content[0]: " in said and "expected a picture" in said and "a sound" in said, True, f"a sound as a picture: {said}")
    _, said = once("--image", names[0], text="Hm?", rc=3)
    check("no vision tower" in said and "--mmproj" in said, True, f"without towers: {said}")

    def run(*options, rc=0):
        done = subprocess.run([*program, "run", "-m", model, "--threads", "1", *towers, *options], capture_output=True, check=False)
        check(done.returncode, rc, f"exit code of {options}: {done.stderr!r}")
        return done.stdout, done.stderr.decode()

    out, said = run(*media, "--special", "--json", "-n", "4", "x<__media__>y<__media__><__media__>z<|message_model|>")
    image, sound = special("<|unused_200054|>"), special("<|unused_200053|>")
    check(json.loads(out)["prompt_ids"], [120] + [image] * 6 + [121] + [sound] * 5 + [image] * 6 + [122, special("<|message_model|>")], "the ids of a prompt")
    check(said.count("tokens\n"), 3, "costs")
    other, _ = run(*media[:4], "--image", names[0], "--special", "--json", "-n", "4", "x<__media__>y<__media__><__media__>z<|message_model|>")
    check(json.loads(other)["prompt_ids"], json.loads(out)["prompt_ids"], "ids with another picture")
    for options, what in (([*media, "x"], "put <__media__> there"), (["x<__media__>"], "1 <__media__> and the command line 0 files"),
                          ([*media, "<__media__>"], "1 <__media__> and the command line 3 files"), ([*media, "--ids", "1"], "--ids gives none")):
        _, said = run(*options, rc=2)
        check(what in said, True, f"{options}: {said}")


def videos_become_pictures():
    """Where there is a decoder beside the program, and ffmpeg to make a film of two seconds."""
    if not os.path.exists(os.path.join(os.path.dirname(program[-1]), "inkjet-video")) or not shutil.which("ffmpeg"):
        return
    towers, clip = media_folder(), path("clip.mkv")
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=duration=2:size=40x24:rate=10", "-f", "lavfi", "-i",
                    "sine=duration=2", "-c:v", "ffv1", "-c:a", "pcm_s16le", clip], check=True, stdin=subprocess.DEVNULL)
    for options, cost in (([], "2 frame pairs of 40 x 24: 36"), (["--video-stills"], "4 frames of 40 x 24: 72"),
                          (["--video-fps", "1"], "1 frame pair of 40 x 24: 18"), (["--video-frames", "3"], "2 frame pairs of 40 x 24: 36"),
                          (["--video-sound"], "2 frame pairs of 40 x 24, 2.00 s of sound: 76")):
        _, said = once(*towers, "--video", clip, *options, "-n", "2", text="Hm?")
        check(said.split(" tokens")[0], "clip.mkv: video, " + cost, f"cost with {options}")
        done = subprocess.run([*program, "run", "-m", model, "--threads", "1", *towers, "--video", clip, *options, "--special", "--json", "-n", "1",
                               "<|message_model|><__media__>"], check=True, capture_output=True)
        ids = json.loads(done.stdout)["prompt_ids"]
        image, sound, begin = (special(name) for name in ("<|unused_200054|>", "<|unused_200053|>", "<|message_user|>"))
        check(ids.count(image) + ids.count(sound), int(cost.split()[-1]), f"placeholders with {options}")
        blocks = int(cost.split()[0])
        check(ids.count(begin), 1 + 2 * blocks + ids.count(special("<|audio_end|>")), f"blocks with {options}")
        check((ids[0], ids[1], ids[-1]), (special("<|message_model|>"), begin, special("<|end_message|>")), f"beginning and end with {options}")
    t = talk(*towers, *DRAW, "-n", "8")
    command(t, "/video clip.mkv", "clip.mkv: video, 2 frame pairs of 40 x 24: 36 tokens; it goes with the next message")
    n, _, _ = say(t, "Hm?")
    _, cached, _ = say(t, "And?")
    if cached < n - 1:
        raise AssertionError(f"a video was read again: {cached} of {n} tokens were cached")
    check(t.leave(), 0, "exit code")


def towers_alone():
    towers = media_folder()

    def tool(*options, rc=0):
        done = subprocess.run([*program, *options], capture_output=True, check=False)
        check(done.returncode, rc, f"exit code of {options}: {done.stderr!r}")
        return done.stdout.decode(), done.stderr.decode()

    def rows(name):
        with open(path(name), "rb") as f:
            data = f.read()
        n = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + n])
        check(list(header), ["rows"], "tensors")
        return header["rows"]["dtype"], header["rows"]["shape"], data[8 + n:]

    hidden = saved("model/config.json")["text_config"]["hidden_size"]
    tool("embed", *towers, "--image", path("b.gif"), "--out", path("b.st"), "--threads", "1")
    kind, shape, values = rows("b.st")
    check((kind, shape, len(values)), ("F32", [6, hidden], 24 * hidden), "rows of a picture")
    tool("embed", "-m", path("towers"), "--image", path("b.gif"), "--out", path("b3.st"), "--threads", "3")
    check(rows("b3.st"), (kind, shape, values), "rows with more threads")
    tool("embed", *towers, "--audio", path("c.wav"), "--out", path("c.st"))
    check(rows("c.st")[:2], ("F32", [5, hidden]), "rows of a sound")
    check([f for f in os.listdir(work) if ".part" in f], [], "files that are left over")
    for options, code, what in ((["--image", path("b.gif")], 2, "--out"), (["--out", "x"], 2, "nothing to encode"),
                                (["--image", path("b.gif"), "--audio", path("c.wav"), "--out", "x"], 2, "one file at a time"),
                                (["--image", path("c.wav"), "--out", "x"], 3, "a sound"), (["--image", "missing", "--out", "x"], 3, "missing"),
                                (["--image", path("b.gif"), "--out", path("no/folder")], 3, "no/folder")):
        _, said = tool("embed", *towers, *options, rc=code)
        check(what in said, True, f"{options}: {said}")
    out, _ = tool("info", "--media", path("b.gif"), *towers, "--json")
    got = json.loads(out)
    check((got["kind"], got["patch"], got["grid_rows"], got["grid_cols"], got["tokens"], got["control_tokens"]), ("image", 8, 2, 3, 6, 3), "info of a picture")
    out, _ = tool("info", "--media", path("b.gif"), "--json", "--max-long-edge", "10")
    got = json.loads(out)
    check((got["patch"], got["used_width"], got["used_height"], got["tokens"]), (40, 10, 6, 1), "info without a model")
    out, _ = tool("info", "--media", path("c.wav"))
    check("length       0.250 s: 4000 samples" in out and "tokens       5, and 4 control" in out, True, out)


def template_of_the_checkpoint_is_compared():
    other = path("other")
    shutil.copytree(model, other)
    with open(os.path.join(other, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write("{% for m in messages %}[INST]{{ m.content }}[/INST]{% endfor %}")
    run = subprocess.run([*program, "chat", "-m", other, "-n", "2", "Hi"], capture_output=True, check=True)
    check(b"warning: the chat template of this checkpoint" in run.stderr, True, f"a warning in {run.stderr!r}")


tests = [conversation_equals_single_runs, undo_and_regen_equal_fresh_runs, long_answers_go_back_to_a_copy, an_answer_can_be_stopped,
         commands_do_what_they_say, a_full_context_ends_an_answer_but_not_the_conversation, several_lines_are_one_message,
         reasoning_is_dimmed_and_folds, nothing_of_the_model_moves_the_cursor,
         a_request_to_end_restores_the_terminal, one_answer_in_a_pipe, answers_keep_to_a_schema, calls_are_printed,
         template_of_the_checkpoint_is_compared, media_stand_in_a_conversation, media_on_the_command_line, videos_become_pictures,
         towers_alone]
if len(sys.argv) > 3:
    tests = [t for t in tests if t.__name__ in sys.argv[3:]]
failed = 0
for test in tests:
    begun = time.monotonic()
    try:
        test()
        print(f"{test.__name__}: {time.monotonic() - begun:.1f} s")
    except AssertionError as e:
        failed += 1
        print(f"FAIL {test.__name__}: {e}")
print(f"{len(tests) - failed} passed, {failed} failed")
sys.exit(1 if failed else 0)
