"""A stream that has nothing to say for a while says so, between its events and never after the last one."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from paceline.clients.http import answering
from paceline.clients.http.app import Limits, Proxy
from paceline.clients.http.engine import Engine

QUIET = 0.05
SILENCES = (
    b'"text":"","logprobs":null,"finish_reason":null',
    b'"delta":{},"logprobs":null,"finish_reason":null',
    b'event: ping\ndata: {"type":"ping"}\n\n',
    b"event: response.in_progress",
)
HELLO = [{"role": "user", "content": "Hi"}]
ASKED = {"max_tokens": 20, "temperature": 0, "stream": True}
ROUTES = [
    pytest.param("/v1/completions", {"prompt": "Hi"}, id="completion"),
    pytest.param("/v1/chat/completions", {"messages": HELLO}, id="chat"),
    pytest.param("/v1/messages", {"messages": HELLO}, id="message"),
    pytest.param("/v1/responses", {"input": HELLO, "max_output_tokens": 20}, id="response"),
]


def is_silence(piece: bytes) -> bool:
    """An event that says nothing; what a stream begins with is not alone in its piece."""
    return piece.count(b"data: ") == 1 and any(silence in piece for silence in SILENCES)


class Reader:
    """A request to an app in this process. `pieces` are those of the body, each with the time when it came, `late` is
    how many came after the end, `between` how many that say nothing came before the piece ahead of them was taken. It
    takes `slow` seconds for one that says nothing, `slow_news` for each other."""

    def __init__(self, app: Any, path: str, body: dict[str, Any], slow: float = 0.0, slow_news: float = 0.0) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.ended = False
        self.late = 0
        self.between = 0
        self._taking = 0
        self._left = asyncio.Event()
        self._slow = slow
        self._slow_news = slow_news
        self._body = [json.dumps(ASKED | body).encode()]
        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        self.done = asyncio.create_task(app(scope, self._receive, self._send))

    @property
    def silences(self) -> int:
        return sum(is_silence(piece) for _, piece in self.pieces)

    @property
    def events(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces if not is_silence(piece))

    def leave(self) -> None:
        self._left.set()

    async def _receive(self) -> Any:
        if self._body:
            return {"type": "http.request", "body": self._body.pop()}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.late += self.ended
        if message["type"] == "http.response.body":
            piece = message["body"]
            self.pieces.append((asyncio.get_running_loop().time(), piece))
            self.ended = not message["more_body"]
            self.between += is_silence(piece) and self._taking > 0
            self._taking += 1
            try:
                await asyncio.sleep(self._slow if is_silence(piece) else self._slow_news)
            finally:
                self._taking -= 1


NAMES = ("id", "created", "created_at", "usage", "sequence_number", "item_id")


def with_app(test: Callable[[Engine, Any], Awaitable[None]], *flags: str) -> None:
    async def run() -> None:
        engine = Engine(["--engine", "null", "--auto", *flags], lambda line: None)
        await engine.open()
        try:
            await asyncio.wait_for(test(engine, Proxy(engine, Limits()).app()), 60)
        finally:
            await engine.close()

    asyncio.run(run())


def named_alike(events: bytes) -> list[Any]:
    """The events without what is another one's each time: the answer's id, and when it was made."""
    found = [line.removeprefix(b"data: ") for line in events.splitlines() if line.startswith(b"data: ")]
    return [without_names(json.loads(line)) for line in found if line != b"[DONE]"]


def without_names(body: Any) -> Any:
    if isinstance(body, list):
        return [without_names(one) for one in body]
    return {k: without_names(v) for k, v in body.items() if k not in NAMES} if isinstance(body, dict) else body


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_while_it_waits_in_the_queue(monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]) -> None:
    async def test(engine: Engine, app: Any) -> None:
        plain = Reader(app, path, body)
        await plain.done
        monkeypatch.setattr(answering, "QUIET_SECONDS", QUIET)
        await engine.client.start([1], 100)  # two seconds
        waited = Reader(app, path, body)
        await waited.done
        await asyncio.sleep(3 * QUIET)  # and nothing is sent
        silences = [n for n, (_, piece) in enumerate(waited.pieces) if is_silence(piece)]
        assert len(silences) == waited.silences >= 2 and not plain.silences
        for n in silences:  # whatever went out before them, it was quiet since
            assert waited.pieces[n][0] - waited.pieces[n - 1][0] >= QUIET
        assert named_alike(waited.events) == named_alike(plain.events) and not waited.late

    with_app(test, "--slots", "1", "--fault", "slow:20")


def test_while_its_prompt_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "QUIET_SECONDS", QUIET)

    async def test(engine: Engine, app: Any) -> None:
        reader = Reader(app, "/v1/completions", {"prompt": [1] * 2000})  # 31 steps
        await reader.done
        first = next(n for n, (_, piece) in enumerate(reader.pieces) if piece and not is_silence(piece))
        assert all(is_silence(piece) for _, piece in reader.pieces[1:first]) and first > 2

    with_app(test, "--prefill-tokens", "64", "--step-tokens", "64", "--fault", "slow:20")


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_no_news_are_lost(monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]) -> None:
    """Of tokens that come while it is being sent, and of the end."""

    async def test(engine: Engine, app: Any) -> None:
        plain = Reader(app, path, body)
        await plain.done
        monkeypatch.setattr(answering, "QUIET_SECONDS", 0.001)
        for slow in (0.0, 0.03, 10.0):
            reader = Reader(app, path, body, slow)
            await reader.done
            assert reader.silences and named_alike(reader.events) == named_alike(plain.events)

    with_app(test, "--fault", "slow:10")


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_not_while_news_are_sent(monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]) -> None:
    monkeypatch.setattr(answering, "QUIET_SECONDS", 0.01)

    async def test(engine: Engine, app: Any) -> None:
        neighbour = await engine.client.start([1], 2000)
        reader = Reader(app, path, body, slow_news=0.05)
        while not reader.silences:
            await asyncio.sleep(0.01)
        await engine.ask(f"CANCEL {neighbour.req_id}")
        await reader.done
        assert not reader.between

    with_app(test, "--slots", "1", "--fault", "slow:20")


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_a_reader_that_leaves_is_told_nothing_more(
    monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    monkeypatch.setattr(answering, "QUIET_SECONDS", QUIET)

    async def test(engine: Engine, app: Any) -> None:
        neighbour = await engine.client.start([1], 2000)
        reader = Reader(app, path, body)
        while reader.silences < 2:
            await asyncio.sleep(0.01)
        reader.leave()
        while not reader.done.done():
            await asyncio.sleep(0.005)
        (requests,) = await engine.ask("LIST_REQUESTS")
        assert [request["req"] for request in requests["requests"]] == [neighbour.req_id]
        sent = len(reader.pieces)
        await asyncio.sleep(3 * QUIET)
        assert len(reader.pieces) == sent and not reader.ended

    with_app(test, "--slots", "1", "--fault", "slow:20")
