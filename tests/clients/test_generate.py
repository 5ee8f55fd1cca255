"""generate, of both clients: text, ids and chat messages in, pieces of text out."""

import asyncio
import inspect
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients import async_client
from paceline.clients import client as blocking_client
from paceline.clients.answer import Answer, Piece
from paceline.clients.async_client import AsyncClient
from paceline.clients.client import Client
from paceline.clients.detokenizer import Detokenizer
from paceline.clients.model_text import open_tokenizer
from paceline.clients.stop_strings import StopStrings
from paceline.clients.stream import AsyncStream, Token
from paceline.native.weights import ModelUnreadable

NULL = ["--engine", "null"]
BYTES = [bytes([number]) for number in range(256)]
QUESTION = [{"role": "user", "content": "Name three rivers of Europe."}]


@pytest.fixture(scope="module")
def client(demo_model: Path) -> Iterator[Client]:
    with Client.spawn([str(demo_model)]) as client:
        yield client


def is_idle(client: Client) -> bool:
    """Whether nothing is live once the step that runs now is over."""
    for _ in range(100):
        if not client.command("LIST_REQUESTS")["requests"]:
            return True
        time.sleep(0.02)
    return False


@given(st.binary(max_size=12), st.lists(st.sampled_from(["a", "é", "🙂", "b\n"]), max_size=2))
def test_pieces_are_the_text_up_to_a_stop_string(data: bytes, stops: list[str]) -> None:
    lines: list[str] = []
    answer = Answer(AsyncStream(1, lines.append), Detokenizer(BYTES), StopStrings(stops))  # type: ignore[arg-type]
    pieces = [answer._said(Token(byte, None)) for byte in data]
    said = [piece for piece in (*pieces, answer._rest()) if piece]
    text = data.decode("utf-8", "replace")
    assert "".join(piece.text for piece in said) == min((text.split(stop)[0] for stop in stops), key=len, default=text)
    assert all(piece.token == byte for piece, byte in zip(said, data, strict=False) if piece.token is not None)
    assert lines == ["CANCEL 1"] * (answer.stop_string is not None and answer._said(Token(0, None)) is None)


def test_what_is_wrong_is_named(client: Client) -> None:
    for prompt, named, problem in (
        ("a\ud800", {}, "prompt: it holds half of a surrogate pair"),
        ([{"role": "user", "content": "\ud800"}], {}, "prompt: it holds half of a surrogate pair"),
        ("", {}, "prompt: it is empty"),
        ([], {}, "prompt: it is empty"),
        ("x", {"max_tokens": 0}, "max_tokens: 0, expected at least 1"),
    ):
        with pytest.raises(ValueError, match=problem):
            client.generate(prompt, **named)
    for prompt in (b"x", {"role": "user", "content": "x"}):
        with pytest.raises(
            TypeError, match=r"prompt: a (bytes|dict), expected a text, a list of messages or token ids"
        ):
            client.generate(prompt)  # type: ignore[arg-type]
    for stop in ([None], [b"x"], [0.5]):
        with pytest.raises(TypeError, match=r"stop: .*, expected texts and token ids"):
            client.generate("x", stop=stop)  # type: ignore[arg-type]
    for bias in ({28: 5.0}, [28, 5.0], [(28,)], 5):
        with pytest.raises(TypeError, match=r"logit_bias: .* is no list of pairs"):
            client.generate("x", logit_bias=bias)  # type: ignore[arg-type]
    assert is_idle(client)


def test_text_ids_and_messages(client: Client, demo_model: Path) -> None:
    tokenizer = open_tokenizer(demo_model)
    answer = client.generate("Once upon a time", max_tokens=12, logprobs=2)
    assert (answer.finish_reason, answer.usage, answer.timings) == (None, {}, {})
    pieces = list(answer)
    ids = [piece.token for piece in pieces if piece.token is not None]
    assert "".join(piece.text for piece in pieces) == tokenizer.decode(ids)
    assert ids == list(client.start(tokenizer.encode("Once upon a time"), total=12))
    assert all(piece.logprob == dict(piece.top)[piece.token] for piece in pieces if piece.token is not None)
    assert (answer.finish_reason, answer.usage["tokens"], len(answer.timings)) == ("length", 12, 4)
    assert [piece.token for piece in client.generate(tokenizer.encode("Once upon a time"), 12)] == ids
    said = "".join(piece.text for piece in client.generate(QUESTION, 32, temp=0.5, seed=4))
    prompt = client._client._text.ids(QUESTION)  # type: ignore[union-attr]
    assert tokenizer.decode(prompt).endswith("<|im_start|>assistant\n")
    assert said == "".join(piece.text for piece in client.generate(prompt, 32, temp=0.5, seed=4))


def test_a_stop_string_ends_the_request(client: Client) -> None:
    whole = "".join(piece.text for piece in client.generate(QUESTION, 32))
    stop = whole[9:16]  # across token borders
    answer = client.generate(QUESTION, 2000, stop=[stop, "never said"], ignore_eos=True)
    assert "".join(piece.text for piece in answer) == whole[: whole.index(stop)]
    assert (answer.finish_reason, answer.stop_string) == ("stop", stop)
    assert answer.usage["tokens"] < 1000
    assert is_idle(client)
    token = next(client.generate(QUESTION, 1)).token
    assert token is not None
    answer = client.generate(QUESTION, 32, stop=[token])
    assert (list(answer), answer.finish_reason, answer.stop_string) == ([], "stop", None)


def test_leaving_it_cancels(client: Client) -> None:
    for _ in client.generate("One", 1000):
        break
    assert is_idle(client)
    with client.generate("Two", 1000, ignore_eos=True) as answer:
        next(answer)
    assert answer.finish_reason == "cancelled"
    answer.close()
    assert list(answer) == []
    assert is_idle(client)


def test_a_cache_that_is_smaller_than_the_context_bounds_an_answer_without_max_tokens() -> None:
    with Client.spawn([*NULL, "--cache-bytes", str(3 * 512)]) as client:
        assert (client.ready["context"], client.ready["most_positions"]) == (4096, 192)
        answer = client.generate([1, 2, 3])
        assert (sum(1 for _ in answer), answer.finish_reason) == (189, "length")


def test_without_a_tokenizer_there_is_no_text() -> None:
    with Client.spawn(NULL) as client:
        answer = client.generate([1, 2, 3])
        assert next(answer) == Piece(16112, "")
        assert sum(1 for _ in answer) == client.ready["context"] - 4
        for prompt, stop in (("text", ()), (QUESTION, ()), ([1], "stop")):
            with pytest.raises(ModelUnreadable, match="expected ids and no stop string"):
                client.generate(prompt, 1, stop=stop)
        with pytest.raises(ValueError):
            client.generate([1], 0)
        with pytest.raises(ValueError, match="a stop string is empty"):
            client.generate([1], 1, stop="")
        assert is_idle(client)


def test_ids_may_be_an_array() -> None:
    with Client.spawn(NULL) as client:
        expected = [piece.token for piece in client.generate([1, 2, 3], 4)]
        array: Any = np.array([1, 2, 3])
        assert [piece.token for piece in client.generate(array, 4)] == expected
        ended = client.generate(array, 4, stop=np.array(expected[1:2]))
        assert [piece.token for piece in ended] == expected[:1] and ended.finish_reason == "stop"
        with pytest.raises(ValueError, match="it is empty"):
            client.generate(array[:0], 4)
        with pytest.raises(ValueError, match="no whole number"):
            client.generate(array / 2, 4)


def test_asyncio_gives_the_same(client: Client, demo_model: Path) -> None:
    expected = list(client.generate(QUESTION, 24, logprobs=1))

    async def work() -> None:
        async with asyncio.timeout(60), await AsyncClient.spawn([str(demo_model)]) as client:
            answer = await client.generate(QUESTION, 24, logprobs=1)
            assert [piece async for piece in answer] == expected
            assert (answer.finish_reason, answer.usage["tokens"]) == ("length", 24)
            text = "".join(piece.text for piece in expected)
            stop = text[9:16]
            async with await client.generate(QUESTION, 2000, stop=stop) as answer:
                assert "".join([piece.text async for piece in answer]) == text[: text.index(stop)]
                assert (answer.finish_reason, answer.stop_string) == ("stop", stop)
            async for _ in await client.generate("One", 1000):
                break
            for _ in range(100):
                if not (live := (await client.command("LIST_REQUESTS"))["requests"]):
                    break
                await asyncio.sleep(0.02)
            assert live == []

    asyncio.run(work())


def test_the_examples_run(client: Client, demo_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run: dict[str, Any] = {"client": client}
    exec(example(Client.generate), run)
    assert run["answer"].finish_reason in ("eos", "length", "stop")
    first = capsys.readouterr().out

    async def work() -> None:
        async with asyncio.timeout(60), await AsyncClient.spawn([str(demo_model)]) as client:
            names: dict[str, Any] = {"client": client}
            exec("async def main(client):\n" + textwrap.indent(example(AsyncClient.generate), "    "), names)
            await names["main"](client)

    asyncio.run(work())
    assert capsys.readouterr().out.split()[:-1] == first.split()[:-1]  # all but the tokens per second


def test_the_examples_of_the_modules_run(capsys: pytest.CaptureFixture[str]) -> None:
    exec(example(blocking_client), {"Client": Client})
    first = capsys.readouterr().out
    names: dict[str, Any] = {"AsyncClient": AsyncClient}
    exec("async def main():\n" + textwrap.indent(example(async_client), "    "), names)
    asyncio.run(names["main"]())
    assert (len(first.split()), capsys.readouterr().out) == (16, first)


def example(function: object) -> str:
    """The indented block of a docstring."""
    lines = (inspect.getdoc(function) or "").splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
