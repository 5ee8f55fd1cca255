"""What happens between a step that the emulated device has begun and the next one that is asked for: nobody is given
other tokens for it. Each story is told twice, the second time with a device that waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from driver import Driver, events_of, limits, tokens_of
from paceline.daemon.engine import NativeEngine
from paceline.native.core import open_core

pytest.importorskip("paceline.native._emulator", reason="the emulated device is not built")

SHAPE = {"type": "Q4_0", "width": 96, "heads": 6, "kv_heads": 2, "head_size": 32, "ffn": 160, "vocab": 300}
BROKEN = 7
RANDOM = np.random.default_rng(3).integers(10, 300, 200).tolist()
ONE, OTHER, LONG = RANDOM[:10], RANDOM[10:30], RANDOM[30:100]


def driver_of(path: Path, wait_cost: float) -> Driver:
    sizes = {"slots": 2, "context": 256, "states": 4, "replay": 9}
    engine = NativeEngine(open_core(path, kind="emulator", **sizes), path)
    engine.info = replace(engine.info, wait_cost=wait_cost)
    return Driver(limits(2, states=4), engine)


def start(req_id: int, ids: Sequence[int], total: int, more: str = "") -> str:
    return f"REQ {req_id} START ids:{','.join(map(str, ids))} {total} {total} ignore_eos=1 {more}"


def told_twice(path: Path, story: Callable[[Driver], list[int]]) -> list[int]:
    ahead, waits = (story(driver_of(path, wait_cost)) for wait_cost in (1.0, 0.0))
    assert ahead == waits
    return ahead


@pytest.fixture(params=["llama", "qwen35"])
def path(request: pytest.FixtureRequest, tiny_model: Any) -> Path:
    return tiny_model(architecture=request.param, **SHAPE)


def test_another_request_with_the_same_text_and_slot(path: Path) -> None:
    """It begins where the step was begun, but from a state that was kept, which was copied over what was begun."""

    def story(driver: Driver) -> list[int]:
        driver.send(start(1, ONE, 100))
        driver.send(start(2, ONE, 55))
        while 2 in driver.session.live:
            driver.step()
        text = [*ONE, *tokens_of(driver.items, 1)]
        assert len(text) == 65
        driver.send("CANCEL 1")
        driver.send(start(3, text, 20))
        driver.end()
        return tokens_of(driver.items, 3)

    assert len(told_twice(path, story)) == 20


def test_pages_that_were_others_in_between(path: Path) -> None:
    """The page that the step was begun in is copied over for somebody who leaves, and comes back."""

    def story(driver: Driver) -> list[int]:
        driver.send(start(9, OTHER, 1))
        driver.run()
        driver.send(start(1, ONE, 100))
        while driver.session.live[1].position < 64:
            driver.step()
        text = [*ONE, *tokens_of(driver.items, 1)]
        driver.send("CANCEL 1")
        driver.send(start(2, [*OTHER[:15], 5, 6], 5))
        driver.send("CANCEL 2")
        driver.send(start(3, text, 20))
        driver.end()
        return tokens_of(driver.items, 3)

    assert len(told_twice(path, story)) == 20


def with_no_numbers(path: Path, tmp_path: Path) -> Path:
    tensor = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == "token_embd.weight")
    begin = tensor.data_offset + BROKEN * tensor.n_bytes // int(tensor.shape[-1])
    data = bytearray(path.read_bytes())
    data[begin : begin + 2] = np.float16(np.nan).tobytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data)
    return broken


def test_a_row_that_fails_leaves_no_state_behind(path: Path, tmp_path: Path) -> None:
    """The next one has its text as a prefix."""

    def story(driver: Driver) -> list[int]:
        driver.send(start(1, LONG, 100, f"logit_bias={BROKEN}:10000"))
        driver.run()
        driver.send(start(2, [*LONG, 11, 12], 12))
        driver.end()
        assert [end["reason"] for end in events_of(driver.items, "end")] == ["failed", "length"]
        return tokens_of(driver.items, 2)

    told_twice(with_no_numbers(path, tmp_path), story)


def test_a_step_that_fails_late(path: Path) -> None:
    """It is tried again where its state is still there; where the step behind it has replaced that, the row fails."""

    def story(driver: Driver) -> list[int]:
        driver.send(start(1, ONE, 20))
        for _ in range(5):
            driver.step()
        engine: Any = driver.engine
        step, errors = engine.step, [MemoryError("while the results are made")]

        def fails_once(rows: Any) -> Any:
            found = step(rows)
            if errors:
                raise errors.pop()
            return found

        engine.step = fails_once
        driver.end()
        (end,) = events_of(driver.items, "end")
        if end["reason"] == "failed":
            assert engine.info.state_bytes and engine.info.wait_cost
            assert end["error"].endswith("a step that was begun behind its last one has replaced its state")
        return tokens_of(driver.items, 1)

    ahead, waits = (story(driver_of(path, wait_cost)) for wait_cost in (1.0, 0.0))
    assert len(waits) == 20 and ahead == waits[: len(ahead)]
    assert len(ahead) == (5 if "qwen35" in path.name else 20)
