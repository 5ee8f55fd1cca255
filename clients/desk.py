"""Routes what the daemon sends to whoever waits for it: replies by the order of lines, tokens and events by request. No
I/O, no clock, no lock.

A desk serves one daemon, from its first line to its end. A request is in its table from the reply to its START to its
terminal, just as long as it is live for the daemon: if its id is used again, nothing of the earlier request is left."""

from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ..protocol import (
    LARGEST_REQUEST,
    TERMINALS,
    Frame,
    Item,
    Message,
    Refusal,
    Restore,
    RestoreChain,
    Start,
    parse,
)
from .errors import DaemonGone, Refused

Body = dict[str, Any]
ENDS = ("device_lost", "internal")  # with these a dying daemon refuses lines that it has read but not begun
Deliver = Callable[[Item | DaemonGone], object]
Watch = Deliver | None


class Sent(NamedTuple):
    """A line: who waits for its reply, and which request it starts, None for no request."""

    reply: "Future[Body]"
    starts: int | None
    deliver: Deliver | None


class Desk:
    """`ready` gets the ready event, `events` those that belong to no stream; `gone` says why the daemon has ended."""

    def __init__(self, ready: "Future[Body]", events: Callable[[Body | DaemonGone], object]) -> None:
        self.gone: DaemonGone | None = None
        self._ready = ready
        self._events = events
        self._answered = 0  # lines
        self._waiting: deque[Sent] = deque()
        self._lost: list[Future[Body]] = []  # refused with such a code: they are told the daemon's last words
        self._starting: dict[int, Future[Body]] = {}  # the reply to the last START of an id, until it comes
        self._live: dict[int, Deliver | None] = {}  # None: nobody reads its tokens
        self._last_id = 0

    def line(self, reply: "Future[Body]", starts: int | None = None, deliver: Deliver | None = None) -> None:
        """To be called for each line, in the order of writing; raises DaemonGone when none can be written any more. If
        the line starts a request that is accepted, `deliver` gets what comes for it, or why nothing more will."""
        if self.gone:
            raise self.gone.with_traceback(None)  # one object for all: else each raise would lengthen it
        self._waiting.append(Sent(reply, starts, deliver))
        if starts is not None:
            self._starting[starts] = reply

    def free_id(self) -> int:
        while True:
            self._last_id = self._last_id % LARGEST_REQUEST + 1
            if self._last_id not in self._live and self._last_id not in self._starting:
                return self._last_id

    def take(self, item: Item) -> None:
        """Raises ValueError for an item that makes no sense; nothing after it can be trusted."""
        match item:
            case Frame(req_id, value):
                # off the table first: a reader that saw the terminal may use the id again
                deliver = self._live.pop(req_id, None) if value in TERMINALS else self._live.get(req_id)
                if deliver:
                    deliver(item)
            case Message(body={"re": line} as body):
                self._settle(line, body)
            case Message(body={"event": "ready"} as body):
                if self._ready.done():
                    raise ValueError("a second ready event came")
                self._ready.set_result(body)
            case Message(req_id, body):
                deliver = self._live.get(req_id or body.get("req", 0))
                deliver(item) if deliver else self._events(body)

    def give_up(self, gone: DaemonGone) -> None:
        """Nothing more will come: every waiter is told, and every later line is refused."""
        self.gone = gone
        for reply in (self._ready, *self._lost, *(line.reply for line in self._waiting)):
            if not reply.done():
                reply.set_exception(gone)
        for deliver in (*filter(None, self._live.values()), self._events):
            deliver(gone)
        self._waiting.clear()
        self._lost.clear()
        self._starting.clear()
        self._live.clear()

    def _settle(self, number: int, body: Body) -> None:
        expected = self._answered + 1 if self._waiting else "no line"
        if number != expected:
            raise ValueError(f"a reply to line {number} came, expected one to {expected}")
        self._answered += 1
        line = self._waiting.popleft()
        self._begin(line, accepted=bool(body.get("ok")))
        reply = line.reply
        if reply.done():  # nobody waits any more
            return
        if body.get("ok"):
            reply.set_result(body)
        elif body.get("code") in ENDS:
            self._lost.append(reply)
        else:
            reply.set_exception(Refused(body.get("code", ""), body.get("error", "")))

    def _begin(self, line: Sent, accepted: bool) -> None:
        if line.starts is None:
            return
        if self._starting.get(line.starts) is line.reply:  # no later line starts the same id
            del self._starting[line.starts]
        if accepted:
            self._live[line.starts] = line.deliver


def one_command(line: str) -> bytes:
    """The bytes of a line that gets exactly one reply; raises ValueError for any other."""
    if not line.strip() or line.startswith("#") or "\n" in line:
        raise ValueError(f"{line!r} would get no reply of its own, expected one command")
    return line.encode() + b"\n"


def started_by(line: str) -> int | None:
    """The id of the request that a line starts, None for any other line."""
    try:
        command = parse(line.removesuffix("\r"))
    except Refusal:  # the daemon will say so
        return None
    return command.req_id if isinstance(command, Start | Restore | RestoreChain) else None
