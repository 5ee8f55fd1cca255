"""A connection with time limits that uvicorn does not have: for the head of a request to come, and for a reader to take
what was written."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS: Final = 10.0
SEND_SECONDS: Final = 60.0


class Connection(AutoHTTPProtocol):  # type: ignore[valid-type, misc]
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_late: asyncio.TimerHandle | None = None
        self._send_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel(self._head_late)
            self._head_late = None
        elif self._head_late is None:
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_late = self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._send_late)

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        self._cancel(self._head_late)
        self._cancel(self._send_late)

    def _await_head(self) -> None:
        self._head_late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _cancel(self, timer: asyncio.TimerHandle | None) -> None:
        if timer:
            timer.cancel()
