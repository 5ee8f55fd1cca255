"""Every field that docs/http.md names: taken where it says so, refused by its name where it is wrong, and no other."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests import anthropic as anthropic_requests
from paceline.clients.http.requests import openai as openai_requests
from paceline.clients.http.requests import responses as responses_requests
from paceline.clients.http.requests.anthropic import read_message
from paceline.clients.http.requests.openai import read_chat, read_completion
from paceline.clients.http.requests.responses import read_response

from ..served import Served

PAGE = (Path(__file__).parents[4] / "docs" / "http.md").read_text(encoding="utf-8")
HI = [{"role": "user", "content": "Hi"}]
LONG = "x" * 99
NO_NUMBER = ("5", True, [], {}, [1])
NO_COUNT = (*NO_NUMBER, 1.5, float("inf"))
NO_FLAG = (1, 0, "yes", "true", [], {})
NO_TEXT = (5, True, {}, 1.5)
NO_OBJECT = (5, True, "x", [1])
FORMATTED = ("response_format", "structured_outputs", "text", "output_config", "output_format")
NO_GRAMMARS = "no token ends this request"  # said of a format by the null engine, which has no end
FORMATS = ({"type": "text"}, {"type": "json_object"})
NO_FORMATS = (*NO_OBJECT, {}, {"type": 5}, {"type": "json"}, {"type": "grammar"})
NO_SCHEMAS = (*NO_OBJECT, None, {"a": float("nan")}, {"a": "\ud800"}, {"a": float("inf")})
NO_TEXTS = (5, True, {}, [5], [["x"]], "", [""], ["x"] * 17)


class Route(NamedTuple):
    path: str
    read: Callable[[object], object]
    body: dict[str, Any]
    unsupported: dict[str, tuple[Any, ...]]


CHAT = Route("/v1/chat/completions", read_chat, {"messages": HI}, openai_requests.UNSUPPORTED_CHAT)
TEXT = Route("/v1/completions", read_completion, {"prompt": "Hi"}, openai_requests.UNSUPPORTED_COMPLETION)
MESSAGE = Route("/v1/messages", read_message, {"messages": HI, "max_tokens": 9}, anthropic_requests.UNSUPPORTED)
RESPONSE = Route("/v1/responses", read_response, {"input": "Hi"}, responses_requests.UNSUPPORTED)
ROUTES = {"chat": CHAT, "completions": TEXT, "responses": RESPONSE, "messages": MESSAGE}


class Case(NamedTuple):
    """`more` are the fields that it goes with."""

    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    more: dict[str, Any] = {}  # noqa: RUF012


MESSAGES = Case(
    (HI,), (*NO_TEXT, "Hi", [], [5], [{"role": "user"}], [{"content": "Hi"}], [{"role": "tool", "content": "x"}])
)
WRONG_BIASES = ({"x": 1}, {"-1": 1}, {"5": 101}, {"5": "x"}, {"9" * 5000: 1}, {"5": 1, "05": 2})
WRONG_NAMES = (
    *({name: value} for name in ("self", "messages", "add_generation_prompt") for value in (None, [])),
    {"tools": []},
)
CASES: dict[str, dict[str, Case] | Case] = {
    "model": Case(("", "any"), (*NO_TEXT, [])),
    "messages": MESSAGES,
    "system": Case(("Be brief.", [{"type": "text", "text": "Be"}]), (*NO_TEXT, [5], [{"type": "image"}])),
    "prompt": Case(("x", [1], ["x"], [[1], [2]]), (*NO_TEXT, [], [True], [-1], [1.5], [[1], "x", 5], ["x"] * 17)),
    "input": Case(
        ("Hi", HI, [{"type": "message", **HI[0]}], [{"type": "reasoning", "summary": []}]),
        (*NO_TEXT, [], [5], [{}], [{"type": "item_reference", "id": "x"}], [{"role": "tool", "content": "x"}]),
    ),
    "instructions": Case(("Be brief.", ""), NO_TEXT),
    "suffix": Case(("",), (*NO_TEXT, ["x"])),
    "max_output_tokens": Case((1, 5.0), (*NO_COUNT, 0, -1)),
    "reasoning": Case(({}, {"effort": "low", "summary": "auto"}), (*NO_OBJECT, {"effort": 5}, {"effort": "most"})),
    "include": Case(([], ["message.output_text.logprobs", "reasoning.encrypted_content"]), (5, "x", [5])),
    "response_format": Case(
        (*FORMATS, {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {"type": "array"}}}),
        (*NO_FORMATS, {"type": "json_schema", "schema": {}}, {"type": "json_schema", "json_schema": {"name": "a"}},
         *({"type": "json_schema", "json_schema": {"schema": schema}} for schema in NO_SCHEMAS),
         {"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}),
    ),
    "structured_outputs": Case(
        ({"json": {}}, {"json_object": True}, {"json_object": False}, {"regex": "a+"}, {"choice": ["a", "b."]},
         {"regex": "a", "grammar": None, "disable_any_whitespace": False}),
        (*NO_OBJECT, {}, {"choice": ["x" * (1 << 14), "y"]}, {"json": {}, "regex": "a"},
         {"grammar": "x"}, {"regex": ""}, {"regex": 5}, {"choice": []},
         {"regex": "a", "backend": "x"}, {"choice": "a"}, {"choice": [""]}, {"json": "{}"}, {"json_object": 1},
         {"regex": "\ud800"}, {"choice": ["\ud800"]}),
    ),
    "text": Case(
        ({}, *({"format": one} for one in FORMATS), {"format": {"type": "json_schema", "name": "a", "schema": {}}}),
        (*NO_OBJECT, *({"format": one} for one in NO_FORMATS), {"format": {"type": "json_schema"}},
         *({"format": {"type": "json_schema", "schema": schema}} for schema in NO_SCHEMAS)),
    ),
    "store": Case((True, False), NO_FLAG),
    "metadata": Case(({}, {"a": "b"}), NO_OBJECT),
    "max_tokens": Case((1, 5.0), (*NO_COUNT, 0, -1, 1 << 40)),
    "max_completion_tokens": Case((1, 5.0), (*NO_COUNT, 0, -1)),
    "temperature": {
        "chat": Case((0, 0.5, 2), (*NO_NUMBER, -0.1, 2.1, float("nan"))),
        "completions": Case((0, 0.5, 2), (*NO_NUMBER, -0.1, 2.1)),
        "responses": Case((0, 0.5, 2), (*NO_NUMBER, -0.1, 2.1)),
        "messages": Case((0, 1), (*NO_NUMBER, -0.1, 1.1)),
    },
    "top_p": Case((0, 0.5, 1), (*NO_NUMBER, -0.1, 1.1)),
    "top_k": {
        "chat": Case((-1, 0, 40), (*NO_COUNT, -2)),
        "completions": Case((-1, 0, 40), (*NO_COUNT, -2)),
        "responses": Case((-1, 0, 40), (*NO_COUNT, -2)),
        "messages": Case((0, 40), (*NO_COUNT, -1)),
    },
    "min_p": Case((0, 1), (*NO_NUMBER, -0.1, 1.1)),
    "frequency_penalty": Case((-2, 2), (*NO_NUMBER, -2.1, 2.1)),
    "presence_penalty": Case((-2, 2), (*NO_NUMBER, -2.1, 2.1)),
    "repetition_penalty": Case((0.01, 100), (*NO_NUMBER, 0, 101)),
    "seed": Case((0, -5, 1 << 62), (*NO_COUNT, 1 << 64)),
    "logit_bias": Case(({}, {"5": -100, "6": 100}), (*NO_OBJECT, *WRONG_BIASES)),
    "stop": Case(("x", ["x"] * 16, []), NO_TEXTS),
    "stop_sequences": Case((["x"], []), (*NO_TEXTS, "x")),
    "ignore_eos": Case((True, False), NO_FLAG),
    "n": Case((1, 16), (*NO_COUNT, 0, 17)),
    "logprobs": {"chat": Case((True, False), NO_FLAG), "completions": Case((0, 5), (*NO_COUNT, -1, 6))},
    "top_logprobs": {
        "chat": Case((0, 20), (*NO_COUNT, -1, 21), {"logprobs": True}),
        "responses": Case((0, 20), (*NO_COUNT, -1, 21)),
    },
    "echo": Case((True, False), NO_FLAG),
    "stream": Case((True, False), NO_FLAG),
    "stream_options": Case(({}, {"include_usage": True}), (*NO_OBJECT, {"include_usage": 1}), {"stream": True}),
    "chat_template_kwargs": Case(({}, {"enable_thinking": False}), (*NO_OBJECT, *WRONG_NAMES)),
    "reasoning_effort": Case(("none", "low", "xhigh"), (5, ["low"], "", "most")),
    "tools": {
        **dict.fromkeys(("chat", "messages"), Case(([],), (*NO_TEXT, "x", [5], [{}], [{"type": "x", "name": "f"}]))),
        "responses": Case(([], [{"type": "web_search"}]), (*NO_TEXT, "x", [5], [{}], [{"type": "function"}])),
    },
    "tool_choice": {
        **dict.fromkeys(
            ("chat", "responses"), Case(("none", "auto"), (5, True, "x", [1], {}, "required", {"type": "auto"}))
        ),
        "messages": Case(({"type": "none"}, {"type": "auto"}), (*NO_OBJECT, {}, {"type": "required"}, {"type": "any"})),
    },
    "parallel_tool_calls": Case((True, False), NO_FLAG),
    "prediction": Case(
        ({"type": "content", "content": "x"}, {"type": "content", "content": [{"type": "text", "text": "x"}]}),
        (*NO_OBJECT, {}, {"type": "content"}, {"type": "content", "content": 5}, {"type": "text", "content": "x"}),
    ),
    "output_config": Case(
        ({}, {"effort": "max"}, {"format": {"type": "json_schema", "schema": {}}}),
        (*NO_OBJECT, {"effort": "none"}, {"effort": 5}, {"format": {}}, {"format": {"type": "json_schema"}}),
    ),
    "output_format": Case(({"type": "json_schema", "schema": {}},), (*NO_FORMATS, {"type": "json_schema"})),
    "thinking": Case(
        ({"type": "disabled"}, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 8}),
        (*NO_OBJECT, {}, {"type": "on"}, {"type": 5}, {"type": "enabled"}, {"type": "enabled", "budget_tokens": "9"},
         {"type": "enabled", "budget_tokens": 9}, {"type": "enabled", "budget_tokens": 10}),
    ),
}  # fmt: skip


def documented() -> dict[str, set[str]]:
    """The fields of each route, by the table."""
    head, _, *rows = re.findall(r"^\|(.*)\|$", PAGE[PAGE.index("| field |") :].partition("\n\n")[0], re.M)
    names = [cell.strip() for cell in head.split("|")]
    found: dict[str, set[str]] = {route: set() for route in ROUTES}
    for row in rows:
        cells = dict(zip(names, (cell.strip() for cell in row.split("|")), strict=True))
        for route in ROUTES:
            assert cells[route] in ("", "yes", "needed")
            if cells[route]:
                found[route].add(cells["field"].strip("`"))
            if cells[route] == "needed":
                assert cells["field"].strip("`") in ROUTES[route].body
    return found


def cases() -> Iterator[tuple[str, Route, Case]]:
    for name, routes in documented().items():
        for field in sorted(routes):
            found = CASES[field]
            yield field, ROUTES[name], found if isinstance(found, Case) else found[name]


CASES_BY_ROUTE = [pytest.param(*case, id=f"{case[1].path}-{case[0]}") for case in cases()]


class Watched(dict[str, Any]):
    """A body that notes which fields are looked at."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body)
        self.seen: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)


@pytest.mark.parametrize("name", ROUTES)
def test_what_is_read_is_what_is_documented(name: str) -> None:
    route = ROUTES[name]
    body = Watched(route.body | ({"stream": True, "stream_options": {}} if route in (CHAT, TEXT) else {}))
    route.read(body)
    assert body.seen - route.unsupported.keys() == documented()[name]


def test_what_is_refused_is_what_is_documented() -> None:
    sentence = PAGE[PAGE.index("Refused by name") :].partition("Values that")[0]
    named = (set(re.findall(r"`(\w+)`", part)) for part in re.split("of responses|of messages", sentence))
    assert list(named) == [
        CHAT.unsupported.keys() | TEXT.unsupported.keys(),
        RESPONSE.unsupported.keys(),
        MESSAGE.unsupported.keys(),
    ]


def test_there_is_a_case_for_each_field_and_no_other() -> None:
    assert CASES.keys() == set().union(*documented().values())


@pytest.mark.parametrize(("field", "route", "case"), CASES_BY_ROUTE)
def test_a_field(field: str, route: Route, case: Case) -> None:
    for value in case.good:
        route.read(route.body | case.more | {field: value})
    if field not in route.body:
        assert route.read(route.body | {field: None}) == route.read(route.body)
    for value in (*case.bad, *([None] if field in route.body else [])):
        with pytest.raises(HttpRefused) as found:
            route.read(route.body | case.more | {field: value})
        refused = found.value
        assert refused.status == 400 and refused.param and re.match(rf"{field}\b", refused.param), (
            value,
            refused.message,
        )
        assert refused.message.startswith(refused.param)


@pytest.mark.parametrize("name", ROUTES)
def test_what_is_not_there_yet_is_refused_by_its_name(name: str) -> None:
    route = ROUTES[name]
    for field, harmless in route.unsupported.items():
        for value in harmless:
            route.read(route.body | {field: value})
        for value in ("x", True, 5, ["x"], {"x": 1}):
            with pytest.raises(HttpRefused) as found:
                route.read(route.body | {field: value})
            assert (found.value.status, found.value.param, found.value.code) == (400, field, "unsupported_parameter")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--engine", "null", "--slots", "16") as served:
        yield served


@pytest.mark.parametrize(("field", "route", "case"), CASES_BY_ROUTE)
def test_a_field_over_http(served: Served, field: str, route: Route, case: Case) -> None:
    for value in case.good:
        asked = {"max_tokens": 9, "max_output_tokens": 9} | route.body | case.more | {field: value}
        response = served.post(route.path, **asked)
        assert response.status_code == 200 or (field in FORMATTED and NO_GRAMMARS in response.text), value
    asked = {"max_tokens": 9, "max_output_tokens": 9} | route.body | case.more | {field: case.bad[0]}
    answer = served.post(route.path, **asked)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith(field) and error.get("param", field).startswith(field)


def test_the_kind_of_a_part_is_not_repeated_in_full() -> None:
    content = [{"type": "image" * 9999, "text": ""}]
    with pytest.raises(HttpRefused) as caught:
        read_chat({"messages": [{"role": "user", "content": content}]})
    assert "is not supported, expected 'text'" in caught.value.message and len(caught.value.message) < 200
