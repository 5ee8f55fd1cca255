"""When a daemon that has nothing to do looks after itself."""

from __future__ import annotations

CHECK_SECONDS = 1.0


class IdleCheck:
    """Once after whatever has happened, and at most once in CHECK_SECONDS: also when nothing more comes."""

    def __init__(self) -> None:
        self._next = 0.0
        self._wanted = True

    def want(self) -> None:
        """Something has happened."""
        self._wanted = True

    def wait(self, now: float) -> float | None:
        """In how many seconds a check is due; None if none is wanted."""
        return max(0.0, self._next - now) if self._wanted else None

    def made(self, now: float) -> None:
        self._next, self._wanted = now + CHECK_SECONDS, False
