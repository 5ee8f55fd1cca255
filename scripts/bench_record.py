"""How the benchmarks write their results: JSON, with each list of numbers on one line."""

import json
import re
from pathlib import Path
from typing import Any


def write_record(record: dict[str, Any], path: Path) -> None:
    text = json.dumps(record, indent=1)
    path.write_text(re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n")
