"""Grammars of outputs, compiled by llguidance over what the model's tokens stand for.

The library and the vocabulary are loaded for the first grammar; that takes about a second where there are 150,000
tokens. Whatever else the library does is bounded by its own limits.
"""

from __future__ import annotations

import ctypes
import re
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..protocol import Grammar, Refusal
from .constraints import NO_TEXTS, Stuck
from .engine import Engine
from .plan import Pieces
from .sentences import shorten

if TYPE_CHECKING:
    from llguidance import LLExecutor, LLMatcher, LLTokenizer

KEPT: Final = 32
"""Compiled grammars: a client often sends one of a few."""

RULES: Final = '\n%llguidance {"no_forcing": true}\n'
"""Forced text would have to be cut into tokens as the model's tokenizer does; so its tokens are chosen, like others."""

STUCK: Final = "no token of the vocabulary continues what the grammar allows"
QUOTED: Final = re.compile(r"^ *\d+ \| ", re.MULTILINE)
PLACE: Final = re.compile(r"^at \d+\(\d+\): ")  # means something only where we have not written what is around it


class Output(NamedTuple):
    """A request's output in a grammar."""

    matcher: LLMatcher
    ends: Collection[int]


class Library:
    """llguidance with the vocabulary of an engine. That has one token more here, its end, which is allowed where a text
    may end; there a request's own ends are."""

    def __init__(self, pieces: Pieces, vocab: int, threads: int) -> None:
        import llguidance

        self._vocab = vocab
        self._bytes = (vocab + 31) // 32 * 4
        self._room = (vocab + 1 + 31) // 32 * 4
        self.tokenizer: LLTokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Vocabulary(pieces, vocab)))
        self._limits = llguidance.LLParserLimits(verbose_errors=False)
        self._executor: LLExecutor | None = llguidance.LLExecutor(threads) if threads > 1 else None

    def compile(self, grammar: Grammar) -> LLMatcher:
        """Raises Refusal."""
        import llguidance

        lark = grammar.text if grammar.kind == "lark" else f"start: {grammar.rule}"
        matcher = llguidance.LLMatcher(self.tokenizer, lark + RULES, log_level=0, limits=self._limits)
        if matcher.is_error():
            reason = _reason(matcher)
            raise Refusal("bad_argument", f"grammar: {reason if grammar.kind == 'lark' else PLACE.sub('', reason)}")
        return matcher

    def allowed(self, outputs: Sequence[Output]) -> list[bytes | Stuck]:
        if self._executor is None or len(outputs) == 1:
            return [self._bits(output, bytearray(output.matcher.compute_bitmask())) for output in outputs]
        masks = bytearray(len(outputs) * self._room)
        place = ctypes.addressof(ctypes.c_char.from_buffer(masks))
        matchers = [(output.matcher, index) for index, output in enumerate(outputs)]
        self._executor.unsafe_compute_mask_ptr(matchers, place, self._room, len(outputs))
        return [
            self._bits(output, masks[index * self._room : (index + 1) * self._room])
            for index, output in enumerate(outputs)
        ]

    def follow(self, chosen: Sequence[tuple[Output, int]]) -> list[bytes | Stuck]:
        matched = [(output.matcher, token) for output, token in chosen]
        if self._executor is None or len(chosen) == 1:
            for matcher, token in matched:
                matcher.consume_token(token)
        else:
            self._executor.consume_token_par(matched)
        return self.allowed([output for output, _ in chosen])  # what went wrong shows there

    def _bits(self, output: Output, bits: bytearray) -> bytes | Stuck:
        if output.matcher.is_error():
            reason = _reason(output.matcher)
            return Stuck(STUCK if "NoExtension" in reason else f"the grammar cannot go on: {reason}")
        may_end = bool(bits[self._vocab // 8] >> self._vocab % 8 & 1)
        _set(bits, self._vocab, False)
        for token in output.ends:
            _set(bits, token, may_end)
        found = bytes(bits[: self._bytes])
        return Stuck(STUCK) if found.count(0) == self._bytes else found


class TextGrammars:
    """For one engine. With several `threads`, outputs are looked at side by side. That is for steps on a device: where
    this processor computes them, threads that wait for the next one would be disturbed (of 16 rows' speed, 4 %)."""

    def __init__(self, engine: Engine, threads: int = 1) -> None:
        self._engine = engine
        self._threads = threads
        self._library: Library | None = None
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()

    def begin(self, grammar: Grammar, ends: Collection[int]) -> tuple[Output, bytes]:
        library = self._library = self._library or self._load()
        matcher = self._compiled.get(grammar) or library.compile(grammar)
        self._compiled[grammar] = matcher
        self._compiled.move_to_end(grammar)
        if len(self._compiled) > KEPT:
            self._compiled.popitem(last=False)
        output = Output(matcher.deep_copy(), ends)
        (found,) = library.allowed([output])
        if isinstance(found, Stuck):
            raise Refusal("bad_argument", f"grammar: {found.error}")
        return output, found

    def follow(self, chosen: Sequence[tuple[Output, int]]) -> Sequence[bytes | Stuck]:
        assert self._library is not None  # some have begun
        return self._library.follow(chosen)

    def _load(self) -> Library:
        pieces = self._engine.pieces()
        if pieces is None:
            raise Refusal("unsupported", NO_TEXTS)
        try:
            return Library(pieces, self._engine.info.vocab, self._threads)
        except ImportError:
            error = "grammar: the package llguidance is missing: pip install paceline[grammar]"
            raise Refusal("unsupported", error) from None


class _Vocabulary:
    """As the library wants one."""

    def __init__(self, pieces: Pieces, vocab: int) -> None:
        self.tokens = [*pieces.texts[:vocab], b"<end>"]
        self.eos_token_id = vocab
        self.bos_token_id = None
        self.special_token_ids = [*(sign for sign in pieces.signs if sign < vocab), vocab]

    def __call__(self, text: str) -> list[int]:
        raise NotImplementedError("no text is forced, so none is cut into tokens")


def _reason(matcher: LLMatcher) -> str:
    """On one line, without the lines of the grammar that the library shows below it."""
    return shorten(" ".join(QUOTED.split(matcher.get_error())[0].split()))


def _set(bits: bytearray, token: int, on: bool) -> None:
    bits[token // 8] = bits[token // 8] & ~(1 << token % 8) | on << token % 8
