"""The client for asyncio: commands out, replies back, each request's tokens in an AsyncStream of its own.

    async with await AsyncClient.spawn(["--engine", "null"]) as client:
        async for token in await client.start([1, 2, 3], total=16):
            print(token)

One task decodes the frame stream and waits for nothing but the daemon: as long as its output is read, it reads its
input. A client belongs to the event loop that it was made in.
"""

import asyncio
from asyncio import Future, StreamReader, StreamWriter, WriteTransport
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

from ..protocol import FrameReader, Item
from .answer import AsyncGeneration, Prompt, Stops
from .decoded import decoded
from .desk import Body, Deliver, Desk, Watch, one_command, started_by
from .errors import DaemonGone
from .process import PIECE, DaemonProcess, Log, told
from .start_line import GenerateOptions, StartOptions, restore_line, start_line
from .stream import AsyncStream

if TYPE_CHECKING:
    from .model_text import ModelText, Order

LAST_SECONDS = 1.0
Writer = StreamWriter | WriteTransport


class AsyncClient:
    process: DaemonProcess | None = None

    def __init__(self, commands: Writer, frames: StreamReader, watch: Watch = None) -> None:
        """Attaches to a daemon that has not been sent a line yet. `frames` is a tagged stream. `watch` is called with
        every item, in the order of arrival, and finally with DaemonGone."""
        self._watch = watch or (lambda item: None)
        self._respawn: Callable[[], Awaitable[DaemonProcess]] | None = None
        self._respawning = asyncio.Lock()
        self.closed = False
        self._text: ModelText | None = None
        self._attach(commands, frames)

    @classmethod
    async def spawn(
        cls,
        args: Sequence[str] = (),
        log: Log = None,
        watch: Watch = None,
        restart: bool = False,
        stderr: int | None = PIPE,
    ) -> Self:
        """Starts a daemon with these command-line arguments. Each line of its stderr goes to `log`; if `stderr` is None
        it has this process's own, for its progress bars. With `restart`, a `start` that finds it dead starts another
        one; requests that were live are lost nevertheless."""
        respawn = partial(DaemonProcess.spawn, args, log, stderr)
        process = await respawn()
        client = cls(process.commands, process.frames, watch)
        client.process = process
        client._respawn = respawn if restart else None
        return client

    @property
    def ready(self) -> Awaitable[Body]:
        """The ready event: the model and the limits. `await client.ready` waits until the weights are loaded."""
        return self._loaded()

    async def command(self, line: str) -> Body:
        """Sends one line and waits for its reply; raises Refused or DaemonGone. The tokens of a request started this
        way belong to nobody and are dropped: use `start`."""
        return (await self.commands(line))[0]

    async def commands(self, *lines: str) -> list[Body]:
        """Sends lines in one piece, which a daemon applies between the same two steps, and waits for their replies."""
        data, replies = b"".join(map(one_command, lines)), [self._waiter() for _ in lines]
        for line, reply in zip(lines, replies, strict=True):
            self._desk.line(reply, started_by(line))
        self._commands.write(data)
        return await asyncio.gather(*replies)

    def free_id(self) -> int:
        """An id for callers that have to know it before `start`, to which they give it as `req_id`."""
        return self._desk.free_id()

    async def start(
        self, ids: Sequence[int], total: int, quantum: int | None = None, **options: Unpack[StartOptions]
    ) -> AsyncStream:
        """Starts a request; `options` are those of START (temp, seed, stop, hash …), `slot` and `req_id`. By default
        the id is a free one. With a quantum the request pauses after that many tokens (AsyncStream.proceed), except in
        auto mode. Cancelling this call cancels the request. Raises Refused, DaemonGone, TypeError and ValueError."""
        return await self._start(lambda number: start_line(number, ids, total, quantum, options), options)

    async def restore(
        self, name: str, ids: Sequence[int], total: int, quantum: int | None = None, **options: Unpack[StartOptions]
    ) -> AsyncStream:
        """As `start`, from the snapshot `name`; `ids` must begin with its ids."""
        return await self._start(lambda number: restore_line(name, number, ids, total, quantum, options), options)

    async def _start(self, line_of: Callable[[int], str], options: StartOptions) -> AsyncStream:
        await self._revive()
        desk = self._desk
        number = options.get("req_id") or desk.free_id()
        line = line_of(number)
        stream = AsyncStream(number, partial(self._post, desk))
        reply = self._post(desk, line, number, stream.deliver)
        try:
            stream.reply = await asyncio.shield(reply)
        except asyncio.CancelledError:
            # only once accepted: if it is refused, the id may be another request's
            reply.add_done_callback(lambda done: None if done.exception() else stream.abandon())
            raise
        return stream

    async def generate(
        self, prompt: Prompt, max_tokens: int | None = None, *, stop: Stops = (), **options: Unpack[GenerateOptions]
    ) -> AsyncGeneration:
        """Answers a text, chat messages (mappings with role and content) or token ids, in pieces of text:

            answer = await client.generate([{"role": "user", "content": "Name a river."}], max_tokens=24, stop="\\n\\n")
            async for piece in answer:
                print(piece.text, end="")
            print(answer.finish_reason, answer.usage["tokens"], answer.timings["tps"])

        `stop` holds strings and token ids; `options` are those of START (temp, top_p, seed, logprobs …). With a
        `grammar` (paceline.protocol.Grammar) the answer to messages comes at once, without thoughts. Raises what
        `start` does, ModelUnreadable and ChatRefused. Without a tokenizer, which ids do not need, the texts are empty.
        A `quantum` is for a daemon in auto mode only: nothing here continues the request after a turn.
        """
        await self._revive()
        ready = await self.ready
        # a thread, because a tokenizer takes a while to read
        order = await asyncio.to_thread(self._order, ready, prompt, max_tokens, stop, bool(options.get("grammar")))
        stream = await self.start(order.ids, order.total, stop=order.stop_tokens, **options)
        return AsyncGeneration(stream, order.decoder, order.stop_strings)

    async def events(self) -> AsyncIterator[Body]:
        """The events that belong to no stream (drained …), as they come; ends when the client is closed."""
        while event := await self._event():
            yield event

    async def close(self, timeout: float = 10.0) -> int | None:
        """Ends the daemon's input: what was granted finishes, and is still read, for `timeout` seconds at most. Returns
        the exit code of a daemon that was spawned. Cancelling this call kills it."""
        self._end_input()
        self.closed = True
        async with self._respawning:  # a daemon that is being started is stopped there
            pass
        code = await self.process.stop(timeout) if self.process else None
        # the last output of a daemon that has ended can still be read
        await asyncio.wait([self._reader], timeout=timeout if code is None else max(timeout, LAST_SECONDS))
        self._reader.cancel()
        await asyncio.wait([self._reader])
        return code

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(0.0 if kind else 10.0)

    def _attach(self, commands: Writer, frames: StreamReader) -> None:
        self._commands = commands
        self._ready = self._waiter()
        self._events: asyncio.Queue[Body | DaemonGone] = asyncio.Queue()
        self._desk = Desk(self._ready, self._events.put_nowait)
        self._reader = asyncio.create_task(self._read(self._desk, frames))

    async def _loaded(self) -> Body:
        return await asyncio.shield(self._ready)

    def _order(self, ready: Body, prompt: Prompt, max_tokens: int | None, stop: Stops, at_once: bool) -> "Order":
        from .model_text import ModelText  # imports a tokenizer library, which only text needs

        self._text = self._text or ModelText(ready["path"], ready["most_positions"])
        return self._text.order(prompt, max_tokens, stop, at_once)

    async def _event(self) -> Body | None:
        events = self._events
        if isinstance(event := await events.get(), dict):
            return event
        events.put_nowait(event)  # whoever asks next is told too
        if self.closed:
            return None
        raise event.with_traceback(None)

    async def _revive(self) -> None:
        """Raises DaemonGone once the client is closed."""
        async with self._respawning:
            if self._desk.gone and self._respawn and not self.closed:
                self._commands.close()
                if self.process:
                    await self.process.stop(0.0)  # its frames have ended, but it may not have
                process = await self._respawn()
                if self.closed:
                    await process.stop(0.0)
                else:
                    self.process = process
                    self._attach(process.commands, process.frames)
        if self.closed:
            raise DaemonGone("the client was closed")

    def _waiter(self) -> "Future[Body]":
        waiter: Future[Body] = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(lambda done: done.cancelled() or done.exception())  # no warning if nobody looks at it
        return waiter

    def _post(self, desk: Desk, line: str, starts: int | None = None, deliver: Deliver | None = None) -> "Future[Body]":
        """Sends one line to the daemon of this desk. There is no drain: the caller waits for its reply."""
        data, reply = one_command(line), self._waiter()
        desk.line(reply, starts, deliver)
        self._commands.write(data)
        return reply

    async def _read(self, desk: Desk, frames: StreamReader) -> None:
        problem = "its frame stream has ended"
        reader = FrameReader()
        try:
            while data := await frames.read(PIECE):
                for item in decoded(reader, data):
                    self._show(item)
                    desk.take(item)
            reader.close()
        except asyncio.CancelledError:
            problem = "the client was closed"
            await self._end_unread()
        except Exception as error:  # whatever it is, nobody may be left waiting
            problem = f"its frame stream is broken: {error}"
        words = await self.process.last_words() if self.process else "the daemon has gone"
        gone = DaemonGone(f"{problem}; {words}")
        desk.give_up(gone)
        self._show(gone)

    def _show(self, item: Item | DaemonGone) -> None:
        told(self._watch, item, "the watcher of a daemon's stream raised")

    def _end_input(self) -> None:
        """Tells a daemon that we started by QUIT too: its input does not end while a process forked from this one holds
        the pipe."""
        if self.process and not self.closed and not self._desk.gone:
            self._post(self._desk, "QUIT")
        self._commands.close()

    async def _end_unread(self) -> None:
        """Stops a daemon whose frames are not read any more. If the client was closed, it has ended; if only the event
        loop is ending, it still waits for commands, or computes what nobody will see."""
        self._end_input()
        if self.process:
            await self.process.stop(LAST_SECONDS)
