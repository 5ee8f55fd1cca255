"""What OpenAI's routes have in common: how to sample, and what else to tell the chat template."""

from typing import Any, Final

from ..refused import wrong
from .asked import SEEDS
from .fields import WHOLE, Fields, shown

OWN_NAMES: Final = {"self", "messages", "add_generation_prompt"}  # template variables that we set
EFFORT: Final = "reasoning_effort"  # and whether to think, as templates call them:
THINKS: Final = "enable_thinking"
NO_EFFORT: Final = "none"
# OpenAI's; a model may know some of them.
EFFORTS: Final = (NO_EFFORT, "minimal", "low", "medium", "high", "xhigh", "max")


def sampling_options(fields: Fields) -> dict[str, Any]:
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


def template_names(fields: Fields, thinking: Fields, effort: str) -> dict[str, Any]:
    """Further variables for the chat template; `effort` is a field of `thinking`."""
    names = _effort(thinking, effort)
    given = fields.value("chat_template_kwargs")
    if given is None:
        return names
    more = Fields(given, "chat_template_kwargs")
    more.refuse(dict.fromkeys(("tools", "documents"), ()))
    for name in OWN_NAMES & given.keys():  # even null, which a template would take for a value
        raise wrong(more.path(name), "is not supported", "unsupported_parameter")
    return names | dict(given)


def _effort(fields: Fields, name: str) -> dict[str, Any]:
    """By the name that templates know it by; without any, those that can be told not to think are told so."""
    effort = fields.text(name)
    if effort is None:
        return {}
    if effort not in EFFORTS:
        raise wrong(fields.path(name), f"{shown(effort)} is not supported, expected {', '.join(EFFORTS)}")
    return {EFFORT: effort} | ({THINKS: False} if effort == NO_EFFORT else {})
