"""What has been read of one request, whichever way its reader waits."""

from typing import Any, NamedTuple

from ..protocol import FAILED, TERMINALS, Frame, Item, Message
from .errors import DaemonGone, RequestFailed

Body = dict[str, Any]


class Token(NamedTuple):
    """`logprobs` is the event that came before the token, None unless START asked for it."""

    id: int
    logprobs: Body | None


class Received:
    """`reply` is the answer to its START; `end` is the end event, None until the terminal was read; `events` are the
    others; `live` is False as soon as the terminal has come, read or not."""

    def __init__(self, req_id: int) -> None:
        self.req_id = req_id
        self.reply: Body = {}
        self.end: Body | None = None
        self.events: list[Body] = []
        self.live = True
        self._told: Body | None = None
        self._problem: Exception | None = None
        self._over = False

    def _note(self, item: Item | DaemonGone) -> None:
        """For `deliver`: called when an item comes, long before it is read."""
        if isinstance(item, DaemonGone) or (isinstance(item, Frame) and item.value in TERMINALS):
            self.live = False

    def _read(self, item: Item | DaemonGone) -> Frame | None:
        """The frame that is to be seen, if it is one; afterwards `_problem` is what ended the stream in its place."""
        match item:
            case Message(body={"event": "end"} as body):
                self.end = body
            case Message(body=body):
                self.events.append(body)
                self._told = body if body.get("event") == "logprobs" else self._told
            case Frame(value=value):
                self._over = value in TERMINALS
                if value != FAILED:
                    return item
                end = self.end or {}
                self._problem = RequestFailed(end.get("code", "failed"), end.get("error", "no reason was given"))
            case DaemonGone():
                self._problem = item
        return None

    def _token(self, frame: Frame) -> Token:
        told, self._told = self._told, None
        return Token(frame.value, told)
