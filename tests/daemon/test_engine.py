"""Carrying out a plan: commits first, a batch that throws again row by row; faults on purpose; opening an engine."""

from __future__ import annotations

import errno
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from constrained import bits
from drafting import Truthful
from paceline.daemon.config import Config
from paceline.daemon.engine import CannotOpen, DeviceLost, NativeEngine, open_engine
from paceline.daemon.execution import execute
from paceline.daemon.faults import Faults, read_faults
from paceline.daemon.faulty import Faulty, InjectedFault
from paceline.daemon.null_engine import VOCABULARY, NullEngine
from paceline.daemon.plan import Plan, PlanKind, Row, RowFailure, RowResult


def row(slot: int) -> Row:
    return Row(slot + 1, slot, 1, (5, 6), 0, 1, None, 2, array("i", [slot]), False)


ROWS = (row(0), row(1), row(2))
PLAN = Plan(PlanKind.STEP, ((0, 0), (2, 0)), (ROWS,))
EXPECTED = NullEngine().step(ROWS)[0]


class Recorder:
    """Notes the calls; breaks when `broken` says so."""

    def __init__(self, broken: set[int] | None = None, error: type[Exception] = RuntimeError) -> None:
        self._inner = NullEngine()
        self.info = self._inner.info
        self.calls: list[object] = []
        self._broken, self._error = broken or set(), error

    def commit(self, slot: int, position: int) -> None:
        self.calls.append(("commit", slot, position))

    def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
        slots = [row.slot for row in rows]
        self.calls.append(slots)
        if self._broken.intersection(slots):
            raise self._error("broken")
        return self._inner.step(rows)[0], 10


def ticking() -> float:
    return 0.0


def test_commits_come_first_then_one_step() -> None:
    engine = Recorder()
    (result,) = execute(engine, PLAN, ticking)
    assert engine.calls == [("commit", 0, 0), ("commit", 2, 0), [0, 1, 2]]
    assert (result.rows, result.weight_bytes, result.retried) == (EXPECTED, 10, None)


def test_a_batch_that_throws_is_tried_row_by_row() -> None:
    engine = Recorder({1})
    (result,) = execute(engine, PLAN, ticking)
    assert engine.calls[2:] == [[0, 1, 2], [0], [1], [2]]
    assert result.rows == [EXPECTED[0], RowFailure("RuntimeError: broken"), EXPECTED[2]]
    assert (result.weight_bytes, result.retried) == (20, "RuntimeError: broken")


def test_a_row_whose_logits_are_no_numbers_has_failed() -> None:
    engine = NullEngine()
    core = SimpleNamespace(
        **dict.fromkeys(("meanwhile", "model", "architecture", "device", "vocab", "context", "fingerprint")),
        **{name: getattr(engine, name) for name in ("commit", "seat", "keep", "copy_page")},
        **{name: getattr(engine, name) for name in ("read_page", "write_page", "read_state", "write_state")},
        eos=(),
        page_bytes=1,
        state_bytes=0,
        has_files=False,
        greedy_only=False,
        seats_feed=False,
        column_cost=0.5,
        wait_cost=0.25,
        draft_cost=0.1,
        step=lambda rows: (
            [(tokens, None, None, (8, 9)) for tokens in ((5, 6), (-1, 5), (5, -1))] + [((), None, None, ())],
            7,
        ),
    )
    engine_of_core = NativeEngine(core, Path("model"))
    assert (engine_of_core.info.column_cost, engine_of_core.info.draft_cost) == (0.5, 0.1)
    assert engine_of_core.info.wait_cost == 0.25
    rows, weight_bytes = engine_of_core.step(ROWS)
    assert weight_bytes == 7
    assert rows[0] == RowResult((5, 6), None, None, (8, 9)) and rows[3] == RowResult((), None)
    assert isinstance(rows[1], RowFailure) and "all NaN" in rows[1].error
    assert rows[2] == RowResult((5,), None)  # behind a drafted token, which may be wrong


def test_a_drafted_row_that_throws_is_tried_without_its_draft() -> None:
    class Short(Recorder):
        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
            if any(len(row.tokens) > 2 for row in rows):
                self.calls.append([row.tokens for row in rows])
                raise RuntimeError("too long")
            return super().step(rows)

    sets = [bits([number], VOCABULARY) for number in (9, 10, 11)]
    drafted = ROWS[1]._replace(tokens=(5, 6, 7, 8), outputs=3, allowed=b"".join(sets))
    engine = Short()
    (result,) = execute(engine, Plan(PlanKind.STEP, (), ((ROWS[0], drafted),)), ticking)
    assert engine.calls == [[(5, 6), (5, 6, 7, 8)], [0], [(5, 6, 7, 8)], [1]]
    assert (result.rows, result.weight_bytes) == ([EXPECTED[0], RowResult((9,), None)], 20)
    with pytest.raises(ValueError, match="say what 3 tokens may be"):
        NullEngine().step((drafted._replace(allowed=sets[0]),))


def test_a_row_is_tried_without_what_is_to_be_drafted_behind_it() -> None:
    """A row alone first as it is, as another one may have thrown; then without."""

    class Cannot(Recorder):
        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
            if len(rows) > 1 or rows[0].ahead > 2:
                self.calls.append([row.ahead for row in rows])
                raise RuntimeError("cannot draft")
            return Truthful(drafts=True).step(rows)[0], 10

    engine = Cannot()
    rows = tuple(row._replace(ahead=ahead) for row, ahead in zip(ROWS, (0, 2, 3), strict=True))
    (result,) = execute(engine, Plan(PlanKind.STEP, (), (rows,)), ticking)
    assert engine.calls == [[0, 2, 3], [3]]
    assert [one._replace(drafted=()) for one in result.rows if isinstance(one, RowResult)] == EXPECTED
    assert [len(one.drafted) for one in result.rows if isinstance(one, RowResult)] == [0, 2, 0]


def test_a_lost_device_is_not_tried_again() -> None:
    engine = Recorder({1}, DeviceLost)
    with pytest.raises(DeviceLost):
        execute(engine, PLAN, ticking)
    assert engine.calls[2:] == [[0, 1, 2]]


def test_a_device_may_be_lost_in_the_second_try() -> None:
    with pytest.raises(DeviceLost, match="injected in step 2"):
        execute(Faulty(NullEngine(), read_faults("once@1,lost@2")), PLAN, ticking)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("always", Faults(always=True)),
        ("row:1@3,row:0@12", Faults(rows=((1, 3), (0, 12)))),
        ("once@2,lost@9,crash@4,slow:2.5", Faults(once=2, lost=9, crash=4, slow=0.0025)),
    ],
)
def test_faults_are_read(text: str, faults: Faults) -> None:
    assert read_faults(text) == faults


@pytest.mark.parametrize("text", ["", "never", "row:1", "row:x@1", "once@", "once@1,", "slow", "always@3", "slow:-1"])
def test_what_is_no_fault_is_named(text: str) -> None:
    word = next(word for word in reversed(text.split(",")) if word != "once@1")
    with pytest.raises(ValueError, match=f"^'{word}' is no fault; expected row:SLOT@N"):
        read_faults(text)


def test_a_faulty_engine_breaks_as_it_is_told() -> None:
    naps: list[float] = []
    engine = Faulty(NullEngine(), read_faults("row:1@3,once@2,slow:5,lost@6,crash@5"), naps.append)
    assert engine.info.model == "null"
    assert engine.step(ROWS)[0] == EXPECTED
    with pytest.raises(InjectedFault, match="in step 2"):
        engine.step(ROWS)
    with pytest.raises(InjectedFault, match="for slot 1 in step 3"):
        engine.step(ROWS)
    engine.commit(0, 0)
    assert engine.step((ROWS[0],))[0] == EXPECTED[:1]
    with pytest.raises(InjectedFault, match="crash before step 5"):
        engine.commit(0, 0)
    engine.step((ROWS[0],))
    with pytest.raises(DeviceLost):
        engine.step((ROWS[0],))
    assert naps == [0.005] * 6
    with pytest.raises(InjectedFault):
        Faulty(NullEngine(), read_faults("always")).step(ROWS)


def test_the_null_engine_opens_with_the_limits_that_were_asked_for() -> None:
    engine, limits = open_engine(Config(engine="null", slots=3, max_ctx=100, max_batch=9, queue=2, auto=True))
    assert (engine.info.model, engine.info.context) == ("null", 100)
    assert (limits.slots, limits.max_batch, limits.context, limits.pages) == (3, 3, 100, 6)
    assert (limits.queue, limits.auto) == (2, True)
    _, limits = open_engine(Config(engine="null", cache_bytes=512 * 7 + 5))
    assert (limits.pages, limits.context, limits.max_batch) == (7, 4096, 4)
    with pytest.raises(CannotOpen, match="holds no page of 512 bytes") as caught:
        open_engine(Config(engine="null", cache_bytes=511))
    assert caught.value.code == 2


class FakeNative:
    """Stands in for the native side: what it is asked, and what it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: str | None = None) -> None:
        unreadable = type("ModelUnreadable", (Exception,), {})
        unavailable = type("ModelUnavailable", (Exception,), {})
        errors = {"unreadable": unreadable, "unavailable": unavailable, "value": ValueError, "memory": MemoryError}
        self.asked: dict[str, object] = {}

        def open_core(path: Path, **asked: object) -> object:
            self.asked = {"path": path, **asked}
            if error in ("no room", "no disk"):
                raise unreadable("because") from OSError(errno.ENOMEM if error == "no room" else errno.EIO, error)
            if error is not None:
                raise errors[error]("because")
            facts = {"model": "m", "architecture": "llama", "device": "cpu", "vocab": 9, "context": 77, "eos": [2]}
            moves = ["commit", "seat", "keep", "copy_page", "meanwhile"]
            methods = [*moves, "read_page", "write_page", "read_state", "write_state"]
            sizes = {"page_bytes": 640, "pages": 5, "state_bytes": 0, "fingerprint": "f", "has_files": True}
            sizes |= {"greedy_only": False, "seats_feed": False, "column_cost": 0.5, "draft_cost": 0.0}
            sizes |= {"wait_cost": 0.0}
            return SimpleNamespace(**facts, **sizes, **{name: lambda *arguments: None for name in methods})

        core, weights = ModuleType("paceline.native.core"), ModuleType("paceline.native.weights")
        core.__dict__.update(open_core=open_core)
        found = {"find_model": lambda name: Path(name or "demo")}
        weights.__dict__.update(ModelUnreadable=unreadable, ModelUnavailable=unavailable, **found)
        monkeypatch.setitem(sys.modules, "paceline.native.core", core)
        monkeypatch.setitem(sys.modules, "paceline.native.weights", weights)


def test_a_model_opens_with_what_the_flags_say(monkeypatch: pytest.MonkeyPatch) -> None:
    native = FakeNative(monkeypatch)
    engine, limits = open_engine(
        Config(
            model="x.gguf",
            slots=2,
            threads=3,
            isa="avx2",
            cache_bytes=4000,
            cache_type_v="q8_0",
            quantize="q4_0",
        )
    )
    assert native.asked == {
        "path": Path("x.gguf"),
        "slots": 2,
        "context": None,
        "cache_bytes": 4000,
        "threads": 3,
        "isa": "avx2",
        "cache_type_k": "f16",
        "cache_type_v": "q8_0",
        "kind": "cpu",
        "quantize": "q4_0",
        "progress": True,
        "keep_free": None,
        "states": 16,
        "replay": 9,
        "drafting": True,
        "gpu_memory": None,
        "step_tokens": 512,
        "step_outputs": 18,
    }
    assert isinstance(engine, NativeEngine)
    assert (engine.info.eos, engine.info.page_bytes) == ((2,), 640)
    assert engine.info.path == str(Path("x.gguf").absolute())
    assert (limits.context, limits.pages, limits.max_batch) == (77, 5, 2)


def test_a_device_is_the_cpu_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    native = FakeNative(monkeypatch)
    open_engine(Config(device="cuda:1", gpu_memory=0.5))
    assert (native.asked["kind"], native.asked["gpu_memory"]) == ("cuda:1", 0.5)
    open_engine(Config(slots=1024, max_batch=8, step_tokens=64))
    assert (native.asked["step_tokens"], native.asked["step_outputs"]) == (1024, 1024)  # target steps: rows for all
    open_engine(Config(slots=8, step_tokens=64, prefill_tokens=1))
    assert (native.asked["step_tokens"], native.asked["step_outputs"]) == (120, 64)
    open_engine(Config(slots=8, step_tokens=64, prefill_tokens=1, draft=0))
    assert (native.asked["step_tokens"], native.asked["step_outputs"], native.asked["replay"]) == (64, 8, 0)
    assert native.asked["drafting"] is False
    for engine in ("reference", "null"):
        with pytest.raises(CannotOpen, match=f"cuda:1 is for --engine cpu: the engine {engine} computes without it"):
            open_engine(Config(engine=engine, device="cuda:1"))


CODES = {"unreadable": 66, "no disk": 66, "no room": 70, "unavailable": 69, "value": 2, "memory": 70}


@pytest.mark.parametrize(("error", "code"), CODES.items())
def test_why_a_model_does_not_open(monkeypatch: pytest.MonkeyPatch, error: str, code: int) -> None:
    FakeNative(monkeypatch, error)
    with pytest.raises(CannotOpen, match="because") as caught:
        open_engine(Config())
    assert caught.value.code == code
