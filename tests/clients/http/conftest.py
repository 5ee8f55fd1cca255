"""The demo model behind a real proxy, for the packages that people have; and what no test may log."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.client import Client
from paceline.clients.model_text import open_chat_template, open_tokenizer

from .served import Served

HELLO: list[Any] = [{"role": "user", "content": "Name three rivers."}]


@pytest.fixture(scope="module")
def proxy(demo_model: Path) -> Iterator[Served]:
    with Served(str(demo_model), "--slots", "8", "--max-ctx", "512", env={"PACELINE_API_KEY": "geheim"}) as served:
        served.http.headers["x-api-key"] = "geheim"
        yield served


@pytest.fixture(scope="module")
def direct(demo_model: Path) -> str:
    """What the daemon says to the same ids, asked directly."""
    tokens = open_tokenizer(demo_model)
    ids = tokens.encode(open_chat_template(demo_model).render(HELLO))
    with Client.spawn([str(demo_model), "--max-ctx", "512"]) as client:
        return tokens.decode(client.start(ids, total=40))


@pytest.fixture
def no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that a client does is an error of ours."""
    yield
    assert [one.getMessage() for one in caplog.get_records("call") if one.levelno >= logging.ERROR] == []
