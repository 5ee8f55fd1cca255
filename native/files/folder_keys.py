"""The keys of config.json, checked as they are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .folder_rope import positive

MOST_LAYERS = 1 << 16
MOST = 1 << 24  # more rows or columns than this are damage, and would take for ever to lay out


@dataclass(frozen=True, slots=True)
class ConfigKeys:
    """`values` has what transformers fills in where config.json is silent."""

    values: Mapping[str, Any]

    def size(self, key: str, default: int | None = None) -> int:
        return self._whole(key, self.values.get(key, default), 1, "a whole number above 0")

    def layers(self) -> int:
        """Of which some families have lists."""
        layers = self.size("num_hidden_layers")
        if layers > MOST_LAYERS:
            raise ValueError(f"the key 'num_hidden_layers' of config.json is {layers}, expected at most {MOST_LAYERS}")
        return layers

    def sizes(self, key: str, count: int) -> list[int]:
        """Of `count` layers."""
        given = self.values[key]
        if not isinstance(given, list) or len(given) != count:
            raise ValueError(f"the key {key!r} of config.json is {given!r}, expected a list of {count}")
        return [self._whole(key, each, 1, "whole numbers above 0") for each in given]

    def count(self, key: str) -> int:
        """0 where there is none."""
        return self._whole(key, self.values.get(key, 0), 0, "a whole number")

    def number(self, key: str, default: float | None = None) -> float:
        return positive(key, self.values.get(key, default))

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if type(value) is not bool:
            raise ValueError(f"the key {key!r} of config.json is {value!r}, expected true or false")
        return value

    def _whole(self, key: str, value: Any, least: int, expected: str) -> int:
        if type(value) is not int or value < least:
            raise ValueError(f"the key {key!r} of config.json is {value!r}, expected {expected}")
        if value > MOST:
            raise ValueError(f"the key {key!r} of config.json is {value!r}, expected at most {MOST}")
        return value
