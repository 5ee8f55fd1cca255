"""`paceline serve`: the server, and the order in which it all ends."""

import asyncio
import signal
import traceback
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any, Final, cast

import uvicorn

from ...native.weights import ModelUnreadable
from ..errors import DaemonGone
from .app import Limits, Proxy
from .connection import Connection
from .descriptors import AT_ONCE, BEYOND, room_for
from .engine import Engine
from .flags import daemon_words
from .log_pipe import log_pipe, say

FAILED: Final = 70
WAITING: Final = 2048  # connections that the kernel holds until they are accepted
KEEP_SECONDS: Final = 75
"""How long a connection may idle: longer than most clients and proxies keep theirs, as a request that is sent while we
close it gets no answer."""


class Server(uvicorn.Server):
    """On SIGTERM it refuses new requests, gives live ones `grace` seconds to finish, and ends; a second one cancels
    live requests, and after a third it waits for no client."""

    def __init__(self, config: uvicorn.Config, proxy: Proxy, grace: float) -> None:
        super().__init__(config)
        self._proxy = proxy
        self._grace = grace
        self._ending: asyncio.Task[None] | None = None
        self._deadline = 0.0  # by the loop's clock, for what is live
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: Any = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                with listener.dup() as own:
                    own.listen(WAITING)  # asyncio uses how many it accepts at once for this number too
                host, port = listener.getsockname()[:2]
                _say(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # not uvicorn's own way, which would raise the signal again before the daemon has been ended
        if self._loop is None:
            self.should_exit = self.force_exit = True
        elif self._proxy.engine.closing:
            self._loop.call_soon_threadsafe(self._hurry)
        else:
            self._proxy.engine.closing = True
            self._loop.call_soon_threadsafe(self._begin_to_end, sig)

    def _begin_to_end(self, sig: int) -> None:
        # without a grace the daemon is told to end at once, and cancels what is live
        self._deadline = asyncio.get_running_loop().time() + (0.0 if sig == signal.SIGINT else self._grace)
        self._ending = asyncio.create_task(self._end())

    def _hurry(self) -> None:
        self._deadline = 0.0
        if self.should_exit:  # the daemon has ended, and clients are still reading what it said
            self.force_exit = True
            for connection in list(self.server_state.connections):
                connection.transport.abort()  # Python waits for open ones, from 3.12 on

    async def _end(self) -> None:
        while self._proxy.live and asyncio.get_running_loop().time() < self._deadline:
            await asyncio.sleep(0.02)
        await self._proxy.engine.close()
        self.should_exit = True


def serve(arguments: Namespace, words: Sequence[str]) -> int:
    """The exit code. `words` are those of the command line after `serve`."""
    with log_pipe():
        return asyncio.run(_serve(arguments, daemon_words(words)))


async def _serve(arguments: Namespace, daemon: Sequence[str]) -> int:
    connections = room_for(arguments.max_connections, _say)
    engine = Engine(
        daemon,
        say,
        arguments.restart,
        arguments.queue,
        arguments.model_name,
        arguments.chat_template,
    )
    limits = Limits(
        arguments.api_key,
        arguments.max_body,
        tuple(arguments.cors),
        arguments.max_seconds,
        arguments.queue_tokens,
        arguments.default_max_tokens,
    )
    proxy = Proxy(engine, limits)
    config = uvicorn.Config(
        proxy.app(),
        arguments.host,
        arguments.port,
        http=cast(Any, partial(Connection, most_busy=connections, most=connections + BEYOND, idle={})),
        backlog=AT_ONCE,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_SECONDS,
        lifespan="off",
        timeout_graceful_shutdown=5,
    )
    server = Server(config, proxy, arguments.grace)
    opening = asyncio.create_task(_open(engine, server))
    try:
        await server.serve()
    finally:
        opening.cancel()
        await engine.close()
        await asyncio.wait([opening])
    return 0 if opening.cancelled() else opening.result()


async def _open(engine: Engine, server: Server) -> int:
    """Ends the server if the model cannot be loaded: nobody could ever be served."""
    try:
        await engine.open()
    except Exception as problem:
        if not engine.closing:
            known = isinstance(problem, DaemonGone | ModelUnreadable)
            _say(str(problem) if known else "".join(traceback.format_exception(problem)).rstrip())
            server.should_exit = True
            return FAILED
    return 0


def _say(text: str) -> None:
    say(f"paceline serve: {text}")
