"""The client with a real daemon process, on the null engine."""

import asyncio
import os
import threading
import warnings
from collections.abc import Callable, Sequence

import pytest
from paceline.clients import Client, DaemonGone, Refused, RequestFailed
from paceline.clients.stream import Stream

NULL = ["--engine", "null"]


def in_threads(calls: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_a_request_from_start_to_end() -> None:
    with Client.spawn(NULL) as client:
        assert (client.ready["model"], client.ready["vocab"]) == ("null", 32000)
        stream = client.start([1, 2, 3], total=16, hash=True)
        tokens = list(stream)
        assert stream.end is not None
        assert (len(tokens), stream.end["reason"], stream.end["tokens"]) == (16, "length", 16)
        assert len(stream.end["logits_sha256"]) == 64
        again = client.start([1, 2, 3], total=16, quantum=5, slot=(stream.reply["slot"] + 1) % 4)
        assert client.command("PING hello")["pong"] == "hello"
        assert len(again.turn()) == 5
        again.proceed(1)
        assert again.turn() == tokens[5:6]
        again.proceed(99)
        assert list(again) == tokens[6:]
        assert client.close() == 0


def test_a_request_goes_on_from_a_snapshot() -> None:
    with Client.spawn(NULL) as client:
        first = client.start([1, 2, 3], total=9, quantum=4)
        tokens = first.turn()
        client.command(f"SLOT {first.reply['slot']} SNAPSHOT a")
        prompt = [1, 2, 3, *tokens, 5]
        again = client.restore("a", prompt, total=6, hash=True)
        assert list(again) == list(client.start(prompt, total=6))
        assert again.end is not None and again.end["cached_tokens"] == 6
        with pytest.raises(Refused, match="there is no snapshot 'b'"):
            client.restore("b", prompt, 6)
        with pytest.raises(TypeError, match="slot: no option of RESTORE"):
            client.restore("a", prompt, 6, slot=1)


def test_its_frames_are_tagged_whatever_was_asked_for() -> None:
    for words in (["--stream", "text"], ["--"]):
        with Client.spawn([*NULL, *words]) as client:
            assert len(list(client.start([1], total=3))) == 3


def test_a_client_stays_in_its_process() -> None:
    with Client.spawn(NULL) as client:
        with warnings.catch_warnings(action="ignore"):  # of later Pythons, about threads
            child = os.fork()
        if not child:
            try:
                client.command("PING")
            except RuntimeError as problem:
                os._exit(7 if "the process that made it" in str(problem) else 8)
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert client.command("PING here")["pong"] == "here"


def test_after_the_end_a_running_loop_is_told_so_too() -> None:
    client = Client.spawn(NULL)
    client.close()

    async def notebook() -> None:
        with pytest.raises(DaemonGone, match="the client was closed"):
            client.start([1], 1)

    asyncio.run(notebook())


def test_a_thread_for_each_stream_and_a_drain() -> None:
    alone: dict[int, list[int]] = {}
    together: dict[int, list[int]] = {}
    with Client.spawn([*NULL, "--max-batch", "3"]) as client:
        for prompt in range(6):
            alone[prompt] = list(client.start([prompt, 7], total=40))
        for _ in range(3):
            streams = {prompt: client.start([prompt, 7], total=40, quantum=4) for prompt in range(6)}

            def collect(prompt: int, stream: Stream) -> None:
                together[prompt] = list(stream)

            client.command("SCHED_DRAIN")
            in_threads([lambda item=item: collect(*item) for item in streams.items()])  # type: ignore[misc]
            assert together == alone
            together.clear()
        events = client.events()
        assert [next(events)["event"] for _ in range(3)] == ["drained"] * 3


def test_many_threads_send_commands_at_once() -> None:
    with Client.spawn([*NULL, "--queue", "200"]) as client:

        def work(name: int) -> None:
            for turn in range(20):
                assert client.command(f"PING w{name}.{turn}")["pong"] == f"w{name}.{turn}"
                assert len(list(client.start([name + 1], total=5))) == 5

        in_threads([lambda name=name: work(name) for name in range(8)])  # type: ignore[misc]


def test_a_cancelled_request_stops() -> None:
    with Client.spawn([*NULL, "--fault", "slow:5"]) as client:
        stream = client.start([1], total=4000)
        tokens = iter(stream)
        assert next(tokens) >= 0
        assert stream.cancel() is True
        assert len(list(tokens)) < 1000
        assert stream.end is not None and stream.end["reason"] == "cancelled"
        assert stream.cancel() is False


def test_refusals_and_failures_are_errors() -> None:
    with Client.spawn([*NULL, "--fault", "row:1@1", "--max-ctx", "64"]) as client:
        with pytest.raises(Refused) as refused:
            client.start([1] * 60, total=10)
        assert refused.value.code == "context_overflow"
        with pytest.raises(Refused, match="no_such_slot"):
            client.start([1], total=10, slot=9)
        good, bad = client.start([1], total=10, slot=0), client.start([1], total=10, slot=1)
        with pytest.raises(RequestFailed):
            list(bad)
        assert len(list(good)) == 10


def test_a_stream_shows_what_it_has_and_no_more() -> None:
    with Client.spawn(NULL) as client:
        stream = client.start([1], total=8, quantum=1)
        assert (stream.req_id, stream.live, stream.end, stream.reply["prompt_tokens"]) == (1, True, None, 1)
        for name in ("some", "deliver", "_post"):
            with pytest.raises(AttributeError, match=name):
                getattr(stream, name)
