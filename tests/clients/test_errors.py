"""What a client raises crosses to another process, as out of a pool of workers, and stays what it was."""

import copy
import pickle
from pathlib import Path

import pytest
from paceline.clients.chat import BrokenTemplate, ChatRefused, NoTemplate
from paceline.clients.errors import DaemonGone, Refused, RequestFailed
from paceline.clients.http.refused import HttpRefused
from paceline.native.weights import ModelUnreadable
from paceline.protocol import BrokenStream, Frame, Refusal

PROBLEMS = [
    Refused("queue_full", "the queue is full"),
    RequestFailed("internal", "a step failed"),
    DaemonGone("it has gone"),
    ChatRefused("no roles"),
    ModelUnreadable("two\nlines"),
    NoTemplate("it has none"),
    BrokenTemplate(Path("/models/a.gguf"), "it does not end"),
    HttpRefused(400, "prompt: is empty", "prompt", "invalid_value"),
    Refusal("bad_argument", "no number", 7),
    BrokenStream(12, "tag 5", (Frame(1, 9),)),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_it_stays_what_it_was(problem: Exception) -> None:
    problem.add_note("seen by a worker")
    for again in (pickle.loads(pickle.dumps(problem)), copy.copy(problem)):
        assert (type(again), str(again), vars(again)) == (type(problem), str(problem), vars(problem))


def test_what_they_say() -> None:
    assert [str(problem) for problem in PROBLEMS] == [
        "queue_full: the queue is full",
        "internal: a step failed",
        "it has gone",
        "no roles",
        "two lines",
        "it has none",
        "cannot use the chat template of /models/a.gguf: it does not end",
        "prompt: is empty",
        "bad_argument: no number",
        "offset 12: tag 5",
    ]
