"""What a request asks for, whichever API it came through."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from .formats import Format
from .tools import Tools

MOST_ANSWERS: Final = 16
MOST_STOPS: Final = 16
SEEDS: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Text:
    """With a `suffix`, the answer is what stands between the two."""

    text: str
    suffix: str = ""

    param: ClassVar[str] = "prompt"


@dataclass(frozen=True, slots=True)
class Ids:
    tokens: tuple[int, ...]

    param: ClassVar[str] = "prompt"


@dataclass(frozen=True, slots=True)
class Chat:
    """`messages` are what a chat template takes: a role and a text each, and calls of tools; `names` are further
    variables for it, `tools` what the answer may call, `param` the field that the messages came in."""

    messages: tuple[dict[str, Any], ...]
    names: Mapping[str, Any] = field(default_factory=dict)
    tools: Tools | None = None
    param: str = "messages"


@dataclass(frozen=True, slots=True)
class Asked:
    """Each prompt is answered `n` times. `most` is the limit of one answer in tokens, None for the server's default,
    and `limit` the field for it. `options` are those of START. `logprobs` is how many of the likeliest to report with
    each token, None for no log probabilities at all; `usage` is whether a stream ends with the counts. `format` is what
    the answers must match, `prediction` what they may be like."""

    prompts: tuple[Text | Ids | Chat, ...]
    most: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    n: int = 1
    stream: bool = False
    usage: bool = False
    logprobs: int | None = None
    echo: bool = False
    limit: str = "max_tokens"
    format: Format | None = None
    prediction: str = ""

    def start_options(self, answer: int) -> dict[str, Any]:
        """For the answer of this number: with a seed, each answer to a prompt gets one of its own."""
        options = dict(self.options)
        if "seed" in options:
            options["seed"] = (options["seed"] + answer % self.n) % SEEDS
        if self.logprobs is not None:
            options["logprobs"] = max(1, self.logprobs)  # with 0 the daemon would not report the token's own either
        return options
