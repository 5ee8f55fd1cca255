"""Checks of a START that do not depend on other requests."""

from __future__ import annotations

from ..protocol import PromptFile, Refusal, Start
from .limits import Limits
from .plan import EngineInfo
from .requests import beyond_greedy

MOST_LOGPROBS = 1024


def check_start(start: Start, info: EngineInfo, limits: Limits) -> tuple[int, ...]:
    """The prompt's ids, if nothing is wrong."""
    if isinstance(start.prompt, PromptFile):
        raise TypeError(f"the prompt {start.prompt.path} has not been read")
    prompt = start.prompt.tokens
    if not prompt:
        raise Refusal("prompt_empty", "the prompt holds no token ids: expected one at least")
    if min(prompt) < 0 or max(prompt) >= info.vocab:
        index = next(index for index, token in enumerate(prompt) if not 0 <= token < info.vocab)
        raise Refusal("prompt_bad_token", f"prompt token {index} is {prompt[index]}: expected 0 to {info.vocab - 1}")
    options = start.options
    biased = [token for token, _ in options.sampling.logit_bias]
    for name, tokens in (("stop", options.stop), ("predict", options.predict), ("logit_bias", biased)):
        for token in tokens:
            if token >= info.vocab:
                raise Refusal("bad_argument", f"{name}={token}: expected 0 to {info.vocab - 1}")
    if len(options.predict) > limits.context:
        raise Refusal(
            "bad_argument",
            f"predict: has {len(options.predict)} tokens, expected at most the context, {limits.context}",
        )
    if options.sampling.logprobs > MOST_LOGPROBS:
        raise Refusal("bad_argument", f"logprobs={options.sampling.logprobs}: expected 0 to {MOST_LOGPROBS}")
    names = [*beyond_greedy(options.sampling), *(["grammar"] if options.grammar else [])]
    if info.greedy_only and names:
        raise Refusal("unsupported", f"{names[0]}: this engine decodes greedily, expected START without it")
    if start.options.snap is not None and start.options.snap[0] > len(prompt):
        raise Refusal(
            "bad_argument",
            f"snap={start.options.snap[0]}:{start.options.snap[1]}: the prompt has {len(prompt)} tokens, "
            f"expected a position from 1 to {len(prompt)}",
        )
    needed = len(prompt) + start.total
    if needed > limits.context:
        raise Refusal(
            "context_overflow",
            f"{len(prompt)} tokens of prompt and {start.total} to come make {needed}: the context is {limits.context}"
            + (f", and the cache holds {most}" if (most := limits.most_positions) < limits.context else ""),
        )
    return prompt
