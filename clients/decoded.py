"""Reading a frame stream to the last good item."""

from collections.abc import Iterator

from ..protocol import BrokenStream, FrameReader, Item


def decoded(reader: FrameReader, data: bytes) -> Iterator[Item]:
    """The items that `data` completes; if the stream is broken, those before that come first, then BrokenStream is
    raised."""
    try:
        yield from reader.feed(data)
    except BrokenStream as broken:
        yield from broken.items
        raise
