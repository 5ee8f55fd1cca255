"""The bodies of replies and events, one function each: what the contract says they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..protocol import VERSION, Item, Message, Refusal
from .cache import Cache
from .limits import Limits
from .plan import EngineInfo, Logprobs
from .requests import Follower, Request, State
from .slots import Slots
from .snapshots import Snapshot
from .stats import Counters, rate

Body = dict[str, Any]


def accepted(req_id: int, line: int, body: Body) -> Message:
    return Message(req_id, {"re": line, "ok": True, **body})


def refused(req_id: int, line: int, code: str, error: str) -> Message:
    return Message(req_id, {"re": line, "ok": False, "code": code, "error": error})


def ready(info: EngineInfo, limits: Limits, version: str) -> Message:
    body = {
        "event": "ready",
        "protocol": VERSION,
        "version": version,
        "model": info.model,
        "path": info.path,
        "architecture": info.architecture,
        "device": info.device,
        "slots": limits.slots,
        "context": limits.context,
        "vocab": info.vocab,
        "eos": list(info.eos),
        "step_tokens": limits.step_tokens,
        "max_batch": limits.max_batch,
        "most_positions": limits.most_positions,
    }
    return Message(0, body)


def following(request: Request) -> Body:
    """The reply to a START that shares the row of an equal request."""
    return started(request) | {"slot": None, "epoch": None, "with": request.req_id}


def started(request: Request) -> Body:
    return {
        "slot": request.slot,
        "epoch": request.epoch,
        "state": request.state.value,
        "prompt_tokens": len(request.prompt),
    }


def admitted(request: Request) -> Message:
    body = {"event": "admitted", "req": request.req_id, "slot": request.slot, "epoch": request.epoch}
    return Message(request.req_id, body)


def snapshot_taken(request: Request, name: str, position: int) -> Message:
    body = {"event": "snapshot", "req": request.req_id, "name": name, "position": position}
    return Message(request.req_id, body)


def no_snapshot(request: Request, name: str, refusal: Refusal) -> Message:
    body = {
        "event": "snapshot",
        "req": request.req_id,
        "name": name,
        "position": None,
        "code": refusal.code,
        "error": refusal.error,
    }
    return Message(request.req_id, body)


def logprobs(request: Request, token: int, told: Logprobs) -> list[Item]:
    """The event that precedes its token in the stream; nothing if the token ends the request."""
    if token in request.ends:
        return []
    top = [list(pair) for pair in told[1]]
    body = {"event": "logprobs", "req": request.req_id, "token": token, "logprob": told[0], "top": top}
    return [Message(request.req_id, body)]


def ended(request: Request, reason: str, now: float, details: Body) -> Message:
    """Times that do not exist (no token, only one token) are null."""
    return Message(request.req_id, _ended(request, request.req_id, request.arrived, reason, now) | details)


def follower_ended(request: Request, follower: Follower, reason: str, now: float, details: Body) -> Message:
    body = _ended(request, follower.req_id, follower.arrived, reason, now)
    return Message(follower.req_id, body | {"with": request.req_id} | details)


def _ended(request: Request, req_id: int, arrived: float, reason: str, now: float) -> Body:
    started, first, last = request.started, request.first_token, request.last_token
    prompt_tps = tps = ttft = None
    if started is not None and first is not None and last is not None:
        prompt_tps = rate(len(request.prompt) - request.cached, first - started)
        tps = rate(request.emitted - 1, last - first)
        ttft = milliseconds(max(0.0, first - arrived))
    body = {
        "event": "end",
        "req": req_id,
        "reason": reason,
        "prompt_tokens": len(request.prompt),
        "tokens": request.emitted,
        "cached_tokens": request.cached,
        "queue_ms": milliseconds(max(0.0, (now if request.admitted is None else request.admitted) - arrived)),
        "ttft_ms": ttft,
        "prompt_tps": prompt_tps,
        "tps": tps,
        "mean_rows": round(request.step_rows / request.steps, 3) if request.steps else None,
        "seed": request.seed,
    }
    if request.drafted:
        body |= {"drafted": request.drafted, "drafted_right": request.drafted_right}
    if request.digest is not None:
        body["logits_sha256"] = request.digest.hexdigest()
    return body


def list_requests(requests: Iterable[Request]) -> Body:
    rows = []
    for request in requests:
        row: Body = {
            "req": request.req_id,
            "state": request.state.value,
            "slot": request.slot,
            "epoch": request.epoch,
            "position": request.position,
            "emitted": request.emitted,
            "remaining": request.remaining,
            "quantum": request.quantum,
            "granted": request.grant,
        }
        rows.append(row)
        with_it: Body = {"slot": None, "epoch": None, "with": request.req_id}
        rows += [row | {"req": follower} | with_it for follower in request.followers]
    return {"requests": rows}


def list_snapshots(cache: Cache, info: EngineInfo) -> Body:
    return {"snapshots": [{"name": name} | snapshot_size(snapshot, info) for name, snapshot in cache.snapshots]}


def snapshot_size(snapshot: Snapshot, info: EngineInfo) -> Body:
    size = {
        "position": snapshot.position,
        "bytes": len(snapshot.pages) * info.page_bytes + (0 if snapshot.state is None else info.state_bytes),
    }
    return {"from": snapshot.first, **size} if snapshot.first else size


def list_slots(slots: Slots, live: dict[int, Request], page_bytes: int) -> Body:
    return {"slots": [show_slot(slot, slots, live, page_bytes) for slot in range(len(slots))]}


def show_slot(slot: int, slots: Slots, live: dict[int, Request], page_bytes: int) -> Body:
    owner = slots.owners[slot]
    pages = 0 if owner is None else len(live[owner].table)
    return {
        "slot": slot,
        "epoch": slots.epochs[slot],
        "owner": owner,
        "position": 0 if owner is None else live[owner].position,
        "pages": pages,
        "bytes": pages * page_bytes,
    }


def statistics(
    counters: Counters, live: dict[int, Request], slots: Slots, cache: Cache, info: EngineInfo, seconds: float
) -> Body:
    states = [request.state for request in live.values()]
    listeners = [request.state for request in live.values() for _ in (request, *request.followers)]
    pages = cache.pages
    gauges = {
        "queue": states.count(State.QUEUED),
        "requests": {state.value: listeners.count(state) for state in State},
        "slots": {"used": slots.used, "total": len(slots)},
        "pages": {"used": pages.used, "idle": len(pages.idle), "total": len(pages)},
        "snapshots": len(cache.snapshots),
        "cache_bytes": pages.used * info.page_bytes,
    }
    return {"seconds": round(max(0.0, seconds), 6)} | counters.body() | gauges


def milliseconds(seconds: float) -> float:
    return round(1e3 * max(0.0, seconds), 3)
