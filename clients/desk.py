"""Who waits for what: replies by the order of lines, tokens and events by their request. No I/O, no clock, no lock.

A desk serves one daemon, from its first line to its end."""

from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Any

from ..protocol import LARGEST_REQUEST, TERMINALS, Frame, Item, Message
from .errors import DaemonGone, Refused

Body = dict[str, Any]
Deliver = Callable[[Item | DaemonGone], object]
Watch = Deliver | None


class Desk:
    """`ready` gets the ready event, `events` those that belong to no stream; `gone` says why the daemon has ended."""

    def __init__(self, ready: "Future[Body]", events: Callable[[Body | DaemonGone], object]) -> None:
        self.gone: DaemonGone | None = None
        self._ready = ready
        self._events = events
        self._answered = 0  # lines
        self._waiting: deque[Future[Body]] = deque()
        self._streams: dict[int, Deliver] = {}
        self._last_id = 0

    def line(self, reply: "Future[Body]") -> None:
        """For each line, in the order of writing; raises DaemonGone when none can be written any more."""
        if self.gone:
            raise self.gone
        self._waiting.append(reply)

    def free_id(self) -> int:
        while True:
            self._last_id = self._last_id % LARGEST_REQUEST + 1
            if self._last_id not in self._streams:
                return self._last_id

    def open(self, req_id: int, deliver: Deliver) -> None:
        """Until its terminal came, `deliver` gets what comes for this request, or why nothing more will."""
        if self.gone:
            raise self.gone
        if req_id in self._streams:
            raise Refused("duplicate_request", f"REQ {req_id}: this request is live, expected an id that is free")
        self._streams[req_id] = deliver

    def forget(self, req_id: int) -> None:
        """Its START was refused."""
        self._streams.pop(req_id, None)

    def take(self, item: Item) -> None:
        """Raises for what makes no sense; nothing after it can be trusted."""
        match item:
            case Frame(req_id, value):
                # off the table first: a reader that saw the terminal may use the id again
                deliver = self._streams.pop(req_id, None) if value in TERMINALS else self._streams.get(req_id)
                if deliver:
                    deliver(item)
            case Message(body={"re": line} as body):
                self._settle(line, body)
            case Message(body={"event": "ready"} as body):
                if self._ready.done():
                    raise ValueError("a second ready event came")
                self._ready.set_result(body)
            case Message(req_id, body):
                deliver = self._streams.get(req_id or body.get("req", 0))
                deliver(item) if deliver else self._events(body)

    def give_up(self, gone: DaemonGone) -> None:
        """Nothing more will come: every waiter is told, and every later line is refused."""
        self.gone = gone
        for reply in (self._ready, *self._waiting):
            if not reply.done():
                reply.set_exception(gone)
        for deliver in (*self._streams.values(), self._events):
            deliver(gone)
        self._waiting.clear()
        self._streams.clear()

    def _settle(self, line: int, body: Body) -> None:
        expected = self._answered + 1 if self._waiting else "no line"
        if line != expected:
            raise ValueError(f"a reply to line {line} came, expected one to {expected}")
        self._answered += 1
        reply = self._waiting.popleft()
        if reply.done():  # nobody waits any more
            return
        if body.get("ok"):
            reply.set_result(body)
        else:
            reply.set_exception(Refused(body.get("code", ""), body.get("error", "")))


def one_command(line: str) -> bytes:
    """The bytes of a line that gets exactly one reply; raises ValueError for any other."""
    if not line.strip() or line.startswith("#") or "\n" in line:
        raise ValueError(f"{line!r} would get no reply of its own, expected one command")
    return line.encode() + b"\n"
