"""A response as bytes: a stream's events in their order, or one body."""

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..news import Counts, Ended, News
from ..refused import HttpRefused
from ..requests.responses import ResponseAsked
from ..texts import Texts
from .openai import Body
from .responses import BEGUN, CUT_OFF, DONE, Items, ResponseShape
from .sse import event
from .whole import Answer


class ResponsesWriter:
    def __init__(self, asked: ResponseAsked, model: str, texts: Texts) -> None:
        self._shape = ResponseShape("resp_" + secrets.token_hex(12), model, int(time.time()), asked.repeated)
        self._items = Items(texts.spell, asked.asked.logprobs)
        self._sent = 0  # events

    def begin(self, counts: Counts) -> bytes:
        begun = self._shape.around(BEGUN, [])
        return self._events({"type": f"response.{kind}", "response": begun} for kind in ("created", BEGUN))

    def keep_alive(self) -> bytes:
        return self._events([{"type": f"response.{BEGUN}", "response": self._shape.around(BEGUN, [])}])

    def write(self, news: News, counts: Counts) -> bytes:
        if not isinstance(news.what, Ended):
            return self._events(self._items.piece(news.what))
        reason = news.what.reason
        status = CUT_OFF if reason == "length" else DONE
        closing = self._events(self._items.end(status))
        response = self._shape.ended(reason, self._items.done, counts)
        return closing + self._events([{"type": f"response.{status}", "response": response}])

    def finish(self, counts: Counts) -> bytes:
        return b""

    def failed(self, refused: HttpRefused) -> bytes:
        error = {"code": "server_error", "message": refused.message}  # OpenAI's list of codes has none that says more
        response = self._shape.around("failed", self._items.done, error=error)
        return self._events([{"type": "response.failed", "response": response}])

    def whole(self, answers: Sequence[Answer], counts: Counts) -> dict[str, Any]:
        (answer,) = answers
        return self._shape.ended(answer.reason, self._items.all_of(answer), counts)

    def _events(self, bodies: Iterable[Body]) -> bytes:
        data = []
        for body in bodies:
            data.append(event(body | {"sequence_number": self._sent}, named=True))
            self._sent += 1
        return b"".join(data)
