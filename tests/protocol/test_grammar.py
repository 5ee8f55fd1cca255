"""The table of usages: HELP prints it, errors quote it, and every form in it is built."""

from __future__ import annotations

import pytest
from paceline.protocol import Refusal, grammar, help_text, parse
from paceline.protocol.grammar import USAGES, Usage
from paceline.protocol.options import OPTIONS


def test_the_whole_grammar() -> None:
    lines = help_text(None).splitlines()
    assert [line.split(": ")[0] for line in lines[: len(USAGES)]] == [usage.form for usage in USAGES.values()]
    assert [line.split()[0] for line in lines[len(USAGES) :]] == ["prefixes,", "REQ", "SLOT"]


@pytest.mark.parametrize("name", USAGES)
def test_one_command(name: str) -> None:
    lines = help_text(name.lower()).splitlines()
    assert lines[0].startswith(USAGES[name].form + ": ")
    options = [option.form for option in OPTIONS.values()] if name in ("START", "RESTORE") else []
    assert [line.split(": ")[0] for line in lines[2:]] == options


def test_an_alias_is_its_command() -> None:
    assert help_text("CONT") == help_text("CONTINUE")


def test_no_such_topic() -> None:
    with pytest.raises(Refusal, match="'ME' is no command; expected: one of START") as caught:
        help_text("ME")
    assert caught.value.code == "bad_argument"


@pytest.mark.parametrize("usage", USAGES.values())
def test_errors_quote_the_form(usage: Usage) -> None:
    with pytest.raises(Refusal) as caught:
        parse("REQ 4 SLOT 0 " + usage.name + " x" * 9)
    assert caught.value.error.endswith(f"; expected: {usage.form}")


def test_what_the_forms_say() -> None:
    def named(*flags: str) -> list[str]:
        return [usage.name for usage in USAGES.values() if all(getattr(usage, flag) for flag in flags)]

    assert named("needs_req") == ["START", "CONTINUE", "RESTORE", "RESTORE_CHAIN"]
    assert named("takes_slot") == ["START", "CONTINUE", "CANCEL", "SNAPSHOT", "SNAPSHOT_THIN"]
    assert named("needs_slot") == ["SNAPSHOT", "SNAPSHOT_THIN"]
    assert {usage.name: (usage.least, usage.most) for usage in USAGES.values() if usage.most != usage.least} == {
        "START": (2, None),
        "CONTINUE": (1, 2),
        "CANCEL": (0, 1),
        "SCHED_BATCH_DRAIN": (0, 1),
        "SCHED_BATCH_PEEK": (0, 1),
        "SCHED_BATCH_PROBE": (0, 1),
        "SCHED_BATCH_TARGET_STEP": (0, 1),
        "SCHED_BATCH_TARGET_TAIL": (0, 1),
        "WAIT": (0, 1),
        "RESTORE": (3, None),
        "RESTORE_CHAIN": (4, 5),
        "TRACE": (1, 2),
        "HELP": (0, 1),
        "PING": (0, 1),
    }


def test_a_form_that_nothing_builds_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(grammar.USAGES, "DANCE", Usage("DANCE", "DANCE", "dances", False, False, False, 0, 0))
    with pytest.raises(AssertionError, match="DANCE"):
        parse("DANCE")


def test_a_refusal_has_a_code_of_the_contract() -> None:
    assert str(Refusal("stale", "epoch=7: request 4 holds slot 0 at epoch 1", 4)).startswith("stale: epoch=7")
    with pytest.raises(ValueError, match="'rotten' is no refusal code"):
        Refusal("rotten", "")
