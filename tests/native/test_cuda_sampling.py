"""Sampling of the CUDA core on the emulated device: the CPU core's tokens, and the logits as the model gave them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from paceline.native.core import Core, open_core

from .core_models import MODELS, ids_of
from .emulated import KIND, ORDERS, lanes, same_bits
from .rows import Row, table

CONTEXT = 128
SLOTS = 8
NOTHING: dict[str, Any] = {
    "temp": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "rep_penalty": 1.0, "freq_penalty": 0.0, "pres_penalty": 0.0,
    "seed": 5, "logit_bias": (), "logprobs": 0,
}  # fmt: skip
PENALTIES = {"rep_penalty": 1.3, "freq_penalty": 0.4, "pres_penalty": -0.2}
TIES = tuple((token, 1e30) for token in (7, 900, 3, 512, 4))
EDGES: list[dict[str, Any]] = [
    {"temp": 1e-31, "top_k": 3},
    {"temp": 1e-20, "top_p": 0.5},
    {"temp": 50.0, "top_p": 0.99},
    {"temp": 1.0, "top_k": 1},
    {"temp": 1.0, "top_k": 5000, "min_p": 1.0},
    {"temp": 1.0, "logit_bias": TIES},
    {"temp": 1.0, "logit_bias": TIES, "top_p": 0.5},
    {"temp": 1.0, "logit_bias": TIES, "top_k": 2},
    {"logit_bias": TIES, **PENALTIES},
    {"logit_bias": ((5, 9.0), (5, -3.0), (6, 5.5)), "logprobs": 2},
    {**PENALTIES},
    {},
]


@pytest.fixture(scope="module")
def cores(tiny_model: Any) -> tuple[Core, Core]:
    path = tiny_model(**MODELS["Q8_0"], vocab=1000, layers=1)
    cpu, device = (open_core(path, slots=SLOTS, context=CONTEXT, kind=kind) for kind in ("cpu", KIND))
    return cpu, device


def bits(allowed: Iterable[int]) -> bytes:
    """A bit for each of the 1000 ids, in words of 32."""
    number = sum(1 << token for token in set(allowed))
    return number.to_bytes(4 * 32, "little")


def check(cores: tuple[Core, Core], wishes: list[dict[str, Any]], order: str = "forward", logits: bool = True) -> None:
    found = []
    for core in cores:
        rows = []
        for slot, wish in enumerate(wishes):
            core.commit(slot, 0)
            ids = [*ids_of(slot, 9, 40), *ids_of(slot, 9, 1000)]
            sampling = SimpleNamespace(**(NOTHING | wish))
            outputs = 1 + slot % 3
            chosen = b"".join(bits(wish["allowed"]) for _ in range(outputs)) if "allowed" in wish else None
            rows.append(Row(slot, ids, 0, outputs, table(slot, CONTEXT), 4 * slot % 19, sampling, logits, chosen))
        with lanes(order):
            found.append(core.step(rows)[0])
    for wish, expected, one in zip(wishes, *found, strict=True):
        assert one[0] == expected[0], wish
        assert one[2] == expected[2], wish
        assert not logits or same_bits(one[1], expected[1]), wish  # before bias and penalties


def test_every_option_draws_as_the_cpu(cores: tuple[Core, Core]) -> None:
    wishes = [
        {
            "temp": temp,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "seed": seed,
            **(PENALTIES if seed % 3 == 0 else {}),
        }
        for seed, (temp, top_k, top_p, min_p) in enumerate(
            product((0.6, 2.0), (0, 12, 400), (1.0, 0.9, 0.3), (0.0, 0.1))
        )
    ]
    for begin in range(0, len(wishes), SLOTS):
        check(cores, wishes[begin : begin + SLOTS], logits=begin % 16 == 0)


@pytest.mark.parametrize("order", ORDERS)
def test_edges_and_lanes_in_any_order(cores: tuple[Core, Core], order: str) -> None:
    for begin in range(0, len(EDGES), SLOTS):
        check(cores, EDGES[begin : begin + SLOTS], order)


FEW, SOME, ONE = (3, 31, 32, 999), range(0, 1000, 7), (640,)
ALLOWED: list[dict[str, Any]] = [
    {"allowed": FEW},
    {"allowed": SOME, "logprobs": 3},
    {"allowed": ONE, "temp": 1.5, "seed": 1},
    {"allowed": SOME, "temp": 2.0, "seed": 2},
    {"allowed": SOME, "temp": 0.8, "top_p": 0.7, "seed": 3},
    {"allowed": FEW, "temp": 0.8, "top_k": 12, "seed": 4, "logprobs": 2},
    {"allowed": SOME, "temp": 1e38, "min_p": 0.1, **PENALTIES},
    {"allowed": FEW, "logit_bias": ((3, -1e30), (5, 1e30), (999, 2.0)), **PENALTIES},
    {"allowed": range(1000), "temp": 1.0},
    {},
    {"allowed": FEW, "temp": 1e-20},
    {"temp": 1.0},
]


@pytest.mark.parametrize("order", ORDERS)
def test_only_what_is_allowed_is_chosen(cores: tuple[Core, Core], order: str) -> None:
    for begin in (0, 4):
        check(cores, ALLOWED[begin : begin + SLOTS], order, logits=begin == 0)


@pytest.mark.parametrize("which", [0, 1])
def test_each_output_has_its_own_allowed_ids(cores: tuple[Core, Core], which: int) -> None:
    core = cores[which]
    for temp in (0.0, 1.0):
        core.commit(0, 0)
        sampling = SimpleNamespace(**(NOTHING | {"temp": temp}))
        own = [(7,), (999, 998), (31, 32, 33)]
        row = Row(0, ids_of(1, 5, 1000), 0, 3, table(0, CONTEXT), 3, sampling, False, b"".join(map(bits, own)))
        tokens = core.step([row])[0][0][0]
        assert all(token in allowed for token, allowed in zip(tokens, own, strict=True))
        for wrong in (row.allowed[:-4], row.allowed[:-1], b"", row.allowed + bytes(4)):
            with pytest.raises(ValueError, match="allowed tokens"):
                core.step([row._replace(allowed=wrong)])


@pytest.mark.parametrize("allowed", [None, SOME])
def test_a_draw_is_the_same_in_any_company(cores: tuple[Core, Core], allowed: Any) -> None:
    wish = {"temp": 0.9, "top_p": 0.8, "top_k": 50, "seed": 11}
    device = cores[1]
    found = set()
    for company in (0, 1, 2, 4, 7):
        rows = []
        for slot in range(company + 1):
            device.commit(slot, 0)
            own = wish if slot == company else EDGES[slot]
            sampling = SimpleNamespace(**(NOTHING | own))
            ids = ids_of(99 if slot == company else slot, 12, 1000)
            chosen = bits(allowed) if allowed is not None and slot in (0, company) else None
            rows.append(Row(slot, ids, 0, 1, table(slot, CONTEXT), 3, sampling, False, chosen))
        found.add(device.step(rows)[0][-1][0])
    assert len(found) == 1
