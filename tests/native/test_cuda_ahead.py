"""Steps that the device begins before they are asked for: the bits of steps that it does not, whoever is in them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import PAGE, Core, open_core
from paceline.native.cuda_core import DeviceStepper
from paceline.protocol import Sampling

from .core_models import MODELS, ids_of
from .emulated import KIND
from .rows import Row, table
from .test_no_numbers import BROKEN, planted

CONTEXT = 128
SLOTS = 4
NAMES = ("float", "Q8_0", "qwen3moe", "deepseek2", "gemma4", "qwen35", "lfm2", "granitehybrid")
PLANS = (
    None,
    Sampling(temp=0.8, seed=7, logprobs=3),
    Sampling(logit_bias=((5, 2.0),), logprobs=1, seed=0),
    Sampling(temp=1.2, seed=9, rep_penalty=1.3, freq_penalty=0.4, pres_penalty=-0.2),
)


class Texts:
    """Requests in the slots of a core, and what its steps gave them."""

    def __init__(self, core: Core, continues: bool) -> None:
        self.core, self.continues = core, continues
        self.launches = 0
        self.given: dict[int, list[Any]] = {}
        self.rows: dict[int, Row] = {}
        stepper: Any = core.stepper
        if isinstance(stepper, DeviceStepper):
            launch: Callable[[Any], None] = stepper._launch

            def counted(sizes: Any) -> None:
                self.launches += 1
                launch(sizes)

            stepper._launch = counted  # type: ignore[method-assign]

    def start(self, slot: int, prompt: Sequence[int], own: array[int] | None = None, **more: Any) -> None:
        self.core.seat(slot, [], None)
        own = table(slot, CONTEXT) if own is None else own
        self.rows[slot] = Row(slot, prompt, 0, 1, own, len(prompt), PLANS[slot], logits=slot != 1, **more)
        self.given[slot] = []

    def step(self, *slots: int) -> int:
        """A step of these; how many launches it took."""
        before = self.launches
        rows = [self.rows[slot]._replace(continues=self.continues) for slot in slots]
        results, _ = self.core.step(rows)
        for row, (tokens, logits, logprobs, drafted) in zip(rows, results, strict=True):
            assert (logits is not None) == row.logits and drafted == ()
            bits = None if logits is None else logits.view(np.uint32).tolist()
            self.given[row.slot].append((tokens, bits, logprobs))
            position = row.position + len(row.tokens)
            self.core.commit(row.slot, position)
            self.rows[row.slot] = row._replace(tokens=list(tokens), position=position)
        return self.launches - before


def opened(path: Path, **more: Any) -> Core:
    return open_core(path, slots=SLOTS, context=CONTEXT, states=1, kind=KIND, **more)


@pytest.fixture(scope="module", params=NAMES)
def path(request: pytest.FixtureRequest, tiny_model: Any) -> Path:
    return tiny_model(**MODELS[request.param])


@pytest.fixture
def plain(tiny_model: Any) -> Path:
    return tiny_model(**MODELS["Q8_0"])


def both(path: Path, work: Callable[[Texts], None]) -> tuple[Texts, Texts]:
    """The same work with steps begun ahead and without: everybody is given the same."""
    ahead, without = (Texts(opened(path), continues) for continues in (True, False))
    for texts in (ahead, without):
        work(texts)
    assert ahead.given == without.given
    return ahead, without


def started(texts: Texts, *slots: int) -> None:
    for slot in slots:
        texts.start(slot, ids_of(slot, 3 + 20 * slot, texts.core.vocab))


def test_rows_that_continue_are_given_the_same(path: Path) -> None:
    """Past the end of a page, and as somebody leaves, others change places, newcomers come and slots change hands."""
    launches = []

    def work(texts: Texts) -> None:
        started(texts, 0, 1, 3)
        taken = [texts.step(0, 1, 3) for _ in range(4)]
        taken += [texts.step(3, 0) for _ in range(2)]  # the second has left
        texts.start(1, ids_of(8, 5, texts.core.vocab), own=texts.rows[1].table[::-1])
        taken += [texts.step(0, 1, 3) for _ in range(3)]  # another in its place, with its pages
        launches.append([*taken, texts.step(1)])

    both(path, work)
    assert launches == [[2, 1, 1, 1, 1, 1, 2, 1, 1, 1], [1] * 10]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(rep_penalty=1.1, seed=0),
        Sampling(freq_penalty=0.05, pres_penalty=0.1, logit_bias=((5, 3.0), (9, 3.0)), seed=0, logprobs=2),
        Sampling(rep_penalty=2.0, freq_penalty=-0.3, temp=0.2, top_k=5, seed=3),
    ],
    ids=["repetition", "frequency", "draws"],
)
def test_penalties_count_the_token_that_the_device_has(plain: Path, sampling: Sampling) -> None:
    """One that has been before, and one that has not."""

    def work(texts: Texts) -> None:
        texts.start(0, [5, 5, 6])
        texts.rows[0] = texts.rows[0]._replace(sampling=sampling)
        for _ in range(60):
            texts.step(0)

    ahead, without = both(plain, work)
    assert ahead.launches == without.launches + 1
    tokens = [tokens[0] for tokens, _, _ in ahead.given[0]]
    assert 1 < len(set(tokens)) < len(tokens)
    cpu = Texts(open_core(plain, slots=SLOTS, context=CONTEXT), False)
    work(cpu)
    assert cpu.given == ahead.given


def test_a_text_goes_on_to_the_end_of_its_context(plain: Path) -> None:
    def work(texts: Texts) -> None:
        started(texts, 0)
        for _ in range(CONTEXT - 2):
            texts.step(0)

    ahead, without = both(plain, work)
    assert ahead.launches == without.launches == CONTEXT - 2


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": [1]},
        {"sampling": Sampling(temp=0.5, seed=1)},
        {"table": table(1, CONTEXT)},
        {"outputs": 0, "following": 3},
        {"allowed": bytes(4) + b"\xff" * 12},
    ],
    ids=str,
)
def test_what_is_asked_for_is_computed_whatever_was_begun(plain: Path, change: dict[str, Any]) -> None:
    def work(texts: Texts) -> None:
        started(texts, 0)
        texts.step(0)
        texts.step(0)
        row = texts.rows[0]
        if "table" in change:  # the same keys and values elsewhere
            texts.core.copy_page(row.table[0], change["table"][0])
        (result,), _ = texts.core.step([row._replace(continues=False, **change)])
        tokens, logits, logprobs, _ = result
        texts.given[0].append((tokens, None if logits is None else logits.tobytes(), logprobs))

    ahead, without = both(plain, work)
    assert ahead.launches == without.launches + 1


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


def test_what_was_begun_goes_with_the_seat(path: Path) -> None:
    """Whoever sits there next may have the same text and pages, but what was begun may be gone from them."""

    def work(texts: Texts) -> None:
        started(texts, 0, 1)
        for _ in range(3):
            texts.step(0, 1)
        row = texts.rows[0]
        if texts.core.state_bytes:
            texts.core.keep(0, 0)
        text = [*ids_of(0, 3, texts.core.vocab), *(token for given in texts.given[0] for token in given[0])]
        texts.core.seat(0, text[: row.position], 0 if texts.core.state_bytes else None)
        before = texts.launches
        texts.step(0, 1)
        assert texts.launches - before == 1 + texts.continues
        texts.step(0, 1)

    both(path, work)


def test_no_token_follows_no_number(tiny_model: Any, tmp_path: Path) -> None:
    """A prediction that is none has no successor: what was begun for it disturbs nobody."""

    def work(texts: Texts) -> None:
        texts.start(0, [3, BROKEN, 5])
        texts.start(2, [4, 5, 6])
        texts.step(0, 2)
        assert texts.given[0][0][0] == (-1,)
        texts.step(2)
        texts.step(2)

    both(planted(tiny_model(**MODELS["Q8_0"] | {"tied": False}), np.nan, tmp_path), work)


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
