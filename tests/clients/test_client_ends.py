"""How a client, its daemon and its threads end, with a real process on the null engine."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from paceline.clients import Client, DaemonGone, loop_thread

from ..procfs import is_running
from .test_client_daemon import NULL, in_threads


def test_a_killed_daemon_fails_every_waiter_at_once() -> None:
    """A parked request, a reply that is held back, and the events: all wait for something that never comes."""
    problems: list[DaemonGone] = []
    with Client.spawn(NULL) as client:
        stream = client.start([1], total=8, quantum=2)
        assert len(stream.turn()) == 2
        busy = client.start([2], total=4000, quantum=1)

        def fails(call: Callable[[], object]) -> None:
            try:
                call()
            except DaemonGone as problem:
                problems.append(problem)

        waiting = [lambda: list(stream), lambda: list(busy), lambda: list(client.events())]
        assert client.process
        pid, begin = client.process.pid, time.monotonic()
        threading.Timer(0.3, lambda: os.kill(pid, signal.SIGKILL)).start()
        in_threads([lambda call=call: fails(call) for call in waiting])  # type: ignore[misc]
        assert time.monotonic() - begin < 5
        assert [str(problem) for problem in problems] == [
            "its frame stream has ended; the daemon ended with exit code -9"
        ] * 3


def test_the_last_words_of_a_daemon_are_told() -> None:
    lines: list[str] = []
    with Client.spawn(["/nowhere/model.gguf"], log=lines.append) as client:
        with pytest.raises(DaemonGone, match=r"exit code 66\n.*/nowhere/model\.gguf"):
            _ = client.ready
        assert client.close() == 66
    assert any("/nowhere/model.gguf" in line for line in lines)


@pytest.mark.parametrize("problem", [UnicodeError("no such letter"), SystemExit("no such letter")])
def test_a_log_that_raises_holds_up_nothing(caplog: pytest.LogCaptureFixture, problem: BaseException) -> None:
    """What the daemon says is more than its pipe holds."""
    said = 0

    def log(line: str) -> None:
        nonlocal said
        said += len(line)
        raise problem

    with Client.spawn([*NULL, "--log", "json"], log=log) as client:
        for _ in range(400):
            assert len(list(client.start([1], total=1))) == 1
        assert client.close() == 0
    assert said > 1 << 16
    assert "a taker of the daemon's log raised" in caplog.text and "no such letter" in caplog.text


def test_close_lets_granted_work_finish_and_cancels_the_rest() -> None:
    client = Client.spawn(NULL)
    granted, parked = client.start([1], total=300), client.start([2], total=10, quantum=3)
    assert client.close() == 0
    assert (len(list(granted)), len(list(parked))) == (300, 3)
    assert granted.end is not None and parked.end is not None
    assert (granted.end["reason"], parked.end["reason"]) == ("length", "cancelled")


def test_close_does_not_wait_for_ever() -> None:
    client = Client.spawn([*NULL, "--fault", "slow:20"])
    stream = client.start([1], total=4000)
    begin = time.monotonic()
    assert client.close(timeout=0.2) == 0
    assert time.monotonic() - begin < 5
    assert len(list(stream)) < 1000
    assert stream.end is not None and stream.end["reason"] == "cancelled"


def test_close_does_not_wait_for_whoever_holds_the_pipe_too() -> None:
    """As a process does that was forked from this one."""
    client = Client.spawn(NULL)
    writer = client._client._commands
    assert isinstance(writer, asyncio.StreamWriter)
    held = os.dup(writer.transport.get_extra_info("pipe").fileno())
    try:
        granted = client.start([1], total=300)
        begin = time.monotonic()
        assert client.close() == 0
        assert time.monotonic() - begin < 5
        assert len(list(granted)) == 300
    finally:
        os.close(held)


def test_close_does_not_wait_for_a_thread_that_is_stuck_in_a_write() -> None:
    client = Client.spawn(NULL)
    client.ready  # noqa: B018 (waits for it)
    client.start([1], 4000, quantum=4000)
    os.kill(client.process.pid, signal.SIGSTOP)  # it reads nothing any more

    def send() -> None:
        with pytest.raises(DaemonGone):
            for _ in range(100):
                with suppress(TimeoutError):
                    client.command("PING " + "x" * 60000, timeout=0.001)
            client.command("PING")

    thread = threading.Thread(target=send)
    thread.start()
    time.sleep(0.3)
    os.kill(client.process.pid, signal.SIGCONT)
    os.kill(client.process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    threading.Timer(2.0, lambda: os.kill(client.process.pid, signal.SIGKILL)).start()
    client.close(0.5)
    assert time.monotonic() - begun < 8.0
    thread.join(10)
    assert not thread.is_alive()


def test_a_second_close_waits_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_thread, "LATE_SECONDS", 0.01)
    client = Client.spawn([*NULL, "--fault", "slow:20"])
    stream = client.start([1], total=50)
    codes: list[int | None] = []
    in_threads([lambda: codes.append(client.close())] * 3)
    assert codes == [0, 0, 0]
    assert len(list(stream)) == 50


def test_an_exception_ends_the_daemon_without_waiting() -> None:
    begin = time.monotonic()
    with pytest.raises(KeyError), Client.spawn([*NULL, "--fault", "slow:20"]) as client:
        client.start([1], total=4000)
        raise KeyError
    assert time.monotonic() - begin < 5


def test_a_daemon_that_is_told_to_end_keeps_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks whether it has ended takes that from asyncio, which waits for it: then it is 255, now and then."""

    def poll(process: subprocess.Popen[bytes]) -> None:
        raise AssertionError("somebody looks")

    with Client.spawn(NULL) as client:
        assert client.ready
        monkeypatch.setattr(subprocess.Popen, "poll", poll)
        assert client.close(0.0) == 0


def test_a_program_may_end_without_closing() -> None:
    """With a live request, a stream that is half read, and an answer that nobody holds any more."""
    program = """
from paceline.clients import Client
client = Client.spawn(["--engine", "null", "--fault", "slow:5"])
answer = client.generate([1], 4000)
stream = client.start([2], 4000)
print(next(answer).token >= 0, next(iter(stream)) >= 0, client.process.pid)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    *said, pid = done.stdout.split()
    assert said == ["True", "True"]
    deadline = time.monotonic() + 10
    while is_running(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pid_of(client: Client) -> int:
    assert client.process
    return client.process.pid


def wait_for_end(pid: int) -> None:
    """Of the daemon, and of the thread of its client."""
    deadline = time.monotonic() + 20
    while is_running(pid) or any(thread.name == "paceline client" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_client_that_is_dropped_ends_its_daemon() -> None:
    client = Client.spawn(NULL)
    pid = pid_of(client)
    assert len(client.start([1], total=8, quantum=2).turn()) == 2
    del client
    wait_for_end(pid)


def test_a_stream_holds_the_daemon_that_it_is_read_from() -> None:
    client = Client.spawn(NULL)
    pid, stream = pid_of(client), client.start([1], total=8, quantum=2)
    del client
    gc.collect()
    assert len(stream.turn()) == 2
    stream.proceed(6)
    assert len(list(stream)) == 6 and is_running(pid)
    del stream
    wait_for_end(pid)


def test_garbage_that_is_collected_on_the_client_s_thread_ends_it_too() -> None:
    found: list[str] = []

    def watch(item: object) -> None:
        if cycle_is_garbage.is_set() and not found and gc.collect():
            found.append(threading.current_thread().name)

    cycle_is_garbage = threading.Event()
    gc.disable()
    try:
        client = Client.spawn([*NULL, "--fault", "slow:5"], watch=watch)
        pid = pid_of(client)
        cycle: list[object] = [client, client.start([1], 400)]
        cycle.append(cycle)
        del client, cycle
        cycle_is_garbage.set()
        wait_for_end(pid)
    finally:
        gc.enable()
    assert found == ["paceline client"]


def test_an_interrupt_ends_a_wait_and_the_daemon() -> None:
    program = """
from paceline.clients import Client
with Client.spawn(["--engine", "null"]) as client:
    stream = client.start([2], 4000, quantum=1)
    print(len(stream.turn()), client.process.pid, flush=True)
    stream.turn()  # which does not end
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout and process.stderr
        _, pid = process.stdout.readline().split()
        time.sleep(0.1)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT
        assert time.monotonic() - begin < 5 and not is_running(int(pid))
        assert process.stderr.read().endswith("\nKeyboardInterrupt\n")


def test_after_the_end_nothing_waits_for_ever() -> None:
    client = Client.spawn(NULL)
    parked, ready = client.start([1], total=8, quantum=2), client.ready
    assert (client.close(), client.close()) == (0, 0)
    assert (client.ready, len(list(parked)), parked.cancel(), list(client.events())) == (ready, 2, False, [])
    for call in (lambda: client.command("PING"), lambda: client.start([1], 1), lambda: parked.proceed(1)):
        with pytest.raises(DaemonGone):
            call()


def test_threads_that_ask_while_it_is_closed_are_told() -> None:
    for _ in range(5):
        client = Client.spawn(NULL)
        told: list[DaemonGone] = []

        def ask(client: Client = client, told: list[DaemonGone] = told) -> None:
            with pytest.raises(DaemonGone) as gone:
                while True:
                    client.command("PING")
            told.append(gone.value)

        closing = threading.Timer(0.05, client.close)
        closing.start()
        in_threads([ask] * 4)
        closing.join()
        assert len(told) == 4


def test_restart_is_the_next_start() -> None:
    with Client.spawn(NULL, restart=True) as client:
        live = client.start([1], total=8, quantum=1)
        assert len(live.turn()) == 1
        assert client.process
        os.kill(client.process.pid, signal.SIGKILL)
        with pytest.raises(DaemonGone):
            live.turn()
        with pytest.raises(DaemonGone):
            client.command("PING")
        tokens: list[int] = []
        in_threads([lambda: tokens.extend(client.start([1], total=8))] * 4)
        assert len(tokens) == 32
        assert client.ready["model"] == "null"
        assert live.cancel() is False
