"""A blocking client: commands out, replies back, each request's tokens in a Stream of its own.

    with Client.spawn(["--engine", "null"]) as client:
        for token in client.start([1, 2, 3], total=16):
            print(token)

One reader thread takes the frame stream apart and waits for nothing but the daemon: output that is always read means
input that is always read. Any thread may send commands; what arrives is kept until somebody asks for it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from io import BufferedReader
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, Self

from ..protocol import LARGEST_REQUEST, TERMINALS, Frame, FrameReader, Item, Message
from .decoded import decoded
from .errors import DaemonGone, Refused
from .process import DaemonProcess
from .start_line import start_line
from .stream import Stream

Body = dict[str, Any]
Watch = Callable[[Item | DaemonGone], object]
PIECE = 1 << 16


class Client:
    def __init__(
        self,
        commands: IO[bytes],
        frames: BufferedReader,
        process: DaemonProcess | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Attaches to a daemon that has not been sent a line yet. `frames` is a tagged stream. `watch` is called on the
        reader's thread with every item, in the order of arrival, and at last with DaemonGone."""
        self._commands = commands
        self._frames = frames
        self.process = process
        self._watch: Watch = watch or (lambda item: None)
        self._sending = Lock()  # held while a line is written: replies come in the order of lines
        self._state = Lock()  # held for moments only, by the reader too
        self._lines = 0
        self._waiting: deque[tuple[int, Future[Body]]] = deque()
        self._streams: dict[int, Stream] = {}
        self._last_id = 0
        self._ready: Future[Body] = Future()
        self._events: SimpleQueue[Body | DaemonGone] = SimpleQueue()
        self._gone: DaemonGone | None = None
        self._closed = False
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def spawn(
        cls, args: Sequence[str] = (), log: Callable[[str], None] | None = None, watch: Watch | None = None
    ) -> Self:
        """Starts a daemon with these command-line arguments. Each line of its stderr goes to `log`."""
        process = DaemonProcess(args, log)
        return cls(process.commands, process.frames, process, watch)

    @property
    def ready(self) -> Body:
        """The ready event: the model and the limits. Waits until the weights are loaded."""
        return self._ready.result()

    def command(self, line: str, timeout: float | None = None) -> Body:
        """Sends one line and waits for its reply. Raises Refused, DaemonGone, or TimeoutError (the reply is dropped).
        The tokens of a request started this way belong to nobody and are dropped too: use `start`."""
        if not line.strip() or line.startswith("#") or "\n" in line:
            raise ValueError(f"{line!r} would get no reply of its own, expected one command")
        return self._send(line).result(timeout)

    def start(
        self,
        ids: Sequence[int],
        total: int,
        quantum: int | None = None,
        *,
        slot: int | None = None,
        req_id: int | None = None,
        **options: Any,
    ) -> Stream:
        """Starts a request; `options` are those of START (temp, seed, stop, hash …). The id is one that is free."""
        with self._state:
            req_id = req_id or self._free_id()
            if req_id in self._streams:
                raise Refused("duplicate_request", f"REQ {req_id}: this request is live, expected an id that is free")
            stream = self._streams[req_id] = Stream(req_id, self.command)
        try:
            stream.reply = self.command(start_line(req_id, ids, total, quantum, slot, options))
        except Exception:
            self._streams.pop(req_id, None)
            raise
        return stream

    def events(self) -> Iterator[Body]:
        """The events that belong to no stream (drained …), as they come; ends when the client is closed."""
        while isinstance(event := self._events.get(), dict):
            yield event
        self._events.put(event)
        if not self._closed:
            raise event

    def close(self, timeout: float = 10.0) -> int | None:
        """Ends the daemon's input: what was granted finishes, and is still read, but for `timeout` seconds at most.
        Returns the exit code of a daemon that was spawned."""
        self._closed = True
        # A thread that is blocked in a write holds the lock: then the daemon must end first.
        if self._sending.acquire(timeout=timeout):
            with suppress(OSError):
                self._commands.close()
            self._sending.release()
        else:
            timeout = 0.0
        code = self.process.stop(timeout) if self.process else None
        self._reader.join(timeout)
        if not self._reader.is_alive():
            self._frames.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(0.0 if kind else 10.0)

    def _send(self, line: str) -> Future[Body]:
        reply: Future[Body] = Future()
        data = line.encode() + b"\n"
        with self._sending:
            with self._state:
                if self._gone:
                    raise self._gone
                self._lines += 1
                self._waiting.append((self._lines, reply))
            with suppress(OSError, ValueError):  # closed: then the stream ends too, and the reader says why
                self._commands.write(data)
                self._commands.flush()
        return reply

    def _free_id(self) -> int:
        while True:
            self._last_id = self._last_id % LARGEST_REQUEST + 1
            if self._last_id not in self._streams:
                return self._last_id

    def _read(self) -> None:
        problem = "its frame stream has ended"
        try:
            reader = FrameReader()
            while data := self._frames.read1(PIECE):
                for item in decoded(reader, data):
                    self._take(item)
            reader.close()
        except Exception as error:  # whatever it is, nobody may be left waiting
            problem = f"its frame stream is broken: {error}"
        words = self.process.last_words() if self.process else "the daemon has gone"
        self._give_up(DaemonGone(f"{problem}; {words}"))

    def _take(self, item: Item) -> None:
        self._watch(item)
        match item:
            case Message(body={"re": line} as body):
                self._settle(line, body)
            case Message(body={"event": "ready"} as body):
                self._ready.set_result(body)
            case Message(req_id, body):
                stream = self._streams.get(req_id or body.get("req", 0))
                stream.deliver(item) if stream else self._events.put(body)
            case Frame(req_id, value):
                # off the table first: a reader that saw the terminal may use the id again
                stream = self._streams.pop(req_id, None) if value in TERMINALS else self._streams.get(req_id)
                if stream:
                    stream.deliver(item)

    def _settle(self, line: int, body: Body) -> None:
        with self._state:
            expected = self._waiting[0][0] if self._waiting else "no line"
            if line != expected:
                raise ValueError(f"a reply to line {line} came, expected one to {expected}")
            _, reply = self._waiting.popleft()
        if body.get("ok"):
            reply.set_result(body)
        else:
            reply.set_exception(Refused(body.get("code", ""), body.get("error", "")))

    def _give_up(self, gone: DaemonGone) -> None:
        with self._state:
            self._gone = gone
            waiting = [self._ready, *(reply for _, reply in self._waiting)]
            streams = list(self._streams.values())
        for reply in waiting:
            if not reply.done():
                reply.set_exception(gone)
        for stream in streams:
            stream.deliver(gone)
        self._events.put(gone)
        self._watch(gone)
