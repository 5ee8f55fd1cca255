"""A connection with limits that uvicorn does not have: on the time for the head of a request to come, on the head's
size, and on the time for a reader to take what was written."""

import asyncio
import sys
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS: Final = 10.0
HEAD_BYTES: Final = 1 << 16  # about
SEND_SECONDS: Final = 60.0


class Connection(AutoHTTPProtocol):  # type: ignore[valid-type, misc]
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_late: asyncio.TimerHandle | None = None
        self._send_late: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._await_head()

    # The parser httptools calls these two, and would take a head of any size; the other one, h11, has a limit itself.
    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._in_head else 0
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head is too large.")
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel(self._head_late)
            self._head_late = None
        elif self._head_late is None:
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader(self._untaken())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._send_late)

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        self._cancel(self._head_late)
        self._cancel(self._send_late)

    def _await_head(self) -> None:
        self._head_late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _await_reader(self, untaken: int) -> None:
        self._send_late = self.loop.call_later(SEND_SECONDS, self._check_reader, untaken)

    def _check_reader(self, untaken: int) -> None:
        """It may be slow, and much may be left, as long as there is less of it than when it was last looked at."""
        if (now := self._untaken()) < untaken:
            self._await_reader(now)
        else:
            self.transport.abort()

    def _untaken(self) -> int:
        """Bytes that were written and that the reader's machine has not confirmed: the kernel may hold megabytes
        of them, and takes more from ours only when much of it is free."""
        queued = ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
        return int(self.transport.get_write_buffer_size()) + int.from_bytes(queued, sys.byteorder)

    def _cancel(self, timer: asyncio.TimerHandle | None) -> None:
        if timer:
            timer.cancel()
