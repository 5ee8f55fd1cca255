"""Steps that the device cannot begin before they are asked for, and what is lost by those that it has begun."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paceline.native.core import PAGE, open_core

from .begun_texts import CONTEXT, Texts, opened, started
from .core_models import MODELS, ids_of
from .rows import Row, table


@pytest.fixture
def plain(tiny_model: Any) -> Path:
    return tiny_model(**MODELS["Q8_0"])


@pytest.mark.parametrize(
    "change",
    [
        {"allowed": b"\xff" * 16},
        {"outputs": 2},
        {"table": table(0, PAGE)},
        {"table": array("i", [0, -1])},
        {"table": array("i", [0, 10**6])},
        {"continues": False},
    ],
    ids=str,
)
def test_a_step_is_not_begun_where_its_input_is_unknown(plain: Path, change: dict[str, Any]) -> None:
    texts = Texts(opened(plain), True)
    row = Row(0, ids_of(1, PAGE, texts.core.vocab), 0, 1, table(0, CONTEXT), continues=True)
    texts.core.step([row._replace(**change)])
    assert texts.launches == 1


def test_one_who_cannot_be_begun_keeps_the_others_from_it(plain: Path) -> None:
    texts = Texts(opened(plain), True)
    started(texts, 0, 2)
    texts.rows[2] = texts.rows[2]._replace(allowed=b"\xff" * 16)
    assert texts.step(0, 2) == 1
    assert texts.step(0) == 2


def test_a_step_that_needs_more_room_is_not_begun(plain: Path) -> None:
    """Behind 512 positions there is a second split."""
    core = open_core(plain, slots=1, context=CONTEXT + 512, kind="emulator")
    texts = Texts(core, True)
    texts.start(0, ids_of(3, 510, core.vocab), table(0, core.context))
    texts.rows[0] = texts.rows[0]._replace(sampling=None, logits=False)
    assert [texts.step(0) for _ in range(5)] == [2, 1, 0, 2, 1]


def test_a_launch_that_fails_costs_only_the_time(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = Texts(opened(plain), True)
    started(texts, 0)
    stepper: Any = texts.core.stepper
    launch, failing = stepper._launch, [False, True, True]

    def fails(sizes: Any) -> None:
        if failing.pop(0):
            raise RuntimeError("embed: too many resources requested for launch")
        launch(sizes)

    stepper._launch = fails
    texts.step(0)
    with pytest.raises(RuntimeError, match="too many resources"):  # where it was asked for, it is told
        texts.step(0)
    assert "not begun before it was asked for: embed: too many" in capsys.readouterr().err
    assert stepper.without_next == "embed: too many resources requested for launch"
    stepper._launch = launch
    without = Texts(opened(plain), False)
    started(without, 0)
    for one, steps in ((texts, 2), (without, 3)):
        for _ in range(steps):
            one.step(0)
    assert texts.given == without.given


@pytest.mark.parametrize("name", ["Q8_0", "qwen35"])
def test_a_state_that_was_replaced_is_lost(tiny_model: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose results did not come cannot be made again where the one behind it has replaced its state."""
    texts, without = (Texts(opened(tiny_model(**MODELS[name])), continues) for continues in (True, False))
    for one in (texts, without):
        started(one, 0, 1)
        one.step(0, 1)
        one.step(0, 1)
    before = dict(texts.rows)

    def bring(pieces: Any) -> Callable[[], Any]:
        def wait() -> Any:
            raise ValueError("a wait that fails")

        return wait

    stepper: Any = texts.core.stepper
    with monkeypatch.context() as patch:
        patch.setattr(stepper._memory, "bring", bring)
        with pytest.raises(ValueError, match="a wait that fails"):
            texts.step(0, 1)
    assert texts.rows == before
    if name == "qwen35":
        for asked in (lambda: texts.step(0), lambda: texts.core.keep(0, 0)):
            with pytest.raises(ValueError, match=r"slot 0: a step that was begun .* has replaced its state"):
                asked()
            texts.core.commit(0, texts.rows[0].position)  # to where it stands: that brings nothing back
        for one in (texts, without):
            one.core.commit(0, 0)
            started(one, 0)
    for one in (texts, without):
        one.step(0)
        one.step(0)
    assert texts.given[0] == without.given[0]


def test_a_row_that_continues_is_committed_whole(tiny_model: Any) -> None:
    """Of a recurrent model; but the first one, which begins with no state, has none to lose."""
    core = opened(tiny_model(**MODELS["qwen35"]), replay=4)
    row = Row(0, [1, 2, 3], 0, 1, table(0, CONTEXT), 3, continues=True)
    first = core.step([row])
    assert core.step([row])[0][0][0] == first[0][0][0]
    core.commit(0, 3)
    core.step([row._replace(tokens=[4, 5, 6], position=3)])
    with pytest.raises(ValueError, match="slot 0: a step that was begun behind its last one has replaced its state"):
        core.commit(0, 5)
    core.commit(0, 6)
    core.step([row._replace(tokens=[7], position=6, continues=False)])
