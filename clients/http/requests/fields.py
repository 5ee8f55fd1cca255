"""The fields of a JSON object, read with their types: a wrong value is refused with its field's name, unknown fields
are ignored. null counts as absent."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from ..refused import HttpRefused, wrong

WHOLE: Final = (1 << 31) - 1  # the largest number that the daemon takes
SHOWN = 60  # characters of a wrong value that an error repeats


class Fields:
    def __init__(self, body: object, within: str = "") -> None:
        """`within` is the path of the object in the body, for errors."""
        if not isinstance(body, dict):
            raise HttpRefused(400, f"{within or 'the body'}: expected a JSON object", within or None, "invalid_type")
        self._body: Mapping[str, Any] = body
        self._within = within

    @property
    def all(self) -> Mapping[str, Any]:
        """As they are."""
        return self._body

    def path(self, name: str) -> str:
        return f"{self._within}.{name}" if self._within else name

    def value(self, name: str) -> Any:
        """As it is; None if absent."""
        return self._body.get(name)

    def needed(self, name: str) -> Any:
        value = self.value(name)
        if value is None:
            raise wrong(self.path(name), "is missing", "missing_required_parameter")
        return value

    def integer(self, name: str, least: int, most: int) -> int | None:
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._mistyped(name, "a whole number")
        if not least <= value <= most:
            raise wrong(self.path(name), f"{shown(value)} is not from {least} to {most}")
        return value

    def real(self, name: str, least: float, most: float) -> float | None:
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._mistyped(name, "a number")
        if not (least <= value <= most and isfinite(value)):
            raise wrong(self.path(name), f"{shown(value)} is not from {least:g} to {most:g}")
        return float(value)

    def ids(self, name: str, most: int) -> list[int]:
        """A list of token ids that has to be there, of at most `most`."""
        value = self.needed(name)
        if not are_ids(value):
            raise wrong(self.path(name), "expected a list of token ids", "invalid_type")
        if len(value) > most:
            raise wrong(self.path(name), f"has {len(value)} token ids, expected at most {most}")
        return list(value)

    def flag(self, name: str) -> bool | None:
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            raise self._mistyped(name, "true or false")
        return value

    def long_text(self, name: str, most: int) -> str:
        """A string that has to be there, of at most `most` characters."""
        text = self.needed_text(name)
        if len(text) > most:
            raise wrong(self.path(name), f"has {len(text)} characters, expected at most {most}")
        return text

    def needed_text(self, name: str) -> str:
        """A string that has to be there; it may be empty."""
        self.needed(name)
        return self.text(name) or ""

    def text(self, name: str) -> str | None:
        value = self.value(name)
        if value is not None and not isinstance(value, str):
            raise self._mistyped(name, "a string")
        return value

    def texts(self, name: str, most: int, one: bool = True) -> tuple[str, ...]:
        """A list of strings, or with `one` a string alone; none of them empty."""
        value = self.value(name)
        if value is None:
            return ()
        words = [value] if one and isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise self._mistyped(name, "a string or a list of strings" if one else "a list of strings")
        if len(words) > most:
            raise wrong(self.path(name), f"has {len(words)} strings, expected at most {most}")
        if "" in words:
            raise wrong(self.path(name), "an empty string, expected at least one character")
        return tuple(words)

    def each(self, name: str) -> "list[Fields]":
        """A list of objects; absent, it is empty."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._mistyped(name, "a list")
        return [Fields(one, f"{self.path(name)}[{number}]") for number, one in enumerate(value)]

    def within(self, name: str) -> "Fields":
        """An object that has to be there."""
        return Fields(self.needed(name), self.path(name))

    def refuse(self, names: Mapping[str, Iterable[Any]]) -> None:
        """Refuses each of these fields that is present, unless its value is one of those listed as harmless."""
        for name, harmless in names.items():
            value = self.value(name)
            if value is not None and not any(type(value) is type(one) and value == one for one in harmless):
                raise wrong(self.path(name), "is not supported", "unsupported_parameter")

    def _mistyped(self, name: str, expected: str) -> HttpRefused:
        return wrong(self.path(name), f"{shown(self.value(name))} is not {expected}", "invalid_type")


def are_ids(value: Any) -> bool:
    """Without a Python loop over the ids, which would take a second for millions of them."""
    whole = isinstance(value, list) and set(map(type, value)) <= {int}
    return whole and (not value or (min(value) >= 0 and max(value) <= WHOLE))


def shown(value: Any) -> str:
    """A scalar, shortened; for anything else just its kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
