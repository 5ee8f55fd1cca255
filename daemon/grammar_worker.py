"""The process in which llguidance runs: `python -m paceline.daemon.grammar_worker FD` answers on that socket.

A process of its own, because a small grammar can take all the time and memory there is, or the stack: then this one is
ended, and the daemon goes on. It ends by itself when the daemon does. Each message gets one answer:

    (BEGIN, key, lark, ends)        bits, or a reason (text) why it is refused
    (FOLLOW, [(key, token), …])     for each bits, or a reason why nothing follows
    (FORGET, keys)                  None

The first message is the vocabulary, (texts, signs, threads); its answer is None, or a reason why there are no grammars.
"""

from __future__ import annotations

import ctypes
import re
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from llguidance import LLExecutor, LLMatcher

BEGIN, FOLLOW, FORGET = "begin", "follow", "forget"
MOST_BYTES: Final = 4 << 30
PR_SET_PDEATHSIG: Final = 1
RULES: Final = '\n%llguidance {"no_forcing": true}\n'
"""Forced text would have to be cut into tokens as the model's tokenizer does; so its tokens are chosen, like others."""

END: Final = b"< >"  # no grammar can name it
LONGEST_TEXT: Final = 1024  # bytes of a token, for the library
STUCK: Final = "no token of the vocabulary continues what the grammar allows"
TOO_LARGE: Final = "it takes more than the library can do"
QUOTED: Final = re.compile(r"^ *\d+ \| ", re.MULTILINE)
SHOWN: Final = 200


class Library:
    """Over a vocabulary that has one token more here, an end, as the library wants one; a request's own ends are
    allowed where its grammar may end. Each output has a matcher of its own, compiled anew: copies of one share its
    lexer, and with that its limits and errors."""

    def __init__(self, texts: Sequence[bytes], signs: Collection[int], threads: int) -> None:
        import llguidance

        self._vocab = len(texts)
        self._bytes = (self._vocab + 31) // 32 * 4
        self._room = (self._vocab + 1 + 31) // 32 * 4
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Vocabulary(texts, signs)))
        self._limits = llguidance.LLParserLimits(verbose_errors=False)
        self._executor: LLExecutor | None = llguidance.LLExecutor(threads) if threads > 1 else None
        self._outputs: dict[int, tuple[LLMatcher, Collection[int]]] = {}

    def answer(self, message: tuple[Any, ...]) -> Any:
        match message:
            case (kind, key, lark, ends) if kind == BEGIN:
                return self._begin(key, lark, ends)
            case (kind, chosen) if kind == FOLLOW:
                return self._follow(chosen)
        for key in message[1]:
            self._outputs.pop(key, None)
        return None

    def _begin(self, key: int, lark: str, ends: Collection[int]) -> bytes | str:
        import llguidance

        matcher = llguidance.LLMatcher(self._tokenizer, lark + RULES, log_level=0, limits=self._limits)
        if matcher.is_error():
            return _reason(matcher)
        self._outputs[key] = matcher, ends
        return self._allowed([key])[0]

    def _follow(self, chosen: Sequence[tuple[int, int]]) -> list[bytes | str]:
        matched = [(self._outputs[key][0], token) for key, token in chosen]
        if self._executor is None or len(chosen) == 1:
            for matcher, token in matched:
                matcher.consume_token(token)
        else:
            self._executor.consume_token_par(matched)
        return self._allowed([key for key, _ in chosen])  # what went wrong shows there

    def _allowed(self, keys: Sequence[int]) -> list[bytes | str]:
        if self._executor is None or len(keys) == 1:
            return [self._bits(key, bytearray(self._outputs[key][0].compute_bitmask())) for key in keys]
        masks = bytearray(len(keys) * self._room)
        place = ctypes.addressof(ctypes.c_char.from_buffer(masks))
        matchers = [(self._outputs[key][0], index) for index, key in enumerate(keys)]
        self._executor.unsafe_compute_mask_ptr(matchers, place, self._room, len(keys))
        return [self._bits(key, masks[index * self._room : (index + 1) * self._room]) for index, key in enumerate(keys)]

    def _bits(self, key: int, bits: bytearray) -> bytes | str:
        matcher, ends = self._outputs[key]
        if matcher.is_error():
            reason = _reason(matcher)
            return STUCK if "NoExtension" in reason else f"the grammar cannot go on: {reason}"
        may_end = matcher.is_accepting()
        _set(bits, self._vocab, False)
        for token in ends:
            _set(bits, token, may_end)
        found = bytes(bits[: self._bytes])
        return STUCK if found.count(0) == self._bytes else found


class Vocabulary:
    """As the library wants one."""

    def __init__(self, texts: Sequence[bytes], signs: Collection[int]) -> None:
        self.tokens = [*(text if len(text) <= LONGEST_TEXT else b"" for text in texts), END]
        self.eos_token_id = len(texts)
        self.bos_token_id = None
        self.special_token_ids = [*(sign for sign in signs if texts[sign]), len(texts)]

    def __call__(self, text: str) -> list[int]:
        raise NotImplementedError("no text is forced, so none is cut into tokens")


def serve(connection: Connection) -> None:
    try:
        library = Library(*connection.recv())
    except ImportError:
        connection.send("the package llguidance is missing: pip install paceline[grammar]")
        return
    connection.send(None)
    while True:
        connection.send(library.answer(connection.recv()))


def main() -> None:
    with suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a daemon that is killed cannot end it
    with suppress(EOFError, OSError):  # the daemon is gone
        serve(Connection(int(sys.argv[1])))


def _reason(matcher: LLMatcher) -> str:
    """On one line, without the lines of the grammar that the library shows below it."""
    text = " ".join(QUOTED.split(matcher.get_error())[0].split())
    if text.startswith("panic"):
        return TOO_LARGE
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _set(bits: bytearray, token: int, on: bool) -> None:
    bits[token // 8] = bits[token // 8] & ~(1 << token % 8) | on << token % 8


if __name__ == "__main__":
    main()
