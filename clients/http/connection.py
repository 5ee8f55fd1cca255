"""A connection with limits that uvicorn does not have: on the time until a request's head has arrived, on the head's
size, on the time for a client to take what was written, and on the numbers of idle connections and of others.

One that is closed while its client still sends, as after a refusal that looked at the head alone, is only half closed
at first: the rest is read and dropped. Closed at once, it would be reset, and the client might never see the answer."""

import asyncio
import sys
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, Final

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS: Final = 10.0
HEAD_BYTES: Final = 1 << 16
SEND_SECONDS: Final = 60.0
TOO_LARGE: Final = "The head is too large."
LINGER_SECONDS: Final = 10.0
MOST_AHEAD: Final = 16  # pipelined requests behind the current one, beyond which reading is paused
CROWDED: Final = "paceline.crowded"
"""In a request's scope: whether there were too many others."""
OFFERS: Final = (b"upgrade", b"http2-settings")


class Parser:
    """httptools' parser, made to decline protocol upgrades. httptools takes an offered upgrade as accepted, and expects
    no body after such a head; but Java's client offers HTTP/2 with every request. We accept none (RFC 9110, 7.8), so
    such a head is parsed again without the offer."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._begin()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
                return
            except HttpParserUpgrade as offer:
                if self._parser.get_method() == b"CONNECT":  # no offer, and there is nothing to parse again
                    raise
                head, data = self._connection.head_without_offer(), data[offer.args[0] :]
                self._begin()
                self._parser.feed_data(head)

    def _begin(self) -> None:
        self._parser = HttpRequestParser(self._connection)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does


class Transport:
    """A connection's transport as uvicorn sees it: what close() does is for the connection to say."""

    def __init__(self, transport: asyncio.Transport, connection: "Connection") -> None:
        self._transport = transport
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        self._connection.close(self._transport)

    def is_closing(self) -> bool:
        return self._connection.lingers or self._transport.is_closing()


class Connection(HttpToolsProtocol):
    """`idle` holds a server's connections without a request, in the order in which they became idle. Beyond `most`
    connections, a new one replaces the first of these that has nothing left to send: itself, if there is no other. A
    request that makes more than `most_busy` of them have one is marked as CROWDED."""

    def __init__(
        self,
        *given: Any,
        most_busy: int = sys.maxsize,
        most: int = sys.maxsize,
        idle: dict["Connection", None] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self._most_busy = most_busy
        self._most = most
        self._idle = {} if idle is None else idle
        self._answered: RequestResponseCycle | None = None  # what is being answered, not what came last
        self.parser = Parser(self)  # type: ignore[assignment]
        self._head_late: asyncio.TimerHandle | None = None
        self._send_late: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0
        self._piled = 0  # bytes that came since the piece in which the last head began
        self._in_request = False  # it has begun, and not all of it has come
        self.lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Transport(transport, self))  # type: ignore[arg-type]
        self._await_head()
        self._idle[self] = None
        if len(self.connections) > self._most:
            first = next(one for one in self._idle if not one.transport.get_write_buffer_size())
            del self._idle[first]
            self.connections.discard(first)  # it is lost in the loop's next turn only
            first.transport.abort()

    # The parser calls these, and by itself would take a head of any size.
    def on_message_begin(self) -> None:
        self._in_head = self._in_request = True
        self._head_bytes = self._piled = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if not self._is_offered():
            self._idle.pop(self, None)
            crowded = len(self.connections) - len(self._idle) > self._most_busy
            self.scope[CROWDED] = crowded  # type: ignore[typeddict-unknown-key]
            super().on_headers_complete()
            if not self.pipeline:
                self._answered = self.cycle
            elif len(self.pipeline) <= MOST_AHEAD:
                self.flow.resume_reading()  # otherwise a disconnect would go unnoticed

    def on_message_complete(self) -> None:
        if not self._is_offered():
            self._in_request = False
            super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        else:
            self._idle[self] = None
        super().on_response_complete()

    def _is_offered(self) -> bool:
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def head_without_offer(self) -> bytes:
        line = b" ".join((self.parser.get_method(), self.url, b"HTTP/" + self.parser.get_http_version().encode()))
        kept = [name + b": " + value for name, value in self.headers if name not in OFFERS]
        return b"\r\n".join((line, *kept, b"", b""))

    def data_received(self, data: bytes) -> None:
        if self.lingers:
            return
        self._piled += len(data)
        super().data_received(data)
        if self._in_head and self._piled > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(TOO_LARGE)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel(self._head_late)
            self._head_late = None
        elif self._head_late is None:
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(TOO_LARGE if self._head_bytes > HEAD_BYTES else msg)

    def shutdown(self) -> None:
        self._in_request = False  # nobody waits for the rest of one
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader(self._untaken())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._send_late)

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        self._idle.pop(self, None)
        if self._answered is not None:  # uvicorn tells only the request that came last
            self._answered.disconnected = True
            self._answered.message_event.set()
        self._cancel(self._head_late)
        self._cancel(self._send_late)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            raise ValueError(TOO_LARGE)  # ends the parser

    def close(self, transport: asyncio.Transport) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or not self._in_request or self.lingers:
            transport.close()
            return
        self.lingers = True
        self._idle[self] = None
        self.flow.resume_reading()
        try:
            transport.write_eof()
        except OSError:  # the client is gone
            transport.abort()
            return
        self._cancel(self._head_late)
        self._head_late = self.loop.call_later(LINGER_SECONDS, transport.abort)

    def _await_head(self) -> None:
        self._head_late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _await_reader(self, untaken: int) -> None:
        self._send_late = self.loop.call_later(SEND_SECONDS, self._check_reader, untaken)

    def _check_reader(self, untaken: int) -> None:
        """The client may be slow and much may be left, as long as it is less than at the last check."""
        if (now := self._untaken()) < untaken:
            self._await_reader(now)
        else:
            self.transport.abort()

    def _untaken(self) -> int:
        """Bytes that were written but not yet acknowledged by the client's machine: the kernel may hold megabytes of
        them, and takes more from our buffer only when much of its own is free."""
        queued = ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
        return int(self.transport.get_write_buffer_size()) + int.from_bytes(queued, sys.byteorder)

    def _cancel(self, timer: asyncio.TimerHandle | None) -> None:
        if timer:
            timer.cancel()
