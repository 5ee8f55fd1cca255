"""A request's answers in this process, with a real daemon behind: what goes wrong ends it, and leaves nothing live."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from paceline.clients.http import run as run_module
from paceline.clients.http.app import Limits, Proxy
from paceline.clients.http.engine import Engine
from paceline.clients.http.news import Ended, News
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests.asked import Asked, Ids
from paceline.clients.http.run import Run
from paceline.clients.http.speech.cutter import Cutter

ASKED = Asked((Ids((1, 2, 3)),), most=40, n=3)
STREAMED = replace(ASKED, stream=True)


def with_engine(test: Callable[[Engine], Awaitable[None]], *flags: str) -> None:
    async def run() -> None:
        engine = Engine(["--engine", "null", "--auto", *flags], lambda line: None)
        await engine.open()
        try:
            await asyncio.wait_for(test(engine), 30)
        finally:
            await engine.close()

    asyncio.run(run())


async def all_news(run: Run) -> list[News]:
    return [one async for some in run.news() for one in some]


async def live(engine: Engine) -> list[Any]:
    found: list[Any] = (await engine.ask("LIST_REQUESTS"))[0]["requests"]
    return found


def test_all_answers_come() -> None:
    async def test(engine: Engine) -> None:
        run = await Run.start(engine, ASKED, 60)
        news = await all_news(run)
        assert sorted(one.number for one in news if isinstance(one.what, Ended)) == [0, 1, 2]
        assert (run.counts.prompt, run.counts.answer) == (3, 120)

    with_engine(test)


def test_answers_are_started_together() -> None:
    """Not each after another step, for whose end its reply would wait."""

    async def test(engine: Engine) -> None:
        run = await Run.start(engine, replace(ASKED, n=12, options={"seed": 3}), 60)
        assert (await engine.ask("STATS"))[0]["steps"] <= 6
        assert len(run.req_ids) == 12 and run.req_ids == sorted(run.req_ids)
        run.close()

    with_engine(test, "--slots", "12", "--fault", "slow:200")


def test_a_fault_of_ours_ends_the_request_and_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("planted")

    async def test(engine: Engine) -> None:
        monkeypatch.setattr(Cutter, "push", broken)
        with pytest.raises(HttpRefused) as refused:
            await all_news(await Run.start(engine, ASKED, 60))
        assert refused.value.status == 500 and "planted" not in refused.value.message
        assert await live(engine) == []

    with_engine(test, "--fault", "slow:20")
    assert "planted" in caplog.text


def test_what_nobody_takes_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "MOST_UNSENT", 10)

    async def test(engine: Engine) -> None:
        run = await Run.start(engine, STREAMED, 60)
        news = run.news()
        with pytest.raises(HttpRefused) as refused:
            async for _ in news:
                await asyncio.sleep(0.5)
        assert refused.value.code == "slow_reader" and await live(engine) == []

    with_engine(test, "--fault", "slow:5")


def test_a_whole_answer_has_no_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "MOST_UNSENT", 10)

    async def test(engine: Engine) -> None:
        run = await Run.start(engine, ASKED, 60)
        ends = 0
        async for news in run.news():
            ends += sum(isinstance(one.what, Ended) for one in news)
            await asyncio.sleep(0.1)
        assert (ends, run.counts.answer) == (3, 120)

    with_engine(test)


def test_pieces_that_come_all_at_once_are_no_fault_of_their_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "MOST_UNSENT", 10)

    async def test(engine: Engine) -> None:
        run = await Run.start(engine, STREAMED, 60)
        await asyncio.sleep(0.2)  # they are all there
        assert len(await all_news(run)) == 123

    with_engine(test)


def test_more_answers_than_ever_have_room_are_not_to_be_tried_again() -> None:
    async def test(engine: Engine) -> None:
        engine.queue = 1  # as the flag says
        prompts = (Ids((1,)), Ids((2,)), Ids((3,)))
        for asked, param in ((ASKED, "n"), (replace(ASKED, most=1), "n"), (Asked(prompts, 40), "prompt")):
            with pytest.raises(HttpRefused, match="3 answers, expected at most 2") as refused:
                await Run.start(engine, asked, 60)
            assert (refused.value.status, refused.value.param) == (400, param)
        with pytest.raises(HttpRefused) as refused:
            await Run.start(engine, Asked(ASKED.prompts, 4096), 60)
        assert (refused.value.param, refused.value.code) == ("max_tokens", "context_length_exceeded")
        assert await live(engine) == []

    with_engine(test, "--slots", "1", "--queue", "1", "--fault", "slow:20")


def test_equal_answers_need_no_room_of_their_own() -> None:
    async def test(engine: Engine) -> None:
        engine.queue = 1  # as the flag says
        run = await Run.start(engine, ASKED, 60)
        assert len(run.req_ids) == 3
        run.close()
        with pytest.raises(HttpRefused, match="3 answers, expected at most 2"):
            await Run.start(engine, Asked((Ids((1,)), Ids((2,)), Ids((3,))), 40), 60)

    with_engine(test, "--slots", "1", "--queue", "1", "--coalesce", "--fault", "slow:20")


def test_more_tokens_than_may_ever_wait_are_not_to_be_tried_again() -> None:
    async def test(engine: Engine) -> None:
        for asked, param in ((ASKED, "n"), (Asked((Ids((1, 2, 3)), Ids((2,)), Ids((3, 4, 5, 6))), 40), "prompt")):
            with pytest.raises(HttpRefused, match=r"the others would wait with [56] tokens .* at most 4") as refused:
                await Run.start(engine, asked, 60, 4)
            assert (refused.value.status, refused.value.param) == (400, param)
        busy = await Run.start(engine, Asked(ASKED.prompts, 40), 60, 4)
        with pytest.raises(HttpRefused) as refused:  # for which there is room when nobody else is here
            await Run.start(engine, Asked((Ids((1, 2, 3)), Ids((4, 5, 6))), 40), 60, 4)
        assert refused.value.status == 429
        busy.close()
        assert await live(engine) == []

    with_engine(test, "--slots", "1", "--queue-tokens", "4", "--fault", "slow:20")


def test_the_first_problem_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(engine: Engine) -> None:
        run = await Run.start(engine, STREAMED, 60)
        pumped = run._pump

        async def pump(index: int) -> None:
            if index == 0:
                await asyncio.sleep(0.1)  # the others have been heard of
                monkeypatch.setattr(run_module, "MOST_UNSENT", 0)
            await pumped(index)
            monkeypatch.setattr(run_module, "MOST_UNSENT", 4096)  # so they end as they were cancelled

        monkeypatch.setattr(run, "_pump", pump)
        with pytest.raises(HttpRefused) as refused:
            async for _ in run.news():
                await asyncio.sleep(1)
        assert refused.value.code == "slow_reader"

    with_engine(test, "--fault", "slow:5")


def test_a_refused_answer_takes_the_others_with_it() -> None:
    async def test(engine: Engine) -> None:
        with pytest.raises(HttpRefused) as refused:
            await Run.start(engine, ASKED, 60)
        assert refused.value.status == 429 and await live(engine) == []

    with_engine(test, "--slots", "1", "--queue", "1", "--fault", "slow:20")


def test_what_no_line_can_say_is_the_senders_fault() -> None:
    async def test(engine: Engine) -> None:
        with pytest.raises(HttpRefused, match="cannot take this request") as refused:
            await Run.start(engine, Asked(ASKED.prompts, 40, {"temp": -1.0}), 60)
        assert refused.value.status == 400 and await live(engine) == []

    with_engine(test)


def test_a_fault_of_ours_leaves_the_connection_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("planted")

    async def test(engine: Engine) -> None:
        monkeypatch.setattr(Run, "start", broken)
        app = Proxy(engine, Limits()).app()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as http:
            answer = await http.post("/v1/completions", json={"prompt": "Hi"})  # raises what goes through the app
        assert answer.status_code == 500 and "planted" not in answer.text

    with_engine(test)
    assert "planted" in caplog.text


def test_a_failed_step_is_the_engines_fault() -> None:
    async def test(engine: Engine) -> None:
        with pytest.raises(HttpRefused) as refused:
            await all_news(await Run.start(engine, ASKED, 60))
        assert (refused.value.status, refused.value.code) == (500, "step_failed")
        assert await live(engine) == []

    with_engine(test, "--fault", "row:0@5")  # a second slot is only used if its line comes before the first one ends


@pytest.mark.parametrize("state", ["queued", "prefill", "decode"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_reader_that_leaves_is_cancelled_before_the_next_step(state: str, stream: bool) -> None:
    """What is asked a moment after it has gone is answered between the same two steps, and the request is not there."""

    async def test(engine: Engine) -> None:
        body = json.dumps({"prompt": [1] * 500, "max_tokens": 500, "stream": stream}).encode()
        messages = [{"type": "http.request", "body": body}]
        left = asyncio.Event()

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        if state == "queued":
            await engine.client.start([1], 1000)
        app = Proxy(engine, Limits()).app()
        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [], "query_string": b""}
        answering = asyncio.create_task(app(scope, receive, send))
        while not any(request["state"] == state for request in await live(engine)):
            await asyncio.sleep(0.005)
        steps = (await engine.ask("STATS"))[0]["steps"]
        left.set()
        for _ in range(20):
            await asyncio.sleep(0)
        stats, requests = await engine.ask("STATS", "LIST_REQUESTS")
        assert len(requests["requests"]) == (state == "queued")
        assert stats["steps"] <= steps + 2  # the one that was running, and one more if that ended in between
        await answering

    with_engine(test, "--slots", "1", "--fault", "slow:150", "--prefill-tokens", "128")
