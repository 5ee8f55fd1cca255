"""One request's answers as bytes: a stream's events in their order, or one body. A writer for each API."""

import secrets
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

from ..news import Counts, Ended, News
from ..refused import HttpRefused, anthropic_error, openai_error
from ..requests.asked import Asked
from ..texts import Texts
from . import anthropic
from .openai import ChatShape, CompletionShape, Envelope, usage
from .sse import DONE, dumped, event
from .whole import Answer

PING: Final = event({"type": "ping"}, named=True)


class Writer(Protocol):
    """`keep_alive` is what a stream sends while there is no news: an event that says nothing, since some clients give
    up on a stream without events, whatever comments it has."""

    def keep_alive(self) -> bytes: ...
    def begin(self, counts: Counts) -> bytes: ...
    def write(self, news: News, counts: Counts) -> bytes: ...
    def finish(self, counts: Counts) -> bytes: ...
    def failed(self, refused: HttpRefused) -> bytes: ...
    def whole(self, answers: Sequence[Answer], counts: Counts) -> dict[str, Any]: ...


class OpenAIWriter:
    def __init__(self, kind: type[ChatShape] | type[CompletionShape], asked: Asked, model: str, texts: Texts) -> None:
        self._shape = kind(texts.spell, asked.logprobs)
        self._envelope = Envelope(self._shape.prefix + secrets.token_hex(12), model, int(time.time()))
        self._asked = asked
        self._more = {"usage": None} if asked.usage else {}  # as in OpenAI's: in every chunk, but null
        self._answers = len(asked.prompts) * asked.n
        self._live = set(range(self._answers))
        # What every chunk has around its one choice.
        constant = dumped(self._envelope.around(self._shape.chunk, [{}], **self._more))
        self._before, self._after = constant.rsplit("{}", 1)

    def begin(self, counts: Counts) -> bytes:
        choices = [choice for index in range(self._answers) for choice in self._shape.opening(index)]
        return b"".join(map(self._chunk, choices))

    def keep_alive(self) -> bytes:
        return self._chunk(self._shape.nothing(min(self._live, default=0)))

    def write(self, news: News, counts: Counts) -> bytes:
        if isinstance(news.what, Ended):
            self._live.discard(news.number)
            return self._chunk(self._shape.closing(news.number, news.what.reason))
        return self._chunk(self._shape.piece(news.number, news.what))

    def finish(self, counts: Counts) -> bytes:
        if not self._asked.usage:
            return DONE
        return (
            event(self._envelope.around(self._shape.chunk, [], usage=usage(counts, bool(self._asked.prediction))))
            + DONE
        )

    def failed(self, refused: HttpRefused) -> bytes:
        return event(openai_error(refused))

    def whole(self, answers: Sequence[Answer], counts: Counts) -> dict[str, Any]:
        choices = [self._shape.whole(index, answer) for index, answer in enumerate(answers)]
        return self._envelope.around(self._shape.name, choices, usage=usage(counts, bool(self._asked.prediction)))

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        return f"data: {self._before}{dumped(choice)}{self._after}\n\n".encode()


class AnthropicWriter:
    def __init__(self, model: str) -> None:
        self._name = "msg_" + secrets.token_hex(12)
        self._model = model
        self._blocks = anthropic.Blocks()

    def begin(self, counts: Counts) -> bytes:
        return _events([anthropic.opening(self._name, self._model, counts)])

    def keep_alive(self) -> bytes:
        return PING

    def write(self, news: News, counts: Counts) -> bytes:
        match news.what:
            case Ended(reason, stopped):
                return _events([*self._blocks.close(), *anthropic.closing(reason, stopped, counts)])
            case delta:
                return _events(self._blocks.piece(delta))

    def finish(self, counts: Counts) -> bytes:
        return b""

    def failed(self, refused: HttpRefused) -> bytes:
        return _events([anthropic_error(refused)])

    def whole(self, answers: Sequence[Answer], counts: Counts) -> dict[str, Any]:
        return anthropic.message(self._name, self._model, answers[0], counts)


def _events(bodies: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(event(body, named=True) for body in bodies)
