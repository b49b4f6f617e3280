"""The API dialects against the real program: answers, streams, limits and every refusal.

    python3 tests/server/test_dialects.py PROGRAM WORK_FOLDER [TEST...]
"""
import json
import os
import re
import socket
import time

from dialect_kit import (N_IDS, SPECIALS, Server, check, equal, join_chat, join_completions, join_messages, join_responses,
                         make_model, plain_chat, plain_completions, run_with_one_server, without_ids)

SLOW = bool(os.environ.get("INKJET_SANITIZED"))  # fewer seeds then
CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
USER = [{"role": "user", "content": "Hello there"}]
OPEN = USER + [{"role": "assistant", "content": "a"}]  # with continue_final_message the answer begins inside a text block
CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}
PERSON = {"type": "object", "properties": {"name": {"enum": ["Ann", "Bob"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}




def seeds_up_to(n):
    return range(max(2, n // 5) if SLOW else n)


NO_MARKERS = {str(i): -100 for i in range(N_IDS - len(SPECIALS), N_IDS)}


def tool(name, schema=CITY, strict=True):
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": schema, "strict": strict}}


TOOLS = [tool("weather"), tool("news")]
FLAT = [{"type": "function", **t["function"]} for t in TOOLS]
CLAUDE = [{"name": t["function"]["name"], "description": "d", "input_schema": CITY, "strict": True} for t in TOOLS]


def chat(s, **body):
    return plain_chat(s.ask(CHAT, {"messages": USER, **body}))


# --- streams

def stream_is_whole_chat(s):
    kinds = set()
    for seed in seeds_up_to(40):
        body = {"messages": OPEN if seed % 2 else USER, "continue_final_message": seed % 2 == 1, "seed": seed, "max_tokens": 60,
                "logprobs": True,
                "top_logprobs": seed % 3, "stop": [["q", "}x"], [], ["e"]][seed % 3]}
        whole, usage = plain_chat(s.ask(CHAT, body))
        parts, stream_usage = join_chat(s.events(CHAT, {**body, "stream_options": {"include_usage": True}}))
        equal(parts, whole, f"seed {seed}")
        usage["prompt_tokens_details"] = stream_usage["prompt_tokens_details"]  # the second run finds the prompt in the cache
        equal(stream_usage, usage, f"usage, seed {seed}")
        kinds |= {k for k in ("content", "reasoning", "calls") if whole[0][k]} | {whole[0]["finish"]}
    check(SLOW or {"content", "reasoning", "stop", "length"} <= kinds, f"the answers show too little: {kinds}")


def stream_is_whole_completions(s):
    for seed in seeds_up_to(12):
        body = {"prompt": ["Once", "upon a"], "n": 2, "seed": seed, "max_tokens": 20, "logprobs": 2, "stop": "e"}
        whole, usage = plain_completions(s.ask(COMPLETIONS, body))
        parts, stream_usage = join_completions(s.events(COMPLETIONS, {**body, "stream_options": {"include_usage": True}}))
        equal(parts, whole, f"seed {seed}")
        equal([stream_usage[k] for k in ("prompt_tokens", "completion_tokens")], [usage[k] for k in ("prompt_tokens",
                                                                                                     "completion_tokens")], "usage")


def stream_is_whole_responses(s):
    for seed in seeds_up_to(25):
        body = {"input": [{"role": "user", "content": "hi"}], "seed": seed, "max_output_tokens": 50,
                "include": ["message.output_text.logprobs"],
                "top_logprobs": 1, "tools": FLAT if seed % 2 else [], "metadata": {"a": "b\n c"}}
        whole, parts = without_ids(s.ask(RESPONSES, body)), join_responses(s.events(RESPONSES, body))
        for r in (whole, parts):
            del r["usage"]["input_tokens_details"]
        equal(parts, whole, f"seed {seed}")


def stream_is_whole_messages(s):
    for seed in seeds_up_to(25):
        body = {"model": "m", "messages": OPEN if seed % 2 else USER, "max_tokens": 50, "temperature": 0 if seed < 2 else 1,
                "top_k": 1 + seed % 2,
                "stop_sequences": ["e"] if seed % 3 else [], "thinking": {"type": "enabled", "budget_tokens": 1024}}
        if body["temperature"] and body["top_k"] > 1:
            body["top_k"] = 1  # no seed in this API: only what does not depend on one can be compared
        whole, parts = without_ids(s.ask(MESSAGES, body)), join_messages(s.events(MESSAGES, body))
        total = [u["input_tokens"] + u["cache_read_input_tokens"] for u in (whole.pop("usage"), parts.pop("usage"))]
        equal(total[0], total[1], "input tokens")
        equal(parts, whole, f"seed {seed}")


# --- answers

def several_answers(s):
    three, usage = chat(s, n=3, seed=5, max_tokens=12)
    alone = [chat(s, seed=5 + i, max_tokens=12) for i in range(3)]
    equal(three, [a[0][0] for a in alone], "n answers are those of consecutive seeds")
    equal(usage["completion_tokens"], sum(a[1]["completion_tokens"] for a in alone), "their tokens are added")
    equal(usage["prompt_tokens"], alone[0][1]["prompt_tokens"], "the prompt is counted once")


def seeds(s):
    equal(chat(s, seed=9, max_tokens=20)[0], chat(s, seed=9, max_tokens=20)[0], "one seed, one answer")
    answers = {chat(s, max_tokens=20)[0][0]["content"] for _ in range(4)}
    check(len(answers) > 1, "without a seed answers differ")
    equal(len({chat(s, temperature=0, max_tokens=20)[0][0]["content"] for _ in range(3)}), 1, "temperature 0 has one answer")


def stop_strings(s):
    body = {"messages": OPEN, "continue_final_message": True, "max_tokens": 60, "logit_bias": NO_MARKERS}  # one block: none is searched across
    n_cut = 0
    for seed in seeds_up_to(60):
        text = s.ask(CHAT, {**body, "seed": seed})["choices"][0]["message"]["content"]
        for length in (1, 3, 6):
            at = len(text) // 3
            stop = text[at:at + length]
            if len(stop) < length or "\ufffd" in stop:
                continue
            n_cut += 1
            for stops in ([stop], ["\u0001 never", stop + "?", stop]):
                cut = s.ask(CHAT, {**body, "seed": seed, "stop": stops})["choices"][0]
                equal(cut["message"]["content"], text[:text.index(stop)], f"seed {seed}, stop {stop!r}")
                equal(cut["finish_reason"], "stop", "finish_reason")
        if n_cut > 20:
            break
    check(n_cut > (2 if SLOW else 10), "too few answers to cut")


def stop_sequence_is_named(s):
    body = {"model": "m", "messages": OPEN, "max_tokens": 60, "top_k": 1}
    text = s.ask(MESSAGES, body)["content"][0]["text"]
    stop = next(c for c in text[2:] if c != "\ufffd")
    cut = s.ask(MESSAGES, {**body, "stop_sequences": ["never", stop]})
    equal((cut["stop_reason"], cut["stop_sequence"]), ("stop_sequence", stop), "what stopped it")


def logit_bias(s):
    ids = s.ask("/tokenize", {"content": "Z"})["tokens"]
    text = s.ask(COMPLETIONS, {"prompt": "a", "max_tokens": 5, "logit_bias": {str(ids[0]): 100}})["choices"][0]["text"]
    equal(text, "ZZZZZ", "a bias of 100")
    first = s.ask(COMPLETIONS, {"prompt": "a", "max_tokens": 1, "temperature": 0, "logprobs": 2})["choices"][0]["logprobs"]
    check(len(first["top_logprobs"][0]) == 2 and first["text_offset"] == [0], first)


def logprobs_cover_the_text(s):
    for seed in seeds_up_to(10):
        c = s.ask(CHAT, {"messages": OPEN, "continue_final_message": True, "seed": seed, "max_tokens": 30, "logprobs": True,
                         "top_logprobs": 3,
                         "logit_bias": NO_MARKERS})["choices"][0]
        tokens = c["logprobs"]["content"]
        text = b"".join(bytes(t["bytes"]) for t in tokens).decode(errors="replace")
        if "\ufffd" not in text:
            equal(text, c["message"]["content"], "the bytes of the tokens")
        for t in tokens:
            check(t["logprob"] <= 0 and len(t["top_logprobs"]) == 3, t)
            best = [x["logprob"] for x in t["top_logprobs"]]
            check(best == sorted(best, reverse=True) and t["logprob"] <= best[0], t)
    check(s.ask(CHAT, {"messages": USER, "max_tokens": 2})["choices"][0]["logprobs"] is None, "no logprobs without asking")


def effort(s):
    lengths = {e: s.ask(CHAT, {"messages": USER, "max_tokens": 1, "reasoning_effort": e})["usage"]["prompt_tokens"] for e in ("low",
                                                                                                                              "0.25", 0.25, 0)}
    equal(lengths["0.25"], lengths["low"] + 1, "0.25 has one more digit than 0.2")
    equal(lengths[0.25], lengths["0.25"], "a number is the same as its text")
    equal(lengths[0], lengths["low"] - 2, "0 is one character")
    thinking = s.ask("/tokenize", {"content": "<|content_thinking|>", "parse_special": True})["tokens"][0]
    for seed in seeds_up_to(6):
        answer, usage = chat(s, reasoning_effort="none", seed=seed, max_tokens=25, logit_bias={str(thinking): 30})
        equal((answer[0]["reasoning"], usage["completion_tokens_details"]["reasoning_tokens"]), (None, 0), "effort none has no reasoning")


def raw_prompts(s):
    plain = s.ask(COMPLETIONS, {"prompt": "<|end_message|>", "max_tokens": 1, "seed": 1})
    special = s.ask(COMPLETIONS, {"prompt": "<|end_message|>", "max_tokens": 1, "seed": 1, "parse_special": True})
    equal(special["usage"]["prompt_tokens"], 1, "with parse_special the marker is one id")
    check(plain["usage"]["prompt_tokens"] > 3, "and text without it")
    ids = s.ask("/tokenize", {"content": "Hello é"})["tokens"]
    body = {"max_tokens": 8, "seed": 4, "echo": True}
    of_text, of_ids = s.ask(COMPLETIONS, {"prompt": "Hello é", **body}), s.ask(COMPLETIONS, {"prompt": ids, **body})
    equal(of_ids["choices"], of_text["choices"], "ids and text are the same prompt")
    check(of_text["choices"][0]["text"].startswith("Hello é"), "echo")
    both = s.ask(COMPLETIONS, {"prompt": [ids, ids[:3]], "max_tokens": 0, "echo": True})
    equal([c["text"] for c in both["choices"]], ["Hello é", s.ask("/detokenize", {"tokens": ids[:3]})["content"]], "echo alone")
    equal(both["usage"]["prompt_tokens"], len(ids) + 3, "prompts are added")
    parts, _ = join_completions(s.events(COMPLETIONS, {"prompt": ids, **body}))
    equal(parts, plain_completions(of_ids)[0], "echo in a stream")
    check(s.ask(COMPLETIONS, {"prompt": "a"})["usage"]["completion_tokens"] <= 16, "16 tokens unless more are asked for")


def cached_tokens(s):
    body = {"messages": [{"role": "user", "content": "some words that are long enough to be kept " * 4}], "max_tokens": 3, "seed": 1}
    first, second = s.ask(CHAT, body), s.ask(CHAT, body)
    equal(first["choices"][0]["message"], second["choices"][0]["message"], "the cache changes nothing")
    used = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    check(0 <= used < second["usage"]["prompt_tokens"], used)
    claude = s.ask(MESSAGES, {"model": "m", "max_tokens": 1, "messages": body["messages"]})["usage"]
    count = s.ask(MESSAGES + "/count_tokens", {"model": "m", "messages": body["messages"]})
    equal(claude["input_tokens"] + claude["cache_read_input_tokens"], count["input_tokens"], "count_tokens")


# --- constraints

def is_city(text):
    value = json.loads(text)
    check(list(value) == ["city"] and value["city"] in ("Oslo", "Rome"), text)


def is_person(text):
    value = json.loads(text)
    check(list(value) == ["name", "age"] and value["name"] in ("Ann", "Bob") and 0 <= value["age"] <= 99 and isinstance(value["age"],
                                                                                                                        int), text)


def schema_answers(s):
    for seed in seeds_up_to(6):
        for thinking in ("none", "low"):
            body = {"messages": USER, "seed": seed, "max_tokens": 400, "reasoning_effort": thinking, "logit_bias": bias_against_thinking(s),
                    "response_format": {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": PERSON}}}
            (answer,), _ = plain_chat(s.ask(CHAT, body))
            is_person(answer["content"])
            equal((answer["finish"], answer["calls"]), ("stop", []), "a schema answer")
            (parts,), _ = join_chat(s.events(CHAT, body))
            equal(parts, answer, "the same as a stream")
    r = s.ask(RESPONSES, {"input": "hi", "seed": 1, "reasoning": {"effort": "none"}, "text": {"format": {"type": "json_schema",
                                                                                                         "name": "p", "strict": True, "schema": PERSON}}})
    is_person(r["output"][0]["content"][0]["text"])
    equal(r["status"], "completed", "status")
    m = s.ask(MESSAGES, {"model": "m", "max_tokens": 300, "messages": USER, "output_config": {"format": {"type": "json_schema",
                                                                                                         "schema": PERSON}}})
    is_person(m["content"][0]["text"])
    (answer,), _ = chat(s, regex="[a-c]{3}x", max_tokens=50, reasoning_effort="none")
    check(len(answer["content"]) == 4 and answer["content"][3] == "x", answer)
    (answer,), _ = chat(s, response_format={"type": "json_object"}, max_tokens=60, reasoning_effort="none", seed=3)
    check(answer["content"].lstrip().startswith("{"), answer)


def bias_against_thinking(s):
    """Random weights may think without end; whether they do is not what is tested."""
    return {str(i): -100 for i in s.ask("/tokenize", {"content": "<|content_thinking|>", "parse_special": True})["tokens"]}


def many_grammars(s):
    """More than are kept, and some again: each answer follows its own."""
    for i in [*range(40), 0, 39, 20, *range(40)]:
        (answer,), _ = chat(s, regex=f"x{i}y", max_tokens=30, reasoning_effort="none")
        equal((answer["content"], answer["finish"]), (f"x{i}y", "stop"), "the answer to an expression")


def large_grammars(s):
    """A few bytes of schema can stand for megabytes: what is kept of them, and what is in use, has a bound."""
    def heap():
        return int(re.search(r"^inkjet_heap_bytes (\d+)", s.send("/metrics", None, method="GET")[2].decode(), re.M).group(1))

    def text(n):
        return {"type": "string", "maxLength": n}
    before = heap()
    for i in range(16):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": text(100000 + i)}}
        s.ask(CHAT, {"messages": USER, "max_tokens": 1, "response_format": form})
    check(heap() - before < 100e6, f"{heap() - before} bytes are kept")
    if not SLOW:
        large = [tool(f"t{i}", {"type": "object", "properties": {"a": text(370000 + i)}}) for i in range(24)]
        openai_error(s, CHAT, {"messages": USER, "tools": large, "max_tokens": 1}, None, 503, "out_of_memory")
        for _ in range(100):  # the reply goes out before they are put back
            if heap() - before < 100e6:
                break
            time.sleep(0.1)
        check(heap() - before < 100e6, f"{heap() - before} bytes are kept after a refusal")


def forced_calls(s):
    n_parallel = 0
    for seed in seeds_up_to(8):
        body = {"messages": USER, "tools": TOOLS, "tool_choice": "required", "seed": seed, "max_tokens": 500,
                "logit_bias": bias_against_thinking(s)}
        (answer,), _ = plain_chat(s.ask(CHAT, body))
        check(answer["calls"] or answer["finish"] == "length", answer)
        for name, arguments in answer["calls"] if answer["finish"] != "length" else []:
            check(name in ("weather", "news"), name)
            is_city(arguments)
        n_parallel += len(answer["calls"]) > 1
        (one,), _ = plain_chat(s.ask(CHAT, {**body, "parallel_tool_calls": False}))
        check(len(one["calls"]) <= 1, one)
        (parts,), _ = join_chat(s.events(CHAT, body))
        equal(parts, answer, "the same as a stream")
        (named,), _ = plain_chat(s.ask(CHAT, {**body, "parallel_tool_calls": False, "tool_choice": {"type": "function",
                                                                                                    "function": {"name": "news"}}}))
        equal([c[0] for c in named["calls"]], ["news"], "the named function")
        equal(named["finish"], "tool_calls", "finish_reason")
        is_city(named["calls"][0][1])
    check(n_parallel > 0, "never several calls in one answer")
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function",
                                                                                         "function": {"name": "news"}}]}}
    (answer,), _ = chat(s, tools=TOOLS, tool_choice=allowed, parallel_tool_calls=False, seed=1, max_tokens=500,
                        logit_bias=bias_against_thinking(s))
    equal([c[0] for c in answer["calls"]], ["news"], "allowed_tools")
    for seed in seeds_up_to(8):
        (answer,), _ = chat(s, tools=TOOLS, tool_choice="none", seed=seed, max_tokens=40)
        equal(answer["calls"], [], "tool_choice none")


def forced_calls_elsewhere(s):
    r = s.ask(RESPONSES, {"input": "hi", "tools": FLAT, "tool_choice": {"type": "function", "name": "news"}, "parallel_tool_calls": False,
                          "seed": 2,
                          "reasoning": {"effort": "none"}, "max_output_tokens": 400})
    calls = [i for i in r["output"] if i["type"] == "function_call"]
    equal([c["name"] for c in calls], ["news"], "a call as an item")
    is_city(calls[0]["arguments"])
    body = {"model": "m", "max_tokens": 400, "messages": USER, "tools": CLAUDE, "tool_choice": {"type": "tool", "name": "weather",
                                                                                                "disable_parallel_tool_use": True}}
    m = s.ask(MESSAGES, body)
    blocks = [b for b in m["content"] if b["type"] == "tool_use"]
    equal(([b["name"] for b in blocks], m["stop_reason"]), (["weather"], "tool_use"), "a call as a block")
    is_city(json.dumps(blocks[0]["input"]))
    join_messages(s.events(MESSAGES, body))


# --- conversations in every form are the same prompt

def same_prompt(s):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": "Wait.", "reasoning_content": "Look it up.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "cold"}, {"role": "user", "content": "Thanks"}]
    n = s.ask(CHAT, {"messages": messages, "tools": TOOLS, "max_tokens": 1, "seed": 1, "reasoning_effort": "low"})["usage"]["prompt_tokens"]
    items = [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
             {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Look it up."}]},
             {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{"type": "output_text",
                                                                                                         "text": "Wait.", "annotations": []}]},
             {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\": \"Oslo\"}"},
             {"type": "function_call_output", "call_id": "c1", "output": "cold"}, {"role": "user", "content": "Thanks"}]
    r = s.ask(RESPONSES, {"instructions": "Be brief.", "input": items, "tools": FLAT, "max_output_tokens": 1,
                          "reasoning": {"effort": "low"}})
    equal(r["usage"]["input_tokens"], n, "as items of responses")
    blocks = [{"role": "user", "content": "Weather?"},
              {"role": "assistant", "content": [{"type": "thinking", "thinking": "Look it up.", "signature": "x"}, {"type": "text",
                                                                                                                    "text": "Wait."},
                                                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}]},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "cold"}]},
                                           {"type": "text", "text": "Thanks"}]}]
    m = s.ask(MESSAGES + "/count_tokens", {"model": "m", "system": [{"type": "text", "text": "Be brief."}], "messages": blocks,
                                           "tools": CLAUDE,
                                           "thinking": {"type": "enabled", "budget_tokens": 1024}})
    equal(m["input_tokens"], n, "as blocks of messages")


# --- refusals

def openai_error(s, path, body, param, status=400, code=None):
    reply, _ = s.refused(path, body, status)
    e = reply["error"]
    equal(sorted(e), ["code", "message", "param", "type"], "the members of an error")
    equal(e["param"], param, f"param of {str(body)[:200]} ({e['message']})")
    if code:
        equal(e["code"], code, "code")
    return e


def chat_errors(s):
    image = [{"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]
    audio = [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]}]
    cases = [
        ({}, "messages"), ({"messages": []}, "messages"), ({"messages": "hi"}, "messages"), ({"messages": [{"role": "wizard",
                                                                                                            "content": "x"}]}, "messages[0].role"),
        ({"wibble": 1}, "wibble"), ({"temperature": 3}, "temperature"), ({"temperature": "1"}, "temperature"), ({"top_p": 0}, "top_p"),
        ({"top_k": 1.5}, "top_k"), ({"min_p": -1}, "min_p"), ({"presence_penalty": 9}, "presence_penalty"), ({"seed": "x"}, "seed"),
        ({"n": 0}, "n"), ({"n": 99}, "n"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": 5, "max_completion_tokens": 6},
                                                                               "max_completion_tokens"),
        ({"stop": ""}, "stop"), ({"stop": [1]}, "stop"), ({"stop": ["x"] * 17}, "stop"), ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"600": 1}}, "logit_bias"), ({"logit_bias": {"1": 101}}, "logit_bias"), ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"reasoning_effort": "hard"}, "reasoning_effort"),
        ({"reasoning_effort": 1}, "reasoning_effort"), ({"reasoning_effort": True}, "reasoning_effort"), ({"stream": 1}, "stream"),
        ({"stream_options": {"x": 1}}, "stream_options.x"), ({"store": True}, "store"), ({"modalities": ["audio"]}, "modalities"),
        ({"verbosity": "low"}, "verbosity"), ({"audio": {}}, "audio"), ({"functions": []}, "functions"), ({"web_search_options": {}},
                                                                                                          "web_search_options"),
        ({"tools": {}}, "tools"), ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type"), ({"tools": [{"type": "function"}]},
                                                                                                     "tools[0].function"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools[1].function.name"), ({"tool_choice": "required"},
                                                                      "tool_choice"), ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "nope"}}}, "tool_choice.function.name"),
        ({"response_format": {"type": "xml"}}, "response_format.type"), ({"response_format": {"type": "json_schema"}},
                                                                         "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "wibble"}}}},
         "response_format.json_schema.schema"),
        ({"regex": "(", "reasoning_effort": "none"}, "regex"), ({"regex": "a", "response_format": {"type": "text"}},
                                                                "regex"), ({"model": 1}, "model"),
        ({"continue_final_message": True}, "messages[0].role"), ({"messages": image}, "messages[0].content[1]"), ({"messages": audio}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": "x", "wibble": 1}]}, "messages[0].wibble"),
        ({"messages": USER + [{"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}]},
         "messages[1].function_call"),
        ({"response_format": {"type": "json_object", "schema": CITY}}, "response_format.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": CITY, "wibble": 1}}}, "response_format.json_schema.wibble"),
        ({"tools": [{**TOOLS[0], "wibble": 1}]}, "tools[0].wibble"),
        ({"tools": [{"type": "function", "function": {"name": "f", "wibble": 1}}]}, "tools[0].function.wibble"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}]}, "tools[0].function.parameters"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "news"}, "wibble": 1}}, "tool_choice.wibble"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "news", "x": 1}}}, "tool_choice.function.x"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "news"}, "name": "weather"}}, "tool_choice.name"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ]
    for body, param in cases:
        openai_error(s, CHAT, {"messages": USER, **body} if body and "messages" not in body else body, param)
    s.ask(CHAT, {"messages": USER + [{"role": "assistant", "content": "x", "refusal": None, "annotations": []}] + USER, "max_tokens": 1})
    for field in ("user", "metadata", "store", "service_tier", "n", "stop", "tools", "response_format", "wibble"):
        if field != "wibble":
            s.ask(CHAT, {"messages": USER, "max_tokens": 1, field: None})
    s.ask(CHAT, {"messages": USER, "max_tokens": 1, "user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto",
                 "safety_identifier": "x",
                 "prompt_cache_key": "k", "model": "anything"})
    for text in ("", "{", "[]", "3", "{\"messages\": [], \"messages\": []}", "{\"a\": \"\\ud800\"}", "[" * 100000, b"{\"a\": \"\xff\"}"):
        s.refused(CHAT, text, 400)
    s.refused(CHAT, json.dumps({"messages": USER}), 415, **{"Content-Type": "text/plain"})
    e = openai_error(s, CHAT, {"messages": [{"role": "user", "content": "word " * 9000}]}, "messages", code="context_length_exceeded")
    check("the prompt's" in e["message"] and "context" in e["message"], e)


def messages_are_read_to_the_end(s):
    """Whatever stands in a message is used, or refused by its path."""
    said, call = {"role": "user", "content": "x"}, {"id": "c", "type": "function", "function": {"name": "news", "arguments": "{}"}}
    url = {"url": "data:image/png;base64,AA=="}

    def part(p):
        return {"messages": [said, {"role": "user", "content": [p]}]}

    def answer(**members):
        return {"messages": [said, {"role": "assistant", "content": "y", **members}]}

    def calls(**members):
        return answer(tool_calls=[{**call, **members}])
    at, called = "messages[1].content[0]", "messages[1].tool_calls[0]"
    cases = [
        (part({"type": "text", "text": 5}), at + ".text"), (part({"type": "text"}), at + ".text"), (part({}), at + ".text"),
        (part({"text": 5}), at + ".text"), (part({"type": "text", "text": "x", "y": 1}), at + ".y"), (part(5), at),
        (part({"type": "image_url", "image_url": {**url, "bogus": 1}}), at + ".image_url.bogus"),
        (part({"type": "image_url", "image_url": url, "bogus": 1}), at + ".bogus"),
        (part({"type": "image_url", "image_url": url, "url": "x"}), at + ".url"),
        (part({"type": "image_url", "image_url": {**url, "data": "x"}}), at + ".image_url.data"),
        (part({"type": "image_url", "image_url": {**url, "detail": 5}}), at + ".image_url.detail"),
        (part({"type": "image_url", "image_url": 5}), at + ".image_url"),
        (part({"type": "input_audio", "input_audio": {"data": "AA==", "format": 5}}), at + ".input_audio.format"),
        (part({"type": "image", "source": {**url, "media_type": [1]}}), at + ".source.media_type"),
        (part({"type": "video_url", "video_url": {**url, "x": 1}}), at + ".video_url.x"),
        (answer(tool_calls=[{}]), called + ".function"), (answer(tool_calls=[5]), called), (answer(tool_calls={}), "messages[1].tool_calls"),
        (calls(function={"name": 5}), called + ".function.name"), (calls(function={"arguments": "{}"}), called + ".function.name"),
        (calls(function={"name": "f", "x": 1}), called + ".function.x"), (calls(type="custom", custom={}), called + ".type"), (calls(x=1), called + ".x"),
        (calls(id=5), called + ".id"), (calls(function={"name": "f", "arguments": "{1"}), called + ".function.arguments"),
        ({"messages": [{**said, "reasoning_content": "z"}]}, "messages[0].reasoning_content"),
        ({"messages": [{**said, "tool_calls": [call]}]}, "messages[0].tool_calls"),
        ({"messages": [{**said, "tool_call_id": "c"}]}, "messages[0].tool_call_id"), ({"messages": [{**said, "name": 5}]}, "messages[0].name"),
        (answer(reasoning="a", reasoning_content="b"), "messages[1].reasoning"), (answer(refusal="no"), "messages[1].refusal"),
        (answer(content=[{"type": "image_url", "image_url": url}]), at + ".type"), ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [said, {"role": "tool", "tool_call_id": 5, "content": "x"}]}, "messages[1].tool_call_id"),
        ({"messages": [said, {"role": "tool", "content": [{"type": "text"}]}]}, at + ".text"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ]
    for body, param in cases:
        e = openai_error(s, CHAT, body, param)
        check(e["code"] in ("invalid_value", "unknown_parameter", "unsupported_parameter", "missing_required_parameter") and param in e["message"], e)


def what_clients_send_back(s):
    """Members that say nothing, and copies that SDKs and frameworks put beside what they are copies of."""
    call = {"id": "c", "index": 0, "type": "function", "extra_content": {"a": 1}, "provider_specific_fields": {"a": 1},
            "function": {"name": "news", "arguments": "{}", "parsed_arguments": {}}}
    plain = [{"role": "user", "content": [{"type": "text", "text": "x"}]},
             {"role": "assistant", "content": "y", "reasoning_content": "z", "tool_calls": [{k: call[k] for k in ("id", "type", "function")}]},
             {"role": "tool", "tool_call_id": "c", "content": "1"}]
    full = [{"role": "user", "content": ["x"], "name": "Ann", "tool_calls": [], "tool_call_id": None, "reasoning_content": "", "images": [],
             "cache_control": {"type": "ephemeral"}, "provider_specific_fields": {}},
            {"role": "assistant", "content": [{"type": "text", "text": "y", "cache_control": {"type": "ephemeral"}, "annotations": [], "id": "t",
                                               "index": 0}], "reasoning_content": "z", "thinking_blocks": [],
             "reasoning": "z", "tool_calls": [call], "annotations": [], "refusal": None, "audio": None, "function_call": None, "parsed": {"a": 1}},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "1"}], "name": None}]
    n = [s.ask(CHAT, {"messages": m, "max_tokens": 1})["usage"]["prompt_tokens"] for m in (plain, full)]
    equal(n[1], n[0], "tokens with all that clients send back")
    base = {"model": "m", "max_tokens": 1, "messages": USER, "thinking": {"type": "disabled"}}
    n = [s.ask(MESSAGES, {**base, **more})["usage"]["input_tokens"] for more in ({}, {"output_config": {"effort": "high"}})]
    equal(n[1], n[0], "tokens with an effort that a client gives always")


def schemas_are_named(s):
    """A schema that cannot be enforced: which one, in which field, for clients that see the message only, too."""
    bad, text = {"type": "object", "properties": {"a": {"type": "wibble"}}}, {"type": "string"}
    for schema in (bad, text):
        tools = [TOOLS[0], tool("other"), tool("odd", schema)]
        param = "tools[2].function.parameters"
        e = openai_error(s, CHAT, {"messages": USER, "tools": tools}, param, code="invalid_schema")
        check(param in e["message"], e)
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "odd"}}]}}
        openai_error(s, CHAT, {"messages": USER, "tools": tools, "tool_choice": allowed}, param)
        openai_error(s, RESPONSES, {"input": "a", "tools": [FLAT[0], {**FLAT[0], "name": "odd", "parameters": schema}]}, "tools[1].parameters")
        body = {"model": "m", "max_tokens": 5, "messages": USER, "tools": [CLAUDE[0], {**CLAUDE[0], "name": "odd", "input_schema": schema}]}
        check("tools.1.input_schema: " in s.refused(MESSAGES, body, 400)[0]["error"]["message"], "the tool's schema")
    body = {"model": "m", "max_tokens": 5, "messages": USER, "output_config": {"format": {"type": "json_schema", "schema": bad}}}
    check("output_config.format.schema: " in s.refused(MESSAGES, body, 400)[0]["error"]["message"], "the answer's schema")
    one = {"type": "function", "function": {"name": "news"}}
    for inner, param in [({"mode": "auto", "tools": [one], "x": 1}, ".x"), ({"mode": "x", "tools": [one]}, ".mode"), ({"mode": "auto", "tools": []}, ".tools"),
                         ({"mode": "auto", "tools": [{**one, "x": 1}]}, ".tools[0].x"), ({"mode": "auto", "tools": [5]}, ".tools[0]"),
                         ({"mode": "auto", "tools": [{**one, "type": "x"}]}, ".tools[0].type"),
                         ({"mode": "auto", "tools": [one, {"function": {"name": 5}}]}, ".tools[1].function.name"),
                         ({"mode": "auto", "tools": [{"type": "function", "function": {"name": "nope"}}]}, ".tools[0].function.name")]:
        openai_error(s, CHAT, {"messages": USER, "tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": inner}},
                     "tool_choice.allowed_tools" + param)


def codes_of_refusals(s):
    """The tables of docs/server.md: every refusal has a code, and its message calls the field as the client does."""
    for text in ("", "{", "nul", "{\"a\": 1, \"a\": 2}"):
        for path in (CHAT, COMPLETIONS, RESPONSES):
            openai_error(s, path, text, None, code="invalid_json")
    check("file" not in openai_error(s, CHAT, "", None)["message"] + s.refused("/tokenize", "", 400)[0]["error"]["message"], "a body is no file")
    for text in ("null", "[]", "3"):
        openai_error(s, CHAT, text, None, code="invalid_value")
    for path, body, param in [(CHAT, {"messages": USER, "reasoning_effort": "hard"}, "reasoning_effort"),
                              (RESPONSES, {"input": "a", "reasoning": {"effort": "hard"}}, "reasoning.effort"),
                              (CHAT, {"messages": [{"role": "wizard"}]}, "messages[0].role"),
                              (CHAT, {"messages": USER + [{"role": "assistant", "reasoning_content": "y"}], "continue_final_message": True,
                                      "reasoning_effort": "none"}, "reasoning_effort"),
                              (CHAT, {"messages": USER, "continue_final_message": True}, "messages[0].role")]:
        e = openai_error(s, path, body, param, code="invalid_value")
        check(e["message"].startswith(param + ": "), e)


def answers_without_a_beginning(s):
    """An assistant's message without blocks is nothing to be continued, and nothing at all."""
    ends = [{"role": "assistant", "content": []}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": ""}]}]
    plain = s.ask(MESSAGES + "/count_tokens", {"messages": USER})
    for end in ends:
        equal(s.ask(MESSAGES + "/count_tokens", {"messages": USER + [end]}), plain, f"tokens with {end}")
        s.ask(MESSAGES, {"model": "m", "max_tokens": 1, "messages": USER + [end]})
    thought = USER + [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": ""}]}]
    reply, _ = s.refused(MESSAGES, {"model": "m", "max_tokens": 1, "messages": thought}, 400)  # it is not asked for
    check(reply["error"]["message"].startswith("thinking: "), reply)
    s.ask(MESSAGES, {"model": "m", "max_tokens": 1, "messages": thought, "thinking": {"type": "adaptive"}})


def too_much_text(s):
    """Text that fits into no context is refused without being encoded."""
    text = "word " * 400000
    for path, body, param in [(CHAT, {"messages": [{"role": "user", "content": text}]}, "messages"), (COMPLETIONS, {"prompt": text}, "prompt"),
                              (COMPLETIONS, {"prompt": ["a", text]}, "prompt"), (RESPONSES, {"input": text}, "input")]:
        message = openai_error(s, path, body, param, code="context_length_exceeded")["message"]
        check("bytes" in message and "4000 tokens" in message and "--ctx" in message, message)
    reply, _ = s.refused(MESSAGES, {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": text}]}, 400)
    check("bytes" in reply["error"]["message"], reply)


def other_openai_errors(s):
    for body, param in [({}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": ""}, "prompt"), ({"prompt": ["a", 1]}, "prompt"),
                        ({"prompt": [600]}, "prompt"),
                        ({"prompt": [[1], [-1]]}, "prompt"), ({"prompt": "a", "suffix": "b"}, "suffix"), ({"prompt": "a", "best_of": 2},
                                                                                                          "best_of"),
                        ({"prompt": "a", "echo": True, "logprobs": 1}, "echo"), ({"prompt": "a", "logprobs": 21}, "logprobs"),
                        ({"prompt": "a", "messages": USER}, "messages"), ({"prompt": ["a"] * 40, "n": 2}, "n"), ({"prompt": "a",
                                                                                                                  "max_tokens": -1}, "max_tokens")]:
        openai_error(s, COMPLETIONS, body, param)
    openai_error(s, COMPLETIONS, {"prompt": "word " * 9000}, "prompt", code="context_length_exceeded")
    for body, param in [({}, "input"), ({"input": []}, "input"), ({"input": [{"role": "wizard", "content": ""}]}, "input[0].role"),
                        ({"input": "a", "previous_response_id": "resp_1"}, "previous_response_id"), ({"input": "a", "store": True},
                                                                                                     "store"),
                        ({"input": "a", "background": True}, "background"), ({"input": "a", "truncation": "auto"}, "truncation"),
                        ({"input": "a", "tools": [{"type": "web_search"}]}, "tools[0].type"), ({"input": "a", "include": ["x"]}, "include"),
                        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"), ({"input": "a",
                                                                                                 "reasoning": {"effort": "hard"}}, "reasoning.effort"),
                        ({"input": "a", "reasoning": {"wibble": 1}}, "reasoning.wibble"), ({"input": "a",
                                                                                            "text": {"format": {"type": "x"}}}, "text.format.type"),
                        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]},
                         "input[0].content[0]"),
                        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].type"),
                        ({"input": [{"type": "reasoning", "content": "thoughts"}]}, "input[0].content"),
                        ({"input": [{"type": "reasoning", "summary": [{"text": "thoughts", "wibble": 1}]}]}, "input[0].summary[0].wibble"),
                        ({"input": [{"type": "reasoning", "content": [{"type": "x", "text": "thoughts"}]}]}, "input[0].content[0].type"),
                        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "x", "refusal": "y"}]}]},
                         "input[0].content[0].refusal"),
                        ({"input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": 5}}]}]},
                         "input[0].content[0].input_audio.format"),
                        ({"input": [{"role": "assistant", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]},
                         "input[0].content[0].type"),
                        ({"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{1"}]}, "input[0].arguments"),
                        ({"input": [{"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x", "y": 1}]}]},
                         "input[0].output[0].y"),
                        ({"input": "a", "text": {"format": {"type": "json_object", "schema": CITY}}}, "text.format.schema"),
                        ({"input": "a", "tools": [{"type": "function", "name": "f", "parameters": 5}]}, "tools[0].parameters"),
                        ({"input": "a", "tools": FLAT, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "x"}]}},
                         "tool_choice.tools[0].name"),
                        ({"input": "a", "stream_options": {}}, "stream_options"),
                        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"), ({"input": "a",
                                                                                                                        "wibble": 1}, "wibble")]:
        openai_error(s, RESPONSES, body, param)


def an_item_without_content(s):
    """Reasoning of which nothing was sent is no reasoning: the prompt is the same."""
    said = {"role": "user", "content": "hi"}
    plain = s.ask(RESPONSES, {"input": [said], "max_output_tokens": 1})["usage"]["input_tokens"]
    for item in ({"type": "reasoning"}, {"type": "reasoning", "summary": []}, {"type": "reasoning", "content": None}):
        equal(s.ask(RESPONSES, {"input": [item, said], "max_output_tokens": 1})["usage"]["input_tokens"], plain, f"tokens with {item}")


def anthropic_errors(s):
    base = {"model": "m", "max_tokens": 5, "messages": USER}
    image = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]
    for body, word in [({"max_tokens": None}, "max_tokens"), ({"messages": []}, "messages"), ({"messages": [{"role": "x",
                                                                                                             "content": ""}]}, "messages.0.role"),
                       ({"wibble": 1}, "wibble"), ({"temperature": 1.5}, "temperature"), ({"stop_sequences": "x"},
                                                                                          "stop_sequences"), ({"thinking": {"type": "x"}},
                                                                                                              "thinking.type"),
                       ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"), ({"tools": [{"type": "web_search_20250305",
                                                                                                   "name": "w"}]}, "tools.0.type"),
                       ({"tools": [{"name": "w"}]}, "tools.0.input_schema"), ({"tool_choice": {"type": "any"}},
                                                                              "tool_choice"), ({"system": 3}, "system"),
                       ({"messages": [{"role": "user", "content": image}]}, "messages.0.content.0"), ({"messages": [{"role": "user",
                                                                                                         "content": [{"type": "document"}]}]}, "messages.0.content.0"),
                       ({"messages": USER + [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b",
                                                                                "input": {}}]}]}, "tool_result"),
                       ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "wibble": 1}]}]}, "wibble"),
                       ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x", "data": "y"}}]}]},
                        "messages.0.content.0.source.data"),
                       ({"messages": USER + [{"role": "assistant", "content": image}]}, "messages.1.content.0"),
                       ({"messages": USER + [{"role": "assistant", "content": [{"type": "thinking", "thinking": ""}, {"type": "tool_use", "id": "a",
                                                                              "name": "b", "input": 5}]}]}, "messages.1.content.1.input"),
                       ({"tools": CLAUDE, "tool_choice": {"type": "auto", "name": "news"}}, "tool_choice.name"),
                       ({"thinking": {"type": "disabled", "budget_tokens": 5}}, "thinking.budget_tokens"),
                       ({"thinking": {"type": "adaptive", "budget_tokens": 5}}, "thinking.budget_tokens"),
                       ({"thinking": 5}, "thinking: expected an object"), ({"tool_choice": {"type": "bogus"}}, "tool_choice.type"),
                       ({"output_config": {"effort": "hard"}}, "output_config.effort: expected"), ({"container": "x"}, "container")]:
        reply, _ = s.refused(MESSAGES, {**base, **body}, 400)
        equal((reply["type"], reply["error"]["type"]), ("error", "invalid_request_error"), "the shape of an error")
        check(word in reply["error"]["message"], f"{word} in {reply}")
    reply, _ = s.refused(MESSAGES, {**base, "messages": [{"role": "user", "content": "word " * 9000}]}, 400)
    check("context" in reply["error"]["message"], reply)
    s.refused(MESSAGES + "/count_tokens", {**base}, 400)  # max_tokens is no field of it


# --- load

def jobs(s):
    now = s.metrics()
    return now["inkjet_jobs_running"] + now["inkjet_jobs_waiting"]


def full_queue_and_clients_that_leave(program, model):
    long = {"messages": USER, "max_tokens": 3000, "seed": 1, "stream": True, "logit_bias": NO_MARKERS}
    with Server(program, model, "--parallel", "1", "--queue", "0", "--ctx", "4000") as s:
        c = s.connect()
        c.request("POST", CHAT, json.dumps({**long, "messages": OPEN, "continue_final_message": True, "temperature": 0}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        equal(r.status, 200, "the first")
        check(r.read(10), "it has begun")
        reply, headers = s.refused(CHAT, {"messages": USER}, 429)
        equal(reply["error"]["code"], "rate_limit_exceeded", "code")
        check("retry-after" in headers, headers)
        reply, headers = s.refused(MESSAGES, {"model": "m", "max_tokens": 1, "messages": USER}, 429)
        equal(reply["error"]["type"], "rate_limit_error", "type")
        reply, _ = s.refused(CHAT, {"messages": USER, "n": 2, "stream": True}, 429)
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()
        r.close()
        began = time.monotonic()
        while jobs(s) > 0:  # on a busy machine it may not have started yet
            check(time.monotonic() - began < 15, "an answer that nobody reads goes on")
            time.sleep(0.02)
        check(s.metrics()["inkjet_generated_tokens_total"] < 2900, "it stopped early")
        reply = s.ask(CHAT, {"messages": USER, "max_tokens": 2})
        equal(reply["object"], "chat.completion", "the next one is served")


def n_partly_accepted(program, model):
    """One of two jobs finds the queue full: the request is refused as a whole, and the other job is called off."""
    with Server(program, model, "--parallel", "1", "--queue", "0", "--ctx", "4000") as s:
        reply, _ = s.refused(CHAT, {"messages": USER, "n": 2, "max_tokens": 3000, "logit_bias": NO_MARKERS}, 429)
        equal(reply["error"]["code"], "rate_limit_exceeded", "code")
        began = time.monotonic()
        while jobs(s) > 0:
            check(time.monotonic() - began < 15, "the job that was accepted goes on")
        s.ask(CHAT, {"messages": USER, "max_tokens": 2})


SHARED = [stream_is_whole_chat, stream_is_whole_completions, stream_is_whole_responses, stream_is_whole_messages, several_answers, seeds,
          stop_strings,
          stop_sequence_is_named, logit_bias, logprobs_cover_the_text, effort, raw_prompts, cached_tokens, schema_answers,
          many_grammars, large_grammars, forced_calls, forced_calls_elsewhere, same_prompt,
          chat_errors, messages_are_read_to_the_end, what_clients_send_back, schemas_are_named, codes_of_refusals,
          answers_without_a_beginning, too_much_text, other_openai_errors, an_item_without_content, anthropic_errors]
OWN = [full_queue_and_clients_that_leave, n_partly_accepted]


run_with_one_server(make_model, ["--ctx", "4000"], SHARED, OWN)
