"""How a part of a layer in a folder becomes parts of a layer in GGUF."""

from collections.abc import Callable, Mapping

from .folder_sizes import Sizes
from .model_file import Tensor
from .rearrange import as_float32

Change = Callable[[Tensor, Sizes], Tensor]
Parts = Mapping[str, tuple[tuple[str, Change], ...]]  # a layer's part -> the GGUF parts that come of it


def same(tensor: Tensor, sizes: Sizes) -> Tensor:
    return tensor


def float32(tensor: Tensor, sizes: Sizes) -> Tensor:
    return as_float32(tensor)
