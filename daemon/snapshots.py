"""Snapshots, the states of slots kept under a name: the ids, the pages, and for models with recurrent layers the state
at the end.

A snapshot shares its pages with the slot it was taken from, the last one too: the slot goes on writing there, but only
past the snapshot's end. A request that starts from it copies that page. A thin one keeps a range of positions; the page
in which the range begins is kept whole, with what precedes the range in it, since the ids there are known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..protocol import Refusal
from .limits import pages_for
from .pages import PagePool
from .plan import PAGE
from .states import StatePool

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`ids` are those of all positions up to its end, `pages` hold the positions from `first` on."""

    ids: Ids
    first: int
    pages: tuple[int, ...]
    state: int | None

    @property
    def position(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a request starts from: `pages` hold its first `position` ids, `state` is the recurrent state there."""

    position: int
    pages: tuple[int, ...]
    state: int | None


class Snapshots:
    def __init__(self, pool: PagePool, states: StatePool) -> None:
        self._pool = pool
        self._states = states
        self._named: dict[str, Snapshot] = {}

    def __len__(self) -> int:
        return len(self._named)

    def __iter__(self) -> Iterator[tuple[str, Snapshot]]:
        return iter(self._named.items())

    def find(self, name: str) -> Snapshot:
        snapshot = self._named.get(name)
        if snapshot is None:
            raise Refusal("no_snapshot", f"there is no snapshot {name!r}: LIST_SLOTS shows those there are")
        return snapshot

    def alone(self, name: str) -> tuple[int, bool]:
        """How many pages only the snapshot of that name holds, and whether it is the only holder of its state."""
        snapshot = self._named.get(name)
        if snapshot is None:
            return 0, False
        pages = sum(self._pool.counts[page] == 1 for page in snapshot.pages)
        return pages, snapshot.state is not None and self._states.counts[snapshot.state] == 1

    def held(self) -> array[int]:
        """For every page of the cache 1 where a snapshot holds it, 0 elsewhere."""
        held = array("i", bytes(4 * len(self._pool)))
        for snapshot in self._named.values():
            for page in snapshot.pages:
                held[page] = 1
        return held

    def lack(self, origin: Origin) -> bool:
        """Whether it has pages that no snapshot holds, which letting go of it would free."""
        held = self.held()
        return any(not held[page] for page in origin.pages)

    def take(self, name: str, ids: Ids, first: int, table: Sequence[int], state: int | None) -> None:
        """Keeps the text `ids`, from position `first` on, of the slot that has this table."""
        pages = tuple(table[first // PAGE : pages_for(len(ids))])
        self._pool.retain(pages)
        self.put(name, Snapshot(ids, first, pages, state))

    def put(self, name: str, snapshot: Snapshot) -> None:
        """Keeps it under that name, replacing one of the same name. It takes over the caller's references."""
        before = self._named.pop(name, None)
        self._named[name] = snapshot
        if before is not None:
            self._release(before.pages, before.state)

    def free(self, name: str) -> None:
        snapshot = self.find(name)
        del self._named[name]
        self._release(snapshot.pages, snapshot.state)

    def clear(self) -> None:
        for name in list(self._named):
            self.free(name)

    def origin(self, name: str, prompt: Sequence[int]) -> Origin:
        """What RESTORE starts from, if `prompt` goes on where the snapshot ends."""
        snapshot = self.find(name)
        if snapshot.first:
            raise Refusal(
                "snapshot_mismatch",
                f"snapshot {name!r} holds positions {snapshot.first} to {snapshot.position - 1} only: "
                f"it belongs in the thin list of RESTORE_CHAIN",
            )
        _check_begins(name, snapshot.ids, prompt)
        return Origin(snapshot.position, snapshot.pages, snapshot.state)

    def chain(self, thick: str | None, thin: Sequence[str], prompt: Sequence[int]) -> Origin:
        """What RESTORE_CHAIN starts from."""
        origin = Origin(0, (), None) if thick is None else self.origin(thick, prompt)
        for name in thin:
            snapshot = self.find(name)
            if not snapshot.first <= origin.position < snapshot.position:
                raise Refusal(
                    "snapshot_mismatch",
                    f"snapshot {name!r} holds positions {snapshot.first} to {snapshot.position - 1}: "
                    f"expected one that holds position {origin.position}, where the chain before it ends",
                )
            _check_begins(name, snapshot.ids, prompt)
            pages = origin.pages[: snapshot.first // PAGE] + snapshot.pages
            origin = Origin(snapshot.position, pages, snapshot.state)
        return origin

    def hold(self, origin: Origin) -> None:
        """For a waiting request: what it starts from is kept, whatever becomes of the snapshots."""
        self._pool.retain(origin.pages)
        if origin.state is not None:
            self._states.retain(origin.state)

    def let_go(self, origin: Origin) -> None:
        self._release(origin.pages, origin.state)

    def _release(self, pages: Sequence[int], state: int | None) -> None:
        self._pool.release(pages)
        if state is not None:
            self._states.release(state)


def _check_begins(name: str, ids: Ids, prompt: Sequence[int]) -> None:
    if len(prompt) <= len(ids):
        raise Refusal(
            "snapshot_mismatch",
            f"the prompt has {len(prompt)} tokens, snapshot {name!r} has {len(ids)}: expected a longer prompt",
        )
    if tuple(prompt[: len(ids)]) != ids:
        index = next(index for index, token in enumerate(ids) if prompt[index] != token)
        raise Refusal(
            "snapshot_mismatch",
            f"prompt token {index} is {prompt[index]}, snapshot {name!r} has {ids[index]} there: "
            f"expected a prompt that begins with the snapshot's ids",
        )
