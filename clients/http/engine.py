"""The one daemon process behind the proxy, from the moment it is spawned to its end."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from ..async_client import AsyncClient
from ..errors import DaemonGone
from .metrics import Observed
from .refused import HttpRefused
from .texts import Texts

REPLY_SECONDS: Final = 30.0  # a step of a large model may take as long, and replies come between steps
RESTART_SECONDS: Final = 1.0  # so that one that dies at once is not started continuously; doubled each time
MOST_SECONDS: Final = 60.0  # between two starts


class Health(Enum):
    LOADING = "loading"
    OK = "ok"
    FAILED = "failed"
    CLOSING = "closing"


class Engine:
    """`info` is the daemon's ready event; it and `name`, `texts` and `client` exist once the engine is open. With
    `restart`, a daemon that dies after it was ready is started again until one is ready; meanwhile whoever asks is told
    that the model is being loaded. `queue` is how many requests may wait for a slot and `coalesces` whether equal ones
    share a row, both as `args` say; `name` is the model's name, by default that of its file, and `template` the source
    of a chat template in place of its own. The daemon's log and its
    progress bars go straight to our stderr; `log` takes our own messages about it."""

    client: AsyncClient
    texts: Texts
    name: str
    info: dict[str, Any]

    def __init__(
        self,
        args: Sequence[str],
        log: Callable[[str], None],
        restart: bool = False,
        queue: int = 64,
        name: str | None = None,
        template: str | None = None,
    ) -> None:
        self.observed = Observed()
        self.closing = False
        self._args = args
        self._log = log
        self._restart = restart
        self._name = name
        self._template = template
        self.queue = queue
        self.coalesces = "--coalesce" in args
        self._state = Health.LOADING
        self._gone: DaemonGone | None = None
        self._revival: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Waits until the weights and the tokenizer are loaded. Raises DaemonGone, ModelUnreadable."""
        try:
            await self._open()
        except BaseException:
            self._state = Health.FAILED
            raise

    async def close(self) -> None:
        """Live requests are cancelled."""
        self.closing = True
        if self._revival:
            self._revival.cancel()
            await asyncio.wait([self._revival])
        if hasattr(self, "client"):
            await self.client.close(0.0)

    def check(self) -> None:
        """Raises HttpRefused while no request can be taken."""
        if self.closing:
            raise HttpRefused(503, "the server is shutting down", code="shutting_down")
        if self._state is Health.FAILED:
            raise HttpRefused(503, "the engine has stopped", code="engine_gone")
        if self._state is Health.LOADING:
            raise HttpRefused(503, "the model is being loaded", code="loading")

    async def health(self) -> Health:
        """Asks the daemon itself, whose loop answers between two steps."""
        if self._state is Health.OK and not self.closing:
            try:
                await self.ask("PING")
            except (HttpRefused, DaemonGone):
                return Health.FAILED
        return Health.CLOSING if self.closing else self._state

    async def ask(self, *lines: str) -> list[dict[str, Any]]:
        """The replies to lines that are applied between the same two steps; HttpRefused if none comes."""
        self.check()
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                return await self.client.commands(*lines)
        except TimeoutError:
            raise HttpRefused(503, "the engine does not answer", code="engine_gone") from None

    def _watch(self, item: object) -> None:
        if not isinstance(item, DaemonGone):
            self.observed.take(item)
            return
        self.observed.forget()
        self._gone = item
        if self._state is not Health.OK or self.closing:
            return  # reported by whoever opens it
        if self._restart:
            self._state = Health.LOADING
            self._revival = asyncio.create_task(self._revive())
        else:
            self._state = Health.FAILED
        self._log(f"paceline serve: {item}")

    async def _open(self) -> None:
        self._gone = None
        self.client = await AsyncClient.spawn(self._args, watch=self._watch, stderr=None)
        self.info = await self.client.ready
        path, about = self.info["path"], (self.info["vocab"], self.info["context"], self._template)
        self.name = self._name or _named(self.info)
        self.texts = await asyncio.to_thread(Texts.open, Path(path), *about) if path else Texts.numbers(*about)
        if self._gone:  # while the tokenizer was read
            raise self._gone
        self._state = Health.OK
        if self.texts.broken:
            self._log(f"paceline serve: {self.name} has no chat: {self.texts.broken}")
        self._log(f"paceline serve: ready: {self.name} on {self.info['device']}, {self.info['slots']} slots")

    async def _revive(self) -> None:
        pause = RESTART_SECONDS
        while self._state is Health.LOADING:
            await self.client.close(0.0)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_SECONDS)
            try:
                await self._open()
            except Exception as problem:  # whatever it is, it may have passed by the next try
                self._log(f"paceline serve: it cannot be started again, next try in {pause:g} s: {problem}")


def _named(info: dict[str, Any]) -> str:
    """As `paceline models` lists it: the name written in a file may have blanks, which nobody wants to type."""
    if info["path"] is None:
        return str(info["model"])
    path = Path(info["path"])
    return path.name if path.is_dir() else path.stem
