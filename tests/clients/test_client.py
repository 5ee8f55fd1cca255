"""The client against a peer that the test plays itself, over two pipes: whatever a daemon could send, in any order."""

import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from paceline.clients.errors import DaemonGone, Refused, RequestFailed
from paceline.protocol import CANCELLED, DONE, FAILED, YIELD, Frame, Item, Message, encode_tagged

from .peer import Peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def end(req_id: int, reason: str, **more: Any) -> Message:
    return Message(req_id, {"event": "end", "req": req_id, "reason": reason, "tokens": 2, **more})


def test_ready_waits_for_its_event(peer: Peer) -> None:
    waiting = peer.later(lambda: peer.client.ready)
    peer.send(Message(0, {"event": "ready", "vocab": 7}))
    assert waiting.result(5)["vocab"] == 7 == peer.client.ready["vocab"]


def test_start_is_one_line_with_every_option(peer: Peer) -> None:
    stream = peer.started(1, 3, 1, 2, total=9, quantum=4, slot=2, temp=0.5, seed=7, stop=[5, 6], hash=True)
    assert (stream.req_id, stream.reply["slot"]) == (1, 0)
    call = peer.later(peer.client.start, [3, 1, 2], 9, 4, slot=2, req_id=44, temp=0.5, seed=7, stop=[5, 6], hash=True)
    words = peer.line().split()
    assert words[:2] == ["REQ", "44"]
    assert {"START", "SLOT", "ids:3,1,2", "9", "4", "temp=0.5", "seed=7", "stop=5,6", "hash=1"} <= set(words)
    peer.send(Message(44, {"re": 2, "ok": True}))
    assert call.result(5).req_id == 44


def test_what_no_line_can_say_is_refused_before_it_is_sent(peer: Peer) -> None:
    for ids, options, kind in (([1], {"total": 0}, ValueError), ([], {"total": 1}, ValueError)):
        with pytest.raises(kind):
            peer.client.start(ids, **options)
    with pytest.raises(TypeError, match="warmth"):
        peer.client.start([1], 1, warmth=2)
    for line in ("", "  ", "# note", "PING\nPING"):
        with pytest.raises(ValueError, match="would get no reply of its own"):
            peer.client.command(line)
    assert peer.started(1).req_id == 4  # the three above gave their ids back, nothing was sent


def test_replies_are_matched_by_the_order_of_lines(peer: Peer) -> None:
    first = peer.later(peer.client.command, "PING a")
    assert peer.line() == "PING a\n"
    second = peer.later(peer.client.command, "FETCH")
    assert peer.line() == "FETCH\n"
    peer.send(Message(0, {"re": 1, "ok": True, "word": "a"}))
    peer.send(Message(0, {"re": 2, "ok": False, "code": "bad_command", "error": "FETCH: …"}))
    assert first.result(5)["word"] == "a"
    with pytest.raises(Refused) as refused:
        second.result(5)
    assert (refused.value.code, refused.value.error) == ("bad_command", "FETCH: …")


def test_tokens_reach_their_streams(peer: Peer) -> None:
    one, two = peer.started(1), peer.started(2)
    peer.send(Frame(1, 10), Frame(2, 20), Frame(1, YIELD), Frame(2, 21))
    peer.send(end(2, "length"), Frame(2, DONE), Frame(1, 11), end(1, "eos", stop_token=2), Frame(1, DONE))
    assert (list(one), list(two)) == ([10, 11], [20, 21])
    assert one.end is not None and two.end is not None
    assert (one.end["stop_token"], two.end["reason"]) == (2, "length")
    assert (list(one), one.turn()) == ([], [])


def test_log_probabilities_are_kept_by_their_token_alone(peer: Peer) -> None:
    stream = peer.started(1, logprobs=1)
    told = [{"event": "logprobs", "token": token, "top": []} for token in (10, 11)]
    peer.send(Message(1, {"event": "admitted"}))
    for body in told:
        peer.send(Message(1, body), Frame(1, body["token"]))
    peer.send(end(1, "length"), Frame(1, DONE))
    assert [token.logprobs for token in stream.tokens()] == told
    assert stream.events == [{"event": "admitted"}]


def test_a_watcher_sees_everything_in_order(peer: Peer) -> None:
    one, two = peer.started(1), peer.started(2)
    items: list[Item] = [Frame(2, 20), Frame(1, 10), Message(0, {"event": "drained"}), Frame(5, 1), Frame(1, 11)]
    peer.send(*items, end(2, "eos"), Frame(2, DONE))
    assert (list(two), next(iter(one))) == ([20], 10)
    assert peer.seen[2:] == [*items, end(2, "eos"), Frame(2, DONE)]
    peer.hang_up()
    peer.client.close()
    assert isinstance(peer.seen[-1], DaemonGone)


def test_turns_and_frames_show_a_yield(peer: Peer) -> None:
    stream = peer.started(1)
    peer.send(Frame(1, 10), Frame(1, 11), Frame(1, YIELD))
    assert (stream.turn(), stream.end) == ([10, 11], None)
    call = peer.later(stream.proceed, 3)
    assert peer.line() == "REQ 1 CONTINUE 3\n"
    peer.send(Message(1, {"re": 2, "ok": True, "granted": 3}))
    assert call.result(5)["granted"] == 3
    peer.send(Frame(1, 12), Frame(1, YIELD), end(1, "cancelled"), Frame(1, CANCELLED))
    assert list(stream.frames()) == [Frame(1, 12), Frame(1, YIELD), Frame(1, CANCELLED)]


def test_a_failed_request_is_no_short_answer(peer: Peer) -> None:
    stream, tokens = peer.started(1), []
    peer.send(Frame(1, 10), end(1, "failed", code="engine", error="row 0: nan"), Frame(1, FAILED))
    with pytest.raises(RequestFailed, match="engine: row 0: nan"):
        for token in stream:
            tokens.append(token)
    assert tokens == [10]
    assert stream.end is not None and stream.end["reason"] == "failed"
    assert list(stream) == []


def test_cancel_tells_whether_the_request_was_live(peer: Peer) -> None:
    stream = peer.started(1)
    call = peer.later(stream.cancel)
    assert peer.line() == "CANCEL 1\n"
    peer.send(Message(0, {"re": 2, "ok": True, "state": "decode"}))
    assert call.result(5) is True
    for code, expected in (("not_active", False), ("stale", Refused)):
        call = peer.later(stream.cancel)
        peer.line()
        peer.send(Message(0, {"re": 3 if expected is False else 4, "ok": False, "code": code, "error": "…"}))
        if expected is False:
            assert call.result(5) is False
        else:
            with pytest.raises(Refused, match="stale"):
                call.result(5)


def test_a_refused_start_leaves_its_id_free(peer: Peer) -> None:
    call = peer.later(peer.client.start, [1], 4, req_id=9)
    peer.line()
    peer.send(Message(9, {"re": 1, "ok": False, "code": "queue_full", "error": "…"}))
    with pytest.raises(Refused, match="queue_full"):
        call.result(5)
    live = peer.started(2, req_id=9)
    call = peer.later(peer.client.start, [1], 4, req_id=9)
    peer.line()
    peer.send(Message(9, {"re": 3, "ok": False, "code": "duplicate_request", "error": "…"}))
    with pytest.raises(Refused, match="duplicate_request"):
        call.result(5)
    peer.send(Frame(9, 10), end(9, "length"), Frame(9, DONE))
    assert list(live) == [10]
    assert peer.started(4, req_id=9).req_id == 9


def test_an_id_that_is_taken_is_passed_over(peer: Peer) -> None:
    assert [peer.started(1, req_id=2).req_id, peer.started(2).req_id, peer.started(3).req_id] == [2, 1, 3]


@pytest.mark.parametrize("words", ["START ids:1 50", "RESTORE name ids:1,2 50\r", "RESTORE_CHAIN -1 - ids:1,2 50"])
def test_the_id_of_a_request_started_by_a_line_is_passed_over(peer: Peer, words: str) -> None:
    call = peer.later(peer.client.command, f"req=1 {words}")
    peer.line()
    starting = peer.later(peer.client.start, [1], 8)  # the line may start a request, or not
    assert peer.line() == "REQ 2 START ids:1 8\n"
    peer.send(Message(1, {"re": 1, "ok": True}), Message(2, {"re": 2, "ok": True}))
    assert (call.result(5)["ok"], starting.result(5).req_id) == (True, 2)
    peer.send(Frame(1, 10), end(1, "length"))
    assert next(peer.client.events())["req"] == 1
    refused = peer.later(peer.client.command, "REQ 3 START ids:1 9")
    peer.line()
    peer.send(Message(3, {"re": 3, "ok": False, "code": "queue_full", "error": "…"}))
    with pytest.raises(Refused, match="queue_full"):
        refused.result(5)
    assert peer.started(4).req_id == 3


def test_an_id_that_is_used_again_has_no_part_of_what_came_before(peer: Peer) -> None:
    """The terminal of the first request is still on its way when the second is started."""
    call = peer.later(peer.client.command, "REQ 7 START ids:1 2")
    peer.line()
    peer.send(Message(7, {"re": 1, "ok": True}), Frame(7, 10))
    assert call.result(5)["ok"]
    starting = peer.later(peer.client.start, [1], 2, req_id=7)
    peer.line()
    peer.send(Frame(7, 11), end(7, "length"), Frame(7, DONE), Message(7, {"re": 2, "ok": True}))
    stream = starting.result(5)
    peer.send(Frame(7, 20), Frame(7, 21), end(7, "length"), Frame(7, DONE))
    assert list(stream) == [20, 21]


def test_events_are_those_of_no_stream(peer: Peer) -> None:
    stream = peer.started(1)
    peer.send(Message(0, {"event": "admitted", "req": 1}), Frame(77, 5), Message(0, {"event": "drained"}))
    assert next(peer.client.events()) == {"event": "drained"}
    peer.send(Frame(1, 3))
    assert next(iter(stream)) == 3
    assert stream.events == [{"event": "admitted", "req": 1}]


def test_a_hang_up_fails_every_waiter_and_every_later_call(peer: Peer) -> None:
    streams = [peer.started(1), peer.started(2)]
    peer.send(Frame(1, 10))
    calls = [peer.later(peer.client.command, "WAIT"), peer.later(list, streams[1])]
    calls += [peer.later(lambda: peer.client.ready), peer.later(list, peer.client.events())]
    assert peer.line() == "WAIT\n"
    peer.hang_up()
    for call in calls:
        with pytest.raises(DaemonGone, match="its frame stream has ended; the daemon has gone"):
            call.result(5)
    tokens = iter(streams[0])
    assert next(tokens) == 10
    for _ in range(2):
        with pytest.raises(DaemonGone):
            next(iter(streams[0]))
    with pytest.raises(DaemonGone):
        peer.client.command("PING")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\1\2\3\4" * 3, "its frame stream is broken: offset"),
        (encode_tagged([Message(0, {"re": 5, "ok": True})]), "a reply to line 5 came, expected one to 1"),
        (encode_tagged([Frame(1, 2)])[:-1], "its frame stream is broken: offset"),
        (encode_tagged([Message(0, {"event": "ready"}), Message(0, {"event": "ready"})]), "is broken"),
    ],
)
def test_a_stream_that_makes_no_sense_is_the_end(peer: Peer, data: bytes, said: str) -> None:
    call = peer.later(peer.client.command, "PING")
    peer.line()
    peer.send(Message(0, {"event": "drained"}))
    peer.send_bytes(data)
    if len(data) % 4:
        peer.hang_up()
    with pytest.raises(DaemonGone, match=said):
        call.result(5)
    assert next(peer.client.events()) == {"event": "drained"}


def test_a_slow_peer_does_not_stop_a_writer_that_is_read(peer: Peer) -> None:
    """Both pipes full: the client still takes frames while its own line is stuck, so the peer can get to reading it."""
    stream = peer.started(1)
    long = peer.later(peer.client.command, "PING " + "x" * 300_000)
    flood = Thread(target=peer.send, args=[Frame(1, 7)] * 50_000)
    flood.start()
    flood.join(10)
    assert not flood.is_alive()
    assert len(peer.line()) == 300_006
    peer.send(Message(1, {"re": 2, "ok": True}), end(1, "length"), Frame(1, DONE))
    assert long.result(5)["ok"]
    assert sum(stream) == 350_000


def test_a_reply_may_be_too_late(peer: Peer) -> None:
    with pytest.raises(TimeoutError):
        peer.client.command("WAIT", timeout=0.05)
    call = peer.later(peer.client.command, "PING")
    assert [peer.line(), peer.line()] == ["WAIT\n", "PING\n"]
    peer.send(Message(0, {"re": 1, "ok": True}), Message(0, {"re": 2, "ok": True, "word": None}))
    assert call.result(5)["re"] == 2


def test_close_ends_the_input_and_the_events(peer: Peer) -> None:
    events = peer.later(list, peer.client.events())

    def serve_to_the_end() -> None:
        peer.line()
        peer.hang_up()

    peer.later(serve_to_the_end)
    begin = time.monotonic()
    assert peer.client.close() is None
    assert events.result(5) == []
    assert time.monotonic() - begin < 5
    with pytest.raises(DaemonGone):
        peer.client.command("PING")
