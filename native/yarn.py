"""YaRN, which scales RoPE for contexts longer than those of training: https://arxiv.org/abs/2309.00071."""

from dataclasses import dataclass
from math import ceil, floor, log, pi

FAST, SLOW = 32.0, 1.0  # turns, where a file has none
MOST = 1 << 24  # positions: more are damage


@dataclass(frozen=True, slots=True)
class Yarn:
    """A frequency that turns more than `fast` times within the `trained` positions stays as it is, one that turns less
    than `slow` times is divided by `factor`, and one in between by a blend."""

    factor: float
    trained: float
    fast: float = FAST
    slow: float = SLOW
    rounded: bool = True  # the blend begins and ends at a whole frequency

    def divisors(self, base: float, size: int) -> list[float]:
        """What each frequency, base ** (-2 i / size), is divided by: [size / 2]. Raises ValueError."""
        if base <= 1 or self.fast < self.slow:
            raise ValueError(
                f"YaRN with a RoPE base of {base} and frequencies from {self.slow} to {self.fast} turns, "
                "expected a base above 1, and no more turns for the slow ones than for the fast"
            )
        low, high = self._index(self.fast, base, size), self._index(self.slow, base, size)
        if self.rounded:
            low, high = floor(low), ceil(high)
        low, high = max(low, 0), min(high, size - 1)
        width = high - low or 0.001
        slowed = (min(max((index - low) / width, 0.0), 1.0) for index in range(size // 2))
        return [1 / (1 - share + share / self.factor) for share in slowed]

    def _index(self, turns: float, base: float, size: int) -> float:
        """Which frequency turns so often within the trained positions."""
        return size * log(self.trained / (2 * pi * turns)) / (2 * log(base))


def amplitude(factor: float, weight: float = 1.0) -> float:
    """What cosines and sines are multiplied by, so that scores grow with the context."""
    return 1 + 0.1 * weight * log(factor) if factor > 1 else 1.0


def stretched(context: int, trained: float, factor: float) -> int:
    """The positions that a model is good for: YaRN is asked for by a factor alone, the context that it gives need not
    be written too."""
    return max(context, int(min(MOST, trained * factor)))
