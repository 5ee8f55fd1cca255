"""Tensors, one after the other, into a core."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tqdm import tqdm

from .arrange import TOKEN_PRODUCT
from .files.rearrange import as_float32
from .fingerprint import Fingerprint, mapping_of
from .rope_scaling import ROPE_TENSORS
from .terminal import on_terminal
from .weights import ModelUnreadable, Tensor

ROUNDED_BY_GPU = ("BF16", "F16")  # a GPU rounds their products in its own way (cuda/product_float16.cu)


def for_gpu(tensor: Tensor) -> Tensor:
    """As a GPU gets it: quantizers leave Gemma 4's product for all layers in BF16, which alone would cost a quantized
    model the CPU's bits."""
    return as_float32(tensor) if tensor.name == TOKEN_PRODUCT and tensor.type in ROUNDED_BY_GPU else tensor


def load(
    core: Any, tensors: Sequence[Tensor], fingerprint: Fingerprint, progress: bool, *, on_gpu: bool = False
) -> None:
    """Raises ModelUnreadable. The fingerprint is of the tensors as the file has them."""
    total = sum(tensor.nbytes for tensor in tensors)
    disable = not (progress and on_terminal())
    with (
        ThreadPoolExecutor(1) as beside,
        tqdm(total=total, unit="B", unit_scale=True, desc="loading", disable=disable, leave=False) as bar,
    ):
        for tensor in tensors:
            if tensor.name in ROPE_TENSORS:  # it is in the rotation tables
                continue
            try:
                data = tensor.data
                added = beside.submit(fingerprint.add, tensor, data)
                given = for_gpu(tensor) if on_gpu else tensor
                data = data if given is tensor else given.data
                mapped = mapping_of(data) is not None
                core.load(given.name, given.type, given.rows, given.columns, data, given.scales, mapped)
                added.result()
            except ValueError as problem:
                raise ModelUnreadable(f"cannot use the model: {problem}") from None
            bar.update(tensor.nbytes)
