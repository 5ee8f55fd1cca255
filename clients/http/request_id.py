"""x-request-id: by which a request can be found in the logs of both sides. Anthropic's clients look for it in
request-id, so the answer has it there too."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

NAME: Final = b"x-request-id"
ANTHROPIC_NAME: Final = b"request-id"
LONGEST: Final = 128  # characters
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class RequestIds:
    """An ASGI app around another: each of its responses, whatever it is, has the id of its request."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        number = request_id(scope["headers"])

        def named(message: Message) -> Awaitable[None]:  # not async: each piece of a stream comes through here
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (NAME, number), (ANTHROPIC_NAME, number)]
            return send(message)

        await self._app(scope, receive, named)


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The request's own id; one of ours if it has none, or one that is too long or not plain text."""
    given = next((value.strip() for name, value in headers if name == NAME), b"")
    plain = 0 < len(given) <= LONGEST and all(0x20 <= byte < 0x7F for byte in given)
    return given if plain else f"req_{secrets.token_hex(12)}".encode()
