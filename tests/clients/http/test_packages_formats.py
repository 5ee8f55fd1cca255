"""The packages that people have ask for answers in a form, of the demo model over a real proxy, and get them parsed."""

from typing import Any, Literal

import pytest

from .served import Served

pytestmark = pytest.mark.slow

ASKED: list[Any] = [{"role": "user", "content": "Ada is 36 and drinks tea. Answer as JSON."}]


@pytest.fixture(scope="module")
def forms() -> tuple[Any, Any]:
    """Two models of pydantic: a person with drinks, and one without a list. Anthropic's package leaves out how long a
    list may be, and this model would never end one."""
    from pydantic import BaseModel, Field

    class Drink(BaseModel):
        name: Literal["tea", "coffee"]
        sugar: bool | None

    class Person(BaseModel):
        name: str = Field(description="Of the person")
        age: int
        drinks: list[Drink] = Field(max_length=2)

    class Sober(BaseModel):
        name: Literal["Ada", "Eve"]
        age: int
        drink: Drink

    return Person, Sober


def test_openai_parses_a_chat(proxy: Served, forms: tuple[Any, Any]) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="geheim", max_retries=0)
    asked: dict[str, Any] = {"model": "any", "messages": ASKED, "max_tokens": 200, "temperature": 0}
    message = client.chat.completions.parse(**asked, response_format=forms[0]).choices[0].message
    assert isinstance(message.parsed, forms[0])
    with client.chat.completions.stream(**asked, response_format=forms[0]) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == message.parsed


def test_openai_parses_a_response(proxy: Served, forms: tuple[Any, Any]) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="geheim", max_retries=0)
    asked: dict[str, Any] = {"model": "any", "input": ASKED, "max_output_tokens": 200, "temperature": 0}
    found = client.responses.parse(**asked, text_format=forms[0])
    assert isinstance(found.output_parsed, forms[0])
    with client.responses.stream(**asked, text_format=forms[0]) as stream:
        assert stream.get_final_response().output_parsed == found.output_parsed


def test_anthropic_parses_a_message(proxy: Served, forms: tuple[Any, Any]) -> None:
    import anthropic

    client = anthropic.Anthropic(base_url=proxy.url, api_key="geheim", max_retries=0)
    found = client.messages.parse(
        model="any", max_tokens=200, messages=ASKED, output_format=forms[1], extra_body={"temperature": 0}
    )
    assert isinstance(found.parsed_output, forms[1])


def test_litellm_parses_a_chat(proxy: Served, forms: tuple[Any, Any]) -> None:
    import litellm

    found = litellm.completion(
        model="openai/any",
        api_base=f"{proxy.url}/v1",
        api_key="geheim",
        messages=ASKED,
        max_tokens=200,
        temperature=0,
        response_format=forms[0],
    )
    assert forms[0].model_validate_json(found.choices[0].message.content)
