"""Reading a frame stream to the last good item."""

from collections.abc import Iterator

from ..protocol import BrokenStream, FrameReader, Item


def decoded(reader: FrameReader, data: bytes) -> Iterator[Item]:
    """What `data` completes; of a stream that breaks, the good part comes before the BrokenStream."""
    try:
        yield from reader.feed(data)
    except BrokenStream as broken:
        yield from broken.items
        raise
