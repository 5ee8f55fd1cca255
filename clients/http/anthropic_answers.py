"""The answers of /v1/messages: whole ones, and the events of a stream in their order."""

from typing import Any, Final

from .openai_answers import Answer, Counts

Body = dict[str, Any]
_REASONS: Final = {"eos": "end_turn", "stop": "end_turn", "length": "max_tokens"}


def message(name: str, model: str, answer: Answer, counts: Counts) -> Body:
    content = [{"type": "text", "text": answer.text}]
    return _message(name, model, content, counts) | _ending(answer.reason, answer.stopped)


def opening(name: str, model: str, counts: Counts) -> list[Body]:
    """`counts` is what is known by then: the prompt."""
    begun = _message(name, model, [], counts) | {"stop_reason": None, "stop_sequence": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]


def piece(text: str) -> Body:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def closing(reason: str, stopped: str | None, counts: Counts) -> list[Body]:
    return [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": _ending(reason, stopped), "usage": _usage(counts)},
        {"type": "message_stop"},
    ]


def _message(name: str, model: str, content: list[Body], counts: Counts) -> Body:
    head = {"id": name, "type": "message", "role": "assistant", "model": model}
    return head | {"content": content, "usage": _usage(counts)}


def _ending(reason: str, stopped: str | None) -> Body:
    return {"stop_reason": "stop_sequence" if stopped is not None else _REASONS[reason], "stop_sequence": stopped}


def _usage(counts: Counts) -> Body:
    """Here, unlike OpenAI's, the tokens of the prompt that came from the cache are counted apart."""
    return {
        "input_tokens": counts.prompt - counts.cached,
        "cache_read_input_tokens": counts.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": counts.answer,
    }
