"""A parent of the original at the session: it writes a line and reads values until one of them is negative."""

from __future__ import annotations

import struct

from driver import Driver, limits
from hypothesis import example, given
from hypothesis import strategies as st
from paceline.protocol import DONE, YIELD, BareStream, Item

DRAINS = ("SCHED_DRAIN", "SCHED_BATCH_DRAIN 2")
ANSWERED = (
    *("REQ 4 START ids:1,2 9 2", "REQ 5 START ids:3 4", "ids:1,2,3 5", "SLOT 1 ids:7 3 temp=0.5", "./nowhere 5"),
    *("REQ 4 CONTINUE 1", "REQ 4 CONTINUE 3", "REQ 4 CONT 2 epoch=1", "REQ 4 CANCEL", "CANCEL 1", "SCHED_STEP"),
    *("LIST_REQUESTS", "LIST_TARGET_CACHE_SLOTS", "SCHED_BATCH_PEEK", "SCHED_BATCH_PROBE", "CONTINUE 2", "park all"),
    *("REQ 6 RESTORE a ids:1,2,3,4,5,6 3 1", "REQ 6 RESTORE_CHAIN -1 - ids:1 3 1"),
)
SILENT = (
    "SLOT 0 SNAPSHOT a",
    "SNAPSHOT 0",
    "FREE_SNAPSHOT a",
    "LIST_SLOTS",
    "PING",
    "STATS",
    "PING a b",
    "SCHED_AUTO on",
)


TARGETS = ("SCHED_BATCH_TARGET_STEP", "SCHED_BATCH_TARGET_TAIL")


class Parent:
    def __init__(self, auto: bool = False) -> None:
        self._stream = BareStream(auto)
        self.driver = Driver(limits(context=64, alone=True, auto=auto), parse=self._stream.read)

    def write(self, line: str) -> list[int]:
        return self._values(self.driver.send(line))

    def read(self) -> list[int]:
        return self._values(self.driver.run())

    def _values(self, items: list[Item]) -> list[int]:
        data = self._stream.encode(items)
        return list(struct.unpack(f"<{len(data) // 4}i", data))


@given(st.lists(st.sampled_from((*ANSWERED, *SILENT, *DRAINS, "SCHED_BATCH_TARGET_STEP"))))
def test_each_line_is_answered_once_and_nothing_is_left_over(lines: list[str]) -> None:
    parent = Parent()
    for line in lines:
        values = parent.write(line) + parent.read()
        if line in SILENT[:-1]:
            assert values == []
        elif line in DRAINS or parent.driver.session.lifecycle.grants.auto:
            assert all(value >= 0 or value in (YIELD, DONE) for value in values)
            assert line in SILENT or values[-1] == DONE
        else:
            assert values[-1] in (YIELD, DONE)
            assert min(values[:-1], default=0) >= 0
        assert len(parent.driver.session.live) <= 1


BEGUN = ("REQ 4 START ids:1,2 9 2", 3)


@example([BEGUN, (TARGETS[0], 0)], False)
@example([BEGUN, (DRAINS[0], 0), ("LIST_REQUESTS", 2), ("CANCEL 4", 1)], False)
@example([BEGUN, (DRAINS[1], 3), (TARGETS[0], 1)], False)
@example([BEGUN, ("LIST_REQUESTS", 1), ("CANCEL 4", 1)], True)
@given(
    st.lists(st.tuples(st.sampled_from((*ANSWERED, *TARGETS, *DRAINS, *SILENT[:-1])), st.integers(0, 4))), st.booleans()
)
def test_a_parent_that_does_not_wait_reads_the_answers_one_after_the_other(
    lines: list[tuple[str, int]], auto: bool
) -> None:
    parent = Parent(auto)
    values = list[int]()
    for line, steps in lines:
        values += parent.write(line)
        for _ in range(steps if not parent.driver.session.holding else 1):
            values += parent._values(parent.driver.step())
    values += parent.read()
    for line, _ in lines:
        if line not in SILENT:
            while values[0] >= 0 or (values[0] == YIELD and (line in DRAINS or auto)):
                values.pop(0)
            assert values.pop(0) in (YIELD, DONE)
    assert values == []


def test_what_goes_on_unasked_is_not_answered_in_between() -> None:
    parent = Parent()
    assert parent.write("REQ 4 START ids:1,2 9 2") + parent.read()[2:] == [YIELD]
    assert parent.write("SCHED_AUTO on") == []
    assert parent._values(parent.driver.step())[0] >= 0
    assert parent.write("LIST_REQUESTS") == []
    assert parent.write("SCHED_AUTO off") == []
    assert parent.read()[-2:] == [YIELD, DONE]
    assert parent.write("LIST_REQUESTS") == [DONE]


def test_one_request_at_a_time() -> None:
    parent = Parent()
    assert parent.write("REQ 4 START ids:1,2 9 2") == []
    parent.read()
    for line in ("REQ 5 START ids:3 4", "ids:3 4", "REQ 5 RESTORE_CHAIN -1 - ids:3 4"):
        reply = parent.driver.reply(line)
        assert (reply["code"], "request 4 is live" in reply["error"]) == ("slot_busy", True)
    assert parent.write("REQ 4 CANCEL") == [DONE]
    assert parent.write("ids:3 4") + parent.read() != [DONE]
