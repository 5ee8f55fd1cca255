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

PING_SECONDS: Final = 5.0


class Health(Enum):
    LOADING = "loading"
    OK = "ok"
    FAILED = "failed"
    CLOSING = "closing"


class Engine:
    """`info` is the daemon's ready event; it and `texts` and `client` are there once the engine is open."""

    client: AsyncClient
    texts: Texts
    info: dict[str, Any]

    def __init__(self, args: Sequence[str], log: Callable[[str], None]) -> None:
        self.observed = Observed()
        self.closing = False
        self._args = args
        self._log = log
        self._loaded = False
        self._failed = False

    async def open(self) -> None:
        """Until the weights and the tokenizer are loaded; DaemonGone, ModelUnreadable."""
        try:
            self.client = await AsyncClient.spawn(self._args, self._log, self._watch)
            self.info = await self.client.ready
            path, vocab = self.info["path"], self.info["vocab"]
            self.texts = await asyncio.to_thread(Texts.open, Path(path), vocab) if path else Texts.numbers(vocab)
            self._loaded = True
        except Exception:
            self._failed = True
            raise

    async def close(self) -> None:
        """Live requests are cancelled."""
        self.closing = True
        if hasattr(self, "client"):
            await self.client.close(0.0)

    def check(self) -> None:
        """Raises HttpRefused while no request can be taken."""
        if self.closing:
            raise HttpRefused(503, "the server is shutting down", code="shutting_down")
        if self._failed:
            raise HttpRefused(503, "the engine has stopped", code="engine_gone")
        if not self._loaded:
            raise HttpRefused(503, "the model is being loaded", code="loading")

    async def health(self) -> Health:
        """Asks the daemon itself, and so its loop between two steps."""
        if self.closing:
            return Health.CLOSING
        if not self._loaded and not self._failed:
            return Health.LOADING
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self.client.command("PING")
        except (DaemonGone, TimeoutError, AttributeError):
            return Health.FAILED
        return Health.FAILED if self._failed else Health.OK

    def _watch(self, item: object) -> None:
        match item:
            case DaemonGone():
                self._failed = True
                if not self.closing:
                    self._log(str(item).partition("\n")[0])
            case _:
                self.observed.take(item)
