"""Shared by the scripts that write a table of benchmarks/ into a page, where it goes between two markers."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def write(name: str, table: str, arguments: list[str], page: Path = README) -> int:
    """Puts the table between `<!-- NAME: … -->` and `<!-- end of NAME -->`; the exit status.

    With --check among the arguments nothing is written, and the status is 1 if the page has another table.
    """
    text = page.read_text()
    begin, end = text.find(f"<!-- {name}: "), text.find(f"<!-- end of {name} -->")
    if begin < 0 or end < begin:
        sys.exit(f"{page.name}: expected <!-- {name}: … --> and <!-- end of {name} --> around the table")
    head = text.index("\n", begin) + 1
    updated = text[:head] + table + text[end:]
    if "--check" in arguments:
        return int(updated != text)
    page.write_text(updated)
    return 0
