"""The text view, item by item: labels, who holds the line, what is held back, what is said at an end."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.clients.frames_view import PHRASE, Decoder, TextView
from paceline.protocol import CANCELLED, DONE, FAILED, YIELD, Frame, Item, Message

READY = Message(0, {"event": "ready", "path": "model.gguf"})


class Letters:
    """Token 97 is the letter a; a 0 is half a character, which flush shows as a question mark."""

    def __init__(self) -> None:
        self._half = ""

    def push(self, token: int) -> str:
        if token == 0:
            self._half = "?"
            return ""
        self._half = ""
        return chr(token)

    def flush(self) -> str:
        return self._half


def opened(path: str | None) -> Callable[[], Decoder]:
    return Letters


def say(req_id: int, text: str) -> list[Item]:
    return [Frame(req_id, ord(character)) for character in text]


def end(req_id: int, terminal: int = DONE, reason: str = "length", **more: object) -> list[Item]:
    body = {"event": "end", "req": req_id, "reason": reason, "tokens": 3, "tps": 20.04, "ttft_ms": 7.06} | more
    return [Message(req_id, body), Frame(req_id, terminal)]


def shown(*items: Item, close: bool = True) -> str:
    view = TextView(opened)
    text = "".join(map(view.show, items))
    return text + view.close() if close else text


def test_one_request_shows_each_token_at_once() -> None:
    view = TextView(opened)
    assert [view.show(item) for item in [READY, *say(7, "abc")]] == ["", "req 7 │ a", "b", "c"]
    assert view.waiting is False
    assert "".join(map(view.show, end(7))) == "\nreq 7 ■ length · 3 tokens · 20.0 tok/s · first token after 7.1 ms\n"
    assert view.close() == ""


def test_requests_that_take_turns_get_a_line_for_each_phrase() -> None:
    turns = [item for pair in zip(say(1, "a" * 60), say(2, "b" * 60), strict=True) for item in pair]
    lines = shown(READY, *turns).splitlines()
    assert [line[:9] for line in lines] == (["req 1 │ a", "req 2 │ b"] * 2)[: len(lines)]
    assert "".join(line[8:] for line in lines[0::2]) == "a" * 60
    assert "".join(line[8:] for line in lines[1::2]) == "b" * 60


def test_idle_shows_what_was_held_back() -> None:
    view = TextView(opened)
    assert "".join(map(view.show, [*say(1, "a"), *say(2, "bc"), *say(3, "d")])) == "req 1 │ a"
    assert view.waiting is True
    assert view.idle() == "\nreq 2 │ bc\nreq 3 │ d"
    assert (view.waiting, view.idle()) == (False, "")
    assert view.show(Frame(3, ord("e"))) == "e"


def test_a_new_line_in_an_answer_keeps_its_label() -> None:
    assert shown(*say(1, "one\ntwo\n\nx")) == "req 1 │ one\nreq 1 │ two\nreq 1 │ \nreq 1 │ x\n"
    assert shown(*say(1, "a"), *say(2, "b\n"), *say(1, "c")) == "req 1 │ a\nreq 2 │ b\nreq 1 │ c\n"
    assert shown(*say(1, "a\n"), *end(1)).splitlines()[:2] == ["req 1 │ a", shown(*end(1)).strip()]


def test_an_end_shows_the_rest_of_its_request_first() -> None:
    text = shown(*say(1, "a"), *say(2, "b"), Frame(2, 0), *end(2), *say(1, "c"))
    assert text.splitlines()[:2] == ["req 1 │ a", "req 2 │ b?"]
    assert text.splitlines()[-1] == "req 1 │ c"


@pytest.mark.parametrize(
    ("items", "line"),
    [
        (end(1, CANCELLED, "cancelled", tps=None, ttft_ms=None), "req 1 ■ cancelled · 3 tokens"),
        (
            end(1, FAILED, "failed", tps=None, ttft_ms=None, code="engine", error="row 0: nan"),
            "req 1 ■ failed · 3 tokens · engine: row 0: nan",
        ),
        ([Message(4, {"re": 2, "ok": False, "code": "stale", "error": "no"})], "req 4 ✗ stale: no"),
        ([Message(0, {"re": 2, "ok": False, "code": "bad_command", "error": "no"})], "line 2 ✗ bad_command: no"),
        ([Message(0, {"re": 3, "ok": True, "req": 2, "n": 1})], 'line 3 │ {"req":2,"n":1}'),
        ([Message(0, {"re": 3, "ok": True, "help": "PING [word]\n  an echo"})], "line 3 │ PING [word]\n  an echo"),
    ],
)
def test_what_is_said_of_ends_refusals_and_replies(items: list[Item], line: str) -> None:
    assert shown(*items) == line + "\n"
    assert shown(*say(9, "x"), *items).endswith(f"\n{line}\n")


def test_what_says_nothing_new_is_left_out() -> None:
    quiet: list[Item] = [
        READY,
        Message(4, {"re": 1, "ok": True, "slot": 0}),
        Message(0, {"re": 2, "ok": True}),
        Frame(4, YIELD),
    ]
    assert shown(*quiet, Message(0, {"event": "drained"}), Message(4, {"event": "logprobs"})) == ""


def test_what_a_model_says_cannot_move_the_cursor() -> None:
    text = shown(
        *say(1, "\x1b[2J\r\x07\x9b\x7ftab\t"), Message(0, {"re": 1, "ok": False, "code": "x", "error": "\x1b"})
    )
    assert not [character for character in text if ord(character) in {*range(9), *range(11, 32), *range(127, 160)}]
    assert text.startswith("req 1 │ ␛[2J␍␇\ufffd␡tab\t")


def test_a_stream_without_ready_or_end_is_shown_as_far_as_it_goes() -> None:
    assert shown(*say(5, "ab"), Frame(5, 0), Frame(5, DONE), *say(5, "c")) == "req 5 │ ab?c\n"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab\n")), max_size=400), st.integers(0, 50))
def test_nothing_is_lost_and_every_line_has_its_label(spoken: list[tuple[int, str]], pause: int) -> None:
    view, text = TextView(opened), ""
    for number, (req_id, character) in enumerate(spoken):
        text += view.show(Frame(req_id, ord(character)))
        if pause and number % pause == 0:
            text += view.idle()
    text += view.close()
    assert all(line.startswith("req ") for line in text.splitlines())
    for req_id in range(1, 5):
        label = f"req {req_id} │ "
        said = "".join(line.removeprefix(label) for line in text.splitlines() if line.startswith(label))
        assert said == "".join(c for owner, c in spoken if owner == req_id and c != "\n")
    assert max(map(len, text.splitlines()), default=0) <= 8 + len(spoken)
    assert PHRASE > 8
