"""What a client's user does at a bad moment: gives up waiting, raises in a callback, calls a daemon that is gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest
from paceline.clients import AsyncClient, Client
from paceline.clients.errors import DaemonGone
from paceline.protocol import Item

NULL = ["--engine", "null"]


def test_a_turn_that_is_given_up_can_be_read_again() -> None:
    async def run() -> None:
        async with asyncio.timeout(30), await AsyncClient.spawn([*NULL, "--fault", "slow:5"]) as client:
            expected = await (await client.start([1, 2, 3], 20)).turn()
            stream = await client.start([1, 2, 3], 20, logprobs=1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.turn(), 0.03)
            assert await stream.turn() == expected

    asyncio.run(run())


def test_calls_on_a_daemon_that_is_gone_keep_nothing() -> None:
    with Client.spawn(NULL) as client:
        process = client.process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        frames = []
        for _ in range(20):
            with pytest.raises(DaemonGone) as caught:
                client.start([1], 3)
            frames.append(len(caught.traceback))
        assert max(frames[1:]) == frames[1]


def test_a_watcher_that_raises_ends_nothing() -> None:
    seen: list[Item] = []

    def watch(item: Item) -> None:
        seen.append(item)
        raise KeyError("mine")

    with Client.spawn(NULL, watch=watch) as client:
        assert len(list(client.start([1], 5))) == 5
    assert len(seen) > 5


def test_a_prompt_may_fill_a_large_context() -> None:
    with Client.spawn([*NULL, "--max-ctx", "200000", "--slots", "1"]) as client:
        assert len(list(client.start([30000] * 190_000, 2))) == 2


def test_text_is_found_from_any_folder(demo_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(demo_model, "m.gguf")
    with Client.spawn(["m.gguf", "--max-ctx", "64", "--slots", "1"]) as client:
        assert client.ready["path"] == str(tmp_path / "m.gguf")
        monkeypatch.chdir("/")
        assert next(iter(client.generate("Once upon", max_tokens=1))).text
