"""The blocking client: an AsyncClient whose event loop has a thread of its own.

    with Client.spawn(["--engine", "null"]) as client:
        for token in client.start([1, 2, 3], total=16):
            print(token)

Any thread may use it, but no process forked from this one; what arrives is kept until somebody asks for it. A daemon
that it started is ended as by `close` once nobody refers to the client or one of its streams any more.
"""

import asyncio
from asyncio import StreamReader, StreamReaderProtocol
from collections.abc import Coroutine, Iterator, Sequence
from threading import RLock
from typing import IO, Any, Self, Unpack

from .answer import Generation, Prompt, Stops
from .async_client import AsyncClient
from .desk import Body, Watch
from .loop_thread import LoopThread
from .process import DaemonProcess, Log
from .start_line import GenerateOptions, StartOptions
from .stream import Stream


class Client:
    _client: AsyncClient
    _code: int | None = None

    def __init__(self, commands: IO[bytes], frames: IO[bytes], watch: Watch = None) -> None:
        """Attaches to a daemon that has not been sent a line yet, and takes both pipes over. `frames` is a tagged
        stream. `watch` is called on the client's thread with every item, in the order of arrival, and finally with
        DaemonGone; it must not call the client."""
        self._begin(_attached(commands, frames, watch))

    @classmethod
    def spawn(cls, args: Sequence[str] = (), log: Log = None, watch: Watch = None, restart: bool = False) -> Self:
        """Starts a daemon with these command-line arguments. Each line of its stderr goes to `log`. With `restart`, a
        `start` that finds it dead starts another one; requests that were live are lost nevertheless."""
        client = cls.__new__(cls)
        client._begin(AsyncClient.spawn(args, log, watch, restart))
        client._thread.when_dropped(client._client.close)
        return client

    @property
    def process(self) -> DaemonProcess | None:
        return self._client.process

    @property
    def ready(self) -> Body:
        """The ready event: the model and the limits. Waits until the weights are loaded."""
        return self._thread.call(self._client._loaded())

    def command(self, line: str, timeout: float | None = None) -> Body:
        """Sends one line and waits for its reply. Raises Refused, DaemonGone, or TimeoutError (the reply is dropped).
        The tokens of a request started this way belong to nobody and are dropped too: use `start`."""
        return self._thread.call(self._client.command(line), timeout)

    def start(
        self, ids: Sequence[int], total: int, quantum: int | None = None, **options: Unpack[StartOptions]
    ) -> Stream:
        """Starts a request; `options` are those of START (temp, seed, stop, hash …), `slot` and `req_id`. By default
        the id is a free one. With a quantum the request pauses after that many tokens (Stream.proceed), except in auto
        mode. Raises Refused, DaemonGone, TypeError and ValueError."""
        return Stream(self._thread.call(self._client.start(ids, total, quantum, **options)), self._thread)

    def restore(
        self, name: str, ids: Sequence[int], total: int, quantum: int | None = None, **options: Unpack[StartOptions]
    ) -> Stream:
        """As `start`, from the snapshot `name`; `ids` must begin with its ids."""
        return Stream(self._thread.call(self._client.restore(name, ids, total, quantum, **options)), self._thread)

    def generate(
        self, prompt: Prompt, max_tokens: int | None = None, *, stop: Stops = (), **options: Unpack[GenerateOptions]
    ) -> Generation:
        """Answers a text, chat messages (mappings with role and content) or token ids, in pieces of text:

            answer = client.generate([{"role": "user", "content": "Name a river."}], max_tokens=24, stop="\\n\\n")
            for piece in answer:
                print(piece.text, end="")
            print(answer.finish_reason, answer.usage["tokens"], answer.timings["tps"])

        `stop` holds strings and token ids; `options` are those of START (temp, top_p, seed, logprobs …). With a
        `grammar` (paceline.protocol.Grammar) the answer to messages comes at once, without thoughts. Raises what
        `start` does, ModelUnreadable and ChatRefused. Without a tokenizer, which ids do not need, the texts are empty.
        A `quantum` is for a daemon in auto mode only: nothing here continues the request after a turn.
        """
        answer = self._thread.call(self._client.generate(prompt, max_tokens, stop=stop, **options))
        return Generation(Stream(answer.stream, self._thread), answer.decoder, answer.strings)

    def events(self) -> Iterator[Body]:
        """The events that belong to no stream (drained …), as they come; ends when the client is closed."""
        while event := self._thread.call(self._client._event()):
            yield event

    def close(self, timeout: float = 10.0) -> int | None:
        """Ends the daemon's input: what was granted finishes, and is still read, for `timeout` seconds at most. Returns
        the exit code of a daemon that was spawned."""
        with self._closing:  # a second one waits for the first
            if not self._client.closed:
                self._code = self._thread.call(self._client.close(timeout))
            self._thread.close()
            return self._code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(0.0 if kind else 10.0)

    def _begin(self, making: Coroutine[Any, Any, AsyncClient]) -> None:
        self._thread = LoopThread()
        self._closing = RLock()
        try:
            self._client = self._thread.call(making)
        except BaseException:
            self._thread.close()
            raise


async def _attached(commands: IO[bytes], frames: IO[bytes], watch: Watch) -> AsyncClient:
    loop, reader = asyncio.get_running_loop(), StreamReader()
    await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader), frames)
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, commands)
    return AsyncClient(writer, reader, watch)
