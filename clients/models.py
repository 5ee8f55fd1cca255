"""`paceline models`: the model files in the cache, and fetching the one that has a name."""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Final

ABOUT: Final = """\
Lists the models in the cache ($XDG_CACHE_HOME/paceline, or ~/.cache/paceline): name, size, format and path. A model
that lies elsewhere is used by its path and needs no cache. `fetch` gets the demo model, checks it, and says where."""
EXAMPLES: Final = """\
examples:
  paceline models
  paceline models fetch                                 the demo model
  paceline serve "$(paceline models fetch SmolLM2-135M-Instruct.Q4_1)\""""
LIST: Final = "list"
FETCH: Final = "fetch"
PART: Final = re.compile(r"(.+)-\d{5}-of-(\d{5})\.gguf")  # of a model in several files


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("do", nargs="?", choices=(LIST, FETCH), default=LIST, help="list (default) or fetch")
    parser.add_argument("name", nargs="?", metavar="NAME", help="what to fetch (default: the demo model)")


def run(arguments: Namespace) -> int:
    """The exit code. Raises ModelUnavailable."""
    from ..native.files.demo_model import DEMO, cache_folder
    from ..native.weights import find_model

    demo = Path(DEMO.member).stem
    if arguments.do == FETCH:
        if arguments.name not in (None, demo):
            print(f"paceline models: {arguments.name}: no such name, expected {demo}", file=sys.stderr)
            return 2
        print(find_model(None))
        return 0
    if arguments.name is not None:
        print(f"paceline models: {arguments.name}: a name goes with fetch", file=sys.stderr)
        return 2
    found = list(cached(cache_folder()))
    rows = [("NAME", "SIZE", "FORMAT", "PATH"), *(described(path) for path in found)]
    if all(path.stem != demo for path in found):
        rows.append((demo, f"{DEMO.size / 1e6:,.0f} MB", "GGUF", f"not here yet: paceline models fetch {demo}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
    return 0


def cached(folder: Path) -> Iterator[Path]:
    """GGUF files (only the first of a model in several) and folders with a config.json; none that is still being
    fetched."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if not any(part.endswith(".fetching") for part in path.parts):
            if path.suffix == ".gguf" and path.is_file() and path == parts(path)[0]:
                yield path
            elif path.name == "config.json":
                yield path.parent


def parts(path: Path) -> list[Path]:
    """All files of the GGUF model that this one belongs to, as far as they are there."""
    name = PART.fullmatch(path.name)
    if name is None:
        return [path]
    return sorted(path.parent.glob(f"{escape(name[1])}-[0-9][0-9][0-9][0-9][0-9]-of-{name[2]}.gguf"))


def described(path: Path) -> tuple[str, str, str, str]:
    """Name, size, format (the type that most of the weights have) and path."""
    from ..native.weights import ModelUnreadable, open_model

    files = parts(path) if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    try:
        metadata, tensors = open_model(path)
        types: Counter[str] = Counter()
        for tensor in tensors:
            types[tensor.type] += tensor.nbytes
        most = types.most_common(1)[0][0] if types else "empty"
        kind = f"{'GGUF' if path.is_file() else 'safetensors'} {most}, {metadata.architecture}"
    except ModelUnreadable:
        kind = "unreadable"
    return path.stem if path.is_file() else path.name, f"{size / 1e6:,.0f} MB", kind, str(path)
