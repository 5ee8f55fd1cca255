"""OpenAI's Agents SDK, over both of OpenAI's APIs: it runs the tools that a model calls, and tells it the results."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .served import Served
from .test_tools_served import CALLS, TEMPLATE, WORDS
from .worded import with_words

pytestmark = pytest.mark.slow

PROMPTS = [one + other for one in WORDS for other in WORDS[:3]]
CALLED = [(name, f"é {name}") for name in CALLS]


@pytest.fixture(scope="module")
def served(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("agents") / "tools.gguf"
    with_words(tiny_model(seed=4), path, [], WORDS, TEMPLATE, others=0.01)
    with Served(str(path), "--threads", "1") as served:
        yield served


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("api", ["responses", "chat"])
def test_it_runs_what_is_called(served: Served, api: str, streamed: bool) -> None:
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    called: list[tuple[str, str]] = []

    def tool(name: str) -> Any:
        async def run(context: Any, arguments: str) -> str:
            called.append((name, json.loads(arguments)["text"]))
            return "Sunny."

        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return agents.FunctionTool(name, "One.", schema, run, strict_json_schema=False)

    async def main() -> set[str]:
        client = AsyncOpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0)
        kind = agents.OpenAIResponsesModel if api == "responses" else agents.OpenAIChatCompletionsModel
        settings = agents.ModelSettings(temperature=0, max_tokens=24)
        agent = agents.Agent(
            name="A", instructions="Be brief.", tools=[tool("f"), tool("g")], model=kind("any", client),
            model_settings=settings,
        )  # fmt: skip
        ends = set()
        for prompt in PROMPTS:
            try:
                if streamed:
                    run = agents.Runner.run_streamed(agent, prompt, max_turns=3)
                    async for _ in run.stream_events():
                        pass
                else:
                    await agents.Runner.run(agent, prompt, max_turns=3)
                ends.add("said")
            except agents.MaxTurnsExceeded:
                ends.add("called on and on")
            except agents.ModelBehaviorError as problem:  # what it makes of an answer that was cut off
                assert api == "responses" and "max_output_tokens" in str(problem)
        await client.close()
        return ends

    assert asyncio.run(main()) == {"said", "called on and on"}
    assert called and set(called) <= set(CALLED)
