"""Shared by the commands that start a daemon of their own: `run` and `bench`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tqdm import tqdm

from .async_client import AsyncClient
from .errors import ChatRefused, DaemonGone, Refused, RequestFailed
from .stream import AsyncStream

USAGE: Final = 2
FAILED: Final = 70
POLL_SECONDS: Final = 0.1
BAR_SECONDS: Final = 0.5  # a shorter prefill gets no bar


def with_daemon(command: str, args: Sequence[str], work: Callable[[AsyncClient], Awaitable[None]]) -> int:
    """The exit code. The daemon's stderr is ours: its progress bars, and its reasons if it cannot start."""
    return asyncio.run(_with_daemon(command, args, work))


async def _with_daemon(command: str, args: Sequence[str], work: Callable[[AsyncClient], Awaitable[None]]) -> int:
    client = await AsyncClient.spawn(["--log", "none", *args], stderr=None)
    try:
        async with client:
            await work(client)
        return 0
    except (Refused, ChatRefused, ValueError) as problem:
        print(f"paceline {command}: {problem}", file=sys.stderr)
        return USAGE
    except RequestFailed as problem:
        print(f"paceline {command}: {problem}", file=sys.stderr)
        return FAILED
    except DaemonGone as gone:
        code = await client.close()
        if code is None or code < 0 or await _was_ready(client):  # otherwise it has said itself why it cannot start
            print(f"paceline {command}: {str(gone).splitlines()[0]}", file=sys.stderr)
        return code if code and code > 0 else FAILED


async def _was_ready(client: AsyncClient) -> bool:
    try:
        await client.ready
    except DaemonGone:
        return False
    return True


async def show_prefill(client: AsyncClient, stream: AsyncStream) -> None:
    """A bar on a terminal during prefill; to be run as a task that is cancelled when the first token comes."""
    tokens = stream.reply["prompt_tokens"]
    terminal = sys.stderr.isatty()
    with tqdm(
        total=tokens, desc="prefilling", unit=" tokens", leave=False, delay=BAR_SECONDS, disable=not terminal
    ) as bar:
        while terminal and stream.live:
            live = {request["req"]: request for request in (await client.command("LIST_REQUESTS"))["requests"]}
            here = live.get(stream.req_id)
            if here is None or here["state"] not in ("queued", "prefill"):
                return
            bar.update(here["position"] - bar.n)
            await asyncio.sleep(POLL_SECONDS)
