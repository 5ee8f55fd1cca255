"""The tools that a request offers to the model, read from either API."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..refused import wrong
from .fields import Fields, shown
from .holds import Hold, held
from .schemas import types_of

FUNCTION: Final = "function"
CUSTOM: Final = "custom"
REQUIRED: Final = "required"
CHOICES: Final = ("none", "auto", REQUIRED)
ANTHROPIC_CHOICES: Final = {"none": "none", "auto": "auto", "any": REQUIRED, "tool": REQUIRED}
NAME: Final = re.compile("[A-Za-z0-9_.:/-]{1,128}")
Described = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Tools:
    """What the model may call. `described` is what a chat template takes, in OpenAI's form, each with the JSON schema
    of its arguments; `several` is whether one answer may have more than one call; one of `must`, if there are any, it
    has to call. The arguments of those that are `strict` are held to their schemas."""

    described: Described
    several: bool = True
    must: tuple[str, ...] = ()
    strict: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        return any(one[FUNCTION]["name"] == name for one in self.described)

    def types(self, name: str, argument: str) -> set[str]:
        """Those that the schema allows for an argument; none if it does not say."""
        schemas = [one[FUNCTION].get("parameters") for one in self.described if one[FUNCTION]["name"] == name]
        return types_of(schemas[0], argument) if schemas else set()

    def schema(self, name: str, hold: Hold = Hold.GIVEN) -> Mapping[str, Any]:
        """Of the arguments of a tool, to hold a call to; of one that is strict, all of it."""
        parameters = next(one[FUNCTION]["parameters"] for one in self.described if one[FUNCTION]["name"] == name)
        return parameters if name in self.strict else held(parameters, hold)


def openai_tools(fields: Fields, flat: bool = False) -> Tools | None:
    """None if the model may not call any. `flat`: what is said of a function stands beside
    its type, as in the API of responses; there, agents offer whatever the server may have, and what it has not is left
    out."""

    def function(one: Fields) -> Fields:
        if flat or one.value("type") is not None:
            _expect(one, "type", FUNCTION)
        return one if flat else one.within(FUNCTION)

    given = fields.each("tools")
    if flat:
        given = [one for one in given if one.needed_text("type") == FUNCTION]
    functions = [function(one) for one in given]
    described = tuple(_described(one, "parameters") for one in functions)
    strict = _strict(functions)
    choice, name, several = fields.value("tool_choice"), None, fields.flag("parallel_tool_calls")
    if isinstance(choice, dict):
        choice, name = REQUIRED, function(fields.within("tool_choice")).needed_text("name")
    elif choice not in (None, *CHOICES):
        raise wrong("tool_choice", f"{shown(choice)} is not supported, expected {', '.join(CHOICES)} or an object")
    return _chosen(described, choice or "auto", name, several is not False, strict)


def anthropic_tools(fields: Fields) -> Tools | None:
    """None if the model may not call any."""
    given = fields.each("tools")
    described, strict = tuple(map(_anthropic, given)), _strict(given)
    if fields.value("tool_choice") is None:
        return _chosen(described, "auto", None, True, strict)
    choice = fields.within("tool_choice")
    kind = _expect(choice, "type", *ANTHROPIC_CHOICES)
    name = choice.needed_text("name") if kind == "tool" else None
    several = not choice.flag("disable_parallel_tool_use")
    return _chosen(described, ANTHROPIC_CHOICES[kind], name, several, strict)


def _strict(functions: list[Fields]) -> frozenset[str]:
    return frozenset(one.needed_text("name") for one in functions if one.flag("strict"))


def _chosen(described: Described, choice: str, name: str | None, several: bool, strict: frozenset[str]) -> Tools | None:
    """`name` is the one to call, once."""
    names = tuple(one[FUNCTION]["name"] for one in described)
    if choice != REQUIRED:
        return Tools(described, several, strict=strict) if described and choice != "none" else None
    if not names or name not in (None, *names):
        raise wrong("tool_choice", f"{'a call' if name is None else shown(name)} is asked for, but not in tools")
    if name is None:
        return Tools(described, several, names, strict)
    return Tools(described, False, (name,), strict)


def _anthropic(fields: Fields) -> Mapping[str, Any]:
    if fields.value("type") is not None:
        _expect(fields, "type", CUSTOM)
    return _described(fields, "input_schema")


def _described(fields: Fields, schema: str) -> Mapping[str, Any]:
    """What templates know of a function. All of them name it; not all can do without the rest."""
    name, about = fields.needed_text("name"), fields.text("description")
    if not NAME.fullmatch(name):
        raise wrong(fields.path("name"), f"{shown(name)} is not 1 to 128 letters, digits and any of _ - . : /")
    given = fields.value(schema)
    if given is not None:
        Fields(given, fields.path(schema))
    parameters = {"type": "object", "properties": {}} | (given or {})
    known = {"name": name, "description": about or "", "parameters": parameters}
    return {"type": FUNCTION, FUNCTION: known}


def _expect(fields: Fields, name: str, *values: str) -> str:
    """A string that has to be one of these."""
    given = fields.needed(name)
    if not isinstance(given, str) or given not in values:
        expected = " or ".join(map(repr, values))
        raise wrong(fields.path(name), f"{shown(given)} is not supported, expected {expected}", "unsupported_value")
    return given
