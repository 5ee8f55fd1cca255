"""A server with our Connection in this process, and small applications for it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from paceline.clients.http.connection import Connection

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"


@asynccontextmanager
async def serving(
    app: Any, most: int = 99, most_busy: int = 99, idle: dict[Connection, None] | None = None
) -> AsyncIterator[int]:
    http: Any = partial(Connection, most=most, most_busy=most_busy, idle={} if idle is None else idle)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=http, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(0.5)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"Hi"})


async def refusing(scope: Any, receive: Any, send: Any) -> None:
    """As for what announces too large a body."""
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"7")]})
    await send({"type": "http.response.body", "body": b"refused"})
