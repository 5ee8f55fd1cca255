"""The shapes of answers, against the types of the packages that people parse them with."""

import json
from typing import Any

import pytest
from paceline.clients.http.answers import anthropic as anthropic_answers
from paceline.clients.http.answers.openai import (
    ChatShape,
    CompletionShape,
    Envelope,
    usage,
)
from paceline.clients.http.answers.sse import event
from paceline.clients.http.answers.whole import Answer
from paceline.clients.http.news import Counts
from paceline.clients.http.speech.cutter import Delta, Likely
from paceline.clients.http.speech.tool_calls import Call

COUNTS = Counts(prompt=5, answer=2, cached=3)
LIKELY = (Likely(1, -0.5, ((1, -0.5), (2, -1.5))), Likely(2, -0.25, ((2, -0.25), (1, -2.0))))
ENVELOPE = Envelope("chatcmpl-1", "demo", 1000)


def spell(token: int) -> bytes:
    return ["", "é", "b"][token].encode()


def answered(
    text: str, likely: tuple[Likely, ...] = (), thought: str = "", reason: str = "eos", stopped: str | None = None
) -> Answer:
    thoughts = [Delta(thought, (), True)] if thought else []
    return Answer.of([*thoughts, Delta(text, likely)], reason, stopped)


def test_a_chat() -> None:
    shape = ChatShape(spell, 1)
    body = ENVELOPE.around(shape.name, [shape.whole(0, answered("éb", LIKELY))], usage=usage(COUNTS))
    assert {name: body[name] for name in ("id", "object", "created", "model")} == {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1000, "model": "demo",
    }  # fmt: skip
    (choice,) = body["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("éb", "stop")
    assert choice["logprobs"]["content"][0] == {
        "token": "é", "logprob": -0.5, "bytes": [195, 169],
        "top_logprobs": [{"token": "é", "logprob": -0.5, "bytes": [195, 169]}],
    }  # fmt: skip
    assert body["usage"]["total_tokens"] == 7 and body["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}


def test_chunks_of_a_chat() -> None:
    shape = ChatShape(spell, None)
    assert [choice["delta"] for choice in shape.opening(1)] == [{"role": "assistant", "content": ""}]
    assert shape.piece(1, Delta("x")) == {
        "index": 1,
        "delta": {"content": "x"},
        "logprobs": None,
        "finish_reason": None,
    }
    assert shape.closing(1, "length") == {"index": 1, "delta": {}, "logprobs": None, "finish_reason": "length"}


def test_a_completion_tells_offsets() -> None:
    shape = CompletionShape(spell, 2)
    first, second = shape.piece(0, Delta("é", LIKELY[:1])), shape.piece(0, Delta("b", LIKELY[1:]))
    assert first["logprobs"] == {
        "tokens": ["é"], "token_logprobs": [-0.5], "top_logprobs": [{"é": -0.5, "b": -1.5}], "text_offset": [0],
    }  # fmt: skip
    assert second["logprobs"]["text_offset"] == [1]


def test_a_completion_tells_a_token_that_is_none_of_the_likeliest() -> None:
    unlikely = Likely(2, -9.0, ((1, -0.5), (0, -1.5)))
    for count, top in ((1, {"é": -0.5, "b": -9.0}), (0, {"b": -9.0})):
        told = CompletionShape(spell, count).whole(0, answered("b", (unlikely,)))["logprobs"]
        assert told["top_logprobs"] == [top]
    (entry,) = ChatShape(spell, 1).whole(0, answered("b", (unlikely,)))["logprobs"]["content"]
    assert (entry["logprob"], [one["logprob"] for one in entry["top_logprobs"]]) == (-9.0, [-0.5])


def test_a_completion_names_tokens_that_are_no_character_by_their_bytes() -> None:
    pieces = [b"a", b"\xf0\x9f", b"\x99", b"\x82", b"\xf0\x9f\x98", b"b"]
    shape = CompletionShape(pieces.__getitem__, 3)
    tops = ((1, -0.5), (4, -1.5), (0, -2.5))
    told = shape.whole(0, answered("a🙂b", tuple(Likely(token, -0.5, tops) for token in (0, 1, 2, 3, 5))))
    assert told["logprobs"]["tokens"] == ["a", r"bytes:\xf0\x9f", r"bytes:\x99", r"bytes:\x82", "b"]
    assert told["logprobs"]["text_offset"] == [0, 1, 1, 1, 2]
    assert told["logprobs"]["top_logprobs"][0] == {r"bytes:\xf0\x9f": -0.5, r"bytes:\xf0\x9f\x98": -1.5, "a": -2.5}


def test_a_message_counts_the_cache_apart() -> None:
    body = anthropic_answers.message("msg_1", "demo", answered("Hi", stopped="x"), COUNTS)
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "x")
    assert (body["usage"]["input_tokens"], body["usage"]["cache_read_input_tokens"]) == (2, 3)
    assert (
        anthropic_answers.message("msg_1", "demo", answered("Hi", reason="length"), COUNTS)["stop_reason"]
        == "max_tokens"
    )


def test_events() -> None:
    assert event({"a": "é\n"}) == 'data: {"a":"é\\n"}\n\n'.encode()
    odd = "a\x85b\u2028c\u2029d\x0b\x1eé"
    (line, *rest) = event({"a": odd}).decode().splitlines()
    assert (json.loads(line.removeprefix("data: ")), rest) == ({"a": odd}, [""]) and "é" in line
    assert event({"type": "ping"}, named=True) == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_a_thought_stands_beside_what_is_said() -> None:
    shape = ChatShape(spell, None)
    assert shape.piece(0, Delta("Hm", (), True))["delta"] == {"reasoning_content": "Hm"}
    message = shape.whole(0, answered("Hi", thought="Hm"))["message"]
    assert (message["content"], message["reasoning_content"]) == ("Hi", "Hm")
    assert "reasoning_content" not in shape.whole(0, answered("Hi"))["message"]
    assert usage(Counts(5, 4, 0, 3))["completion_tokens_details"] == {"reasoning_tokens": 3}
    tried = {"accepted_prediction_tokens": 2, "rejected_prediction_tokens": 5}
    assert (
        usage(Counts(5, 4, 0, 3, 7, 2), predicted=True)["completion_tokens_details"] == {"reasoning_tokens": 3} | tried
    )
    body = anthropic_answers.message("msg_1", "demo", answered("Hi", thought="Hm"), COUNTS)
    assert body["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": ""}, {"type": "text", "text": "Hi"},
    ]  # fmt: skip


def test_blocks_of_a_stream() -> None:
    blocks = anthropic_answers.Blocks()
    bodies = blocks.piece(Delta("H", (), True)) + blocks.piece(Delta("m", (), True))
    bodies += blocks.piece(Delta("H")) + blocks.piece(Delta("i")) + blocks.close()
    assert [(body["type"].removeprefix("content_block_"), body["index"]) for body in bodies] == [
        ("start", 0), ("delta", 0), ("delta", 0), ("delta", 0), ("stop", 0),
        ("start", 1), ("delta", 1), ("delta", 1), ("stop", 1),
    ]  # fmt: skip
    assert bodies[0]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert bodies[1]["delta"] == {"type": "thinking_delta", "thinking": "H"}
    assert bodies[3]["delta"] == {"type": "signature_delta", "signature": ""}
    assert bodies[6]["delta"] == {"type": "text_delta", "text": "H"}


@pytest.mark.parametrize("pieces", [[], [Delta("Hm", (), True)]])
def test_the_last_block_speaks_even_if_it_is_empty(pieces: list[Delta]) -> None:
    blocks = anthropic_answers.Blocks()
    bodies = [body for delta in pieces for body in blocks.piece(delta)] + blocks.close()
    assert bodies[-2:] == [
        {"type": "content_block_start", "index": len(pieces), "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_stop", "index": len(pieces)},
    ]


@pytest.mark.slow
def test_the_openai_package_takes_them() -> None:
    from openai.types import Completion
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    chat, text = ChatShape(spell, 1), CompletionShape(spell, 1)
    answer = answered("éb", LIKELY, reason="length")
    strictly(ChatCompletion, ENVELOPE.around(chat.name, [chat.whole(0, answer)], usage=usage(COUNTS)))
    strictly(Completion, ENVELOPE.around(text.name, [text.whole(0, answer)], usage=usage(COUNTS)))
    for choice in (*chat.opening(0), chat.piece(0, Delta("é", LIKELY[:1])), chat.closing(0, "eos")):
        strictly(ChatCompletionChunk, ENVELOPE.around(chat.chunk, [choice]))
    strictly(ChatCompletionChunk, ENVELOPE.around(chat.chunk, [], usage=usage(COUNTS)))


@pytest.mark.slow
def test_the_anthropic_package_takes_them() -> None:
    from anthropic.types import Message, RawMessageStreamEvent
    from pydantic import TypeAdapter

    strictly(Message, anthropic_answers.message("msg_1", "demo", answered("Hi"), COUNTS))
    strictly(Message, anthropic_answers.message("msg_1", "demo", answered("Hi", thought="Hm"), COUNTS))
    adapter: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    blocks = anthropic_answers.Blocks()
    bodies = [anthropic_answers.opening("msg_1", "demo", Counts(5))]
    bodies += blocks.piece(Delta("Hm", (), True)) + blocks.piece(Delta("Hi")) + blocks.close()
    for body in [*bodies, *anthropic_answers.closing("eos", None, COUNTS)]:
        assert adapter.validate_python(body).type == body["type"]


def strictly(kind: Any, body: dict[str, Any]) -> None:
    assert kind.model_validate(body).model_dump(exclude_unset=True) == body


def test_a_whole_answer_keeps_the_order_of_its_parts() -> None:
    thoughts = [Delta("Hm", (), True), Delta("m", (), True)]
    calls = [Delta("", call=Call(name, '{"x": 1}')) for name in "fg"]
    deltas = [*thoughts, Delta("A"), Delta("b"), *calls, Delta("C")]
    whole = Answer.of(deltas, "calls")
    assert (whole.thought, whole.text) == ("Hmm", "AbC") and [one.name for one in whole.calls] == ["f", "g"]
    content = anthropic_answers.message("msg_1", "demo", whole, COUNTS)["content"]
    assert [one.get("text") or one.get("thinking") or one["name"] for one in content] == ["Hmm", "Ab", "f", "g", "C"]
    assert content[2]["input"] == {"x": 1}
    message = ChatShape(spell, None).whole(0, whole)["message"]
    assert message["content"] == "AbC" and [one["function"]["name"] for one in message["tool_calls"]] == ["f", "g"]
    assert ChatShape(spell, None).whole(0, Answer.of(calls, "calls"))["message"]["content"] is None
