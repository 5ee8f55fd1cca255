"""The ids of calls of tools."""

import hashlib
import secrets
import string
from typing import Final

LETTERS: Final = string.ascii_letters + string.digits
SIZE: Final = 9  # templates of Mistral insist on nine letters and digits; others take any


def call_id() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(SIZE))


def short_id(name: str) -> str:
    """Nine letters and digits for an id: itself, or always the same ones."""
    if len(name) == SIZE and name.isascii() and name.isalnum():
        return name
    number = int.from_bytes(hashlib.sha256(name.encode(errors="replace")).digest())
    return "".join(LETTERS[number // len(LETTERS) ** place % len(LETTERS)] for place in range(SIZE))
