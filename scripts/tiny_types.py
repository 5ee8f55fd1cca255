"""Float weights as the bytes of a GGUF type, for make_tiny_model.py."""

import gguf
import numpy as np


def stored_q4_k(values: np.ndarray) -> np.ndarray:
    """values [rows, columns] as Q4_K: blocks of 32 from their least value (at most 0) to their largest in 15 steps."""
    blocks = values.reshape(-1, 8, 32)  # [super-blocks, blocks, weights]
    low = np.minimum(blocks.min(axis=2), 0)
    step = (np.maximum(blocks.max(axis=2), 0) - low) / 15
    halves = (np.stack([step.max(axis=1), -low.min(axis=1)], axis=1) / 63).astype(np.float16)  # [super-blocks, 2]: d, m
    d, m = np.maximum(halves.astype(np.float32), np.float32(1e-7)).T[..., None]  # [super-blocks, 1] each
    scale, minimum = (np.rint(x).clip(0, 63).astype(np.uint8) for x in (step / d, -low / m))  # [super-blocks, 8] each
    sized = np.maximum(d * scale, np.float32(1e-7))[..., None]
    codes = np.rint((blocks + (m * minimum)[..., None]) / sized).clip(0, 15).astype(np.uint8)
    six = [x[:, :4] | x[:, 4:] >> 4 << 6 for x in (scale, minimum)]  # six bits each: four whole, the others' upper two
    six.append(scale[:, 4:] & 15 | (minimum[:, 4:] & 15) << 4)
    nibbles = (codes[:, 0::2] | codes[:, 1::2] << 4).reshape(len(blocks), 128)
    return np.concatenate([halves.view(np.uint8), *six, nibbles], axis=1).reshape(len(values), -1)


def stored_nvfp4(values: np.ndarray) -> np.ndarray:
    """values [rows, columns] as NVFP4: blocks of 16 with the scale (UE4M3) nearest to a sixth of their largest
    value."""
    blocks = values.reshape(-1, 16)
    byte = np.arange(1, 127)
    scales = np.where(byte < 8, byte * 2.0**-9, (8 + byte % 8) * 2.0 ** (byte // 8 - 10.0)).astype(np.float32)
    chosen = np.abs(np.abs(blocks).max(axis=1, keepdims=True) / 6 - scales).argmin(axis=1)  # [blocks]
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    levels = np.concatenate([sizes, -sizes])
    codes = np.abs(blocks[..., None] - scales[chosen][:, None, None] * levels).argmin(axis=2).astype(np.uint8)
    nibbles = (codes[:, :8] | codes[:, 8:] << 4).reshape(-1, 32)
    return np.concatenate([byte[chosen].astype(np.uint8).reshape(-1, 4), nibbles], axis=1).reshape(len(values), -1)


def stored(values: np.ndarray, kind: str) -> np.ndarray:
    """values [rows, columns] as the bytes of a type; types that the gguf package can only read are quantized here, to
    the nearest codes."""
    if kind == "Q4_K":
        return stored_q4_k(values)
    if kind == "NVFP4":
        return stored_nvfp4(values)
    if kind != "IQ4_NL":
        return gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    levels = np.array(gguf.quants.IQ4_NL.kvalues, np.float32)
    blocks = values.reshape(-1, 32)  # [blocks, 32]
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    codes = np.abs(blocks[..., None] - scale[..., None].astype(np.float32) * levels).argmin(axis=2).astype(np.uint8)
    packed = np.concatenate([scale.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4], axis=1)  # [blocks, 18]
    return packed.reshape(len(values), -1)
