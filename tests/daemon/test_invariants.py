"""Books that disagree are noticed, whichever of them is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driver import Driver
from paceline.daemon import lifecycle
from paceline.daemon.lifecycle import Lifecycle
from paceline.daemon.requests import State

WAITS = "REQ 4 START ids:8 9 predict=5,6"


def busy() -> Driver:
    """1 prefills or decodes and is followed by 2, 3 decodes, 4 waits, with a prediction."""
    one = Driver(slots=2, coalesce=True, auto=True)
    for line in ("REQ 1 START ids:1,2 9 2", "REQ 2 START ids:1,2 9 2", "REQ 3 START ids:7 9 2", WAITS):
        one.send(line)
    one.step()
    return one


def parked_by_mistake(it: Lifecycle) -> None:
    it.live[3].state = State.PARKED


BREAKS: dict[str, list[Callable[[Lifecycle], object]]] = {
    "live requests and their ids": [lambda it: setattr(it.live[3], "req_id", 5)],
    "slots and their owners": [
        lambda it: it.admission.slots.owners.__setitem__(0, None),
        lambda it: it.admission.slots.pass_on(1, 1),
        lambda it: it.live.pop(3),
    ],
    "leases": [lambda it: it.admission.slots.epochs.__setitem__(0, 9)],
    "who waits and who has no slot": [
        lambda it: it.admission.waiting.remove(it.live[4]),
        lambda it: it.admission.waiting.add(it.live[1]),
        lambda it: setattr(it.live[4], "state", State.DECODE),
    ],
    "tokens that wait": [lambda it: setattr(it.admission.waiting, "prompt_tokens", 2)],
    "places of the scheduler": [
        lambda it: it.scheduler.leave(it.live[1]),
        lambda it: it.scheduler.enter(it.live[1]),
        lambda it: it.scheduler.enter(it.live[4]),
        parked_by_mistake,
    ],
    "grants": [lambda it: setattr(it.live[1], "grant", 0), parked_by_mistake],
    "followers": [
        lambda it: it.sharing.followers.pop(2),
        lambda it: it.live[1].followers.clear(),
        lambda it: it.live.__setitem__(2, it.live[3]),
    ],
    "rows that may be shared": [lambda it: it.sharing.rows.clear(), lambda it: setattr(it.live[4], "key", None)],
}


@pytest.mark.parametrize(("name", "number"), [(name, n) for name, breaks in BREAKS.items() for n in range(len(breaks))])
def test_what_does_not_agree_is_named(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = busy()
    one.session.check()
    monkeypatch.setattr(lifecycle, "check_references", lambda cache, requests: None)
    BREAKS[name][number](one.session.lifecycle)
    with pytest.raises(RuntimeError, match=f"do not agree: .*{name}"):
        one.session.check()
