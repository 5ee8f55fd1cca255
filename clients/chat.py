"""A model's chat template: messages in, the prompt text that the model was trained on out.

Templates come with model files, which anybody may have made, so they run in jinja2's sandbox. The environment (trimmed
blocks, the extra names) is the one that template authors test with."""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, Self

import jinja2
from jinja2.ext import Extension
from jinja2.nodes import Node, Scope
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..native.weights import Metadata, ModelUnreadable
from .errors import ChatRefused

Message = Mapping[str, Any]


class NoTemplate(ModelUnreadable):
    """The model has no chat template."""


class BrokenTemplate(ModelUnreadable):
    """The model has a chat template that cannot be used. `reason` may be shown to anybody: it does not contain the
    path."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot use the chat template of {path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[Path, str], dict[str, Any]]:
        return type(self), (self.path, self.reason), vars(self)


class Generation(Extension):
    """{% generation %} … {% endgeneration %}: for training, it marks what the model said. Here it just renders its
    body, in a scope of its own, as in Hugging Face's environment."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        return Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class ChatTemplate:
    def __init__(
        self, source: str, tokens: Mapping[str, str] | None = None, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """`tokens` are what the template may know by names such as bos_token. `now` is for templates that name today's
        date. Raises ValueError if `source` is no template."""
        self.source = source
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: now().strftime(form)
        environment.globals |= {"bos_token": "", "eos_token": "", **(tokens or {})}
        try:
            self._template = environment.from_string(source)
        except Exception as problem:  # too deep a nesting makes Python itself fail
            raise ValueError(f"its chat template is broken: {' '.join(str(problem).split())}") from None

    @classmethod
    def from_gguf(cls, metadata: Metadata, source: str | None = None) -> Self:
        """Raises NoTemplate, BrokenTemplate. `source`: a template in place of the file's."""
        path, values = metadata.path, metadata.values
        source = source or values.get("tokenizer.chat_template")
        if not source:
            raise NoTemplate(f"{path} has no chat template, expected the key 'tokenizer.chat_template'")
        tokens = values.get("tokenizer.ggml.tokens", [])
        numbers = [values.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")]
        try:
            bos, eos = ("" if number is None else tokens[number] for number in numbers)
            return cls(source, {"bos_token": bos, "eos_token": eos})
        except (ValueError, IndexError, TypeError) as problem:
            raise BrokenTemplate(path, str(problem)) from None

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, **names: Any) -> str:
        """The prompt text; `names` are further variables for the template (tools, enable_thinking …). Raises
        ChatRefused."""
        known = {"tools": None, "documents": None} | names
        try:
            # As Hugging Face does; a None as content stays, as templates may look at it in a message that calls tools.
            messages = [
                {key: value for key, value in message.items() if value is not None or key == "content"}
                for message in messages
            ]
            return self._template.render(messages=messages, add_generation_prompt=add_generation_prompt, **known)
        except Exception as problem:  # a template is foreign code: anything may come out of it
            raise ChatRefused(f"the chat template does not accept these messages: {problem}") from None


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=_listed, **options)


def _listed(value: Any) -> list[Any]:
    """Of what other filters give, as `map`."""
    if not isinstance(value, Generator):
        raise TypeError(f"{type(value).__name__} is no JSON")
    return list(value)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
