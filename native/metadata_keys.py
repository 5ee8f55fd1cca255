"""The numbers under one architecture's prefix in a file's metadata, checked as they are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True, slots=True)
class Keys:
    architecture: str
    values: Mapping[str, Any]

    def size(self, name: str, default: int | None = None) -> int:
        value = self._value(name, default)
        if type(value) is not int or value < 1:
            raise ValueError(f"the key '{self.architecture}.{name}' is {value!r}, expected a whole number above 0")
        return value

    def sizes(self, name: str, count: int, default: int | None = None) -> list[int]:
        """Of `count` layers: a list, or one number for all."""
        if not self.is_list(name):
            return [self.size(name, default)] * count
        value = self._value(name)
        if len(value) != count or not all(type(one) is int and one > 0 for one in value):
            raise ValueError(
                f"the key '{self.architecture}.{name}' is no list of whole numbers above 0 for {count} layers"
            )
        return list(value)

    def one_size(self, name: str, count: int, default: int | None = None) -> int:
        """The one number of `count` layers, which some files repeat for each."""
        given = set(self.sizes(name, count, default))
        if len(given) != 1:
            raise ValueError(
                f"the key '{self.architecture}.{name}' has {sorted(given)!r}, expected one number for all layers"
            )
        return given.pop()

    def counts(self, name: str, count: int, drafting: int = 0) -> list[int]:
        """Of `count` layers: a list of whole numbers, which goes on for those that draft, or one above 0 for all."""
        if not self.is_list(name):
            return [self.size(name)] * count
        value = self._value(name)
        if len(value) != count + drafting or not all(type(one) is int and one >= 0 for one in value):
            raise ValueError(
                f"the key '{self.architecture}.{name}' is no list of whole numbers for {count + drafting} layers"
            )
        return list(value[:count])

    def only_count(self, name: str, count: int, drafting: int = 0) -> int:
        """The one number above 0 that such a list has."""
        given = {each for each in self.counts(name, count, drafting) if each}
        if len(given) != 1:
            raise ValueError(
                f"the key '{self.architecture}.{name}' has {sorted(given)!r}, expected one number for all layers "
                "that have any"
            )
        return given.pop()

    def positive(self, name: str, default: float | None = None) -> float:
        value = self._value(name, default)
        if type(value) not in (int, float) or not isfinite(value) or value <= 0:
            raise ValueError(f"the key '{self.architecture}.{name}' is {value!r}, expected a number above 0")
        return float(value)

    def optional(self, name: str, default: float = 0.0) -> float:
        """A number above 0, 0.0 where the key is 0, and `default` where it is missing."""
        return 0.0 if self._is_zero(name, default) else self.positive(name, default)

    def optional_size(self, name: str) -> int:
        """A whole number above 0, or 0 where the key is missing or 0."""
        return 0 if self._is_zero(name, 0) else self.size(name)

    def flag(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        if type(value) is not bool:
            raise ValueError(f"the key '{self.architecture}.{name}' is {value!r}, expected true or false")
        return value

    def has(self, name: str) -> bool:
        return f"{self.architecture}.{name}" in self.values

    def is_list(self, name: str) -> bool:
        return isinstance(self.values.get(f"{self.architecture}.{name}"), list)

    def flags(self, name: str, count: int) -> list[bool]:
        value = self._value(name)
        if not isinstance(value, list) or len(value) != count or not all(type(one) is bool for one in value):
            raise ValueError(f"the key '{self.architecture}.{name}' is no list of true or false for {count} layers")
        return value

    def _is_zero(self, name: str, default: float) -> bool:
        value = self.values.get(f"{self.architecture}.{name}", default)
        return type(value) in (int, float) and value == 0

    def _value(self, name: str, default: float | None = None) -> Any:
        value = self.values.get(f"{self.architecture}.{name}", default)
        if value is None:
            raise ValueError(f"the key '{self.architecture}.{name}' is missing")
        return value
