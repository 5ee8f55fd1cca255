"""The daemon process, from its flags to its exit code."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
import traceback
from importlib.metadata import PackageNotFoundError, version

from . import replies, stdio
from .config import Config
from .crash import CommandLog, report
from .engine import CannotOpen, DeviceLost, Engine, open_engine
from .faulty import Faulty
from .flags import add_daemon_arguments, read_config
from .grammars import TextGrammars
from .heap import find_give_back
from .inbox import Inbox, News
from .limits import Limits
from .loop import Loop
from .observers import Observers
from .outbox import Outbox
from .request_log import RequestLog
from .session import Session
from .streams import Stream, open_stream

OK, USAGE, INTERNAL, OUTPUT = 0, 2, 70, 74
MOST_THREADS = 8  # for grammars, beside a device


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="paceline daemon", allow_abbrev=False)
    add_daemon_arguments(parser)
    return run(read_config(parser.parse_args(argv)))


def run(config: Config) -> int:
    try:
        descriptor = stdio.claim_output(config.stream_fd)
    except OSError as error:
        stdio.log(f"paceline: descriptor {config.stream_fd} cannot carry the stream: {error.strerror}")
        return OUTPUT if config.stream_fd == 1 else USAGE
    inbox = Inbox()
    watch = stdio.SignalWatch(inbox)
    stdio.start_hangup_watch(inbox, descriptor, watch)
    stdio.start_reader(inbox, config.max_line)
    try:
        engine, limits = open_engine(config)
    except CannotOpen as error:
        stdio.log(f"paceline: {error}")
        return error.code
    except Exception:
        stdio.log(f"paceline: the engine cannot be opened\n{traceback.format_exc().rstrip()}")
        return INTERNAL
    patience = stdio.Patience(inbox.leaving)
    tell = stdio.Teller(patience)
    stream = open_stream(config.stream or ("text" if os.isatty(descriptor) else "tagged"), tell, config.auto)
    outbox = Outbox(stream.encode, lambda: inbox.put(News.WAKE), stdio.write_now(descriptor))
    watch.starting = False
    stdio.start_writer(outbox, inbox, descriptor)
    requests = _request_log(config.log)
    if requests is not None:
        info = engine.info
        _tell_all(tell, requests.started(_version(), info.model, info.device, limits.slots))
    observers = Observers(tell, requests)
    grammars = TextGrammars(engine, threads=1 if config.device == "cpu" else min(MOST_THREADS, os.cpu_count() or 1))
    engine = Faulty(engine, config.fault) if config.fault else engine
    code = _serve(engine, grammars, limits, inbox, outbox, stream, observers)
    grammars.close()
    code = _flush(inbox, outbox, patience, code)
    if requests is not None:
        _tell_all(tell, requests.stopped(code))
    return code


def _request_log(form: str | None) -> RequestLog | None:
    """Without --log, a person at a terminal gets one; a parent process that never asked for it does not."""
    form = form or ("text" if os.isatty(2) else "none")
    return None if form == "none" else RequestLog(form, time.time)


def _tell_all(tell: stdio.Teller, lines: list[str]) -> None:
    for line in lines:
        tell(line)


def _serve(
    engine: Engine,
    grammars: TextGrammars,
    limits: Limits,
    inbox: Inbox,
    outbox: Outbox,
    stream: Stream,
    observers: Observers,
) -> int:
    try:
        session = Session(engine.info, limits, lambda: secrets.randbits(53), time.monotonic(), grammars)
    except MemoryError:
        stdio.log("paceline: no memory for the page tables: fewer slots, or less context")
        return INTERNAL
    commands = CommandLog()
    outbox.put([replies.ready(engine.info, limits, _version())])
    loop = Loop(session, engine, inbox, outbox, time.monotonic, commands, observers, stream.parse, find_give_back())
    try:
        loop.run()
        return OK
    except DeviceLost as error:
        stdio.log(f"paceline: the device is lost: {error}")
        _fail(loop, f"the device is lost: {error}", "device_lost")
    except Exception as error:
        found = report(error, commands, session)  # before the requests are ended
        _fail(loop, f"internal error: {type(error).__name__}: {error}", "internal")
        stdio.log(found)
    finally:
        _close(observers)
    return INTERNAL


def _close(observers: Observers) -> None:
    """Never raises: whatever has happened, the stream must still be flushed."""
    try:
        observers.close(time.monotonic())
    except Exception:
        stdio.log(f"paceline: and the trace cannot be closed\n{traceback.format_exc().rstrip()}")


def _fail(loop: Loop, error: str, code: str) -> None:
    """Whoever can still be told is told."""
    try:
        loop.fail(error, code)
    except Exception:
        stdio.log(f"paceline: and the requests cannot be ended\n{traceback.format_exc().rstrip()}")


def _flush(inbox: Inbox, outbox: Outbox, patience: stdio.Patience, code: int) -> int:
    """Waits for the reader to take the rest, but after a signal not for long. Returns the exit code."""
    outbox.close()
    while outbox.size and inbox.gone is None:
        if (left := patience.left()) == 0.0:
            stdio.log(f"paceline: the reader took nothing for {stdio.FLUSH_SECONDS:g} s: {outbox.size} bytes are lost")
            return OUTPUT
        inbox.poll(wait=True, timeout=left)
    if inbox.gone is not None and inbox.gone.error is not None:
        stdio.log(f"paceline: the stream cannot be written: {inbox.gone.error.strerror}")
        return code or OUTPUT
    return code


def _version() -> str:
    try:
        return version("paceline")
    except PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
