"""An engine without weights: the next token is a hash of all ids that were fed to the slot.

Each slot has two buffers, as a recurrent layer has. A holds the committed position and the hash there. A step reads
A and writes B, the hash after each token it was fed. `commit` moves A to a position that B knows, or to 0, or leaves
it where it already is; anything else is an error. So a lost, doubled or misplaced row shows at once: as an error, or
as tokens that differ from those of a run alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .plan import PAGE, EngineInfo, Row, RowResult

VOCABULARY = 32000
_MASK = (1 << 64) - 1


def mix(state: int, value: int) -> int:
    """64 bits in, 64 bits out: the finisher of splitmix64, over the state and one value."""
    state = (state ^ (value + 0x9E3779B97F4A7C15)) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


@dataclass(slots=True)
class Buffers:
    position: int = 0  # A
    state: int = 0
    scratch: list[int] = field(default_factory=list)  # B: the hash after position + 1, position + 2, ... tokens


class NullEngine:
    def __init__(self, slots: int = 4, context: int = 4096) -> None:
        self.info = EngineInfo(
            model="null",
            path=None,
            architecture="null",
            device="none",
            vocab=VOCABULARY,
            context=context,
            eos=(),
            page_bytes=8 * PAGE,
        )
        self._slots = [Buffers() for _ in range(slots)]

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

    def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
        if len({row.slot for row in rows}) < len(rows):
            raise ValueError(f"two rows of one slot in a step: {[row.slot for row in rows]}")
        return [self._run(row) for row in rows], 0

    def _run(self, row: Row) -> RowResult:
        buffers = self._slots[row.slot]
        if row.position != buffers.position:
            raise ValueError(
                f"request {row.req_id} at position {row.position}: slot {row.slot} is at {buffers.position}"
            )
        end = row.position + len(row.tokens)
        if end > PAGE * len(row.table):
            raise ValueError(f"request {row.req_id} would fill {end} positions: its table has {len(row.table)} pages")
        state = buffers.state
        scratch = []
        for token in row.tokens:
            state = mix(state, token)
            scratch.append(state)
        buffers.scratch = scratch
        outputs = range(len(scratch) - row.outputs, len(scratch))
        seed = row.sampling.seed if row.sampling is not None and row.sampling.temp > 0 else None
        tokens = tuple(self._choose(scratch[index], row.position + index, seed) for index in outputs)
        logits = b"".join(scratch[index].to_bytes(8, "little") for index in outputs) if row.logits else None
        return RowResult(tokens, logits)

    @staticmethod
    def _choose(state: int, position: int, seed: int | None) -> int:
        return (state if seed is None else mix(mix(state, seed), position)) % VOCABULARY
