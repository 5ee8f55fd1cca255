"""What can go wrong between a client and its daemon, or before a prompt reaches it."""


class _Told(Exception):
    def __init__(self, code: str, error: str) -> None:
        super().__init__(code, error)  # from which pickle makes it again
        self.code = code
        self.error = error

    def __str__(self) -> str:
        return f"{self.code}: {self.error}"


class Refused(_Told):
    """A command was not carried out and changed nothing; `code` is the contract's stable word, `error` a sentence."""


class RequestFailed(_Told):
    """The daemon could not go on with this request (others may be unaffected); `code` and `error` are its words."""


class ChatRefused(Exception):
    """The template does not accept these messages, or is broken; the message is one sentence."""


class DaemonGone(Exception):
    """The frame stream has ended, or is broken: no reply and no token will come any more."""
