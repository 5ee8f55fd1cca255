"""Which model and which cache a page belongs to: pages in files are of no use to another."""

import hashlib
import mmap
from dataclasses import fields
from typing import Any
from zlib import crc32

import numpy as np

from .files.model_file import Bytes, Tensor
from .shape import ModelShape

LAYOUT = "pages and states, layout 3"  # counted up when the cores' layout or rounding, or this file, changes
BLOCK = 1 << 18  # bytes, a checksum each


class Fingerprint:
    """Grows tensor by tensor, in load order: a converted tensor's bytes are at hand when it is loaded and only then.

    Every byte counts, as models tuned from one another may differ anywhere. Checksums are enough and much faster than
    a cryptographic hash: whoever can write a file can forge its fingerprint anyway; this guards against mistakes.
    """

    def __init__(self, shape: ModelShape, cache_type_k: str, cache_type_v: str) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        values = [(field.name, getattr(shape, field.name), field.default) for field in fields(shape)]
        said = [(name, value) for name, value, default in values if value != default]  # it outlives fields that are new
        self._add(repr((LAYOUT, said, cache_type_k, cache_type_v)).encode())

    def add(self, tensor: Tensor, data: Bytes) -> None:
        """data: the tensor's, [rows, bytes of one row]. Of a mapped file no more than a block stays in memory."""
        self._add(repr((tensor.name, tensor.type, tensor.rows, tensor.columns, tensor.scales)).encode())
        line = data.reshape(-1)
        mapping = mapping_of(line)
        first = 0 if mapping is None else _address(line) - _address(np.frombuffer(mapping, np.uint8))
        checksums = []
        for begin in range(0, len(line), BLOCK):
            block = line[begin : begin + BLOCK]
            checksums.append(crc32(block.data))
            if mapping is not None:
                start = (first + begin) // mmap.PAGESIZE * mmap.PAGESIZE
                mapping.madvise(mmap.MADV_DONTNEED, start, first + begin + len(block) - start)
        self._add(np.array(checksums, "<u4").tobytes())

    def add_machine(self, name: str) -> None:
        """A machine whose products round in their own way: its pages are of no use to another."""
        self._add(repr(("computed by", name)).encode())

    def hexdigest(self) -> str:
        """32 digits."""
        return self._hash.hexdigest()

    def _add(self, part: bytes) -> None:
        self._hash.update(len(part).to_bytes(8, "little") + part)


def mapping_of(data: Bytes) -> mmap.mmap | None:
    """The mapped file that the bytes lie in, if they do."""
    base: Any = data
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _address(line: Bytes) -> int:
    address: int = line.ctypes.data
    return address
