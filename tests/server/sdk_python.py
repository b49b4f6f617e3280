"""The Python SDKs of OpenAI and Anthropic, and two agent frameworks, unchanged, against a running server.

    python3 tests/server/sdk_python.py URL

The model may have random weights: everything that must come out is forced by schemas and tool choices.
"""
import asyncio
import json
import logging
import sys
from typing import Literal

import anthropic
import openai
import pydantic

URL = sys.argv[1]
logging.getLogger("openai.agents").setLevel(logging.CRITICAL)  # answers that a limit cuts are expected of random weights
client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
claude = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
USER = [{"role": "user", "content": "Hello"}]


class Person(pydantic.BaseModel):
    name: Literal["Ann", "Bob"]
    age: Literal[1, 22, 33]


class Place(pydantic.BaseModel):
    city: Literal["Oslo", "Rome"]


TOOL = openai.pydantic_function_tool(Place, name="weather", description="The weather")
NEWS = openai.pydantic_function_tool(Place, name="news", description="The news")
FORCED = {"reasoning_effort": "none", "max_tokens": 400}
IMAGE = "data:image/png;base64,iVBORw0KGgo="


def refused(call, kind, word):
    try:
        call()
    except kind as e:
        assert word in str(e), e
        return
    raise AssertionError("this should have been refused")


# --- OpenAI: chat completions

def chat():
    r = client.chat.completions.create(model="m", messages=USER, seed=1, max_tokens=10)
    assert r.choices[0].message.role == "assistant" and r.choices[0].finish_reason in ("stop", "length")
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    return r


def chat_stream():
    whole = client.chat.completions.create(model="m", messages=USER, seed=1, max_tokens=10)
    text, usage = "", None
    for chunk in client.chat.completions.create(model="m", messages=USER, seed=1, max_tokens=10, stream=True,
                                                stream_options={"include_usage": True}):
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
        usage = chunk.usage or usage
    assert text == (whole.choices[0].message.content or ""), (text, whole)
    assert usage.completion_tokens == whole.usage.completion_tokens


def chat_logprobs():
    messages = USER + [{"role": "assistant", "content": "a"}]
    r = client.chat.completions.create(model="m", messages=messages, seed=1, max_tokens=4, logprobs=True, top_logprobs=2,
                                       extra_body={"continue_final_message": True})
    assert all(len(t.top_logprobs) == 2 for t in r.choices[0].logprobs.content), r


def chat_tools():
    for choice in ("required", {"type": "function", "function": {"name": "news"}}):
        r = client.chat.completions.create(model="m", messages=USER, tools=[TOOL, NEWS], tool_choice=choice, seed=2,
                                           parallel_tool_calls=False, **FORCED)
        (call,) = r.choices[0].message.tool_calls
        Place.model_validate_json(call.function.arguments)
        assert call.function.name in ("weather", "news") if choice == "required" else call.function.name == "news"
        assert r.choices[0].finish_reason == "tool_calls"
    history = USER + [r.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    r = client.chat.completions.create(model="m", messages=history, tools=[TOOL, NEWS], tool_choice="none", seed=2, max_tokens=5)
    assert not r.choices[0].message.tool_calls


def chat_parallel_tools():
    most = 0
    for seed in range(12):
        with client.chat.completions.stream(model="m", messages=USER, tools=[TOOL, NEWS], tool_choice="required", seed=seed,
                                            **FORCED) as stream:
            final = stream.get_final_completion() if drain(stream) else None
        whole = client.chat.completions.create(model="m", messages=USER, tools=[TOOL, NEWS], tool_choice="required", seed=seed, **FORCED)
        calls = final.choices[0].message.tool_calls or []
        assert [(c.function.name, c.function.arguments) for c in calls] == [(c.function.name,
                                                                             c.function.arguments) for c in whole.choices[0].message.tool_calls or []]
        if final.choices[0].finish_reason == "tool_calls":
            assert all(isinstance(c.function.parsed_arguments, Place) for c in calls), calls
        most = max(most, len(calls))
    print(f"  at most {most} calls in one answer")


def drain(stream):
    for _ in stream:
        pass
    return True


def chat_parse():
    r = client.chat.completions.parse(model="m", messages=USER, response_format=Person, seed=3, **FORCED)
    assert isinstance(r.choices[0].message.parsed, Person), r
    with client.chat.completions.stream(model="m", messages=USER, response_format=Person, seed=3, **FORCED) as stream:
        drain(stream)
        assert stream.get_final_completion().choices[0].message.parsed == r.choices[0].message.parsed


def chat_refusals():
    image = [{"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": IMAGE}}]}]
    refused(lambda: client.chat.completions.create(model="m", messages=image), openai.BadRequestError, "content")  # damaged; or no tower
    refused(lambda: client.chat.completions.create(model="m", messages=USER, temperature=9), openai.BadRequestError, "temperature")
    refused(lambda: client.chat.completions.create(model="m", messages=USER, stream=True, extra_body={"wibble": 1}),
            openai.BadRequestError, "wibble")


def completions():
    r = client.completions.create(model="m", prompt=["Once", "Twice"], max_tokens=4, logprobs=1, seed=1)
    assert len(r.choices) == 2 and len(r.choices[0].logprobs.tokens) <= 4
    text = "".join(c.choices[0].text for c in client.completions.create(model="m", prompt="Once", max_tokens=4, seed=1,
                                                                        stream=True) if c.choices)
    assert text == r.choices[0].text


def models():
    assert client.models.list().data[0].id


async def asynchronous():
    other = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    whole = client.chat.completions.create(model="m", messages=USER, seed=5, max_tokens=8)
    many = await asyncio.gather(*[other.chat.completions.create(model="m", messages=USER, seed=5, max_tokens=8) for _ in range(6)])
    assert {m.choices[0].message.content for m in many} == {whole.choices[0].message.content}


# --- OpenAI: responses

def responses():
    args = {"model": "m", "input": "Hi", "max_output_tokens": 8, "extra_body": {"seed": 1}}
    whole = client.responses.create(**args)
    assert whole.status in ("completed", "incomplete")
    with client.responses.stream(**args) as stream:
        for event in stream:
            pass
    assert event.type in ("response.completed", "response.incomplete") and event.response.output_text == whole.output_text, (event, whole)


def responses_tools():
    tool = {"type": "function", "name": "weather", "parameters": TOOL["function"]["parameters"], "strict": True}
    args = {"model": "m", "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "reasoning": {"effort": "none"},
            "extra_body": {"seed": 1}}
    r = client.responses.create(input="Hi", **args)
    (call,) = [i for i in r.output if i.type == "function_call"]
    Place.model_validate_json(call.arguments)
    with client.responses.stream(input="Hi", **args) as stream:
        final = stream.get_final_response() if drain(stream) else None
    assert [i.arguments for i in final.output if i.type == "function_call"] == [call.arguments]
    history = [{"role": "user", "content": "Hi"}, *r.output, {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    client.responses.create(input=history, model="m", max_output_tokens=3)


def responses_parse():
    r = client.responses.parse(model="m", input="Hi", text_format=Person, reasoning={"effort": "none"}, extra_body={"seed": 4})
    assert isinstance(r.output_parsed, Person), r
    refused(lambda: client.responses.create(model="m", input="x", previous_response_id="resp_1"), openai.BadRequestError,
            "previous_response_id")


# --- Anthropic

def messages():
    r = claude.messages.create(model="m", max_tokens=8, messages=USER, extra_body={"top_k": 1})
    with claude.messages.stream(model="m", max_tokens=8, messages=USER, extra_body={"top_k": 1}) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "".join(b.text for b in r.content if b.type == "text") and final.stop_reason == r.stop_reason, (final, r)
    total = r.usage.input_tokens + r.usage.cache_read_input_tokens
    assert claude.messages.count_tokens(model="m", messages=USER).input_tokens == total


def messages_tools():
    tool = {"name": "weather", "description": "d", "input_schema": TOOL["function"]["parameters"], "strict": True}
    choice = {"type": "any", "disable_parallel_tool_use": True}
    r = claude.messages.create(model="m", max_tokens=400, messages=USER, tools=[tool], tool_choice=choice)
    (use,) = [b for b in r.content if b.type == "tool_use"]
    Place.model_validate(use.input)
    assert r.stop_reason == "tool_use"
    with claude.messages.stream(model="m", max_tokens=400, messages=USER, tools=[tool], tool_choice=choice) as stream:
        for _ in stream:
            pass
        (again,) = [b for b in stream.get_final_message().content if b.type == "tool_use"]
    Place.model_validate(again.input)
    history = USER + [{"role": "assistant", "content": r.content}, {"role": "user", "content": [{"type": "tool_result",
                                                                                                 "tool_use_id": use.id, "content": "sunny"}]}]
    claude.messages.create(model="m", max_tokens=3, messages=history, tools=[tool], tool_choice={"type": "none"})


def messages_thinking():
    r = claude.messages.create(model="m", max_tokens=1030, messages=USER, thinking={"type": "enabled", "budget_tokens": 1024},
                               stop_sequences=["e", "a"])
    claude.messages.create(model="m", max_tokens=3, messages=USER + [{"role": "assistant", "content": r.content or "x"}, *USER])


def messages_parse():
    r = claude.messages.parse(model="m", max_tokens=300, messages=USER, output_format=Person)
    assert isinstance(r.parsed_output, Person), r


def messages_refusals():
    image = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]
    refused(lambda: claude.messages.create(model="m", max_tokens=3, messages=[{"role": "user", "content": image}]),
            anthropic.BadRequestError, "content")
    refused(lambda: claude.messages.create(model="m", max_tokens=3, messages=[]), anthropic.BadRequestError, "messages")


# --- agents

def pydantic_agent():
    """A loop until the model calls the output tool; two tools are on the way. Random weights take random ways: a few seeds are tried."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=URL + "/v1", api_key="none"))
    for seed in range(60):
        called = []
        agent = Agent(model, output_type=Person, retries=8, model_settings={"seed": seed, "max_tokens": 600,
                                                                            "openai_reasoning_effort": "none"})

        @agent.tool_plain
        def weather(city: Literal["Oslo", "Rome"]) -> str:
            called.append("weather")
            return "sunny"

        @agent.tool_plain
        def news(city: Literal["Oslo", "Rome"]) -> str:
            called.append("news")
            return "none"
        try:
            result = agent.run_sync("Hello", usage_limits=UsageLimits(request_limit=12))
        except openai.APIConnectionError:
            raise
        except Exception:  # a way that does not end (a limit on length or turns); another seed
            continue
        assert isinstance(result.output, Person)
        if {"weather", "news"} <= set(called):
            print(f"  pydantic-ai, seed {seed}: {' '.join(called)}, then {result.output!r} in {result.usage.requests if hasattr(result.usage, 'requests') else result.usage().requests} requests")
            return
    raise AssertionError("no seed called both tools")


def openai_agent():
    """The Agents SDK over the Responses API: the first turn must call a tool, the next may say what it likes."""
    from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
    set_tracing_disabled(True)
    called = []

    @function_tool
    def weather(city: Literal["Oslo", "Rome"]) -> str:
        called.append("weather")
        return "sunny"

    @function_tool
    def news(city: Literal["Oslo", "Rome"]) -> str:
        called.append("news")
        return "none"
    other = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    for seed in range(40):
        called.clear()
        settings = ModelSettings(tool_choice="required", max_tokens=300, reasoning={"effort": "none"}, extra_body={"seed": seed})
        agent = Agent(name="a", instructions="Be brief.", model=OpenAIResponsesModel("m", openai_client=other), tools=[weather, news],
                      model_settings=settings)
        try:
            result = Runner.run_sync(agent, "Hello", max_turns=6)
        except openai.APIConnectionError:
            raise
        except Exception:
            continue
        if {"weather", "news"} <= set(called):
            print(f"  agents, seed {seed}: {' '.join(called)}, then {json.dumps(str(result.final_output)[:40])}")
            return
    raise AssertionError(f"no seed called both tools")


TESTS = [chat, chat_stream, chat_logprobs, chat_tools, chat_parallel_tools, chat_parse, chat_refusals, completions, models, asynchronous,
         responses,
         responses_tools, responses_parse, messages, messages_tools, messages_thinking, messages_parse, messages_refusals, pydantic_agent, openai_agent]
failed = 0
for test in TESTS:
    if len(sys.argv) > 2 and test.__name__ not in sys.argv[2:]:
        continue
    try:
        result = test()
        if asyncio.iscoroutine(result):
            asyncio.run(result)
        print(f"ok   {test.__name__}", flush=True)
    except Exception as e:
        failed += 1
        print(f"FAIL {test.__name__}: {type(e).__name__}: {e}", flush=True)
print(f"openai {openai.__version__}, anthropic {anthropic.__version__}: {failed} failed")
sys.exit(1 if failed else 0)
