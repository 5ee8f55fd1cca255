"""What the snapshot commands ask of the cache, and what they reply."""

from __future__ import annotations

from ..protocol import (
    FreeSnapshot,
    Item,
    ListSnapshots,
    Refusal,
    Restore,
    RestoreChain,
    Save,
    Snapshot,
    SnapshotThin,
    Start,
)
from .lifecycle import Lifecycle
from .plan import EngineInfo
from .replies import Body, list_snapshots, snapshot_size
from .requests import Request
from .saved import Loaded

SnapshotCommand = Snapshot | SnapshotThin | FreeSnapshot | ListSnapshots | Save | Loaded


def carry_out(command: SnapshotCommand, lifecycle: Lifecycle, info: EngineInfo) -> Body:
    cache = lifecycle.cache
    match command:
        case Snapshot(name, slot):
            request = _owner(lifecycle, slot)
            cache.snapshot(name, request, 0, request.position)
        case SnapshotThin(name, start, end, slot):
            request = _owner(lifecycle, slot)
            if cache.recurrent:
                raise Refusal("unsupported", "SNAPSHOT_THIN: this model has recurrent layers, whose state has no range")
            if not start < end <= request.position:
                raise Refusal(
                    "bad_argument",
                    f"positions {start} to {end}: slot {slot} holds positions 0 to {request.position}, "
                    f"expected a range of them, its end not included",
                )
            cache.snapshot(name, request, start, end)
        case FreeSnapshot(name):
            cache.snapshots.free(name)
            lifecycle.admission.freed()
            return {}
        case ListSnapshots():
            return list_snapshots(cache, info)
        case Save(name):
            pass
        case _:
            name, saved = command.name, command.saved
            cache.load(name, saved.ids, saved.first, saved.pages, saved.state)
    lifecycle.admission.freed()
    return snapshot_size(cache.snapshots.find(name), info)


def restore(command: Restore | RestoreChain, lifecycle: Lifecycle, now: float, effects: list[Item]) -> Body:
    snapshots = lifecycle.cache.snapshots
    match command:
        case Restore(name, prompt, total, quantum, options):
            start = Start(prompt, total, quantum, options, req_id=command.req_id)
            return lifecycle.start(start, now, effects, lambda ids: snapshots.origin(name, ids))
        case _:
            start = Start(command.prompt, command.total, command.quantum, req_id=command.req_id)
            return lifecycle.start(start, now, effects, lambda ids: snapshots.chain(command.thick, command.thin, ids))


def _owner(lifecycle: Lifecycle, slot: int) -> Request:
    lifecycle.admission.check_slot(slot)
    owner = lifecycle.admission.slots.owners[slot]
    if owner is None:
        raise Refusal("not_active", f"slot {slot} is free: there is nothing to keep")
    return lifecycle.live[owner]
