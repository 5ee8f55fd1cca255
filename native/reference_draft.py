"""What a layer that drafts gives, in NumPy: the definition of its maths (drafting.py says where it is from)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .arrange import embedding_scale
from .drafting import FINAL_NORM, JOIN
from .reference import Reference
from .reference_math import Floats
from .reference_rows import check_rows


class Entries(NamedTuple):
    """A row of that layer: tokens that each follow an entry, from entry `position` on."""

    slot: int
    tokens: Sequence[int]
    position: int
    outputs: int = 0


class DraftingReference(Reference):
    """A model with a layer that drafts. Its entry i is of the model's stream at position i and the token at i + 1."""

    def draft(self, ids: Sequence[int], count: int) -> list[Floats]:
        """Logits [vocab] of the `count` tokens behind `ids`, the likeliest being taken of each; what came last of `ids`
        has not been fed to the model yet."""
        slot, fed = 0, ids[:-1]
        self.commit(slot, 0)
        row = Entries(slot, fed, 0)
        check_rows(self.shape, [row], self._cache)
        streams, norm = self._run([row]), "output_norm.weight"  # [n, width]
        tokens, position, found = list(ids[1:]), 0, []
        for _ in range(count):
            streams = self._pass(Entries(slot, tokens, position), self._norm(streams, norm))[-1:]
            norm = name if (name := f"blk.{self.shape.layers}.{FINAL_NORM}") in self.weights else "output_norm.weight"
            found.append(self._predict(streams, norm).logits[0])
            position += len(tokens)
            tokens = [int(found[-1].argmax())]
        return found

    def _pass(self, row: Entries, streams: Floats) -> Floats:
        """What the layer makes of normed streams [n, width]: [n, width]."""
        layer, block = self.shape.layers, f"blk.{self.shape.layers}"
        self._cache(row.slot).reserve(row.position + len(row.tokens))
        embedded = self.weights["token_embd.weight"][list(row.tokens)] * np.float32(embedding_scale(self.shape))
        both = (
            self._norm(embedded, f"{block}.nextn.enorm.weight"),
            self._norm(streams, f"{block}.nextn.hnorm.weight"),
        )
        hidden = self._product(np.concatenate(both, axis=1), f"{block}.{JOIN}".removesuffix(".weight"))
        hidden = hidden + self._mix(layer, hidden, row.position + np.arange(len(row.tokens)), [row])
        return hidden + self._feed_forward(layer, hidden)
