"""How models mark their thoughts in the text of an answer: <think>…</think>. Gemma 4 calls them a channel, and may
think again behind something that it said. Command R7B marks what it says, too.

Whether a model does is read from its chat template, which has to know the marks to leave old thoughts out of a
conversation."""

from typing import Final, NamedTuple


class Marks(NamedTuple):
    """If there are `strays`, there may be several thoughts in an answer, and what stands alone of these marks is no
    part of it."""

    begin: str
    end: str
    strays: tuple[str, ...] = ()

    def closed(self, prompt: str) -> str:
        """The prompt, and if it ends with the beginning of a thought, its end: the answer is to come at once."""
        return f"{prompt}\n{self.end}\n\n" if prompt.rstrip().endswith(self.begin) else prompt


KNOWN: Final = (
    Marks("<think>", "</think>"),
    Marks("[THINK]", "[/THINK]"),
    Marks("<seed:think>", "</seed:think>"),
    Marks(
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        tuple(f"<|{side}_{part}|>" for part in ("THINKING", "RESPONSE", "TEXT") for side in ("START", "END")),
    ),  # Command R7B, Command A
    Marks("<|channel>thought", "<channel|>", ("<|channel>", "<channel|>")),  # Gemma 4
)


def marks_of(template: str) -> Marks | None:
    """The marks that occur in the source of a chat template."""
    return next((marks for marks in KNOWN if marks.end in template), None)
