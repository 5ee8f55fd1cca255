"""What can go wrong between a client and its daemon."""


class Refused(Exception):
    """A command was not carried out and changed nothing; `code` is the contract's stable word, `error` a sentence."""

    def __init__(self, code: str, error: str) -> None:
        super().__init__(f"{code}: {error}")
        self.code = code
        self.error = error


class RequestFailed(Exception):
    """The daemon could not go on with this request (others may be well); `code` and `error` are its words."""

    def __init__(self, code: str, error: str) -> None:
        super().__init__(f"{code}: {error}")
        self.code = code
        self.error = error


class DaemonGone(Exception):
    """The frame stream has ended, or is broken: no reply and no token will come any more."""
