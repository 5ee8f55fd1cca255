"""The bodies of /v1/chat/completions and /v1/completions, read."""

from dataclasses import replace
from typing import Any, Final

from .asked import MOST_ANSWERS, MOST_STOPS, SEEDS, Asked, Chat, Ids, Text
from .fields import WHOLE, Fields, are_ids, shown
from .messages import listed_messages, openai_message
from .refused import wrong
from .tools import openai_tools

OWN_NAMES: Final = {"self", "messages", "add_generation_prompt"}  # template variables that we set
NO_EFFORT: Final = "none"
EFFORTS: Final = (NO_EFFORT, "minimal", "low", "medium", "high", "xhigh")  # OpenAI's; a model may know some of them
# Fields for features that do not exist yet, each with the values that ask for nothing.
UNSUPPORTED_CHAT: Final[dict[str, tuple[Any, ...]]] = {
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "verbosity": ("medium",),
}
UNSUPPORTED_COMPLETION: Final[dict[str, tuple[Any, ...]]] = {
    "suffix": ("",),
    "best_of": (1,),
    "response_format": ({"type": "text"},),
}


def read_chat(body: object) -> Asked:
    fields = Fields(body)
    fields.refuse(UNSUPPORTED_CHAT)
    chat = Chat(tuple(map(openai_message, listed_messages(fields))), _names(fields), openai_tools(fields))
    told = fields.flag("logprobs")
    likely = fields.integer("top_logprobs", 0, 20)
    if likely is not None and not told:
        raise wrong("top_logprobs", "goes with logprobs: true")
    newer, older = (fields.integer(name, 1, WHOLE) for name in ("max_completion_tokens", "max_tokens"))
    asked = _asked(fields, (chat,), newer or older, logprobs=(likely or 0) if told else None)
    return replace(asked, limit="max_completion_tokens") if newer else asked


def read_completion(body: object) -> Asked:
    fields = Fields(body)
    fields.refuse(UNSUPPORTED_COMPLETION)
    prompts = _prompts(fields.needed("prompt"))
    likely, echo = fields.integer("logprobs", 0, 5), fields.flag("echo") or False
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
    options = _options(fields)
    return Asked(prompts, most, options, fields.texts("stop", MOST_STOPS), n, stream, usage, logprobs, echo)


def _options(fields: Fields) -> dict[str, Any]:
    """Those of START. As with OpenAI, an answer is sampled at temperature 1 unless told otherwise."""
    temp, top_p = fields.real("temperature", 0, 2), fields.real("top_p", 0, 1)
    seed = fields.integer("seed", -SEEDS, SEEDS - 1)
    found = {
        "temp": 1.0 if temp is None else temp,
        "top_p": None if top_p is None else max(top_p, 1e-6),  # 0 means the likeliest token alone
        "top_k": fields.integer("top_k", -1, WHOLE),
        "min_p": fields.real("min_p", 0, 1),
        "rep_penalty": fields.real("repetition_penalty", 0.01, 100),
        "freq_penalty": fields.real("frequency_penalty", -2, 2),
        "pres_penalty": fields.real("presence_penalty", -2, 2),
        "seed": None if seed is None else seed % SEEDS,
        "ignore_eos": fields.flag("ignore_eos"),
        "logit_bias": _bias(fields),
    }
    if found["top_k"] == -1:
        found["top_k"] = 0
    return {name: value for name, value in found.items() if value is not None}


def _bias(fields: Fields) -> tuple[tuple[int, float], ...] | None:
    given = fields.value("logit_bias")
    if given is None:
        return None
    biases = Fields(given, "logit_bias")
    for token in given:
        if not (token.isascii() and token.isdecimal() and len(token) <= 10) or int(token) > WHOLE:
            raise wrong("logit_bias", f"{token[:20]!r} is no token id")
    if len(set(map(int, given))) < len(given):
        raise wrong("logit_bias", "names a token twice")
    return tuple((int(token), biases.real(token, -100, 100) or 0.0) for token in given) or None


def _names(fields: Fields) -> dict[str, Any]:
    """Further variables for the chat template."""
    names = _effort(fields)
    given = fields.value("chat_template_kwargs")
    if given is None:
        return names
    more = Fields(given, "chat_template_kwargs")
    more.refuse(dict.fromkeys(("tools", "documents"), ()))
    for name in OWN_NAMES & given.keys():  # even null, which a template would take for a value
        raise wrong(more.path(name), "is not supported", "unsupported_parameter")
    return names | dict(given)


def _effort(fields: Fields) -> dict[str, Any]:
    """By the name that templates know it by; without any, those that can be told not to think are told so."""
    effort = fields.text("reasoning_effort")
    if effort is None:
        return {}
    if effort not in EFFORTS:
        raise wrong("reasoning_effort", f"{shown(effort)} is not supported, expected {', '.join(EFFORTS)}")
    return {"reasoning_effort": effort} | ({"enable_thinking": False} if effort == NO_EFFORT else {})


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
