"""Grammars of outputs, compiled by llguidance over what the model's tokens stand for.

The library and the vocabulary are loaded for the first grammar; that takes about a second where there are 150,000
tokens. Whatever else the library does is bounded by its own limits.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from ..protocol import Grammar, Refusal
from .constraints import Constraint, NothingFollows, constrain_nothing
from .engine import Engine
from .plan import Pieces
from .sentences import shorten

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

KEPT: Final = 32
"""Compiled grammars: a client often sends one of a few."""

RULES: Final = '\n%llguidance {"no_forcing": true}\n'
"""Forced text would have to be cut into tokens as the model's tokenizer does; so its tokens are chosen, like others."""

STUCK: Final = "no token of the vocabulary continues what the grammar allows"
QUOTED: Final = re.compile(r"^ *\d+ \| ", re.MULTILINE)
PLACE: Final = re.compile(r"^at \d+\(\d+\): ")  # means something only where we have not written what is around it


class Output:
    """A request's output in a grammar. The vocabulary has one token more here, its end, which is allowed where the text
    may end; there the request's own ends are."""

    def __init__(self, matcher: LLMatcher, vocab: int, ends: Collection[int]) -> None:
        self._matcher = matcher
        self._vocab = vocab
        self._ends = ends

    def allowed(self) -> bytes:
        bits = bytearray(self._matcher.compute_bitmask())
        if self._matcher.is_error():
            reason = _reason(self._matcher)
            raise NothingFollows(STUCK if "NoExtension" in reason else f"the grammar cannot go on: {reason}")
        may_end = _has(bits, self._vocab)
        _set(bits, self._vocab, False)
        for token in self._ends:
            _set(bits, token, may_end)
        size = (self._vocab + 31) // 32 * 4
        found = bytes(bits[:size].ljust(size, b"\0"))
        if found.count(0) == size:
            raise NothingFollows(STUCK)
        return found

    def follow(self, token: int) -> None:
        self._matcher.consume_token(token)  # what goes wrong shows in allowed()


class Grammars:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tokenizer: LLTokenizer | None = None
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()

    def __call__(self, grammar: Grammar, ends: Collection[int]) -> Constraint:
        """Raises Refusal."""
        matcher = self._compiled.get(grammar) or self._compile(grammar, ends)
        self._compiled[grammar] = matcher
        self._compiled.move_to_end(grammar)
        if len(self._compiled) > KEPT:
            self._compiled.popitem(last=False)
        return Output(matcher.deep_copy(), self._engine.info.vocab, ends)

    def _compile(self, grammar: Grammar, ends: Collection[int]) -> LLMatcher:
        try:
            import llguidance
        except ImportError:
            raise Refusal(
                "unsupported",
                "grammar: the package llguidance is missing: pip install paceline[grammar]",
            ) from None
        if self._tokenizer is None:
            pieces = self._engine.pieces() or constrain_nothing(grammar, ends)
            vocabulary = _Vocabulary(pieces, self._engine.info.vocab)
            self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
        lark = grammar.text if grammar.kind == "lark" else f"start: {grammar.rule}"
        limits = llguidance.LLParserLimits(verbose_errors=False)
        matcher = llguidance.LLMatcher(self._tokenizer, lark + RULES, log_level=0, limits=limits)
        if matcher.is_error():
            reason = _reason(matcher)
            raise Refusal("bad_argument", f"grammar: {reason if grammar.kind == 'lark' else PLACE.sub('', reason)}")
        return matcher


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


def _has(bits: bytearray, token: int) -> bool:
    return bool(bits[token // 8] >> token % 8 & 1)


def _set(bits: bytearray, token: int, on: bool) -> None:
    bits[token // 8] = bits[token // 8] & ~(1 << token % 8) | on << token % 8
