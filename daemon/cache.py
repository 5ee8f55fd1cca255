"""What the pages and the kept states hold, and for whom: shared prefixes, snapshots, and the moves by which the engine
follows.

The engine gets them with the next plan: first the moves in the order in which they were made here, then the commits. So
a page may be released, reallocated and rewritten between two plans: a copy from it comes before that.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from ..protocol import Refusal
from .limits import Limits
from .pages import PagePool
from .plan import PAGE, Commit, CopyPage, EngineInfo, Keep, Move, Seat, WritePage, WriteState
from .prefixes import Match, PrefixTree
from .requests import Request
from .snapshots import Origin, Snapshot, Snapshots
from .states import StatePool


class Cache:
    def __init__(self, info: EngineInfo, limits: Limits) -> None:
        self._info = info
        self._reuse = limits.reuse
        self.pages = PagePool(limits.pages)
        self.states = StatePool(limits.states)
        self.tree = PrefixTree(self.pages, self.states, self.recurrent)
        self.snapshots = Snapshots(self.pages, self.states)
        self.moves: list[Move] = []
        self.commits: dict[int, int] = {}  # slot -> position

    @property
    def recurrent(self) -> bool:
        return self._info.state_bytes > 0

    def take(self) -> tuple[tuple[tuple[int, int], ...], tuple[Move, ...]]:
        """The commits and the moves for the next plan."""
        taken = tuple(self.commits.items()), tuple(self.moves)
        self.commits.clear()
        if taken[1]:
            self.moves.clear()
        return taken

    def missing(self, pages: int) -> int:
        """Bytes that are missing for this many pages, even if all available ones were used."""
        return (pages - self.pages.available) * self._info.page_bytes

    def fits(self, request: Request) -> bool:
        most_shared = (len(request.prompt) - 1) // PAGE
        return request.pages - most_shared <= self.pages.available and self._choose(request) is not None

    def will_fit(self, request: Request) -> bool:
        """Whether it will fit, beside the snapshots, when all running requests have ended."""
        held = self.snapshots.held()
        available = held.count(0)
        ways = [*self._ways(request, request.origin), *self._ways(request, None)]
        return any(_fits_beside(request, match, held, available) for match in ways)

    def seat(self, request: Request, slot: int) -> None:
        """Gives it all the pages it will ever need, shared ones among them; `fits` was true."""
        match = self._choose(request)
        assert match is not None
        if match.state is not None:
            self.tree.use(match.state)
        sources = match.pages if match.tail is None else [*match.pages, match.tail]
        self.pages.retain(sources)
        own = self.tree.allocate(request.pages - len(match.pages))
        if match.tail is not None:
            self.moves.append(CopyPage(match.tail, own[0]))
            self.pages.release([match.tail])
        request.table = array("i", match.pages) + own
        request.position = request.cached = match.length
        if match.length:
            self.commits.pop(slot, None)
            self.moves.append(Seat(slot, request.ids(match.length), match.state))
        else:
            self.commits[slot] = 0
        if request.origin is not None:
            self.snapshots.let_go(request.origin)
        request.node, request.filed = self.tree.root, 0
        request.stops = self._stops(request, match)

    def move_on(self, request: Request, tail: int | None) -> None:
        """Moves it forward to where its text is known: the tree's pages replace its own there, and with `tail` a copy
        of that page takes it to one token before the end of its chunk."""
        assert request.node is not None
        first, end = request.position // PAGE, request.filed // PAGE
        if request.filed > request.position:
            found = array("i", [node.page for node in request.node.path(end - first)])
            self.pages.retain(found)
            self.pages.release(request.table[first:end])
            request.table = request.table[:first] + found + request.table[end:]
            request.position = request.filed
        if tail is not None:
            self.moves.append(CopyPage(tail, request.table[end]))
            request.position += request.stretch - 1
        self.commits.pop(_slot(request), None)
        self.moves.append(Seat(_slot(request), request.ids(request.position), None))

    def advance(self, request: Request) -> int | None:
        """Its position has moved: makes the pages that are full now known to others, the last page of a complete prompt
        too. Returns the position from which on its text was not known before."""
        self.commits[_slot(request)] = request.position
        if self._reuse and (request.position >= request.filed + PAGE or request.position == len(request.prompt)):
            return self._file(request)
        return None

    def keep_state(self, request: Request) -> bool:
        """Keeps its recurrent state at its position, for others with the same prefix, if there is room."""
        if not self.recurrent or not self._reuse:
            return False
        state = self.tree.keep(request.ids(request.position), request.position)
        if state is not None:
            self._keep(request, state)
        return state is not None

    def leave(self, request: Request) -> None:
        """Releases its pages. What they hold can be found until they are needed."""
        if self._reuse and request.position >= PAGE:
            self._file(request)
            if not request.overtaken:
                self.keep_state(request)
        self.commits.pop(_slot(request), None)
        self.pages.release(request.table)

    def snapshot(self, name: str, request: Request, first: int, end: int) -> None:
        """Keeps positions `first` to `end` - 1 of a request under a name. Raises Refusal before any change."""
        state = None
        if self.recurrent and end:
            self._make_room(name, 0, state=True)
            state = self._take_state()
            self._keep(request, state)
        self.snapshots.take(name, request.ids(end), first, request.table, state)

    def load(self, name: str, ids: Sequence[int], first: int, pages: Sequence[bytes], state: bytes | None) -> None:
        """Adds a snapshot whose pages come from a file. Raises Refusal before any change."""
        self._make_room(name, len(pages), state is not None)
        table = self.tree.allocate(len(pages))
        kept = None
        if state is not None:
            kept = self._take_state()
            self.moves.append(WriteState(kept, state))
        self.moves += (WritePage(page, data) for page, data in zip(table, pages, strict=True))
        self.snapshots.put(name, Snapshot(tuple(ids), first, tuple(table), kept))

    def _file(self, request: Request) -> int | None:
        assert request.node is not None
        if not request.node.known:
            request.node, request.filed = self.tree.root, 0
        ids = request.ids(request.position)
        request.node, new = self.tree.insert(request.node, ids, request.table, request.filed)
        request.filed = len(ids) - len(ids) % PAGE
        return new

    def _keep(self, request: Request, state: int) -> None:
        slot = _slot(request)
        if slot in self.commits:
            self.moves.append(Commit(slot, self.commits.pop(slot)))
        self.moves.append(Keep(slot, state))

    def _make_room(self, name: str, pages: int, state: bool) -> None:
        """Makes room for a new snapshot. One of the same name is freed first, if both together do not fit."""
        missing = pages - self.pages.available
        full = state and not self.states.free and not self.tree.can_yield_state
        if missing <= 0 and not full:
            return
        freed_pages, freed_state = self.snapshots.alone(name)
        if missing > freed_pages:
            retry = "retry when a request has ended or a snapshot is freed"
            never = "a retry cannot help: the whole cache is smaller than that"
            raise Refusal(
                "kv_budget",
                f"the cache lacks {(missing - freed_pages) * self._info.page_bytes} bytes for this snapshot: "
                f"{never if pages > len(self.pages) else retry}",
            )
        if full and not freed_state:
            retry = f"snapshots hold all {len(self.states)}; free one first"
            raise Refusal(
                "kv_budget",
                f"the cache lacks {self._info.state_bytes} bytes for a recurrent state: "
                f"{retry if len(self.states) else 'there is no place for any, expected --states of 1 at least'}",
            )
        self.snapshots.free(name)

    def _take_state(self) -> int:
        """A place for a state; `_make_room` has seen to it that there is one."""
        state = self.states.allocate()
        if state is None:
            state = self.tree.yield_state()
        assert state is not None
        return state

    def _choose(self, request: Request) -> Match | None:
        """What it will share, if there is room for the rest."""
        counts, available = self.pages.counts, self.pages.available
        for match in self._ways(request, request.origin):
            if _fits_beside(request, match, counts, available):
                return match
        return None

    def _ways(self, request: Request, origin: Origin | None) -> Iterator[Match]:
        """What it could share, the most first."""
        if origin is not None:
            yield _whole(origin)
            return
        if not self._reuse:
            yield Match([], None, 0, None, 0)
            return
        limit = len(request.prompt) - 1
        if self.recurrent and request.snap is not None:
            limit = min(limit, request.snap[0])
        match = self.tree.match(request.prompt, limit)
        yield match
        if match.tail is not None:  # sharing part of a page takes one more page for a moment
            pages = [] if self.recurrent else match.pages
            yield Match(pages, None, PAGE * len(pages), None, match.seen)

    def _stops(self, request: Request, match: Match) -> list[int]:
        """Where its prefill chunks must end: at its snapshot; and where a recurrent state is worth keeping, which is
        where its text parts from a known one, and at the last page boundary of the prompt."""
        wanted = {request.snap[0]} if request.snap is not None else set()
        if self.recurrent and self._reuse:
            wanted |= {match.seen - match.seen % PAGE, (len(request.prompt) - 1) // PAGE * PAGE}
        return sorted((stop for stop in wanted if request.position < stop < len(request.prompt)), reverse=True)


def _fits_beside(request: Request, match: Match, counts: Sequence[int], available: int) -> bool:
    """Whether `available` pages, those with a count of 0, are enough for it, given what it shares."""
    woken = sum(not counts[page] for page in match.pages)
    if match.tail is not None and not counts[match.tail]:
        woken += 1
    return request.pages - len(match.pages) + woken <= available


def _whole(origin: Origin) -> Match:
    pages = list(origin.pages)
    tail = pages.pop() if origin.position % PAGE else None
    return Match(pages, tail, origin.position, origin.state, origin.position)


def _slot(request: Request) -> int:
    assert request.slot is not None
    return request.slot
