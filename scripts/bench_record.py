"""How the benchmarks write what they found: JSON, a list of numbers on a line of its own."""

import json
import re
from pathlib import Path
from typing import Any


def write_record(record: dict[str, Any], path: Path) -> None:
    text = json.dumps(record, indent=1)
    path.write_text(re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n")
