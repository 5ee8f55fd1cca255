"""Server-sent events."""

import json
from collections.abc import Callable
from typing import Any, Final

DONE: Final = b"data: [DONE]\n\n"


def event(body: dict[str, Any], named: bool = False) -> bytes:
    """One event; `named` also gives its type in a line of its own, which Anthropic's clients look at."""
    name = f"event: {body['type']}\n" if named else ""
    return f"{name}data: {dumped(body)}\n\n".encode()


dumped: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
