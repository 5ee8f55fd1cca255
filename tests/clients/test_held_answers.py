"""Answers that are held to a grammar: by `generate`, and by `paceline run`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paceline.clients import Client, Refused
from paceline.clients.harmony import MARKS
from paceline.protocol import Grammar

from .http.test_harmony_served import TEMPLATE, WORDS
from .http.worded import with_words
from .test_run_command import run

HELLO = [{"role": "user", "content": "Hi"}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Ada", "Eve"]}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def said(client: Client, prompt: Any, grammar: Grammar, **options: Any) -> str:
    answer = client.generate(prompt, 400, grammar=grammar, temp=1.0, **options)
    text = "".join(piece.text for piece in answer)
    assert answer.finish_reason == "eos"
    return text


@pytest.fixture(scope="module", params=["plain", "thinking", "harmony"])
def model(request: pytest.FixtureRequest, tiny_model: Callable[..., Path], tmp_path_factory: Any) -> Path:
    if request.param != "harmony":
        return tiny_model(chat=request.param)
    return with_words(tiny_model(), tmp_path_factory.mktemp("held") / "harmony.gguf", MARKS, WORDS, TEMPLATE)


def test_the_answer_comes_at_once_whatever_the_model_would_think_first(model: Path) -> None:
    with Client.spawn([str(model), "--threads", "1"]) as client:
        for seed in range(3):
            text = said(client, HELLO, Grammar("regex", "[a-c]{3}/[0-9]"), seed=seed)
            assert re.fullmatch("[a-c]{3}/[0-9]", text)
            found = json.loads(said(client, HELLO, Grammar.json(SCHEMA), seed=seed))
            assert found["name"] in ("Ada", "Eve") and 0 <= found["age"] <= 120
        assert re.fullmatch("x+y", said(client, "a text", Grammar("regex", "x{1,5}y"), seed=0))
        with pytest.raises(Refused, match="unclosed group"):
            client.generate(HELLO, 5, grammar=Grammar("regex", "("))


def test_run_by_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    for schema in (json.dumps(SCHEMA), str(path)):
        code, out, err = run("--json-schema", schema, "Ada is 36. Who is she?")
        assert (code, err) == (0, "") and json.loads(out)["name"] in ("Ada", "Eve")
    code, out, err = run("--regex", "[0-9]{4}", "--raw", "The year was ")
    assert (code, err) == (0, "") and re.fullmatch(r"[0-9]{4}\n", out)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("--json-schema", "nowhere.json"),
            "--json-schema: nowhere.json: No such file or directory, expected an object",
        ),
        (("--json-schema", '{"type'), "--json-schema: Unterminated string"),
        (("--json-schema", '{"a": 1e999}'), "--json-schema: Out of range float values are not JSON compliant"),
        (("--json-schema", '{"type": "strin"}'), "bad_argument: grammar: failed to compile JSON schema: Invalid type"),
        (("--regex", "("), "bad_argument: grammar: invalid regex"),
        (("--regex", "a", "--json-schema", "{}"), "argument --json-schema: not allowed with argument --regex"),
    ],
)
def test_run_refuses_what_is_no_grammar(words: tuple[str, ...], problem: str) -> None:
    code, out, err = run(*words, "-n1", "Hi")
    assert (code, out) == (2, "") and f"paceline run: {problem}" in err.replace(
        "paceline run: error: ", "paceline run: "
    )


def test_run_takes_no_list_for_a_schema(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    code, _, err = run("--json-schema", str(tmp_path / "list.json"), "Hi")
    assert code == 2 and err == "paceline run: --json-schema: it is no object\n"
