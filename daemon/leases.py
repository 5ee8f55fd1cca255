"""Whether a request holds the slot and the epoch that a line names."""

from __future__ import annotations

from ..protocol import Refusal
from .requests import Request


def check_lease(request: Request, req_id: int, slot: int | None, epoch: int | None) -> None:
    """`req_id` is the line's: that of the request, or of one that shares its row. Refuses what is stale."""
    holds = f"request {req_id} holds slot {request.slot} at epoch {request.epoch}"
    held = (request.slot, request.epoch)
    if req_id != request.req_id:
        holds, held = f"request {req_id} shares the row of request {request.req_id} and holds no slot", (None, None)
    elif request.slot is None:
        holds = f"request {req_id} waits in the queue and holds no slot"
    if slot not in (None, held[0]):
        raise Refusal("stale", f"SLOT {slot}: {holds}")
    if epoch not in (None, held[1]):
        raise Refusal("stale", f"epoch={epoch}: {holds}")
