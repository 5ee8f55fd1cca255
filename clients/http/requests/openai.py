"""The bodies of /v1/chat/completions and /v1/completions, read."""

from dataclasses import replace
from typing import Any, Final

from ..refused import wrong
from .asked import MOST_ANSWERS, MOST_STOPS, Asked, Chat, Ids, Text
from .fields import WHOLE, Fields, are_ids, shown
from .formats import chat_format
from .messages import TEXTS, listed_messages, openai_message, text_of
from .options import sampling_options, template_names
from .tools import openai_tools

# Fields for features that do not exist yet, each with the values that ask for nothing.
UNSUPPORTED_CHAT: Final[dict[str, tuple[Any, ...]]] = {
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "verbosity": ("medium",),
}
UNSUPPORTED_COMPLETION: Final[dict[str, tuple[Any, ...]]] = {
    "best_of": (1,),
}


def read_chat(body: object) -> Asked:
    fields = Fields(body)
    fields.refuse(UNSUPPORTED_CHAT)
    messages = tuple(map(openai_message, listed_messages(fields)))
    chat = Chat(messages, template_names(fields, fields, "reasoning_effort"), openai_tools(fields))
    told = fields.flag("logprobs")
    likely = fields.integer("top_logprobs", 0, 20)
    if likely is not None and not told:
        raise wrong("top_logprobs", "goes with logprobs: true")
    newer, older = (fields.integer(name, 1, WHOLE) for name in ("max_completion_tokens", "max_tokens"))
    asked = _asked(fields, (chat,), newer or older, logprobs=(likely or 0) if told else None)
    return replace(asked, limit="max_completion_tokens" if newer else asked.limit, prediction=_prediction(fields))


def _prediction(fields: Fields) -> str:
    if fields.value("prediction") is None:
        return ""
    prediction = fields.within("prediction")
    if prediction.needed("type") != "content":
        raise wrong("prediction.type", f"{shown(prediction.value('type'))} is not content")
    return text_of(prediction.needed("content"), "prediction.content", TEXTS)


def read_completion(body: object) -> Asked:
    fields = Fields(body)
    fields.refuse(UNSUPPORTED_COMPLETION)
    likely, echo = fields.integer("logprobs", 0, 5), fields.flag("echo") or False
    prompts = _prompts(fields.needed("prompt"))
    if suffix := fields.text("suffix"):
        texts = [one for one in prompts if isinstance(one, Text)]
        if echo or len(texts) < len(prompts):
            raise wrong("suffix", f"does not go with {'echo' if echo else 'a prompt of token ids'}")
        prompts = tuple(replace(one, suffix=suffix) for one in texts)
    most = fields.integer("max_tokens", 0 if echo else 1, WHOLE)
    most = 16 if most is None else most
    return _asked(fields, prompts, most, logprobs=likely, echo=echo)


def _asked(
    fields: Fields, prompts: tuple[Any, ...], most: int | None, logprobs: int | None, echo: bool = False
) -> Asked:
    n = fields.integer("n", 1, MOST_ANSWERS) or 1
    if n * len(prompts) > MOST_ANSWERS:
        raise wrong("n", f"{n} answers to {len(prompts)} prompts, expected at most {MOST_ANSWERS} in all")
    stream = fields.flag("stream") or False
    given = fields.value("stream_options")
    if given is not None and not stream:
        raise wrong("stream_options", "goes with stream: true")
    usage = given is not None and (Fields(given, "stream_options").flag("include_usage") or False)
    fields.text("model")
    options, stops = sampling_options(fields), fields.texts("stop", MOST_STOPS)
    return Asked(prompts, most, options, stops, n, stream, usage, logprobs, echo, format=chat_format(fields))


def _prompts(given: Any) -> tuple[Text | Ids, ...]:
    """A string, token ids, or a list of several of either."""
    if given and are_ids(given):
        return (Ids(tuple(given)),)
    prompts = given if isinstance(given, list) else [given]
    if not 1 <= len(prompts) <= MOST_ANSWERS:
        raise wrong("prompt", f"{len(prompts)} prompts, expected 1 to {MOST_ANSWERS}")
    return tuple(_prompt(one) for one in prompts)


def _prompt(given: Any) -> Text | Ids:
    if isinstance(given, str):
        return Text(given)
    if are_ids(given):
        return Ids(tuple(given))
    raise wrong("prompt", "expected a string, token ids, or a list of either", "invalid_type")
