"""For programs that drive a daemon, or read text with a model's tokenizer.

    from paceline.clients import AsyncClient, Client, ChatRefused, DaemonGone, ModelUnreadable, Refused, RequestFailed

client.py        Client: blocking; an AsyncClient whose event loop has a thread of its own (loop_thread.py)
async_client.py  AsyncClient: a reader task (desk.py says who gets what), a daemon process (process.py)
stream.py        one request's tokens; answer.py its text
cli.py           the `paceline` command
http/            `paceline serve`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import ChatRefused, DaemonGone, Refused, RequestFailed

if TYPE_CHECKING:
    from ..native.weights import ModelUnreadable
    from .async_client import AsyncClient
    from .client import Client

__all__ = ["AsyncClient", "ChatRefused", "Client", "DaemonGone", "ModelUnreadable", "Refused", "RequestFailed"]
_FOUND_IN = {
    "AsyncClient": ".async_client",
    "Client": ".client",
    "ModelUnreadable": "..native.weights",
}


def __getattr__(name: str) -> Any:
    # on demand, because the command line imports this package too, and seldom needs an event loop
    if name in _FOUND_IN:
        return getattr(import_module(_FOUND_IN[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
