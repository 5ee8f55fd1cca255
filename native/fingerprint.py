"""Which model and which cache a page belongs to: pages in files are of no use to another."""

import hashlib

from .model import ModelShape
from .model_file import Bytes, Tensor

LAYOUT = "pages and states, layout 1"  # counted up when the cores lay them out in another way
ENDS = 4096  # bytes of each end of a tensor: a model's weights differ everywhere, and all of them would take seconds


class Fingerprint:
    """Grows tensor by tensor, in load order: a converted tensor's bytes are at hand when it is loaded and only then."""

    def __init__(self, shape: ModelShape, cache_type_k: str, cache_type_v: str) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._add(repr((LAYOUT, shape, cache_type_k, cache_type_v)).encode())

    def add(self, tensor: Tensor, data: Bytes) -> None:
        """data: the tensor's, [rows, bytes of one row]."""
        self._add(repr((tensor.name, tensor.type, tensor.rows, tensor.columns, tensor.scales)).encode())
        line = data.reshape(-1)
        self._add(line[:ENDS].tobytes())
        self._add(line[-ENDS:].tobytes())

    def hexdigest(self) -> str:
        """32 digits."""
        return self._hash.hexdigest()

    def _add(self, part: bytes) -> None:
        self._hash.update(len(part).to_bytes(8, "little") + part)
