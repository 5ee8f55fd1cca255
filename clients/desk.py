"""Who waits for what: replies by the order of lines, tokens and events by their request. No I/O, no clock, no lock.

A desk serves one daemon, from its first line to its end. What waits for a reply is a future, of threads or of asyncio;
what waits for tokens is anything with `deliver`."""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ..protocol import LARGEST_REQUEST, TERMINALS, Frame, Item, Message
from .errors import DaemonGone, Refused

Body = dict[str, Any]
Watch = Callable[[Item | DaemonGone], object]


class Waiter(Protocol):
    def done(self) -> bool: ...
    def set_result(self, result: Body, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class Receiver(Protocol):
    def deliver(self, item: Item | DaemonGone, /) -> None: ...


R = TypeVar("R", bound=Receiver)


class Desk(Generic[R]):
    """`ready` gets the ready event, `events` those that belong to no stream; `gone` says why the daemon has ended."""

    def __init__(self, ready: Waiter, events: Callable[[Body | DaemonGone], object]) -> None:
        self.gone: DaemonGone | None = None
        self._ready = ready
        self._events = events
        self._lines = 0
        self._waiting: deque[tuple[int, Waiter]] = deque()
        self._streams: dict[int, R] = {}
        self._last_id = 0

    def line(self, reply: Waiter) -> None:
        """For each line, in the order of writing; raises DaemonGone when none can be written any more."""
        if self.gone:
            raise self.gone
        self._lines += 1
        self._waiting.append((self._lines, reply))

    def free_id(self) -> int:
        while True:
            self._last_id = self._last_id % LARGEST_REQUEST + 1
            if self._last_id not in self._streams:
                return self._last_id

    def open(self, req_id: int, stream: R) -> None:
        if req_id in self._streams:
            raise Refused("duplicate_request", f"REQ {req_id}: this request is live, expected an id that is free")
        self._streams[req_id] = stream

    def forget(self, req_id: int) -> None:
        """Its START was refused."""
        self._streams.pop(req_id, None)

    def take(self, item: Item) -> None:
        """Raises for what makes no sense; nothing after it can be trusted."""
        match item:
            case Message(body={"re": line} as body):
                self._settle(line, body)
            case Message(body={"event": "ready"} as body):
                if self._ready.done():
                    raise ValueError("a second ready event came")
                self._ready.set_result(body)
            case Message(req_id, body):
                stream = self._streams.get(req_id or body.get("req", 0))
                stream.deliver(item) if stream else self._events(body)
            case Frame(req_id, value):
                # off the table first: a reader that saw the terminal may use the id again
                stream = self._streams.pop(req_id, None) if value in TERMINALS else self._streams.get(req_id)
                if stream:
                    stream.deliver(item)

    def give_up(self, gone: DaemonGone) -> None:
        """Nothing more will come: every waiter is told, and every later line is refused."""
        self.gone = gone
        for reply in (self._ready, *(reply for _, reply in self._waiting)):
            if not reply.done():
                reply.set_exception(gone)
        for stream in self._streams.values():
            stream.deliver(gone)
        self._waiting.clear()
        self._streams.clear()
        self._events(gone)

    def _settle(self, line: int, body: Body) -> None:
        expected = self._waiting[0][0] if self._waiting else "no line"
        if line != expected:
            raise ValueError(f"a reply to line {line} came, expected one to {expected}")
        _, reply = self._waiting.popleft()
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
