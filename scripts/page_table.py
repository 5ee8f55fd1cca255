"""Shared by the scripts that write a table of benchmarks/ into a page, where it goes between two markers."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def only_check(about: str | None) -> bool:
    """Whether the command line says --check, the one option of a script that does nothing but write tables."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page has another table")
    return parser.parse_args().check


def write(name: str, table: str, check: bool, page: Path = README) -> int:
    """Puts the table between `<!-- NAME: … -->` and `<!-- end of NAME -->`; the exit status.

    With `check` nothing is written, and the status is 1 if the page has another table.
    """
    text = page.read_text()
    begin, end = text.find(f"<!-- {name}: "), text.find(f"<!-- end of {name} -->")
    if begin < 0 or end < begin:
        sys.exit(f"{page.name}: expected <!-- {name}: … --> and <!-- end of {name} --> around the table")
    head = text.index("\n", begin) + 1
    updated = text[:head] + table + text[end:]
    if check:
        return int(updated != text)
    page.write_text(updated)
    return 0
