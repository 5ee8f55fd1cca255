"""The files of SAVE and LOAD. A file is complete or not there: it is first written under another name."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from ..protocol import Refusal
from .engine import Engine
from .limits import Limits
from .plan import EngineInfo
from .saved import Damaged, Saved, decode, encode
from .sentences import reason_of, shorten
from .snapshots import Snapshot

_ROOM_FOR_THE_REST = 1 << 24


def take_out(snapshot: Snapshot, engine: Engine) -> Saved:
    """Raises Refusal."""
    _check_files(engine.info)
    try:
        pages = tuple([engine.read_page(page) for page in snapshot.pages])
        state = None if snapshot.state is None else engine.read_state(snapshot.state)
    except MemoryError:
        raise Refusal("kv_budget", "there is no memory for a copy of the snapshot: retry when there is") from None
    return Saved(snapshot.ids, snapshot.first, pages, state)


def write_snapshot(path: str, saved: Saved, info: EngineInfo) -> None:
    """Raises Refusal, and then leaves what was there before."""
    partial, shown = None, shorten(path)
    try:
        # For a symlink its target, whether that exists or not; otherwise the path as given, since a Path would take
        # "f/" for "f".
        target = os.path.realpath(path) if Path(path).is_symlink() else path
        partial = Path(target).parent / f".paceline-{secrets.token_hex(8)}"  # short: the target's name may be NAME_MAX
        old = Path(target).stat().st_mode if os.path.lexists(target) else None
        if old is not None and not stat.S_ISREG(old):
            raise Refusal("bad_argument", f"path {shown}: it is no regular file; expected one, or a new name")
        with partial.open("xb") as file:
            if old is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old))
            for piece in encode(saved, info):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except (OSError, ValueError) as error:
        raise Refusal(
            "bad_argument", f"path {shown}: {reason_of(error)}; expected a file that can be written"
        ) from None
    finally:  # unless it was renamed, nothing of it is left behind
        if partial is not None:
            with contextlib.suppress(OSError):
                partial.unlink()


def read_snapshot(path: str, info: EngineInfo, limits: Limits) -> Saved:
    """Raises Refusal. Nothing larger than the whole cache is read."""
    _check_files(info)
    most = limits.pages * info.page_bytes + info.state_bytes + _ROOM_FOR_THE_REST
    shown = shorten(path)
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Refusal(
                    "bad_argument", f"path {shown}: it is no regular file; expected one that SAVE has written"
                )
            if status.st_size > most:
                raise Refusal(
                    "kv_budget",
                    f"path {shown}: it has {status.st_size} bytes, more than the whole cache: a retry cannot help",
                )
            return decode(file, status.st_size, info)
    except Damaged as damage:
        raise Refusal("snapshot_mismatch", f"path {shown}: {damage}") from None
    except (OSError, ValueError) as error:
        raise Refusal(
            "bad_argument", f"path {shown}: {reason_of(error)}; expected a file that SAVE has written"
        ) from None
    except MemoryError:
        raise Refusal("kv_budget", f"path {shown}: there is no memory to read it: retry when there is") from None


def _check_files(info: EngineInfo) -> None:
    if not info.fingerprint:
        raise Refusal("unsupported", "this engine has no pages that a file could hold: those of --engine cpu have")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO without a writer would wait
