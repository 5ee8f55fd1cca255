"""An engine without weights: the next token is a hash of all ids that were fed to the slot.

The hash after each position is stored in the slot's pages, like keys and values, and the committed one in the slot,
like a recurrent state. A step reads the committed one, which must equal what the pages hold for the position before,
and writes the pages. `commit` moves a slot to a position that the last step reached, or to 0, or leaves it where it
already is; anything else is an error. So a lost, doubled or misplaced row shows at once, and so does a page that was
shared, copied or evicted wrongly: as an error, or as tokens that differ from those of a run alone.

With `recurrent`, a slot can be seated only from a kept state, as with a hybrid model; otherwise from its ids. Then a
row that continues loses its committed state, as on a device that begins the next step at once. With `drafts`, it drafts
what it would predict, but sometimes less than it is asked for, and sometimes a token that is wrong: when is the hash's
to say.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .plan import PAGE, EngineInfo, Logprobs, Row, RowResult

VOCABULARY = 32000
DRAFT_COST = 0.1
LOST = -1  # in place of a recurrent state that the step behind the last one may have replaced
_MASK = (1 << 64) - 1


def mix(state: int, value: int) -> int:
    """64 bits in, 64 bits out: the finisher of splitmix64, over the state and one value."""
    state = (state ^ (value + 0x9E3779B97F4A7C15)) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def mix_all(ids: Iterable[int], state: int = 0) -> int:
    for token in ids:
        state = mix(state, token)
    return state


def _halves(token: int, count: int) -> Logprobs:
    """The token has probability one half, the id after it half of the rest, and so on."""
    likely = [((token + i) % VOCABULARY, -(i + 1) * math.log(2)) for i in range(count)]
    return likely[0][1], tuple(likely)


def _allowed(row: Row, output: int, vocab: int) -> list[int] | None:
    if row.allowed is None:
        return None
    size = (vocab + 31) // 32 * 4
    if len(row.allowed) != size * row.outputs:
        raise ValueError(f"request {row.req_id}: {len(row.allowed)} bytes say what {row.outputs} tokens may be")
    number = int.from_bytes(row.allowed[output * size : (output + 1) * size], "little")
    return [token for token in range(vocab) if number >> token & 1]


@dataclass(slots=True)
class Buffers:
    position: int = 0
    state: int = 0  # the hash there
    scratch: list[int] = field(default_factory=list)  # the hash after position + 1, position + 2, ... tokens


class NullEngine:
    def __init__(self, slots: int = 4, context: int = 4096, recurrent: bool = False, drafts: bool = False) -> None:
        self.info = EngineInfo(
            model="null",
            path=None,
            architecture="null",
            device="none",
            vocab=VOCABULARY,
            context=context,
            eos=(),
            page_bytes=8 * PAGE,
            state_bytes=8 if recurrent else 0,
            fingerprint=f"null{' recurrent' * recurrent}",
            draft_cost=DRAFT_COST * drafts,
        )
        self._slots = [Buffers() for _ in range(slots)]
        self._pages: dict[int, list[int]] = {}
        self._kept: dict[int, tuple[int, int]] = {}  # kept state -> position, hash

    def commit(self, slot: int, position: int) -> None:
        buffers = self._slots[slot]
        if position == buffers.position:
            return
        if position == 0:
            buffers.state = 0
        elif 0 < position - buffers.position <= len(buffers.scratch):
            buffers.state = buffers.scratch[position - buffers.position - 1]
        else:
            raise ValueError(
                f"commit of slot {slot} to position {position}: it is at {buffers.position}, "
                f"and the last step went to {buffers.position + len(buffers.scratch)}"
            )
        buffers.position = position
        buffers.scratch = []

    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None:
        position, value = len(ids), mix_all(ids)
        if self.info.state_bytes and (state is None or self._kept[state] != (position, value)):
            raise ValueError(f"seat of slot {slot} at position {position}: kept state {state} is another")
        self._slots[slot] = Buffers(position, value)

    def keep(self, slot: int, state: int) -> None:
        self._kept[state] = (self._slots[slot].position, self._slots[slot].state)

    def copy_page(self, source: int, target: int) -> None:
        self._pages[target] = list(self._page(source))

    def read_page(self, page: int) -> bytes:
        return array("Q", self._page(page)).tobytes()

    def write_page(self, page: int, data: bytes) -> None:
        self._pages[page] = array("Q", data).tolist()

    def read_state(self, state: int) -> bytes:
        return array("Q", self._kept[state]).tobytes()

    def write_state(self, state: int, data: bytes) -> None:
        position, value = array("Q", data)
        self._kept[state] = (position, value)

    def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
        if len({row.slot for row in rows}) < len(rows):
            raise ValueError(f"two rows of one slot in a step: {[row.slot for row in rows]}")
        return [self._run(row) for row in rows], 0

    def pieces(self) -> None:
        return None

    def meanwhile(self, work: Callable[[], None]) -> bool:
        return False

    def _page(self, page: int) -> list[int]:
        return self._pages.setdefault(page, [0] * PAGE)

    def _run(self, row: Row) -> RowResult:
        buffers = self._slots[row.slot]
        position = row.position
        if position != buffers.position:
            raise ValueError(f"request {row.req_id} at position {position}: slot {row.slot} is at {buffers.position}")
        if row.ahead < 0 or (row.ahead and not (row.outputs and self.info.draft_cost)):
            raise ValueError(f"request {row.req_id}: {row.ahead} tokens to draft behind {row.outputs} outputs")
        if (row.following is None) != (row.outputs > 0):
            raise ValueError(f"request {row.req_id}: {row.following} follows a row of {row.outputs} outputs")
        end = position + len(row.tokens)
        if end > PAGE * len(row.table):
            raise ValueError(f"request {row.req_id} would fill {end} positions: its table has {len(row.table)} pages")
        state = buffers.state
        if position and self._page(row.table[(position - 1) // PAGE])[(position - 1) % PAGE] != state:
            raise ValueError(f"request {row.req_id} at position {position}: its pages and slot {row.slot} differ")
        scratch = []
        for at, token in enumerate(row.tokens, position):
            state = mix(state, token)
            scratch.append(state)
            self._page(row.table[at // PAGE])[at % PAGE] = state
        buffers.scratch = scratch
        if row.continues and position and self.info.state_bytes:  # at 0 it has none to lose
            buffers.state = LOST
        outputs = range(len(scratch) - row.outputs, len(scratch))
        seed = row.sampling.seed if row.sampling is not None and row.sampling.temp > 0 else None
        tokens = tuple(
            self._choose(scratch[index], position + index, seed, _allowed(row, output, self.info.vocab))
            for output, index in enumerate(outputs)
        )
        logits = b"".join(scratch[index].to_bytes(8, "little") for index in outputs) if row.logits else None
        likely = 0 if row.sampling is None else row.sampling.logprobs
        result = RowResult(tokens, logits, tuple(_halves(token, likely) for token in tokens) if likely else None)
        if not row.ahead:
            return result
        right = result.right(row)
        last = len(scratch) - row.outputs + len(right) - 1
        return result._replace(
            drafted=tuple(self._draft(mix(scratch[last], right[-1]), position + last + 1, seed, row.ahead))
        )

    def _draft(self, state: int, position: int, seed: int | None, count: int) -> Iterator[int]:
        """How the text goes on from where its hash is `state` behind the token at `position`. One token in 16 is not
        drafted, nor what is behind it, and one in 8 is wrong."""
        for at in range(position, position + count):
            if state >> 60 == 0:
                return
            token = (self._choose(state, at, seed, None) + (state >> 40 & 7 == 0)) % VOCABULARY
            yield token
            state = mix(state, token)

    @staticmethod
    def _choose(state: int, position: int, seed: int | None, allowed: Sequence[int] | None) -> int:
        choice = state if seed is None else mix(mix(state, seed), position)
        return choice % VOCABULARY if allowed is None else allowed[choice % len(allowed)]
