"""Outputs held to grammars by a real daemon on real weights: they match, in any company, with the same tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from paceline.clients.model_text import open_tokenizer
from paceline.clients.tokenizer import Vocabulary
from paceline.protocol import Grammar, Ids, Message, Options, Sampling, Start, format_command

from .process import Process

SECONDS = 60.0
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "likes": {"type": "array", "items": {"enum": ["tea", "cake", "rain"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
DATE = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
VERSE = 'start: line+\nline: "la " /[a-z]{2,9}/ "\\n"'
QUESTION = "<|im_start|>user\nTell me about Ada, as JSON.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def vocabulary(demo_model: Path) -> Vocabulary:
    return open_tokenizer(demo_model)


def starts(ids: tuple[int, ...], quantum: int | None) -> list[str]:
    wishes = [
        Options(grammar=Grammar.json(PERSON)),
        Options(Sampling(temp=1.2, seed=7), grammar=Grammar.json(PERSON)),
        Options(Sampling(temp=0.8, top_p=0.9, seed=8, logprobs=2), grammar=Grammar("regex", DATE)),
        Options(Sampling(rep_penalty=1.2), grammar=Grammar("lark", VERSE)),
        Options(),
    ]
    return [
        format_command(Start(Ids(ids), 120, quantum, options, req_id=req_id))
        for req_id, options in enumerate(wishes, 1)
    ]


def test_outputs_match_in_any_company(demo_model: Path, vocabulary: Vocabulary) -> None:
    ids = tuple(vocabulary.encode(QUESTION))
    flags = (str(demo_model), "--max-ctx=512", "--slots=5")
    with Process(*flags, engine="cpu") as daemon:
        for line in starts(ids, None):
            daemon.send(line, "WAIT")
        assert daemon.finish(SECONDS) == 0
        alone = [daemon.tokens(req_id) for req_id in range(1, 6)]
        reasons = [daemon.end_of(req_id)["reason"] for req_id in range(1, 6)]
    with Process(*flags, "--auto", "--step-tokens=7", engine="cpu") as daemon:
        daemon.send(*starts(ids, 3))
        assert daemon.finish(SECONDS) == 0
        assert [daemon.tokens(req_id) for req_id in range(1, 6)] == alone
    for tokens in alone[:2]:
        person = json.loads(vocabulary.decode(tokens))
        assert list(person) == ["name", "age", "likes"] and 0 <= person["age"] <= 120
        assert 1 <= len(person["likes"]) <= 3 and set(person["likes"]) <= {"tea", "cake", "rain"}
    assert reasons[:3] == ["eos"] * 3
    assert re.fullmatch(DATE, vocabulary.decode(alone[2]))
    lines = vocabulary.decode(alone[3])
    assert re.fullmatch(r"(la [a-z]{2,9}\n)+", lines) or reasons[3] == "length"
    assert re.match(r"la [a-z]{2,9}\n", lines)


def test_log_probabilities_are_the_models_own(demo_model: Path, vocabulary: Vocabulary) -> None:
    """What is not allowed may be likelier, and is told so."""
    ids = tuple(vocabulary.encode(QUESTION))
    options = Options(Sampling(logprobs=1), grammar=Grammar("regex", "zzz"))
    with Process(str(demo_model), "--max-ctx=512", engine="cpu") as daemon:
        daemon.send(format_command(Start(Ids(ids), 9, None, options, req_id=1)))
        assert daemon.finish(SECONDS) == 0
        messages = [item.body for item in daemon.items if isinstance(item, Message)]
    told = [body for body in messages if body.get("event") == "logprobs"]
    assert vocabulary.decode(daemon.tokens(1)) == "zzz"
    assert told[0]["token"] != told[0]["top"][0][0] and told[0]["logprob"] < told[0]["top"][0][1]


def test_a_refusal_names_the_fault(demo_model: Path) -> None:
    with Process(str(demo_model), "--max-ctx=512", engine="cpu") as daemon:
        daemon.send('REQ 1 START ids:1 9 grammar={"json":{"type":"strin"}}', "REQ 1 START ids:1 1")
        assert daemon.finish(SECONDS) == 0
        refused = daemon.reply(1)
        assert refused["code"] == "bad_argument" and "Invalid type: strin" in refused["error"]
        assert daemon.reply(2)["ok"]
    with Process() as daemon:
        daemon.send('REQ 1 START ids:1 9 stop=2 grammar={"json":true}')
        assert daemon.finish(SECONDS) == 0
        assert daemon.reply(1)["code"] == "unsupported"
