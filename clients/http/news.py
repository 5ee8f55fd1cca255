"""What is told of an HTTP request's answers while they are generated."""

from dataclasses import dataclass
from typing import NamedTuple

from .speech.cutter import Delta


@dataclass(frozen=True, slots=True)
class Counts:
    """In tokens; `cached` are those of the prompt that were not computed again, `thought` those of the answer that are
    reasoning, `tried` those that steps tried ahead, and `right` how many of these the answer has."""

    prompt: int = 0
    answer: int = 0
    cached: int = 0
    thought: int = 0
    tried: int = 0
    right: int = 0


class Ended(NamedTuple):
    """`reason` is the daemon's: eos, stop or length; or calls, if it ended with one; `stopped` the stop string that
    ended it."""

    reason: str
    stopped: str | None


class News(NamedTuple):
    """What is new of the answer of this number."""

    number: int
    what: Delta | Ended
