"""Requests of /v1/responses, and what its events and its whole answers say of the same pieces."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.http.answers.responses_writer import ResponsesWriter
from paceline.clients.http.answers.whole import Answer
from paceline.clients.http.news import Counts, Ended, News
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests.asked import Asked, Chat
from paceline.clients.http.requests.responses import read_response
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.speech.cutter import Delta, Likely
from paceline.clients.http.speech.tool_calls import Call
from paceline.clients.http.texts import Texts

HI = {"role": "user", "content": "Hi"}
ASKED = {"input": "Hi"}
SCHEMA = {"type": "object", "properties": {}}
FUNCTION = {"type": "function", "name": "f", "description": "One.", "parameters": SCHEMA, "strict": True}
TEXTS = Texts.numbers(100, 1000)
COUNTS = Counts(prompt=7, answer=5, cached=3, thought=2)


def chat(body: dict[str, Any]) -> Chat:
    (found,) = read_response(body).asked.prompts
    assert isinstance(found, Chat)
    return found


def test_a_bare_body_asks_for_the_defaults() -> None:
    both = read_response(ASKED)
    assert both.asked == Asked((Chat((HI,), param="input"),), None, {"temp": 1.0}, limit="max_output_tokens")
    assert both.repeated["tools"] == [] and both.repeated["metadata"] == {} and both.repeated["temperature"] == 1.0


def test_each_field() -> None:
    more = {"max_output_tokens": 9, "temperature": 0, "top_p": 0.5, "stream": True, "metadata": {"a": "b"}}
    both = read_response(ASKED | more | {"include": ["message.output_text.logprobs"]})
    assert both.asked == Asked(
        (Chat((HI,), param="input"),),
        9,
        {"temp": 0.0, "top_p": 0.5},
        stream=True,
        logprobs=0,
        limit="max_output_tokens",
    )
    assert {name: both.repeated[name] for name in more if name != "stream"} == {
        name: value for name, value in more.items() if name != "stream"
    }
    for field, logprobs in (({"top_logprobs": 3}, 3), ({"top_logprobs": 0}, None), ({"include": ["x"]}, None)):
        assert read_response(ASKED | field).asked.logprobs == logprobs
    for effort, names in (("high", {}), ("none", {"enable_thinking": False})):
        assert chat(ASKED | {"reasoning": {"effort": effort}}).names == {"reasoning_effort": effort} | names
    known = {"type": "function", "function": {name: FUNCTION[name] for name in ("name", "description", "parameters")}}
    assert chat(ASKED | {"tools": [FUNCTION]}).tools == Tools((known,), strict=frozenset({"f"}))
    others = [{"type": "web_search"}, {"type": "namespace", "name": "n", "tools": [FUNCTION]}]
    assert chat(ASKED | {"tools": [*others, FUNCTION]}).tools == Tools((known,), strict=frozenset({"f"}))
    assert chat(ASKED | {"tools": others}).tools is None
    named = {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}}
    assert chat(ASKED | named).tools == Tools((known,), False, ("f",), frozenset({"f"}))


def test_items_are_turns() -> None:
    items = [
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "A"}]},
        HI,
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}], "id": "rs_1"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x": 1}', "status": "completed"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": ""},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
        {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "two"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So"}], "encrypted_content": "x"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        HI,
    ]
    called = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": {}}},
    ]
    assert chat({"input": items, "instructions": "Be brief."}).messages == (
        {"role": "system", "content": "Be brief.\nBe kind."},
        {"role": "user", "content": "A\nHi"},
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm", "tool_calls": called},
        {"role": "tool", "content": "one", "tool_call_id": "a"},
        {"role": "tool", "content": "two", "tool_call_id": "b"},
        {"role": "assistant", "content": "No.", "reasoning_content": "So"},
        HI,
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": 5}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call", "call_id": "a", "arguments": "{}"}]}, "input[0].name"),
        ({"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "x"}]}, "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "call_id": "a"}]}, "input[0].output"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "reasoning", "summary": [{"type": "text"}]}]}, "input[0].summary[0].type"),
        (ASKED | {"tools": [{"type": 5}]}, "tools[0].type"),
        (ASKED | {"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        (ASKED | {"tools": [FUNCTION], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        (ASKED | {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0].name"),
        (ASKED | {"tools": [FUNCTION], "tool_choice": {"type": "function"}}, "tool_choice.name"),
        (ASKED | {"reasoning": {"effort": "utmost"}}, "reasoning.effort"),
        (ASKED | {"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        (ASKED | {"text": {"verbosity": "low"}}, "text.verbosity"),
        (ASKED | {"previous_response_id": "resp_1"}, "previous_response_id"),
        (ASKED | {"truncation": "auto"}, "truncation"),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(HttpRefused) as found:
        read_response(body)
    assert (found.value.status, found.value.param) == (400, param)


def writer(**more: Any) -> ResponsesWriter:
    return ResponsesWriter(read_response(ASKED | more), "tiny", TEXTS)


def events(deltas: Sequence[Delta], reason: str, **more: Any) -> list[dict[str, Any]]:
    """Those of a stream of these pieces."""
    one = writer(**more)
    data = one.begin(Counts()) + b"".join(one.write(News(0, delta), Counts()) for delta in deltas)
    data += one.write(News(0, Ended(reason, None)), COUNTS) + one.finish(COUNTS)
    found = []
    for block in data.decode().removesuffix("\n\n").split("\n\n"):
        name, line = block.split("\n")
        found.append(json.loads(line.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    return found


def nameless(items: Any) -> Any:
    """Without what is made at random."""
    hidden = ("id", "call_id", "created_at")
    if isinstance(items, list):
        return [nameless(one) for one in items]
    return {k: nameless(v) for k, v in items.items() if k not in hidden} if isinstance(items, dict) else items


def test_a_system_message_in_the_midst_is_the_users() -> None:
    items = [{"role": "developer", "content": "A"}, HI, {"role": "system", "content": "B"}]
    assert chat({"input": items}).messages == ({"role": "system", "content": "A"}, {"role": "user", "content": "Hi\nB"})


def test_the_events_of_a_stream() -> None:
    deltas = [Delta("Hm", (), True), Delta("Yes"), Delta("."), Delta("", call=Call("f", '{"x": 1}'))]
    found = events(deltas, "calls")
    assert [one["type"].removeprefix("response.") for one in found] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    assert [one["output_index"] for one in found if "output_index" in one] == [0] * 6 + [1] * 7 + [2] * 4
    response = found[-1]["response"]
    assert response["output"] == [one["item"] for one in found if one["type"] == "response.output_item.done"]
    assert nameless(response["output"]) == [
        {"type": "reasoning", "status": "completed", "summary": [],
         "content": [{"type": "reasoning_text", "text": "Hm"}]},
        {"type": "message", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "Yes.", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "status": "completed", "name": "f", "arguments": '{"x": 1}'},
    ]  # fmt: skip
    assert response["usage"] == {
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 12,
    }  # fmt: skip
    begun = found[0]["response"]
    assert (begun["status"], begun["output"], begun["usage"]) == ("in_progress", [], None)
    assert begun["id"] == response["id"] and response["status"] == "completed"


def test_an_answer_that_was_cut_off() -> None:
    last = events([Delta("Ye")], "length")[-1]
    assert last["type"] == "response.incomplete"
    response = last["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (response["status"], response["output"][0]["status"]) == ("incomplete", "incomplete")


@pytest.mark.parametrize("deltas", [[], [Delta("Hm", (), True)]])
def test_there_is_a_message_even_if_it_is_empty(deltas: list[Delta]) -> None:
    output = events(deltas, "eos")[-1]["response"]["output"]
    assert [one["type"] for one in output] == ["reasoning"] * len(deltas) + ["message"]
    assert output[-1]["content"][0]["text"] == ""


def test_what_failed_says_why() -> None:
    one = writer()
    one.write(News(0, Delta("Ye")), COUNTS)
    event = json.loads(one.failed(HttpRefused(503, "gone", code="engine_gone")).decode().split("data: ")[1])
    response = event["response"]
    assert event["type"] == "response.failed" and response["status"] == "failed"
    assert response["error"] == {"code": "server_error", "message": "gone"}


def test_log_probabilities() -> None:
    likely = [Likely(n, -0.5, ((n, -0.5), (9, -1.5))) for n in (4, 5)]
    deltas = [Delta("4 ", (likely[0],)), Delta("5 ", (likely[1],))]
    found = events(deltas, "eos", top_logprobs=1)
    entry = {"token": "4 ", "logprob": -0.5, "bytes": [52, 32]}
    parts = [one["logprobs"] for one in found if one["type"] == "response.output_text.delta"]
    assert parts[0] == [entry | {"top_logprobs": [entry]}]
    assert found[-1]["response"]["output"][0]["content"][0]["logprobs"] == parts[0] + parts[1]
    assert events(deltas, "eos")[-1]["response"]["output"][0]["content"][0]["logprobs"] == []


def test_log_probabilities_alone_begin_no_message() -> None:
    likely = (Likely(4, -0.5, ()),)
    deltas = [Delta("", call=Call("f", "{}")), Delta("", likely)]
    assert [one["type"] for one in events(deltas, "calls", top_logprobs=1)[-1]["response"]["output"]] == [
        "function_call"
    ]
    texts = events([Delta("4 ", likely), Delta("", likely)], "eos", top_logprobs=1)[-1]["response"]["output"]
    assert len(texts[0]["content"][0]["logprobs"]) == 2


@pytest.mark.slow
def test_openais_own_types_take_it() -> None:
    from openai.types.responses import Response, ResponseStreamEvent
    from pydantic import TypeAdapter

    deltas = [Delta("Hm", (), True), Delta("Yes", (Likely(4, -0.5, ((4, -0.5),)),)), Delta("", call=Call("f", "{}"))]
    one = TypeAdapter(ResponseStreamEvent)
    for reason in ("calls", "length"):
        for event in events(deltas, reason, tools=[FUNCTION], top_logprobs=1):
            one.validate_python(event)
        Response.model_validate(writer(tools=[FUNCTION]).whole([Answer.of(deltas, reason)], COUNTS))
    one.validate_python(json.loads(writer().failed(HttpRefused(503, "gone")).decode().split("data: ")[1]))
    one.validate_python(json.loads(writer().keep_alive().decode().split("data: ")[1]))


def test_half_of_a_surrogate_pair_that_is_repeated_can_be_sent() -> None:
    one = writer(metadata={"a": "\ud800"})
    assert b'"metadata":{"a":"?"}' in one.begin(COUNTS)


PIECES = st.lists(
    st.builds(lambda text, thought: Delta(text, (), thought), st.text("ab", min_size=1), st.booleans())
    | st.just(Delta("", call=Call("f", "{}"))),
    max_size=8,
)


@given(PIECES, st.sampled_from(["eos", "stop", "length", "calls"]))
def test_a_stream_holds_what_the_whole_answer_holds(deltas: list[Delta], reason: str) -> None:
    said, thought = ("".join(one.text for one in deltas if one.thought is kind) for kind in (False, True))
    whole = writer().whole([Answer.of(deltas, reason)], COUNTS)
    found = events(deltas, reason)
    assert nameless(found[-1]["response"]) == nameless(whole)
    kinds = ("response.output_text.delta", "response.reasoning_text.delta")
    texts = ("".join(one["delta"] for one in found if one["type"] == kind) for kind in kinds)
    assert tuple(texts) == (said, thought)
