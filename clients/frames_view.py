"""A frame stream as text for people: each request's words under its own label, many requests side by side.

Requests that are decoded together send a token each, in turn; a line per token would be unreadable. So one request
holds the line that is being written, and its text shows at once. The others first gather a phrase and then take the
line over. When nothing arrives for a moment (`idle`) all that was gathered is shown.
"""

import json
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..protocol import TERMINALS, Frame, Item, Message

PHRASE: Final = 40
# a model's output must not move a terminal's cursor: control characters show as their pictures
PICTURES: Final = (
    {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
    | {0x7F: 0x2421}
    | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
)


class Decoder(Protocol):
    """Ids to text, for one request."""

    def push(self, token: int) -> str: ...

    def flush(self) -> str: ...


class TextView:
    """`show` every item and print what it returns; `open_model` gives the decoders for the model path in the ready
    event."""

    def __init__(self, open_model: Callable[[str | None], Callable[[], Decoder]]) -> None:
        self._open_model = open_model
        self._new_decoder: Callable[[], Decoder] | None = None
        self._decoders: dict[int, Decoder] = {}
        self._gathered: dict[int, str] = {}
        self._holder: int | None = None  # whose text ends the line that is being written

    @property
    def waiting(self) -> bool:
        """Whether `idle` has something to show."""
        return bool(self._gathered)

    def show(self, item: Item) -> str:
        match item:
            case Frame(req_id, value) if value >= 0:
                return self._add(req_id, self._decoder(req_id).push(value))
            case Frame(req_id, value) if value in TERMINALS:
                return self._finish(req_id)
            case Message(body={"event": "ready"} as body):
                self._new_decoder = self._open_model(body.get("path"))
            case Message(req_id, {"event": "end"} as body):
                return self._finish(req_id) + self._line(f"req {req_id} ■ {_ending(body)}")
            case Message(req_id, {"re": line, "ok": False} as body):
                who = f"req {req_id}" if req_id else f"line {line}"
                return self._line(f"{who} ✗ {body.get('code')}: {body.get('error')}")
            case Message(0, {"re": _, "live": _}):  # a drain was accepted: of no interest to people
                return ""
            case Message(0, {"re": line} as body):
                rest = {key: value for key, value in body.items() if key not in ("re", "ok")}
                return self._line(f"line {line} │ {_shown(rest)}") if rest else ""
        return ""

    def idle(self) -> str:
        """The text that was held back."""
        return "".join(self._write(req_id) for req_id in list(self._gathered))

    def close(self) -> str:
        """The end of the stream, which may be too early for some requests."""
        return "".join(self._finish(req_id) for req_id in list(self._decoders)) + self._new_line()

    def _decoder(self, req_id: int) -> Decoder:
        if self._new_decoder is None:
            self._new_decoder = self._open_model(None)
        return self._decoders.get(req_id) or self._decoders.setdefault(req_id, self._new_decoder())

    def _add(self, req_id: int, text: str) -> str:
        if not text:
            return ""
        gathered = self._gathered[req_id] = self._gathered.get(req_id, "") + text
        if self._holder in (None, req_id) or len(gathered) >= PHRASE or "\n" in gathered:
            return self._write(req_id)
        return ""

    def _finish(self, req_id: int) -> str:
        decoder = self._decoders.pop(req_id, None)
        self._gathered[req_id] = self._gathered.get(req_id, "") + (decoder.flush() if decoder else "")
        return self._write(req_id)

    def _write(self, req_id: int) -> str:
        text = self._gathered.pop(req_id).translate(PICTURES)
        if not text:
            return ""
        label = f"req {req_id} │ "
        begin = "" if self._holder == req_id else self._new_line() + label
        self._holder = None if text.endswith("\n") else req_id
        return begin + text.removesuffix("\n").replace("\n", "\n" + label) + ("" if self._holder else "\n")

    def _line(self, text: str) -> str:
        return self._new_line() + text.translate(PICTURES) + "\n"

    def _new_line(self) -> str:
        holder, self._holder = self._holder, None
        return "" if holder is None else "\n"


def _ending(end: dict[str, Any]) -> str:
    """reason, tokens, tokens per second, time to first token; for a failure its reason."""
    said = [str(end.get("reason")), f"{end.get('tokens')} tokens"]
    if isinstance(tps := end.get("tps"), float | int):
        said.append(f"{tps:.1f} tok/s")
    if isinstance(ttft := end.get("ttft_ms"), float | int):
        said.append(f"first token after {ttft:.1f} ms")
    if "code" in end:
        said.append(f"{end['code']}: {end.get('error')}")
    return " · ".join(said)


def _shown(body: dict[str, Any]) -> str:
    match list(body.values()):
        case [str(text)]:
            return text
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
