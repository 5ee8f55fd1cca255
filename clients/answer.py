"""What generate gives: pieces of an answer, and at its end how it ended."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .detokenizer import Detokenizer
from .received import Received, Token
from .stop_strings import StopStrings

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]  # a text, ids, or chat messages
Stops = str | Sequence[str | int]  # strings and token ids


class Piece(NamedTuple):
    """One token, and the text that is safe to show since the last one: whole characters, and nothing that may still be
    part of a stop string. `logprob` and `top`, pairs of id and log probability, if `logprobs` was asked for. The last
    piece may be text that was held back; its token is None."""

    token: int | None
    text: str
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Answer:
    """`stop_string` is the one that ended it, if one did."""

    def __init__(self, received: Received, decoder: Detokenizer | None, strings: StopStrings) -> None:
        self._received = received
        self._decoder = decoder
        self._strings = strings

    @property
    def finish_reason(self) -> str | None:
        """eos, stop (a token or a string), length, cancelled or failed; None until the end was read."""
        end = self._received.end
        return None if end is None else "stop" if self.stop_string is not None else str(end["reason"])

    @property
    def stop_string(self) -> str | None:
        return self._strings.found

    @property
    def usage(self) -> dict[str, int]:
        """prompt_tokens, tokens (what was emitted) and cached_tokens; empty until the end was read."""
        return self._of_end("prompt_tokens", "tokens", "cached_tokens")

    @property
    def timings(self) -> dict[str, float | None]:
        """queue_ms, ttft_ms, and prompt_tps and tps in tokens per second; empty until the end was read."""
        return self._of_end("queue_ms", "ttft_ms", "prompt_tps", "tps")

    def _of_end(self, *names: str) -> dict[str, Any]:
        end = self._received.end or {}
        return {name: end[name] for name in names if name in end}

    def _said(self, token: Token) -> Piece | None:
        """None for what came after a stop string."""
        if self.stop_string is not None:
            return None
        text = self._strings.push(self._decoder.push(token.id)) if self._decoder else ""
        told = token.logprobs or {}
        return Piece(
            token.id, text, told.get("logprob"), tuple((number, chance) for number, chance in told.get("top", ()))
        )

    def _rest(self) -> Piece | None:
        """What was held back at the end, once."""
        text = self._strings.push(self._decoder.flush() if self._decoder else "") + self._strings.flush()
        return Piece(None, text) if text else None
