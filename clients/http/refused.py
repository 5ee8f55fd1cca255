"""Why a request over HTTP was not carried out, and how OpenAI's and Anthropic's clients want to be told."""

from typing import Any, Final

from ..errors import DaemonGone, Refused, RequestFailed

RETRY_SECONDS: Final = 1
TOO_LONG_CODE: Final = "context_length_exceeded"
_OPENAI: Final = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_ANTHROPIC: Final = _OPENAI | {413: "request_too_large", 503: "overloaded_error", 504: "timeout_error"}
# The contract's codes that are the sender's fault; all others are ours.
_FAULTS_OF_THE_SENDER: Final = {
    "bad_argument": "invalid_value",
    "context_overflow": TOO_LONG_CODE,
    "kv_budget": TOO_LONG_CODE,
    "line_too_long": TOO_LONG_CODE,
    "prompt_bad_token": "invalid_value",
    "prompt_empty": "invalid_value",
    "unsupported": "unsupported_value",
}
_TOO_LONG: Final = ("context_overflow", "kv_budget")


class HttpRefused(Exception):
    """`status` is HTTP's; `param` names the field that was wrong, None if it was none."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(status, message, param, code)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def __str__(self) -> str:
        return self.message

    @property
    def anthropic_message(self) -> str:
        return self.message

    @property
    def headers(self) -> dict[str, str]:
        if self.status == 504:  # the official clients retry every 5xx: it would take as long once more
            return {"x-should-retry": "false"}
        return {"retry-after": str(RETRY_SECONDS)} if self.status in (429, 503) else {}


class ContextExceeded(HttpRefused):
    """A prompt of so many tokens (`at_least`: or more), with an answer of `most` or of any length, is more than the
    context has room for (`cached`: the cache, which is smaller). Agents look for the phrases that OpenAI's and
    Anthropic's servers have for this, and for the numbers in them, to ask for less or to shorten what they have."""

    def __init__(
        self, param: str, prompt: int, most: int | None, room: int, at_least: bool = False, cached: bool = False
    ) -> None:
        about = f"at least {prompt}" if at_least else f"{prompt}"
        says = f"this model's maximum context length is {room} tokens{' (the whole cache)' if cached else ''}"
        if most is None:
            super().__init__(
                400, f"{param}: {says}, and a prompt of {about} leaves none for an answer", param, TOO_LONG_CODE
            )
            self.other = f"prompt is too long: {about} tokens > {room} maximum"
        else:
            whole = f"{prompt} tokens of prompt and {most} to come make {prompt + most}"
            super().__init__(400, f"{param}: {says}, and {whole}", param, TOO_LONG_CODE)
            self.other = f"input length and `max_tokens` exceed context limit: {prompt} + {most} > {room}"

    @property
    def anthropic_message(self) -> str:
        return self.other


def wrong(param: str, message: str, code: str = "invalid_value") -> HttpRefused:
    """A field's value that we cannot take; `message` follows the field's name."""
    return HttpRefused(400, f"{param}: {message}", param, code)


def refused_by_engine(problem: Refused | RequestFailed | DaemonGone, limit: str = "max_tokens") -> HttpRefused:
    """What the daemon said, as an HTTP error; `limit` is the field that limits the answer. A daemon's last words may
    name files, so they go to the log only."""
    if isinstance(problem, DaemonGone):
        return HttpRefused(503, "the engine has stopped", code="engine_gone")
    if isinstance(problem, RequestFailed) and problem.code == "grammar_failed":  # as often as it is tried
        return HttpRefused(400, problem.error, code=problem.code)
    if isinstance(problem, RequestFailed):
        return HttpRefused(500, f"the engine could not go on: {problem.error}", code=problem.code)
    if problem.code == "queue_full":
        return HttpRefused(429, problem.error, code="queue_full")
    if problem.code in _FAULTS_OF_THE_SENDER:
        field = limit if problem.code in _TOO_LONG else None
        return HttpRefused(400, problem.error, field, _FAULTS_OF_THE_SENDER[problem.code])
    return HttpRefused(500, f"the engine refused: {problem.error}", code=problem.code)


def openai_error(refused: HttpRefused) -> dict[str, Any]:
    kind = _OPENAI.get(refused.status, "server_error" if refused.status >= 500 else "invalid_request_error")
    return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}}


def anthropic_error(refused: HttpRefused) -> dict[str, Any]:
    kind = _ANTHROPIC.get(refused.status, "api_error" if refused.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": refused.anthropic_message}}
