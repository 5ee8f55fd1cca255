"""Server-sent events."""

import json
from typing import Any, Final

DONE: Final = b"data: [DONE]\n\n"


def event(body: dict[str, Any], named: bool = False) -> bytes:
    """One event; `named` also gives its type in a line of its own, which Anthropic's clients look at."""
    name = f"event: {body['type']}\n" if named else ""
    return f"{name}data: {dumped(body)}\n\n".encode()


def dumped(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
