"""Sends the answers of a Run to its HTTP client, as an ASGI response that outlives neither."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .answers.sse import dumped
from .answers.whole import Answer
from .answers.writers import Writer
from .news import Ended
from .refused import HttpRefused
from .run import Run
from .speech.cutter import Delta

STREAM_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would hold events back until it has some kilobytes
}
JSON: Final = "application/json"
QUIET_SECONDS: Final = 15.0  # many proxies cut a connection that was silent for 30 or 60
T = TypeVar("T")


class Answering:
    """`refuse` makes the response for what goes wrong before the first byte of a whole answer; `done` is called at the
    end."""

    def __init__(
        self,
        run: Run,
        writer: Writer,
        stream: bool,
        refuse: Callable[[HttpRefused], Response],
        done: Callable[[], None],
    ) -> None:
        self._run = run
        self._writer = writer
        self._stream = stream
        self._refuse = refuse
        self._done = done
        self._sending = 0
        self._sent = 0.0  # when something was sent last, by the loop's clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._stream:
                await unless_gone(receive, self._send_events(send))
            else:
                await unless_gone(receive, self._send_whole(scope, receive, send))
        finally:
            self._run.close()
            self._done()

    async def _send_events(self, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in (STREAM_HEADERS | self._names()).items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(send, self._writer.begin(self._run.counts))
        keeping = asyncio.create_task(self._keep_alive(send))
        try:
            end = await self._send_news(send)
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])  # nothing may come after the end
        await self._write(send, end, more=False)

    async def _send_news(self, send: Send) -> bytes:
        """Sends all news; returns what is to be sent last."""
        try:
            async with aclosing(self._run.news()) as all_news:
                async for news in all_news:
                    counts = self._run.counts
                    await self._write(send, b"".join(self._writer.write(one, counts) for one in news))
            return self._writer.finish(self._run.counts)
        except HttpRefused as refused:
            return self._writer.failed(refused)

    async def _keep_alive(self, send: Send) -> None:
        """While a request is queued or in prefill there is no news, and a proxy between us and the client would cut a
        silent connection. A task of its own, so that it takes nothing from the news."""
        while True:
            await asyncio.sleep(QUIET_SECONDS - self._quiet_for())
            if self._quiet_for() >= QUIET_SECONDS:
                await self._write(send, self._writer.keep_alive())

    def _quiet_for(self) -> float:
        """Seconds; none while something is being sent, however slowly its reader takes it."""
        return 0.0 if self._sending else asyncio.get_running_loop().time() - self._sent

    async def _write(self, send: Send, data: bytes, more: bool = True) -> None:
        self._sending += 1
        try:
            await send({"type": "http.response.body", "body": data, "more_body": more})
        finally:
            self._sending -= 1
            self._sent = asyncio.get_running_loop().time()

    async def _send_whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answers = await self._collect()
            body = dumped(self._writer.whole(answers, self._run.counts)).encode(errors="replace")
            response = Response(body, media_type=JSON)
        except HttpRefused as refused:
            response = self._refuse(refused)
        response.headers.update(self._names())
        await response(scope, receive, send)

    def _names(self) -> dict[str, str]:
        """The req_ids of the answers, as in the daemon's log."""
        names = ",".join(map(str, self._run.req_ids))
        return {"x-paceline-req-id": names} if names else {}

    async def _collect(self) -> list[Answer]:
        deltas: dict[int, list[Delta]] = {}
        ends: dict[int, Ended] = {}
        async with aclosing(self._run.news()) as all_news:
            async for news in all_news:
                for index, what in news:
                    if isinstance(what, Ended):
                        ends[index] = what
                    else:
                        deltas.setdefault(index, []).append(what)
        return [Answer.of(deltas.get(n, ()), end.reason, end.stopped) for n, end in sorted(ends.items())]


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None if the client disconnects before it is done, and then it is cancelled."""
    doing = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait([doing, gone], return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        for task in (doing, gone):
            task.cancel()
        await asyncio.wait([doing, gone])


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
