"""Server-sent events."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

DONE: Final = b"data: [DONE]\n\n"


def event(body: dict[str, Any], named: bool = False) -> bytes:
    """One event; `named` also gives its type in a line of its own, which some clients look at. It may repeat half of a
    surrogate pair from a request."""
    name = f"event: {body['type']}\n" if named else ""
    return f"{name}data: {dumped(body)}\n\n".encode(errors="replace")


def dumped(body: Any) -> str:
    """As JSON, with three characters escaped that some SSE parsers take for the end of a line."""
    text = _encoded(body)
    return text if text.isascii() else _LINE_ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_encoded: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029]")
