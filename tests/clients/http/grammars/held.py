"""A vocabulary of bytes and marks, and whether an answer fits a grammar: tried token by token, as the daemon does."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paceline.clients.detokenizer import Detokenizer
from paceline.clients.harmony import MARKS, harmony_marks
from paceline.clients.http.grammars.answers import Held
from paceline.clients.http.speech.call_marks import CallMarks
from paceline.clients.thoughts import Marks
from paceline.daemon.constraints import Given, Stuck
from paceline.daemon.grammars import TextGrammars
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Pieces
from paceline.protocol import Grammar

SPECIAL = [
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    *(*MARKS, "[TOOL_CALLS]", "[ARGS]"),
    *(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    *("<|START_ACTION|>", "<|END_ACTION|>"),
    *("<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"),
    *("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>', "<eos>"),
]
TEXTS = [*(bytes([byte]) for byte in range(256)), *(mark.encode() for mark in SPECIAL)]
EOS = len(TEXTS) - 1
SPLIT = re.compile("|".join(map(re.escape, SPECIAL)))


class Words:
    """Every byte is a token, and so are the marks."""

    def encode(self, text: str) -> list[int]:
        ids, at = [], 0
        for mark in SPLIT.finditer(text):
            ids += [*text[at : mark.start()].encode(), 256 + SPECIAL.index(mark[0])]
            at = mark.end()
        return [*ids, *text[at:].encode()]

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(TEXTS)


class Engine(NullEngine):
    def __init__(self) -> None:
        super().__init__()
        self.info = replace(self.info, vocab=len(TEXTS))

    def pieces(self) -> Any:
        return Pieces(TEXTS, frozenset(range(256, len(TEXTS))))


GRAMMARS = TextGrammars(Engine())


def fits(grammar: Grammar | None, answer: str, ids: Sequence[int] = ()) -> bool:
    assert grammar is not None
    output, found = GRAMMARS.begin(grammar, (EOS,))
    for token in [*(ids or Words().encode(answer)), EOS]:
        assert isinstance(found, bytes), found
        if not found[token // 8] >> token % 8 & 1:
            return False
        if token != EOS:
            (ahead,) = GRAMMARS.follow([Given(output, [token])])
            found = ahead if isinstance(ahead, Stuck) else ahead.allowed[0]
    return True


def held(thoughts: Marks | None = None, calls: CallMarks | None = None, harmony: bool = False) -> Held:
    words = Words()
    marks = harmony_marks("<|channel|><|message|>", words) if harmony else {}
    return Held(words, thoughts, calls, marks)
