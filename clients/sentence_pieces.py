"""SentencePiece's kind of BPE, as in Gemma, Llama 2 and Mistral: ▁ is a blank, and a character that no token has is
spelled in tokens of one byte each.

Of all adjacent pairs that form a token, the pair whose token has the highest score merges first, the leftmost among
equals. A user-defined token is matched whole wherever it occurs, the longest first, and merges with nothing."""

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from ..native.weights import BLANK, BYTE

NORMAL: Final = 1
UNKNOWN: Final = 2
REMEMBERED: Final = 1 << 15  # words; and the most characters of one:
LONGEST: Final = 48


class SentencePieces:
    """With `prefix`, each stretch of text between marks begins with a blank."""

    def __init__(self, tokens: Sequence[str], types: Sequence[int], scores: Sequence[float], prefix: bool) -> None:
        if not len(tokens) == len(types) == len(scores):
            raise ValueError(
                f"{len(tokens)} tokens, {len(types)} types and {len(scores)} scores, expected as many of each"
            )
        kinds = zip(tokens, types, range(len(tokens)), strict=True)
        self._ids = {token: number for token, type_, number in kinds if type_ == NORMAL}
        self._scores = scores
        self._prefix = BLANK if prefix else ""
        self._bytes = {int(byte[1], 16): n for n, token in enumerate(tokens) if (byte := BYTE.fullmatch(token))}
        self._unknown = types.index(UNKNOWN) if UNKNOWN in types else None
        # No merge crosses the boundary between a character that is not in `within` and a blank: words may end there.
        within = {token[at - 1] for token in self._ids for at in range(1, len(token)) if token[at] == BLANK}
        self._word_end = re.compile(f"(?<=[^{re.escape(BLANK + ''.join(sorted(within)))}])(?={BLANK})")
        self._remembered = lru_cache(REMEMBERED)(self._word)

    def encode(self, text: str, marks: "Marks") -> list[int]:
        """The ids of `text`, in which `marks` are matched whole."""
        ids: list[int] = []
        for part in marks.split(text.replace(" ", BLANK)):
            if isinstance(part, int):
                ids.append(part)
                continue
            for word in self._word_end.split(self._prefix + part):
                ids += self._remembered(word) if len(word) <= LONGEST else self._word(word)
        return ids

    def _word(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        for symbol in self._merged(word):
            if symbol in self._ids:
                found.append(self._ids[symbol])
            else:
                found += self._spelled(symbol, found)
        return tuple(found)

    def _spelled(self, character: str, before: Sequence[int]) -> list[int]:
        """The ids of a character that no token has: its bytes, or one unknown token for all such characters in a row,
        or none."""
        spelling = character.encode("utf-8", "replace")
        if all(byte in self._bytes for byte in spelling):
            return [self._bytes[byte] for byte in spelling]
        return [self._unknown] if self._unknown is not None and before[-1:] != [self._unknown] else []

    def _merged(self, word: str) -> Iterator[str]:
        symbols = list(word)  # empty where merged into the symbol before it
        following = list(range(1, len(word) + 1))
        previous = list(range(-1, len(word) - 1))
        waiting: list[tuple[float, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right < len(symbols):
                made = symbols[left] + symbols[right]
                if made in self._ids:
                    heapq.heappush(waiting, (-self._scores[self._ids[made]], left, made))

        for left in range(len(symbols) - 1):
            offer(left, left + 1)
        while waiting:
            _, left, made = heapq.heappop(waiting)
            right = following[left]
            if not symbols[left] or right >= len(symbols) or symbols[left] + symbols[right] != made:
                continue  # one of the two has meanwhile merged with another
            symbols[left], symbols[right] = made, ""
            following[left] = following[right]
            if following[right] < len(symbols):
                previous[following[right]] = left
            offer(previous[left], left)
            offer(left, following[left])
        return filter(None, symbols)


class Marks:
    """Tokens that are matched whole."""

    def __init__(self, tokens: Mapping[int, str]) -> None:
        self._ids = {token.replace(" ", BLANK): number for number, token in tokens.items()}
        sizes: dict[str, set[int]] = {}
        for mark in filter(None, self._ids):
            sizes.setdefault(mark[0], set()).add(len(mark))
        self._sizes = {first: sorted(found, reverse=True) for first, found in sizes.items()}
        self._first = re.compile(f"[{re.escape(''.join(sizes))}]" if sizes else "(?!)")

    def split(self, text: str) -> Iterator[str | int]:
        """The ids of marks and the text between them, in order."""
        done = at = 0
        while found := self._first.search(text, at):
            at = found.start()
            mark = next((text[at : at + n] for n in self._sizes[text[at]] if text[at : at + n] in self._ids), None)
            if mark is None:
                at += 1
                continue
            if done < at:
                yield text[done:at]
            yield self._ids[mark]
            done = at = at + len(mark)
        if done < len(text):
            yield text[done:]
