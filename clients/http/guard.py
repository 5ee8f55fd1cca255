"""What is checked before a request is looked at: its origin, the API key, and the size of its body."""

import asyncio
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request

from .refused import HttpRefused

BODY_SECONDS: Final = 30.0
LONGEST_LENGTH: Final = 18  # digits
SMALL: Final = 1 << 15  # bytes of a body that is read in milliseconds, whatever is in it
MOST_PARTS: Final = 1 << 17  # strings, lists and objects of a body: 26,000 messages
MOST_VALUES: Final = (1 << 20) + (1 << 16)  # numbers too: the longest list of ids that any route takes, and more
T = TypeVar("T")


def check_key(request: Request, key: str | None) -> None:
    """In the header of OpenAI's clients or in that of Anthropic's: one must be right. Raises HttpRefused."""
    if key is None:
        return
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    given = [request.headers.get("x-api-key", ""), bearer if scheme.lower() == "bearer" else ""]
    words = [word.encode("latin-1").strip() for word in given]  # a header's characters are its bytes
    if not any(hmac.compare_digest(word, key.encode()) for word in words):
        raise HttpRefused(401, "the API key is missing or wrong", code="invalid_api_key")


def check_origin(request: Request, allowed: Sequence[str]) -> None:
    """A browser names the page that makes the call, even if it would not show that page the answer. Raises
    HttpRefused."""
    origin = request.headers.get("origin")
    if origin is not None and not {"*", origin} & set(allowed):
        raise HttpRefused(403, "no web page may call, but those that --cors names", code="origin_not_allowed")


async def read_json(request: Request, most: int, read: Callable[[Any], T] = lambda body: body) -> T:
    """What `read` makes of the body. Raises HttpRefused for more than `most` bytes, as soon as they are announced or
    received. A body that may take a while to parse is read in a thread, so that no other answer has to wait."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and (len(announced) > LONGEST_LENGTH or int(announced) > most):
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise HttpRefused(408, f"the body has not come within {BODY_SECONDS:g} seconds", code="timeout") from None
    except ClientDisconnect:
        raise HttpRefused(400, "the body ended too early") from None
    if len(body) <= SMALL:
        return read(_parsed(body))
    return await asyncio.to_thread(lambda: read(_parsed(body)))


def _parsed(body: bytearray) -> Any:
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
        _check_parts(text)
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise HttpRefused(400, f"the body is no JSON: {type(problem).__name__}", code="invalid_json") from None


def _check_parts(text: str) -> None:
    """Limits the parts of JSON, whose parser holds the GIL until it is done: long strings take it no time, but millions
    of small parts would take a second. Raises HttpRefused."""
    if len(text) <= MOST_PARTS:
        return
    bare = text.replace("\\\\", "").replace('\\"', "")  # now each quote begins a string or ends one
    parts, values = bare.count('"') // 2, 0
    if parts <= MOST_PARTS:
        outside = "".join(bare.split('"')[::2])
        parts, values = parts + outside.count("[") + outside.count("{"), outside.count(",")
    if parts > MOST_PARTS or values > MOST_VALUES:
        raise HttpRefused(
            400,
            f"the body has too many parts, expected at most {MOST_PARTS} strings, lists and objects, and {MOST_VALUES} "
            f"values in all",
            code="too_many_parts",
        )


def _too_large(most: int) -> HttpRefused:
    return HttpRefused(413, f"the body has more than {most} bytes", code="body_too_large")
