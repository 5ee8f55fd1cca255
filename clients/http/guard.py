"""What is asked of a request before anybody looks at it: where it is from, the key, and a body of a bearable size."""

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
    """As OpenAI's clients send it, or as Anthropic's do, one of them right; raises HttpRefused."""
    if key is None:
        return
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    given = [request.headers.get("x-api-key", ""), bearer if scheme.lower() == "bearer" else ""]
    words = [word.encode("latin-1").strip() for word in given]  # a header's characters are its bytes
    if not any(hmac.compare_digest(word, key.encode()) for word in words):
        raise HttpRefused(401, "the API key is missing or wrong", code="invalid_api_key")


def check_origin(request: Request, allowed: Sequence[str]) -> None:
    """A browser says which page it calls for, also where it would not show the page the answer; raises HttpRefused."""
    origin = request.headers.get("origin")
    if origin is not None and not {"*", origin} & set(allowed):
        raise HttpRefused(403, "no web page may call, but those that --cors names", code="origin_not_allowed")


async def read_json(request: Request, most: int, read: Callable[[Any], T] = lambda body: body) -> T:
    """What `read` makes of the body. Raises HttpRefused for more than `most` bytes, as soon as they are announced or
    there. Where it may take a while, it is read in a thread, so that nobody else's answer waits."""
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
    """Of JSON, whose parser holds all other threads up until it is through: for its length in text that is nothing, for
    millions of small things it would be a second. Raises HttpRefused."""
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
