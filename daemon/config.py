"""A daemon's configuration, with the defaults of its flags."""

from __future__ import annotations

from dataclasses import dataclass

from .faults import Faults

LEAST_STEP_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Config:
    """What was asked for; None leaves it to the engine, or to whether there is a terminal."""

    model: str | None = None
    engine: str = "cpu"
    device: str = "cpu"
    gpu_memory: float | None = None
    slots: int = 4
    max_ctx: int | None = None
    max_batch: int | None = None
    step_tokens: int | None = None
    prefill_tokens: int = 512
    draft: int = 8
    queue: int = 64
    queue_tokens: int = 1 << 20
    cache_bytes: int | None = None
    keep_free: int | None = None
    states: int = 16
    reuse: bool = True
    coalesce: bool = False
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    auto: bool = False
    threads: int | None = None
    isa: str = "auto"
    quantize: str | None = None
    stream: str | None = None
    stream_fd: int = 1
    max_line: int = 1 << 20
    log: str | None = None
    fault: Faults | None = None

    @property
    def most_rows(self) -> int:
        """Requests in one step."""
        return min(self.max_batch or self.slots, self.slots)

    @property
    def most_step_tokens(self) -> int:
        """The limit of a step with decoding rows. By default at least as many tokens as those have are left for
        prefill."""
        return self.step_tokens or max(LEAST_STEP_TOKENS, 2 * self.most_rows)

    @property
    def most_outputs(self) -> int:
        """Predictions of a step: one of each row, and one of each drafted token; those go beside the prompts."""
        return max(self.most_rows, min(self.most_step_tokens, self.most_rows * (1 + self.draft)))
