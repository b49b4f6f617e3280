"""Pictures and sounds through the API dialects of the real program: what they cost, what is found again, and every refusal.

    python3 tests/server/test_media.py PROGRAM WORK_FOLDER [TEST...]
"""
import json
import os
import re
import shutil
import subprocess
import threading
import time

from dialect_kit import SPECIALS, Server, check, equal, plain_chat, run_with_one_server
from media_kit import add_towers, b64, data_url, gif, make_model_with_towers, picture_rows, png, sound_rows, wav

CHAT, COMPLETIONS, RESPONSES, MESSAGES, COUNT = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
                                                 "/v1/messages/count_tokens")
FRAME = {"image": 3, "audio": 4}  # tokens around the rows of a medium: message, kind, end, and one more after a sound


def image(data):
    return {"type": "image_url", "image_url": {"url": data_url(data)}}


def audio(data):
    return {"type": "input_audio", "input_audio": {"data": b64(data), "format": "wav"}}


def text(t):
    return {"type": "text", "text": t}


def user(*parts):
    return {"role": "user", "content": list(parts)}


def ask(s, *messages, **body):
    return s.ask(CHAT, {"messages": list(messages), "max_tokens": 12, "temperature": 0, "logprobs": True, **body})


def tokens(reply):
    return reply["usage"]["prompt_tokens"]


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def said(reply):
    choice = reply["choices"][0]
    return json.dumps([choice["message"], choice["logprobs"]])


def metric(s, name):
    _, _, data = s.send("/metrics", b"", method="GET")
    return float(re.search(rf"^inkjet_{name} (\S+)$", data.decode(), re.M).group(1))


# --- what it costs


def the_models_say_what_they_read(s):
    _, _, data = s.send("/v1/models", b"", method="GET")
    meta = json.loads(data)["data"][0]["meta"]
    equal((meta["images"], meta["audio"]), (True, True), "meta of the model")


def every_row_is_a_token(s):
    bare = tokens(ask(s, user(text("What is it?"))))
    for size in ((1, 1), (12, 12), (50, 37)):
        reply = ask(s, user(image(png(*size, 1)), text("What is it?")))
        equal(tokens(reply), bare + picture_rows(*size) + FRAME["image"], f"tokens of a picture of {size}")
        equal(reply["usage"]["prompt_tokens_details"]["audio_tokens"], 0, "audio tokens of a picture")
    for seconds in (0.01, 0.5):
        reply = ask(s, user(text("What is it?"), audio(wav(seconds, 1))))
        equal(tokens(reply), bare + sound_rows(seconds) + FRAME["audio"], f"tokens of a sound of {seconds} s")
        equal(reply["usage"]["prompt_tokens_details"]["audio_tokens"], sound_rows(seconds), "audio tokens of a sound")


def the_dialects_agree(s):
    """The same conversation in three forms is the same prompt and the same answer."""
    data = png(40, 30, 2)
    chat = ask(s, user(text("Look"), image(data), text("and tell")), reasoning_effort="none")
    source = {"type": "base64", "media_type": "image/png", "data": b64(data)}
    messages = {"messages": [user(text("Look"), {"type": "image", "source": source}, text("and tell"))], "model": "m"}
    anthropic = s.ask(MESSAGES, {**messages, "temperature": 0, "max_tokens": 12})
    parts = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": data_url(data)}, {"type": "input_text", "text": "and tell"}]
    responses = s.ask(RESPONSES, {"input": [{"role": "user", "content": parts}], "temperature": 0, "reasoning": {"effort": "none"}, "max_output_tokens": 12})
    sizes = [tokens(chat), anthropic["usage"]["input_tokens"] + anthropic["usage"]["cache_read_input_tokens"], responses["usage"]["input_tokens"],
             s.ask(COUNT, messages)["input_tokens"]]
    equal(sizes, [sizes[0]] * 4, "tokens of the same conversation in four endpoints")
    contents = [plain_chat(chat)[0][0]["content"] or "", "".join(b.get("text", "") for b in anthropic["content"] if b["type"] == "text"),
                "".join(p["text"] for i in responses["output"] if i["type"] == "message" for p in i["content"])]
    equal(contents, [contents[0]] * 3, "the answer")
    parts[1] = audio(wav(0.2, 3))
    heard = s.ask(RESPONSES, {"input": [{"role": "user", "content": parts}], "temperature": 0, "reasoning": {"effort": "none"}, "max_output_tokens": 12})
    equal(heard["usage"]["input_tokens"], tokens(ask(s, user(text("Look"), parts[1], text("and tell")), reasoning_effort="none")), "tokens of a sound in responses")


def counting_does_not_encode(s):
    before = metric(s, "media_encoded_total")
    source = {"type": "base64", "media_type": "image/png", "data": b64(png(60, 60, 77))}
    s.ask(COUNT, {"messages": [user({"type": "image", "source": source})], "model": "m"})
    equal(metric(s, "media_encoded_total"), before, "pictures encoded by counting")


def a_video_is_its_frames(s):
    """A GIF of four seconds: two frames a second, in pairs, each with its time; a picture of the same file is its first frame."""
    data = gif(30, 20, 8)
    part = {"type": "video_url", "video_url": {"url": data_url(data, "image/gif")}}
    if os.environ.get("INKJET_VIDEO") != "1":
        refused(s, CHAT, {"messages": [user(part)]}, "messages[0].content[0]", status=400)
        return
    rows = picture_rows(30, 20)
    bare, still = tokens(ask(s, user(text("a")))), tokens(ask(s, user(image(data), text("a"))))
    equal(still, bare + rows + FRAME["image"], "tokens of the first frame")
    reply = ask(s, user(part, text("a")))
    check(tokens(reply) > bare + 4 * (rows + FRAME["image"]) + 5 * 3, f"a video of four pairs has {tokens(reply)} tokens")
    equal(said(ask(s, user(part, text("a")))), said(reply), "the same again")
    check(said(reply) != said(ask(s, user({"type": "video_url", "video_url": {"url": data_url(gif(30, 20, 6), "image/gif")}}, text("a")))), "another video")
    for bad in (data[:40], b"no video at all", b""):
        refused(s, CHAT, {"messages": [user({"type": "video_url", "video_url": {"url": data_url(bad, "video/mp4")}})]}, "messages[0].content[0]")
    refused(s, CHAT, {"messages": [user(*[{"type": "video_url", "video_url": {"url": data_url(gif(200, 200, 40 + i), "image/gif")}} for i in range(2)])]},
            "messages[0].content[0]", "tokens")


# --- what is found again


def media_are_seen(s):
    """Another picture, another order, another text: other answers. The same: the same answer, whatever is in the caches."""
    a, b = png(36, 36, 10), png(36, 36, 11)
    question = text("Which?")
    answers = [said(ask(s, user(*parts))) for parts in ((image(a), question), (image(b), question), (image(a), image(b), question),
                                                        (image(b), image(a), question), (question, image(a)), (audio(wav(0.3, 1)), question),
                                                        (audio(wav(0.3, 2)), question))]
    equal(len(set(answers)), len(answers), "different answers")
    for _ in range(2):
        equal(said(ask(s, user(image(b), image(a), question))), answers[3], "the same again")


def a_picture_is_found_in_the_next_turn(s):
    data, other = png(120, 96, 20), png(120, 96, 21)
    rows = picture_rows(120, 96)  # more than stands before it
    first = ask(s, user(image(data), text("First question")))
    answer = {"role": "assistant", "content": plain_chat(first)[0][0]["content"] or "x"}
    encoded = metric(s, "media_encoded_total")
    second = ask(s, user(image(data), text("First question")), answer, user(text("Second question")))
    check(cached(second) >= tokens(first) - 2, f"the second turn finds {cached(second)} of {tokens(first)} tokens")
    edited = ask(s, user(image(data), text("Another question")))
    check(cached(edited) >= rows, f"after an edited question {cached(edited)} tokens are found")
    same = ask(s, user({"type": "image_url", "image_url": {"url": data_url(png(120, 96, 20, level=1))}}, text("First question")))
    check(cached(same) >= tokens(first) - 1, "the same picture in another file is the same picture")
    equal(metric(s, "media_encoded_total"), encoded, "pictures encoded again")
    swapped = ask(s, user(image(other), text("First question")))
    check(cached(swapped) <= 40, f"another picture of the same size finds {cached(swapped)} tokens")
    equal(metric(s, "media_encoded_total"), encoded + 1, "the other picture is encoded")


def a_picture_is_encoded_once_at_once(s):
    data = png(120, 96, 30)
    before = metric(s, "media_encoded_total")
    answers = [None] * 5

    def one(i):
        answers[i] = ask(s, user(image(data), text(f"Question {i % 2}")))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(answers))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(metric(s, "media_encoded_total"), before + 1, "encoded")
    equal([said(answers[i]) for i in (2, 3, 4)], [said(answers[i % 2]) for i in (2, 3, 4)], "the answers")


def streams_and_several_answers(s):
    message = user(image(png(30, 30, 40)), text("Say"))
    whole = ask(s, message, n=2, seed=3, temperature=1)
    events = s.events(CHAT, {"messages": [message], "n": 2, "seed": 3, "temperature": 1, "max_tokens": 12})
    streamed = ["", ""]
    for _, data in events:
        for c in data["choices"] if data != "[DONE]" else []:
            streamed[c["index"]] += c["delta"].get("content") or ""
    equal(streamed, [c["message"]["content"] or "" for c in whole["choices"]], "the streamed answers")


# --- refusals


def refused(s, path, body, param, *words, status=400):
    reply, _ = s.refused(path, body, status)
    error = reply["error"]
    if "param" in error:
        equal(error["param"], param, f"param of {error['message']!r}")
    else:
        check(param in error["message"], f"{param} in {error['message']!r}")
    for word in words:
        check(word in error["message"], f"{word!r} in {error['message']!r}")


def bad_media_are_refused_by_place(s):
    whole = png(40, 40, 50)
    bad = [(b"", "base64"), (b"hello, this is no picture", ""), (whole[:60], ""), (whole[:-40], ""), (whole[:20] + b"\xff\xff\xff" + whole[23:], "")]
    for data, word in bad:
        url = data_url(data)
        refused(s, CHAT, {"messages": [user(text("a"), {"type": "image_url", "image_url": {"url": url}})]}, "messages[0].content[1]", word)
        refused(s, CHAT, {"messages": [user(text("a")), {"role": "assistant", "content": "b"},
                                       user({"type": "image_url", "image_url": {"url": url}}, image(whole))]}, "messages[2].content[0]", word)
        refused(s, RESPONSES, {"instructions": "x", "input": [{"role": "user", "content": "y"}, {"role": "user", "content": [
            {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}]}]}, "input[1].content[1]", word)
        source = {"type": "base64", "media_type": "image/png", "data": b64(data)}
        body = {"model": "m", "max_tokens": 3, "system": "x", "messages": [user(text("a")), {"role": "assistant", "content": "b"},
                                                                           user(text("c"), {"type": "image", "source": source})]}
        refused(s, MESSAGES, body, "messages.2.content.1", word)
        refused(s, COUNT, {k: v for k, v in body.items() if k != "max_tokens"}, "messages.2.content.1", word)
    refused(s, CHAT, {"messages": [user(image(wav(0.1, 1)))]}, "messages[0].content[0]")
    refused(s, CHAT, {"messages": [user(audio(whole))]}, "messages[0].content[0]")
    refused(s, CHAT, {"messages": [user(audio(wav(0, 1)))]}, "messages[0].content[0]")


def places_that_are_not_read(s):
    for url, word in (("http://example.org/cat.png", "nothing is fetched"), ("https://127.0.0.1/x", "nothing is fetched"), ("file:///etc/passwd", "files are not opened"),
                      ("/etc/passwd", ""), ("ftp://example.org/a.png", "ftp"), ("data:image/png,abc", "base64")):
        refused(s, CHAT, {"messages": [user({"type": "image_url", "image_url": {"url": url}})]}, "messages[0].content[0]", word)
        refused(s, RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]}, "input[0].content[0]", word)
    source = {"type": "url", "url": "https://example.org/cat.png"}
    refused(s, MESSAGES, {"model": "m", "max_tokens": 3, "messages": [user({"type": "image", "source": source})]}, "messages.0.content.0", "nothing is fetched")


def what_is_no_medium_here(s):
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}
    refused(s, MESSAGES, {"model": "m", "max_tokens": 3, "messages": [user(document)]}, "messages.0.content.0", "document")
    refused(s, RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "AAAA"}]}]}, "input[0].content[0].type", "input_file")
    refused(s, CHAT, {"messages": [user({"type": "file", "file": {"file_data": "AAAA"}})]}, "messages[0].content[0].type", "file")


def what_does_not_fit_is_not_encoded(s):
    before = metric(s, "media_encoded_total")
    refused(s, CHAT, {"messages": [user(image(png(700, 700, 60)))]}, "messages[0].content[0]", "tokens")
    refused(s, CHAT, {"messages": [user(*[image(png(200, 200, 61)) for _ in range(20)])]}, "messages[0].content[6]", "tokens")
    refused(s, CHAT, {"messages": [user(*[image(png(1, 1, 62)) for _ in range(65)])]}, "messages[0].content[64]", "64")
    nearly = [image(png(250, 250, 63)) for _ in range(4)]
    refused(s, CHAT, {"messages": [user(*nearly, text("w" * 300))]}, "messages", "context")
    equal(metric(s, "media_encoded_total"), before, "pictures encoded before the refusals")


def placeholders_without_media_are_refused(s):
    first = 600 - len(SPECIALS)
    for name in ("unused_200054", "unused_200053"):
        refused(s, COMPLETIONS, {"prompt": [1, 2, first + SPECIALS.index(name), 3]}, "prompt", "placeholder")
    refused(s, COMPLETIONS, {"prompt": "a<|unused_200054|>", "parse_special": True}, "prompt", "placeholder")
    equal(tokens(s.ask(COMPLETIONS, {"prompt": "a<|unused_200054|>b", "max_tokens": 1})) > 10, True, "the name of one is text")
    ask(s, user(text("<|unused_200054|>"), image(png(20, 20, 70))))


def a_client_that_leaves_stops_it(s):
    """The server answers others while and after clients leave with their pictures half encoded."""
    body = json.dumps({"messages": [user(image(png(400, 360, 80)))], "max_tokens": 1000})
    for _ in range(6):
        c = s.connect()
        c.request("POST", CHAT, body, {"Content-Type": "application/json"})
        c.sock.close()
        c.close()
    ask(s, user(text("Still there?")))
    ask(s, user(image(png(400, 360, 80)), text("Still there?")))


# --- other servers


def remote_addresses(program, model):
    with Server(program, model, "--ctx", "1000", "--allow-remote-media") as s:
        for url, word in (("http://127.0.0.1:1/a.png", "public internet"), ("http://[::1]:1/a.png", "public internet"), ("http://10.0.0.1/a.png", "public internet"),
                          ("http://169.254.169.254/latest", "public internet"), ("http://localhost:1/", "public internet"), ("http://0x7f000001/", "public internet"),
                          ("http://[::ffff:127.0.0.1]/", "public internet"), ("ftp://example.org/a.png", "ftp"), ("file:///etc/passwd", "files are not opened")):
            refused(s, CHAT, {"messages": [user({"type": "image_url", "image_url": {"url": url}})]}, "messages[0].content[0]", word)


def states_with_pictures_outlive_the_server(program, model):
    folder = os.path.join(os.path.dirname(model), "states")
    shutil.rmtree(folder, ignore_errors=True)
    message, other = (user(image(png(84, 84, seed)), text("A question of some length, so that the state is worth a file.")) for seed in (90, 91))
    with Server(program, model, "--ctx", "1000", "--cache-dir", folder) as s:
        first = ask(s, message)
    with Server(program, model, "--ctx", "1000", "--cache-dir", folder) as s:
        again, swapped = ask(s, message), ask(s, other)
        equal(said(again), said(first), "the answer from the folder")
        check(cached(again) >= tokens(first) - 1, f"{cached(again)} of {tokens(first)} tokens come from the folder")
        check(cached(swapped) < picture_rows(84, 84), f"another picture finds {cached(swapped)} tokens")


def copy_of_model(model, name, seed=5, leave_out=None):
    """The model with towers of other weights, or without some of their tensors."""
    folder = os.path.join(os.path.dirname(model), name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder)
    add_towers(folder, seed, leave_out)
    return folder


def media_in_all_dialects(s, medium):
    """The medium in the last message of a conversation, and where each dialect says that it is."""
    data = png(20, 20, 100) if medium == "image" else wav(0.2, 100)
    source = {"type": "base64", "media_type": "image/png", "data": b64(data)}
    part = image(data) if medium == "image" else audio(data)
    yield CHAT, {"messages": [user(text("a")), user(text("b"), part)]}, "messages[1].content[1]"
    yield (RESPONSES, {"instructions": "x", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"},
           {"type": "input_image", "image_url": data_url(data)} if medium == "image" else part]}]}, "input[0].content[1]")
    if medium == "image":
        body = {"model": "m", "system": "x", "messages": [user(text("c"), {"type": "image", "source": source})]}
        yield MESSAGES, {**body, "max_tokens": 3}, "messages.0.content.1"
        yield COUNT, body, "messages.0.content.1"


def towers_that_cannot_be_used(program, model):
    """Text is answered, media are refused by place with the reason, and `info` says it."""
    odd = copy_of_model(model, "odd", leave_out="model.visual.final_norm.weight")
    reason = "model.visual.final_norm.weight is missing"
    told = subprocess.run([program, "info", odd], capture_output=True, text=True)
    equal(told.returncode, 0, "exit code of info")
    check("cannot be used" in told.stdout and reason in told.stdout, f"info says {told.stdout[:2000]!r}")
    told = json.loads(subprocess.run([program, "info", odd, "--json"], capture_output=True, text=True).stdout)
    check(reason in told["towers_error"] and "towers" not in told, "info --json")
    ran = subprocess.run([program, "chat", "-m", odd, "-n", "3", "a"], capture_output=True, text=True)
    equal(ran.returncode, 0, f"exit code of chat, which says {ran.stderr!r}")
    with open(os.path.join(odd, "a.png"), "wb") as f:
        f.write(png(20, 20, 101))
    ran = subprocess.run([program, "chat", "-m", odd, "-n", "3", "--image", os.path.join(odd, "a.png"), "a"], capture_output=True, text=True)
    check(ran.returncode != 0 and reason in ran.stderr, f"chat with a picture ends with {ran.returncode} and says {ran.stderr!r}")
    with Server(program, odd, "--ctx", "1000") as s:
        ask(s, user(text("a")))
        _, _, data = s.send("/v1/models", b"", method="GET")
        equal(json.loads(data)["data"][0]["meta"]["images"], False, "pictures of the model")
        for medium in ("image", "audio"):
            for path, body, place in media_in_all_dialects(s, medium):
                refused(s, path, body, place, reason)


def one_tower_of_two(program, model):
    deaf = copy_of_model(model, "deaf", leave_out="model.audio")
    with Server(program, deaf, "--ctx", "1000") as s:
        ask(s, user(image(png(20, 20, 102)), text("a")))
        for path, body, place in media_in_all_dialects(s, "audio"):
            refused(s, path, body, place, "no tower for them")
        video = {"type": "video_url", "video_url": {"url": data_url(gif(30, 20, 4), "image/gif")}}
        if os.environ.get("INKJET_VIDEO") == "1":
            refused(s, CHAT, {"messages": [user(video, audio(wav(0.1, 1)))]}, "messages[0].content[1]", "no tower for them")
    blind = copy_of_model(model, "blind", leave_out="model.visual")
    with Server(program, blind, "--ctx", "1000") as s:
        ask(s, user(audio(wav(0.1, 1)), text("a")))
        for path, body, place in media_in_all_dialects(s, "image"):
            refused(s, path, body, place, "no tower for them")
        refused(s, CHAT, {"messages": [user(text("a"), video)]}, "messages[0].content[1]", "videos", "no tower for them")


def the_end_comes_while_media_are_read(program, model):
    """Whoever waits then is told so, and nobody hears that nobody waits."""
    replies = []
    bodies = [json.dumps({"messages": [user(image(png(620, 620, 120 + i)), text("a"))], "max_tokens": 900}) for i in range(8)]
    with Server(program, model, "--ctx", "4000", "--drain", "0") as s:
        def one(body):
            try:
                replies.append(s.send(CHAT, body))
            except OSError:
                pass  # too late to be heard

        threads = [threading.Thread(target=one, args=(body,)) for body in bodies]
        for t in threads:
            t.start()
        while metric(s, "media_cache_bytes") == 0:
            time.sleep(0.001)
        s.process.terminate()
        s.process.wait(60)
        for t in threads:
            t.join()
    stopped = [json.loads(data)["error"] for status, _, data in replies if status == 503]
    check(stopped, f"no request was stopped: {[r[0] for r in replies]}")
    for e in stopped:
        equal((e["code"], "shutting down" in e["message"]), ("cancelled", True), f"the error {e}")


def a_decoder_that_dies_fails_one_request(program, model):
    """The program looks for the decoder of videos beside itself: here is one that is killed while it works."""
    if os.environ.get("INKJET_VIDEO") != "1":
        return
    folder = os.path.join(os.path.dirname(model), "mortal")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(program, os.path.join(folder, "inkjet"))
    with open(os.path.join(folder, "inkjet-video"), "w") as f:
        f.write("#!/bin/sh\nread line\nkill -9 $$\n")
    os.chmod(os.path.join(folder, "inkjet-video"), 0o755)
    video = {"type": "video_url", "video_url": {"url": data_url(gif(30, 20, 8), "image/gif")}}
    with Server(os.path.join(folder, "inkjet"), model, "--ctx", "1000") as s:
        others = []
        asker = threading.Thread(target=lambda: others.extend(ask(s, user(image(png(60, 60, 130 + i)), text("a"))) for i in range(4)))
        asker.start()
        for _ in range(3):
            refused(s, CHAT, {"messages": [user(text("b")), user(text("a"), video)]}, "messages[1].content[1]", "signal 9", status=500)
        asker.join()
        equal(len(others), 4, "answers to others")


def states_are_of_their_towers(program, model):
    """Pictures that other towers have read are no beginning of a prompt; text is."""
    folder = os.path.join(os.path.dirname(model), "states-of-towers")
    shutil.rmtree(folder, ignore_errors=True)
    other = copy_of_model(model, "other", seed=6)
    words = text("A question of some length, so that the state is worth a file, and nothing but text in all of it, once.")
    plain, seen = user(words), user(image(png(84, 84, 110)), words)
    with Server(program, model, "--ctx", "1000", "--cache-dir", folder) as s:
        ask(s, plain), ask(s, seen)
    with Server(program, other, "--ctx", "1000") as s:
        fresh = ask(s, seen)
    with Server(program, other, "--ctx", "1000", "--cache-dir", folder) as s:
        again, same = ask(s, seen), ask(s, plain)
        equal(said(again), said(fresh), "the answer of the other towers")
        check(cached(again) < picture_rows(84, 84), f"{cached(again)} tokens of other towers are found")
        check(cached(same) >= tokens(same) - 1, f"{cached(same)} of {tokens(same)} tokens of text are found")


SHARED = [the_models_say_what_they_read, every_row_is_a_token, the_dialects_agree, a_video_is_its_frames, counting_does_not_encode, media_are_seen,
         a_picture_is_found_in_the_next_turn, a_picture_is_encoded_once_at_once, streams_and_several_answers, bad_media_are_refused_by_place,
         places_that_are_not_read, what_is_no_medium_here, what_does_not_fit_is_not_encoded, placeholders_without_media_are_refused,
         a_client_that_leaves_stops_it]
OWN = [remote_addresses, a_decoder_that_dies_fails_one_request, the_end_comes_while_media_are_read, states_with_pictures_outlive_the_server,
       states_are_of_their_towers, towers_that_cannot_be_used, one_tower_of_two]


run_with_one_server(make_model_with_towers, ["--ctx", "2000", "--parallel", "3"], SHARED, OWN)
