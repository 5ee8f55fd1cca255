"""What the scripts that write a table into README.md share: the place of the table is between two markers."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def write(name: str, table: str, arguments: list[str]) -> int:
    """Puts the table between `<!-- NAME: … -->` and `<!-- end of NAME -->`; the exit status.

    With --check among the arguments nothing is written, and the status is 1 if README has another table.
    """
    text = README.read_text()
    begin, end = text.find(f"<!-- {name}: "), text.find(f"<!-- end of {name} -->")
    if begin < 0 or end < begin:
        sys.exit(f"README.md: expected <!-- {name}: … --> and <!-- end of {name} --> around the table")
    head = text.index("\n", begin) + 1
    updated = text[:head] + table + text[end:]
    if "--check" in arguments:
        return int(updated != text)
    README.write_text(updated)
    return 0
