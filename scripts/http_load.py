"""Many streams over HTTP from one process, for bench_http.py: requests out, the time of every event in.

Sockets are read as they become ready, with a few byte searches for each event: beside the server that is measured this
should cost little, and it costs the same for every server."""

import http.client
import json
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

PIECE = 1 << 18
HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"


class LoadFailed(Exception):
    pass


class Answer:
    """One chat completion, streamed; `times` has one entry for each event that brought text."""

    def __init__(self, port: int, body: dict[str, Any], path: str = "/v1/chat/completions") -> None:
        data = json.dumps(body).encode()
        head = HEAD.format(path=path, host=f"127.0.0.1:{port}", size=len(data))
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun = time.perf_counter()
        self.socket.sendall(f"{head}Connection: close\r\n\r\n".encode() + data)
        self.socket.setblocking(False)
        self.times: list[float] = []
        self.tokens = 0  # as the server counts them at the end
        self.done = False
        self._rest = b""

    def read(self) -> bool:
        """What has come; False at the end of the connection."""
        data = self.socket.recv(PIECE)
        now = time.perf_counter()
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            self._take(event, now)
        if not data:
            self.socket.close()
            if not self.done or not self.times:
                raise LoadFailed(f"a stream ended too early: {self._rest[:300]!r}")
        return bool(data)

    def _take(self, event: bytes, now: float) -> None:
        """Between events there may be HTTP's own lines (chunk sizes); none is inside an event, as both servers write
        events whole."""
        if b'"content":"' in event and b'"content":""' not in event:
            self.times.append(now)
        elif b'"usage":{' in event:
            self.tokens = json.loads(event[event.index(b"{") :])["usage"]["completion_tokens"]
        elif event.endswith(b"data: [DONE]"):
            self.done = True


def closed_loop(port: int, clients: Sequence[Sequence[dict[str, Any]]]) -> list[Answer]:
    """Each client posts its bodies one after the other; all clients at once."""
    finished = []
    left = [iter(bodies) for bodies in clients]
    with selectors.DefaultSelector() as ready:
        for client in left:
            _next(ready, port, client)
        while ready.get_map():
            for key, _ in ready.select():
                answer, client = key.data
                if not answer.read():
                    ready.unregister(answer.socket)
                    finished.append(answer)
                    _next(ready, port, client)
    return finished


def _next(ready: selectors.BaseSelector, port: int, client: Iterator[dict[str, Any]]) -> None:
    if (body := next(client, None)) is not None:
        answer = Answer(port, body)
        ready.register(answer.socket, selectors.EVENT_READ, (answer, client))


def healthy(port: int) -> bool:
    with suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    return False
