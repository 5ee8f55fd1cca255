"""Texts with a gap: the marks that a model has for it, and what it goes on with over HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.http.infill import KNOWN, GapMarks, gap_marks_of
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests.asked import Ids, Text
from paceline.clients.http.requests.openai import read_completion
from paceline.clients.http.texts import Texts
from paceline.clients.model_text import open_tokenizer

from ..test_harmony import vocabulary
from .served import Served
from .worded import with_words

PROMPT = {"prompt": "ab", "suffix": "cd"}


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("infill") / "infill.gguf"
    return with_words(tiny_model(), path, KNOWN[0], [], "{{ messages[0].content }}")


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(str(model), "--threads", "1") as served:
        yield served


@pytest.mark.parametrize("marks", KNOWN)
def test_a_model_is_known_by_its_tokens(marks: GapMarks) -> None:
    assert gap_marks_of(vocabulary(marks)) == marks
    assert gap_marks_of(vocabulary(marks, bos_token_id=1, add_bos_token=True)) == marks
    assert gap_marks_of(vocabulary(marks[:2])) is None is gap_marks_of(vocabulary([]))


def test_the_marks_stand_around_the_gap() -> None:
    assert GapMarks("<P>", "<S>", "<M>").around("ab", "cd") == "<P>ab<S>cd<M>"


def test_a_suffix_goes_with_texts() -> None:
    assert read_completion({"prompt": ["a", "b"], "suffix": "c"}).prompts == (Text("a", "c"), Text("b", "c"))
    assert read_completion({"prompt": [1], "suffix": ""}).prompts == (Ids((1,)),)
    for more in ({"prompt": [1]}, {"prompt": ["a", [1]]}, {"echo": True}):
        with pytest.raises(HttpRefused) as found:
            read_completion(PROMPT | more)
        assert (found.value.status, found.value.param) == (400, "suffix")


def test_a_model_without_marks_refuses_it() -> None:
    with pytest.raises(HttpRefused) as found:
        Texts.numbers(300, 1000).read(Text("ab", "cd"))
    assert (found.value.status, found.value.param) == (400, "suffix")
    assert Texts.numbers(300, 1000).read(Text("ab")).ids == [97, 98]


def test_the_gap_is_filled(served: Served, model: Path) -> None:
    options: dict[str, Any] = {"max_tokens": 8, "temperature": 0}
    ids = open_tokenizer(model).encode("<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>")
    answer = served.post("/v1/completions", **PROMPT, **options).json()
    assert answer["usage"]["prompt_tokens"] == len(ids)
    assert answer["choices"][0]["text"] == served.completion(prompt=ids, **options)
    assert answer["choices"][0]["text"] != served.completion(prompt="ab", **options)
