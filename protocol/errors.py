"""What can go wrong on the wire: a line that is refused, a frame stream that makes no sense."""

from __future__ import annotations

CODES: frozenset[str] = frozenset(
    {
        "bad_command",
        "bad_argument",
        "bad_utf8",
        "line_too_long",
        "unfinished_line",
        "duplicate_request",
        "not_active",
        "stale",
        "slot_busy",
        "no_such_slot",
        "queue_full",
        "prompt_unreadable",
        "prompt_empty",
        "prompt_bad_token",
        "context_overflow",
        "kv_budget",
        "no_snapshot",
        "snapshot_mismatch",
        "unsupported",
        "device_lost",
        "internal",
    }
)


class Refusal(Exception):
    """A command that is not carried out. `code` is for programs, `error` is a sentence for people, `req_id` is the
    REQ tag of the line as far as it could be read."""

    def __init__(self, code: str, error: str, req_id: int = 0) -> None:
        if code not in CODES:
            raise ValueError(f"{code!r} is no refusal code; expected one of {', '.join(sorted(CODES))}")
        super().__init__(code, error, req_id)
        self.code = code
        self.error = error
        self.req_id = req_id

    def __str__(self) -> str:
        return f"{self.code}: {self.error}"
