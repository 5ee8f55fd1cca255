"""Lines of any words: each has one reply, a refused one changes nothing, and the other requests come to their end."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from driver import Driver, terminal_of, tokens_of
from dump import state_of
from paceline.protocol import DONE, Message

VERBS = (
    *("START", "CONTINUE", "CONT", "CANCEL", "SCHED_STEP", "SCHED_DRAIN", "SCHED_AUTO", "WAIT", "STATS", "PING"),
    *("HELP", "LIST_REQUESTS", "TRACE", "SCHED_BATCH_PEEK", "SCHED_BATCH_PROBE", "SCHED_BATCH_TARGET_STEP"),
)
PREFIXES = ("REQ 1", "REQ 2", "REQ=99", "REQ 0", "SLOT 0", "SLOT 1", "SLOT 9", "REQ x", "")
WORDS = ("ids:1,2,3", "ids:", "ids:1,-1", "/no/such/file", "1", "5", "300", "99999999999", "on", "off", "nan", "temp=1")
ODD = ("temp=nan", "top_k=3", "seed=5", "stop=1,2", "epoch=1", "hash=1", "step=2", "\x00", "☃", "=", "x" * 200)


def lines(chance: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        words = [chance.choice(PREFIXES), chance.choice(VERBS), *chance.choices(WORDS + ODD, k=chance.randrange(4))]
        if chance.random() < 0.3:
            chance.shuffle(words)
        yield " ".join(words)


@pytest.mark.parametrize("seed", range(5))
def test_any_words(seed: int) -> None:
    chance = random.Random(seed)
    driver = Driver(slots=3)
    assert driver.reply("REQ 1000 SLOT 2 START ids:4,5 200 3")["ok"]
    expected = Driver(slots=3)
    expected.send("REQ 1000 SLOT 2 START ids:4,5 200 3")
    replies = sent = 0
    for line in lines(chance, 60):
        before = state_of(driver.session)
        items = driver.send(line)
        sent += 1
        if items and isinstance(items[0], Message) and items[0].body.get("ok") is False:
            assert len(items) == 1 and state_of(driver.session) == before, line
        while driver.session.holding:  # its reply comes after a step
            items = driver.step()
            if not items and driver.session.holding:
                pytest.fail(f"{line!r}: lines are held, and nothing is due")
        if chance.random() < 0.5:
            driver.step()
    replies = sum(isinstance(item, Message) and "re" in item.body for item in driver.items)
    assert replies == sent + 1
    driver.send("SCHED_DRAIN")
    driver.end()
    expected.send("SCHED_DRAIN")
    expected.end()
    if terminal_of(driver.items, 1000) == DONE:
        assert tokens_of(driver.items, 1000) == tokens_of(expected.items, 1000)
