"""Sixteen conversations at once through each package that people have: each gets what the daemon gives it alone."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from .conftest import HELLO
from .served import Served

pytestmark = pytest.mark.slow


def openai_sync(proxy: Served, asked: dict[str, Any]) -> list[str]:
    import openai

    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="geheim", max_retries=0)

    def ask(stream: bool) -> str:
        if not stream:
            return client.chat.completions.create(**asked).choices[0].message.content or ""
        chunks = client.chat.completions.create(**asked, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(ask, [True, False] * 8))


def openai_async(proxy: Served, asked: dict[str, Any]) -> list[str]:
    import openai

    async def ask(client: openai.AsyncOpenAI, stream: bool) -> str:
        if not stream:
            return (await client.chat.completions.create(**asked)).choices[0].message.content or ""
        chunks = await client.chat.completions.create(**asked, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    async def run() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="geheim", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, stream) for stream in [True, False] * 8))

    return asyncio.run(run())


def anthropic_async(proxy: Served, asked: dict[str, Any]) -> list[str]:
    import anthropic

    body = {"model": "any", "messages": asked["messages"], "max_tokens": asked["max_tokens"]}
    body["extra_body"] = {"temperature": asked["temperature"]}

    async def ask(client: anthropic.AsyncAnthropic, stream: bool) -> str:
        if stream:
            async with client.messages.stream(**body) as events:
                return "".join([text async for text in events.text_stream])
        return "".join(block.text for block in (await client.messages.create(**body)).content if block.type == "text")

    async def run() -> list[str]:
        async with anthropic.AsyncAnthropic(base_url=proxy.url, api_key="geheim", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, stream) for stream in [True, False] * 8))

    return asyncio.run(run())


def litellm_async(proxy: Served, asked: dict[str, Any]) -> list[str]:
    import litellm

    body = asked | {"model": "openai/any", "api_base": f"{proxy.url}/v1", "api_key": "geheim"}

    async def ask(stream: bool) -> str:
        if not stream:
            return (await litellm.acompletion(**body)).choices[0].message.content or ""
        chunks = await litellm.acompletion(**body, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    async def run() -> list[str]:
        return await asyncio.gather(*(ask(stream) for stream in [True, False] * 8))

    return asyncio.run(run())


def httpx_async(proxy: Served, asked: dict[str, Any]) -> list[str]:
    async def ask(client: httpx.AsyncClient, stream: bool) -> str:
        answer = await client.post("/v1/chat/completions", json=asked | {"stream": stream})
        if not stream:
            return str(answer.json()["choices"][0]["message"]["content"])
        data = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: {")]
        return "".join(json.loads(line)["choices"][0]["delta"].get("content", "") for line in data)

    async def run() -> list[str]:
        headers = {"authorization": "Bearer geheim"}
        async with httpx.AsyncClient(base_url=proxy.url, headers=headers, timeout=60) as client:
            return await asyncio.gather(*(ask(client, stream) for stream in [True, False] * 8))

    return asyncio.run(run())


@pytest.mark.parametrize("ask", [openai_sync, openai_async, anthropic_async, litellm_async, httpx_async])
def test_sixteen_at_once(proxy: Served, direct: str, ask: Callable[[Served, dict[str, Any]], list[str]]) -> None:
    asked = {"model": "any", "messages": HELLO, "max_tokens": 40, "temperature": 0}
    assert ask(proxy, asked) == [direct] * 16
