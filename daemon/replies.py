"""The bodies of replies and events, one function each: what the contract says they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..protocol import VERSION, Message
from .limits import Limits
from .pages import PagePool
from .plan import EngineInfo
from .requests import Request, State
from .slots import Slots
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
    }
    return Message(0, body)


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


def ended(request: Request, now: float, details: Body) -> Message:
    """Times that never came to be (no token, one token) are null."""
    started, first, last = request.started, request.first_token, request.last_token
    prompt_tps = tps = ttft = None
    if started is not None and first is not None and last is not None:
        prompt_tps = rate(len(request.prompt), first - started)
        tps = rate(request.emitted - 1, last - first)
        ttft = milliseconds(first - request.arrived)
    body = {
        "event": "end",
        "req": request.req_id,
        "reason": request.ended,
        "prompt_tokens": len(request.prompt),
        "tokens": request.emitted,
        "cached_tokens": 0,
        "queue_ms": milliseconds((now if request.admitted is None else request.admitted) - request.arrived),
        "ttft_ms": ttft,
        "prompt_tps": prompt_tps,
        "tps": tps,
        "mean_rows": round(request.step_rows / request.steps, 3) if request.steps else None,
        "seed": request.seed,
        **details,
    }
    if request.digest is not None:
        body["logits_sha256"] = request.digest.hexdigest()
    return Message(request.req_id, body)


def list_requests(requests: Iterable[Request]) -> Body:
    return {
        "requests": [
            {
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
            for request in requests
        ]
    }


def list_slots(slots: Slots, live: dict[int, Request], page_bytes: int) -> Body:
    rows = []
    for slot, owner in enumerate(slots.owners):
        pages = 0 if owner is None else len(live[owner].table)
        row = {
            "slot": slot,
            "epoch": slots.epochs[slot],
            "owner": owner,
            "position": 0 if owner is None else live[owner].position,
            "pages": pages,
            "bytes": pages * page_bytes,
        }
        rows.append(row)
    return {"slots": rows}


def statistics(
    counters: Counters, live: dict[int, Request], slots: Slots, pages: PagePool, page_bytes: int, seconds: float
) -> Body:
    states = [request.state for request in live.values()]
    gauges = {
        "queue": states.count(State.QUEUED),
        "requests": {state.value: states.count(state) for state in State},
        "slots": {"used": slots.used, "total": len(slots)},
        "pages": {"used": pages.used, "total": len(pages)},
        "cache_bytes": pages.used * page_bytes,
    }
    return {"seconds": round(seconds, 6)} | counters.body() | gauges


def milliseconds(seconds: float) -> float:
    return round(1e3 * seconds, 3)
