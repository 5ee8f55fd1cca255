"""What an answer may be like is tried ahead: the answer stays what it is, and its usage tells how much was right."""

import json
from typing import Any

import pytest

from .served import Served

ASKED: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Tell me about the sea."}],
    "max_tokens": 48,
    "temperature": 0.7,
    "seed": 3,
    "ignore_eos": True,
}
CHAT = "/v1/chat/completions"


def test_a_prediction_that_comes_true(proxy: Served) -> None:
    plain = proxy.post(CHAT, **ASKED).json()
    said = plain["choices"][0]["message"]["content"]
    assert set(plain["usage"]["completion_tokens_details"]) == {"reasoning_tokens"}
    asked = ASKED | {"prediction": {"type": "content", "content": said}}
    whole = proxy.post(CHAT, **asked).json()
    assert whole["choices"][0]["message"]["content"] == said
    tried = whole["usage"]["completion_tokens_details"]
    assert tried["accepted_prediction_tokens"] > 24 > tried["rejected_prediction_tokens"]
    chunks = proxy.post(CHAT, **asked, stream=True, stream_options={"include_usage": True}).text.split("\n\n")
    last = json.loads(chunks[-3].removeprefix("data: "))
    assert last["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] > 24


@pytest.mark.parametrize("prediction", ["", "Something else altogether, which never comes."])
def test_one_that_does_not(proxy: Served, prediction: str) -> None:
    plain = proxy.post(CHAT, **ASKED).json()
    found = proxy.post(CHAT, **ASKED, prediction={"type": "content", "content": prediction}).json()
    assert found["choices"] == plain["choices"]


def test_one_that_no_context_holds(proxy: Served) -> None:
    asked = ASKED | {"prediction": {"type": "content", "content": "sea " * 600}}
    refused = proxy.post(CHAT, **asked)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "prediction"
