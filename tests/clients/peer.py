"""A daemon that a test plays itself, over two pipes."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedReader
from typing import Any

from paceline.clients.client import Client
from paceline.clients.errors import DaemonGone
from paceline.clients.stream import Stream
from paceline.protocol import Item, Message, encode_tagged


class Peer:
    """A daemon's two ends; `later` runs a client's call while the test answers it."""

    def __init__(self) -> None:
        commands_read, commands_write = os.pipe()
        frames_read, frames_write = os.pipe()
        self._commands = os.fdopen(commands_read, "rb")
        self._frames = os.fdopen(frames_write, "wb", buffering=0)
        self._frames_read: BufferedReader = os.fdopen(frames_read, "rb")
        self.seen: list[Item | DaemonGone] = []
        self.client = Client(os.fdopen(commands_write, "wb"), self._frames_read, watch=self.seen.append)
        self._pool = ThreadPoolExecutor()

    def send(self, *items: Item) -> None:
        self._frames.write(encode_tagged(items))

    def send_bytes(self, data: bytes) -> None:
        self._frames.write(data)

    def line(self) -> str:
        return self._commands.readline().decode()

    def later(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        return self._pool.submit(call, *args, **options)

    def started(self, number: int, *ids: int, total: int = 8, **options: Any) -> Stream:
        """A stream whose START was line `number` and accepted."""
        call = self.later(self.client.start, list(ids) or [1], total, **options)
        req_id = int(self.line().split()[1])
        self.send(Message(req_id, {"re": number, "ok": True, "slot": 0, "epoch": 1, "state": "prefill"}))
        stream: Stream = call.result(5)
        return stream

    def hang_up(self) -> None:
        self._frames.close()

    def close(self) -> None:
        self.hang_up()
        self.client.close()
        self._commands.close()
        self._pool.shutdown()
