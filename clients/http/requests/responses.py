"""The body of /v1/responses, read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .asked import Asked, Chat
from .fields import WHOLE, Fields
from .formats import response_format
from .options import sampling_options, template_names
from .responses_items import input_turns
from .tools import openai_tools

LOGPROBS: Final = "message.output_text.logprobs"
# Fields for what does not exist here, each with the values that ask for nothing.
UNSUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "background": (False,),
    "context_management": ([],),
    "conversation": (),
    "max_tool_calls": (),
    "previous_response_id": (),
    "prompt": (),
    "truncation": ("disabled",),
}
UNSUPPORTED_TEXT: Final[dict[str, tuple[Any, ...]]] = {"verbosity": ("medium",)}
# Fields that a response repeats, with what it says of those that were left out.
REPEATED: Final[dict[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}


@dataclass(frozen=True, slots=True)
class ResponseAsked:
    """`repeated` are the fields of the request that its answer repeats."""

    asked: Asked
    repeated: Mapping[str, Any]


def read_response(body: object) -> ResponseAsked:
    fields = Fields(body)
    fields.refuse(UNSUPPORTED)
    text = _within(fields, "text")
    text.refuse(UNSUPPORTED_TEXT)
    fields.text("model")
    _within(fields, "metadata")
    fields.flag("store")  # nothing is, whatever it says
    names = template_names(fields, _within(fields, "reasoning"), "effort")
    likely, include = fields.integer("top_logprobs", 0, 20), fields.texts("include", most=16, one=False)
    asked = Asked(
        prompts=(Chat(tuple(input_turns(fields)), names, openai_tools(fields, flat=True), "input"),),
        most=fields.integer("max_output_tokens", 1, WHOLE),
        options=sampling_options(fields),
        stream=fields.flag("stream") or False,
        logprobs=(likely or 0) if likely or LOGPROBS in include else None,
        limit="max_output_tokens",
        format=response_format(text),
    )
    repeated = {name: default if (value := fields.value(name)) is None else value for name, default in REPEATED.items()}
    return ResponseAsked(asked, repeated)


def _within(fields: Fields, name: str) -> Fields:
    """An object; absent, it is empty."""
    return Fields({}, name) if fields.value(name) is None else fields.within(name)
