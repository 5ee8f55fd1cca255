"""Invariants between any two commands: facts that are recorded in two places must agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .admission import Admission
from .cache import Cache
from .requests import Request, State
from .scheduler import Scheduler
from .sharing import Sharing


def check(live: dict[int, Request], admission: Admission, scheduler: Scheduler, sharing: Sharing) -> None:
    """Where each request is. Raises RuntimeError, which says what does not agree."""
    requests = list(live.values())
    slots, waiting = admission.slots, admission.waiting
    owners = {request.slot: request.req_id for request in requests if request.slot is not None}
    due = [*scheduler.seated, *scheduler.paused, *scheduler.waiting]
    queued = [request for request in requests if request.state is State.QUEUED]
    facts = {
        "live requests and their ids": list(live) == [request.req_id for request in requests],
        "slots and their owners": [owners.get(slot) for slot in range(len(slots))] == slots.owners,
        "leases": all(slots.epochs[one.slot] == one.epoch for one in requests if one.slot is not None),
        "who waits and who has no slot": {*waiting} == {*queued} == {one for one in requests if one.slot is None},
        "tokens that wait": waiting.prompt_tokens == sum(request.waiting_tokens for request in waiting),
        "places of the scheduler": len(due) == len({*due})
        and {*due} == {one for one in requests if one.state in (State.PREFILL, State.DECODE)},
        "grants": all((request.grant > 0) == (request.state is not State.PARKED) for request in requests),
        "followers": sharing.followers == {req_id: one for one in requests for req_id in one.followers}
        and not sharing.followers.keys() & live.keys(),
        "rows that may be shared": sharing.rows == {one.key: one for one in requests if one.key is not None},
    }
    broken = [name for name, agrees in facts.items() if not agrees]
    if broken:
        raise RuntimeError(f"do not agree: {'; '.join(broken)}")


def check_references(cache: Cache, requests: Iterable[Request]) -> None:
    """Every reference to a page or a kept state has an owner. Raises RuntimeError."""
    pages = [0] * len(cache.pages)
    states = [0] * len(cache.states)
    holders: list[tuple[Sequence[int], int | None]] = [(kept.pages, kept.state) for _, kept in cache.snapshots]
    for request in requests:
        if request.slot is not None:
            holders.append((request.table, None))
        elif request.origin is not None:
            holders.append((request.origin.pages, request.origin.state))
    for held, state in holders:
        for page in held:
            pages[page] += 1
        if state is not None:
            states[state] += 1
    for state in cache.tree.kept:
        states[state] += 1
    if pages != list(cache.pages.counts) or states != list(cache.states.counts):
        raise RuntimeError("references to pages or kept states do not add up")
