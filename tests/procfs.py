"""Processes as Linux shows them in /proc, where each may end while one looks."""

import os
from pathlib import Path


def is_running(pid: int) -> bool:
    """Not when it has ended and only its parent has not looked yet."""
    try:
        return _status(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_asleep(pid: int) -> bool:
    """Its main thread waits for something, and does not merely wait for a processor."""
    return _status(pid)[0] == "S"


def signals_are_pending(pid: int) -> bool:
    """Sent, and not delivered yet: another of the same number would be lost in it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:")))


def is_stopped(pid: int) -> bool:
    """By a signal, until SIGCONT."""
    return _status(pid)[0] == "T"


def children(pid: int) -> set[int]:
    """Also those that have ended, as long as it has not waited for them."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int(_status(int(entry.name))[1]) == pid:
                    found.add(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def has_open(pid: int, path: Path) -> bool:
    for one in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if one.readlink() == path:
                return True
        except FileNotFoundError:
            continue
    return False


def cpu_seconds(pid: int) -> float:
    fields = _status(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def anonymous_bytes(pid: int) -> int:
    """Of what is resident, that which is no file's: the kernel takes pages of files away as it likes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return 1024 * int(kilobytes)


def _status(pid: int) -> list[str]:
    """Of /proc/[pid]/stat the fields behind the name, which may hold spaces (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
