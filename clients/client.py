"""A blocking client: commands out, replies back, each request's tokens in a Stream of its own.

    with Client.spawn(["--engine", "null"]) as client:
        for token in client.start([1, 2, 3], total=16):
            print(token)

One reader thread takes the frame stream apart and waits for nothing but the daemon: output that is always read means
input that is always read. Any thread may send commands; what arrives is kept until somebody asks for it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from io import BufferedReader
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO, TYPE_CHECKING, Self, Unpack

from ..protocol import FrameReader
from .answer import Prompt, Stops
from .decoded import decoded
from .desk import Body, Desk, Watch, one_command
from .errors import DaemonGone
from .generation import Generation
from .process import PIECE, DaemonProcess
from .start_line import GenerateOptions, StartOptions, start_line
from .stream import Stream

if TYPE_CHECKING:
    from .model_text import ModelText


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
        self._watch: Watch = watch or (lambda item: None)
        self._respawn: Callable[[], DaemonProcess] | None = None
        self._sending = Lock()  # held while a line is written: replies come in the order of lines
        self._state = Lock()  # of the desk; held for moments only, by the reader too
        self._closed = False
        self._text: ModelText | None = None
        self._attach(commands, frames, process)

    @classmethod
    def spawn(
        cls,
        args: Sequence[str] = (),
        log: Callable[[str], None] | None = None,
        watch: Watch | None = None,
        restart: bool = False,
    ) -> Self:
        """Starts a daemon with these command-line arguments. Each line of its stderr goes to `log`. With `restart`, a
        `start` that finds it dead starts another one; what was live is lost all the same."""
        respawn = partial(DaemonProcess, args, log)
        process = respawn()
        client = cls(process.commands, process.frames, process, watch)
        client._respawn = respawn if restart else None
        return client

    @property
    def ready(self) -> Body:
        """The ready event: the model and the limits. Waits until the weights are loaded."""
        return self._ready.result()

    def command(self, line: str, timeout: float | None = None) -> Body:
        """Sends one line and waits for its reply. Raises Refused, DaemonGone, or TimeoutError (the reply is dropped).
        The tokens of a request started this way belong to nobody and are dropped too: use `start`."""
        return self._send(line).result(timeout)

    def start(
        self,
        ids: Sequence[int],
        total: int,
        quantum: int | None = None,
        *,
        slot: int | None = None,
        req_id: int | None = None,
        **options: Unpack[StartOptions],
    ) -> Stream:
        """Starts a request; `options` are those of START (temp, seed, stop, hash …). The id is one that is free."""
        self._revive()
        desk = self._desk
        with self._state:
            number = req_id or desk.free_id()
            stream = Stream(number, lambda line: self._send(line, desk).result())
            desk.open(number, stream)
        try:
            stream.reply = self._send(start_line(number, ids, total, quantum, slot, options), desk).result()
        except Exception:
            with self._state:
                desk.forget(number)
            raise
        return stream

    def generate(
        self,
        prompt: Prompt,
        max_tokens: int | None = None,
        *,
        stop: Stops = (),
        quantum: int | None = None,
        slot: int | None = None,
        req_id: int | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """Answers a text, chat messages (mappings with role and content) or token ids, in pieces of text:

            answer = client.generate([{"role": "user", "content": "Name a river."}], max_tokens=24, stop="\\n\\n")
            for piece in answer:
                print(piece.text, end="")
            print(answer.finish_reason, answer.usage["tokens"], answer.timings["tps"])

        `stop` holds strings and token ids; `options` are those of START (temp, top_p, seed, logprobs …). Raises what
        `start` does, ModelUnreadable and ChatRefused. Without a tokenizer, which ids do not need, the texts are empty.
        """
        self._revive()
        ready = self.ready
        from .model_text import ModelText  # with a tokenizer library, which only text needs

        self._text = self._text or ModelText(ready["path"], ready["context"])
        order = self._text.order(prompt, max_tokens, stop)
        stream = self.start(
            order.ids, order.total, quantum, slot=slot, req_id=req_id, stop=order.stop_tokens, **options
        )
        return Generation(stream, order.decoder, order.stop_strings)

    def events(self) -> Iterator[Body]:
        """The events that belong to no stream (drained …), as they come; ends when the client is closed."""
        events = self._events
        while isinstance(event := events.get(), dict):
            yield event
        events.put(event)
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

    def _attach(self, commands: IO[bytes], frames: BufferedReader, process: DaemonProcess | None) -> None:
        self._commands = commands
        self._frames = frames
        self.process = process
        self._ready: Future[Body] = Future()
        self._events: SimpleQueue[Body | DaemonGone] = SimpleQueue()
        self._desk: Desk[Stream] = Desk(self._ready, self._events.put)
        self._reader = Thread(target=self._read, args=(self._desk, frames, process), daemon=True)
        self._reader.start()

    def _revive(self) -> None:
        with self._sending:
            if self._desk.gone and self._respawn and not self._closed:
                with suppress(OSError):
                    self._commands.close()
                self._frames.close()
                process = self._respawn()
                self._attach(process.commands, process.frames, process)

    def _send(self, line: str, desk: Desk[Stream] | None = None) -> Future[Body]:
        """Sends a line to the daemon of this desk."""
        data = one_command(line)
        reply: Future[Body] = Future()
        with self._sending:
            with self._state:
                (desk or self._desk).line(reply)
            with suppress(OSError, ValueError):  # closed: then the stream ends too, and the reader says why
                self._commands.write(data)
                self._commands.flush()
        return reply

    def _read(self, desk: Desk[Stream], frames: BufferedReader, process: DaemonProcess | None) -> None:
        problem = "its frame stream has ended"
        try:
            reader = FrameReader()
            while data := frames.read1(PIECE):
                for item in decoded(reader, data):
                    self._watch(item)
                    with self._state:
                        desk.take(item)
            reader.close()
        except Exception as error:  # whatever it is, nobody may be left waiting
            problem = f"its frame stream is broken: {error}"
        words = process.last_words() if process else "the daemon has gone"
        gone = DaemonGone(f"{problem}; {words}")
        with self._state:
            desk.give_up(gone)
        self._watch(gone)
