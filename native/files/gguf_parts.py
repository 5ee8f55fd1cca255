"""A model in several GGUF files: NAME-00001-of-00003.gguf holds the metadata, each file tensors of its own."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
MOST = 99_999  # the name has five digits


def other_parts(path: Path, values: Mapping[str, Any]) -> list[Path]:
    """The files that go on after the first, `path`, whose metadata are `values`; none where the model is one file.

    Raises ValueError for a part that is not the first, and where the names do not say where the others are.
    """
    count, number = values.get("split.count", 1), values.get("split.no", 0)
    if type(count) is not int or type(number) is not int or not 0 <= number < max(count, 1) <= MOST:
        raise ValueError(
            f"the keys 'split.no' and 'split.count' are {number!r} and {count!r}, expected a part of several"
        )
    if count <= 1:
        return []
    name = PART.fullmatch(path.name)
    if name is None or int(name[3]) != count or int(name[2]) != number + 1:
        raise ValueError(
            f"it is part {number + 1} of {count}, expected a name that ends in -{number + 1:05}-of-{count:05}.gguf"
        )
    names = [path.with_name(f"{name[1]}-{part:05}-of-{count:05}.gguf") for part in range(1, count + 1)]
    if number:
        raise ValueError(f"it is part {number + 1} of {count}, expected the first, {names[0].name}")
    for each in names:
        if not each.is_file():
            raise ValueError(f"its part {each.name} is missing")
    return names[1:]
