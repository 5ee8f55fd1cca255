"""The process in which llguidance runs: `python -m paceline.daemon.grammar_worker FD` answers on that socket.

A process of its own, because a small grammar can take all the time and memory there is, or the stack: then this one is
ended, and the daemon goes on. It ends by itself when the daemon does. Each message gets one answer:

    (BEGIN, key, lark, ends)        bits, or a reason (text) why it is refused
    (FOLLOW, [(key, tokens, guess, most), …])
                                    for each (bits of the next token and behind each of a draft, draft, how many of its
                                    tokens are guesses), or a reason why nothing follows
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
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from llguidance import LLExecutor, LLMatcher

BEGIN, FOLLOW, FORGET = "begin", "follow", "forget"
MOST_BYTES: Final = 4 << 30
PR_SET_PDEATHSIG: Final = 1
RULES: Final = '\n%llguidance {"no_forcing": true}\n'
"""Forced text would have to be cut into tokens as the model's tokenizer does; so its tokens are chosen, like others."""

END: Final = b"< >"  # no grammar can name it
LONGEST_FORCED: Final = 32  # bytes of a token that are looked for
LONGEST_TEXT: Final = 1024  # bytes of a token, for the library
MOST_ITEMS: Final = 1 << 14  # of a place in a grammar: some three thousand properties that may be left out
STUCK: Final = "no token of the vocabulary continues what the grammar allows"
LONGEST_LOOK: Final = 0.02  # seconds ahead; usual ones take a hundredth of that
TOO_LARGE: Final = "it takes more than the library can do"
QUOTED: Final = re.compile(r"^ *\d+ \| ", re.MULTILINE)
SHOWN: Final = 200
Found = tuple[tuple[bytes, ...], tuple[int, ...], int]
"""As constraints.Ahead."""


@dataclass(slots=True)
class Output:
    """What an output has been given, so that it can be read anew."""

    matcher: LLMatcher
    lark: str
    ends: Collection[int]
    tokens: list[int] = field(default_factory=list)
    looks_ahead: bool = True


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
        self._limits = llguidance.LLParserLimits(verbose_errors=False, max_items_in_row=MOST_ITEMS)
        self._executor: LLExecutor | None = llguidance.LLExecutor(threads) if threads > 1 else None
        self._outputs: dict[int, Output] = {}
        self._tokens = {text: token for token, text in reversed(list(enumerate(texts))) if token not in signs}

    def answer(self, message: tuple[Any, ...]) -> Any:
        match message:
            case (kind, key, lark, ends) if kind == BEGIN:
                return self._begin(key, lark, ends)
            case (kind, given) if kind == FOLLOW:
                return self._follow(given)
        for key in message[1]:
            self._outputs.pop(key, None)
        return None

    def _begin(self, key: int, lark: str, ends: Collection[int]) -> bytes | str:
        matcher = self._compiled(lark)
        if matcher.is_error():
            return _reason(matcher)
        self._outputs[key] = Output(matcher, lark, ends)
        return self._allowed([key])[0]

    def _compiled(self, lark: str) -> LLMatcher:
        import llguidance

        return llguidance.LLMatcher(self._tokenizer, lark + RULES, log_level=0, limits=self._limits)

    def _follow(self, given: Sequence[tuple[int, Sequence[int], Sequence[int], int]]) -> list[Found | str]:
        outputs = [self._outputs[key] for key, *_ in given]
        for output, (_, tokens, _, _) in zip(outputs, given, strict=True):
            output.tokens += tokens
        if self._executor is None or len(given) == 1 or any(len(tokens) > 1 for _, tokens, _, _ in given):
            for output, (_, tokens, _, _) in zip(outputs, given, strict=True):
                for token in tokens:
                    output.matcher.consume_token(token)
        else:
            chosen = zip(outputs, given, strict=True)
            self._executor.consume_token_par([(output.matcher, tokens[0]) for output, (_, tokens, _, _) in chosen])
        allowed = self._allowed([key for key, *_ in given])  # what went wrong shows there
        return [
            bits if isinstance(bits, str) else self._ahead(output, bits, guess, most)
            for output, bits, (_, _, guess, most) in zip(outputs, allowed, given, strict=True)
        ]

    def _ahead(self, output: Output, bits: bytes, guess: Sequence[int], most: int) -> Found:
        """How the output may go on: as `guess` says while that is allowed, then as it has to. A grammar that cannot be
        taken back, or where that takes long, is looked at no more."""
        sets, draft, guessed, consumed = [bits], list[int](), 0, 0
        begun = perf_counter()
        while len(draft) < most and output.looks_ahead:
            token = guess[guessed] if guessed == len(draft) < len(guess) else None
            guesses = token is not None and _has(sets[-1], token) and token not in output.ends
            if not guesses:
                token = self._forced(output, sets[-1])
            if token is None:
                break
            output.matcher.consume_token(token)
            consumed += 1
            behind = self._bits(output, bytearray(output.matcher.compute_bitmask()))
            if isinstance(behind, str):
                break
            draft.append(token)
            sets.append(behind)
            guessed += guesses
            output.looks_ahead = perf_counter() - begun < LONGEST_LOOK
        if consumed and (not output.matcher.rollback(consumed) or output.matcher.is_error()):
            output.looks_ahead = False
            self._read_anew(output)
        return tuple(sets), tuple(draft), guessed

    def _forced(self, output: Output, bits: bytes) -> int | None:
        """The longest token of what the text has to go on with."""
        text = output.matcher.compute_ff_bytes()
        for end in range(min(len(text), LONGEST_FORCED), 0, -1):
            token = self._tokens.get(text[:end])
            if token is not None and _has(bits, token):
                return token
        return None

    def _read_anew(self, output: Output) -> None:
        """As if nothing ahead had been looked at."""
        output.matcher = self._compiled(output.lark)
        for token in output.tokens:
            output.matcher.consume_token(token)

    def _allowed(self, keys: Sequence[int]) -> list[bytes | str]:
        outputs = [self._outputs[key] for key in keys]
        if self._executor is None or len(keys) == 1:
            return [self._bits(output, bytearray(output.matcher.compute_bitmask())) for output in outputs]
        masks = bytearray(len(keys) * self._room)
        place = ctypes.addressof(ctypes.c_char.from_buffer(masks))
        matchers = [(output.matcher, index) for index, output in enumerate(outputs)]
        self._executor.unsafe_compute_mask_ptr(matchers, place, self._room, len(keys))
        return [
            self._bits(output, masks[index * self._room : (index + 1) * self._room])
            for index, output in enumerate(outputs)
        ]

    def _bits(self, output: Output, bits: bytearray) -> bytes | str:
        if output.matcher.is_error():
            reason = _reason(output.matcher)
            return STUCK if "NoExtension" in reason else f"the grammar cannot go on: {reason}"
        may_end = output.matcher.is_accepting()
        _set(bits, self._vocab, False)
        for token in output.ends:
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


def _has(bits: bytes, token: int) -> bool:
    return bool(bits[token // 8] >> token % 8 & 1)


def _set(bits: bytearray, token: int, on: bool) -> None:
    bits[token // 8] = bits[token // 8] & ~(1 << token % 8) | on << token % 8


if __name__ == "__main__":
    main()
