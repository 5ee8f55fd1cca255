"""The engine that runs the plans: its interface, and how one is opened. The native side is imported only when a model
is needed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..native.lost import DeviceLost as DeviceLost
from ..protocol import Refusal
from .config import Config
from .limits import Limits, pages_for
from .null_engine import NullEngine
from .plan import EngineInfo, Logprobs, Pieces, Row, RowFailure, RowResult

DEFAULT_CONTEXT = 4096
NO_NUMBERS = (
    "the model's logits are all NaN: its weights are damaged, or a number of it is too large for the cache's type"
)


class CannotOpen(Exception):
    """The engine cannot be opened; `code` is the exit code that the contract gives this."""

    def __init__(self, code: int, error: str) -> None:
        super().__init__(error)
        self.code = code


class Engine(Protocol):
    @property
    def info(self) -> EngineInfo: ...

    def commit(self, slot: int, position: int) -> None: ...

    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None: ...

    def keep(self, slot: int, state: int) -> None: ...

    def copy_page(self, source: int, target: int) -> None: ...

    def read_page(self, page: int) -> bytes: ...

    def write_page(self, page: int, data: bytes) -> None: ...

    def read_state(self, state: int) -> bytes: ...

    def write_state(self, state: int, data: bytes) -> None: ...

    def step(self, rows: Sequence[Row]) -> tuple[Sequence[RowResult | RowFailure], int]:
        """A result for each row, or why there is none, and how many bytes of weights were read for them all."""
        ...

    def pieces(self) -> Pieces | None:
        """What its tokens stand for; None if they are no texts. Raises Refusal."""
        ...

    def meanwhile(self, work: Callable[[], None]) -> bool:
        """From now on `work` is called during each step, while a device computes it. Where this processor computes,
        returns False and never calls it."""
        ...


class NativeEngine:
    def __init__(self, core: Any, path: Path) -> None:
        self._core = core
        self._path = path
        self.commit: Callable[[int, int], None] = core.commit
        self.seat: Callable[[int, Sequence[int], int | None], None] = core.seat
        self.keep: Callable[[int, int], None] = core.keep
        self.copy_page: Callable[[int, int], None] = core.copy_page
        self.read_page: Callable[[int], bytes] = core.read_page
        self.write_page: Callable[[int, bytes], None] = core.write_page
        self.read_state: Callable[[int], bytes] = core.read_state
        self.write_state: Callable[[int, bytes], None] = core.write_state
        self.meanwhile: Callable[[Callable[[], None]], bool] = core.meanwhile
        self.info = EngineInfo(
            model=core.model,
            path=str(path.absolute()),
            architecture=core.architecture,
            device=core.device,
            vocab=core.vocab,
            context=core.context,
            eos=tuple(core.eos),
            page_bytes=core.page_bytes,
            state_bytes=core.state_bytes,
            fingerprint=core.fingerprint,
            greedy_only=core.greedy_only,
            seats_feed=core.seats_feed,
            column_cost=core.column_cost,
            wait_cost=core.wait_cost,
            draft_cost=core.draft_cost,
        )

    def pieces(self) -> Pieces:
        from ..native.weights import ModelUnreadable, read_pieces

        try:
            found = read_pieces(self._path)
        except ModelUnreadable as error:
            raise Refusal("unsupported", f"grammar: {error}") from None
        return Pieces(found.texts, found.signs)

    def step(self, rows: Sequence[Row]) -> tuple[Sequence[RowResult | RowFailure], int]:
        results, weight_bytes = self._core.step(rows)
        return [_outcome(*result) for result in results], weight_bytes


def _outcome(
    tokens: tuple[int, ...], logits: Any, logprobs: tuple[Logprobs, ...] | None, drafted: tuple[int, ...]
) -> RowResult | RowFailure:
    """What comes behind a drafted token is of no account before that has proved right; then it is computed again. Nor
    is what is drafted behind a prediction that is none."""
    if min(tokens, default=0) < 0:
        tokens = tokens[: next(index for index, token in enumerate(tokens) if token < 0)]
        if not tokens:
            return RowFailure(NO_NUMBERS)
        drafted = ()
    return RowResult(tokens, None if logits is None else logits[: len(tokens)].tobytes(), logprobs, drafted)


def open_engine(config: Config) -> tuple[Engine, Limits]:
    """The engine, and the limits that follow from it and the flags."""
    if config.engine != "cpu" and config.device != "cpu":
        raise CannotOpen(
            2, f"--device {config.device} is for --engine cpu: the engine {config.engine} computes without it"
        )
    if config.engine == "null":
        return _open_null(config)

    from ..native.core import open_core
    from ..native.weights import ModelUnavailable, ModelUnreadable, find_model

    try:
        path = find_model(config.model)
        core = open_core(
            path,
            slots=config.slots,
            context=config.max_ctx,
            cache_bytes=config.cache_bytes,
            keep_free=config.keep_free,
            states=config.states,
            replay=config.draft and config.draft + 1,
            drafting=config.draft > 0,
            threads=config.threads,
            isa=config.isa,
            cache_type_k=config.cache_type_k,
            cache_type_v=config.cache_type_v,
            kind=config.device if config.engine == "cpu" else config.engine,
            quantize=config.quantize,
            gpu_memory=config.gpu_memory,
            step_tokens=max(
                config.most_step_tokens + config.most_outputs - config.most_rows, config.prefill_tokens, config.slots
            ),
            step_outputs=max(config.most_outputs, config.slots),  # slots: for target steps
            progress=True,
        )
    except ModelUnreadable as error:
        short = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOMEM  # to map it
        raise CannotOpen(70 if short else 66, str(error)) from error
    except ModelUnavailable as error:
        raise CannotOpen(69, str(error)) from error
    except ValueError as error:  # a flag that this machine cannot satisfy
        raise CannotOpen(2, str(error)) from error
    except MemoryError as error:
        raise CannotOpen(
            70, f"no memory for the weights and the cache ({error}): fewer slots, or less context"
        ) from error
    return NativeEngine(core, path), _limits(config, core.context, core.pages, config.states if core.state_bytes else 0)


def _open_null(config: Config) -> tuple[Engine, Limits]:
    context = config.max_ctx or DEFAULT_CONTEXT
    engine = NullEngine(config.slots, context)
    page_bytes = engine.info.page_bytes
    pages = config.slots * pages_for(context) if config.cache_bytes is None else config.cache_bytes // page_bytes
    if pages < 1:
        raise CannotOpen(2, f"a cache of {config.cache_bytes} bytes holds no page of {page_bytes} bytes")
    return engine, _limits(config, context, pages)


def _limits(config: Config, context: int, pages: int, states: int = 0) -> Limits:
    return Limits(
        slots=config.slots,
        max_batch=config.most_rows,
        queue=config.queue,
        context=context,
        pages=pages,
        step_tokens=config.most_step_tokens,
        queue_tokens=config.queue_tokens,
        prefill_tokens=config.prefill_tokens,
        draft=config.draft,
        states=states,
        auto=config.auto,
        reuse=config.reuse,
        coalesce=config.coalesce,
        alone=config.stream == "bare",
    )
