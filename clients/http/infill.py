"""Texts with a gap that a model is to fill in, for those that were trained to: what stands before the gap, what stands
behind it, and a mark for the gap itself.

Which marks a model has is known by its vocabulary, where each is one token."""

from typing import Final, NamedTuple

from ..harmony import Words


class GapMarks(NamedTuple):
    before: str
    behind: str
    gap: str

    def around(self, before: str, behind: str) -> str:
        return f"{self.before}{before}{self.behind}{behind}{self.gap}"


KNOWN: Final = (
    GapMarks("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen, CodeGemma
    GapMarks("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # Granite, StarCoder
    GapMarks("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    GapMarks("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),  # GLM
    GapMarks("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),  # Seed
    GapMarks("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek
    GapMarks("▁<PRE>", "▁<SUF>", "▁<MID>"),  # CodeLlama
)


def gap_marks_of(words: Words) -> GapMarks | None:
    return next((marks for marks in KNOWN if all(_is_a_token(mark, words) for mark in marks)), None)


def _is_a_token(mark: str, words: Words) -> bool:
    ids = words.encode(mark)  # perhaps with a begin token before it
    return bool(ids) and words.detokenizer().piece(ids[-1]) == mark.encode()
