"""The command line: flags in, a frozen Config out."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from .faults import FORMS, Faults
from .flag_words import MOST_BYTES, at_least, read_device, read_fault, read_gpu_memory, read_stream, read_stream_fd

DESCRIPTION = (
    "Decode many requests at once over one set of weights: commands on stdin, frames on stdout, the log on stderr."
)

EPILOG = f"""\
a first try:
  printf 'REQ 1 START ids:1,2,3 8\\n' | paceline daemon --engine null --stream text

exit codes:
  0 done   2 usage   66 model unreadable or unsupported   69 demo model cannot be fetched   70 internal   74 output

faults (--fault, separated by commas; any engine; for tests and for people who write clients):
  {FORMS.replace(chr(10), chr(10) + "  ")}
"""


MOST_THREADS = 1024
MOST_SLOTS = 4096
LEAST_STEP_TOKENS = 64
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")


@dataclass(frozen=True, slots=True)
class Config:
    """What was asked for; None leaves it to the engine or to the terminal."""

    model: str | None = None
    engine: str = "cpu"
    device: str = "cpu"
    gpu_memory: float | None = None
    slots: int = 4
    max_ctx: int | None = None
    max_batch: int | None = None
    step_tokens: int | None = None
    prefill_tokens: int = 512
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
        """Of a step in which somebody decodes: however many do, a prefill has as many tokens as they have."""
        return self.step_tokens or max(LEAST_STEP_TOKENS, 2 * self.most_rows)


def add_daemon_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a GGUF file or a Hugging Face folder; without it the demo model, fetched the first time",
    )

    room = parser.add_argument_group("room")
    room.add_argument(
        "--target-cache-slots",
        "--cache-slots",
        "--slots",
        dest="slots",
        type=at_least(1, MOST_SLOTS),
        default=4,
        metavar="N",
        help="requests that hold their place in the cache at once (default 4)",
    )
    room.add_argument(
        "--max-ctx",
        type=at_least(2),
        metavar="N",
        help="most tokens of one request, prompt and output (default: the model's, at most 4096)",
    )
    room.add_argument(
        "--queue", type=at_least(0), default=64, metavar="N", help="requests that may wait for a slot (default 64)"
    )
    room.add_argument(
        "--queue-tokens",
        type=at_least(0),
        default=1 << 20,
        metavar="N",
        help="tokens of prompt that may wait for a slot, in all (default 1048576)",
    )
    room.add_argument(
        "--cache-bytes",
        type=at_least(1, MOST_BYTES),
        metavar="N",
        help="size of the whole cache, at most what memory can hold beside the model "
        "(default: what all slots need at full context, or what memory allows)",
    )
    room.add_argument(
        "--keep-free",
        type=at_least(0, MOST_BYTES),
        metavar="N",
        help="bytes of memory that the default cache leaves to others (default: 1 GiB, at most a tenth)",
    )
    room.add_argument(
        "--states",
        type=at_least(0, MOST_SLOTS),
        default=16,
        metavar="N",
        help="kept states of models with recurrent layers, for snapshots and known beginnings (default 16)",
    )
    room.add_argument(
        "--no-reuse",
        dest="reuse",
        action="store_false",
        help="compute every prompt from its first token, also where its beginning is in the cache",
    )
    for short, long, what in (("-ctk", "--cache-type-k", "keys"), ("-ctv", "--cache-type-v", "values")):
        room.add_argument(
            short,
            long,
            choices=CACHE_TYPES,
            default="f16",
            help=f"how the cache holds {what} (default f16; the reference engine always holds float32)",
        )
    room.add_argument(
        "--max-line", type=at_least(1), default=1 << 20, metavar="BYTES", help="longest line on stdin (default 1 MiB)"
    )

    turns = parser.add_argument_group("turns")
    turns.add_argument(
        "--max-batch", type=at_least(1), metavar="N", help="most requests in one step (default: as many as slots)"
    )
    turns.add_argument(
        "--step-tokens",
        type=at_least(1),
        metavar="N",
        help="most tokens of a step in which somebody decodes (default 64, or twice as many as requests in a step)",
    )
    turns.add_argument(
        "--prefill-tokens",
        type=at_least(1),
        default=512,
        metavar="N",
        help="most tokens of a step in which nobody does (default 512)",
    )
    turns.add_argument(
        "--coalesce",
        action="store_true",
        help="equal deterministic requests that overlap in time share one row (in auto mode)",
    )
    turns.add_argument("--auto", action="store_true", help="regrant always: no request ever parks")

    stream = parser.add_argument_group("stream")
    stream.add_argument(
        "--stream",
        type=read_stream,
        metavar="FORM",
        help="tagged: binary frames (default); text: a line for each (default on a terminal); "
        "bare: just the values, of one request at a time, and the messages on stderr",
    )
    stream.add_argument(
        "--stream-tagged", dest="stream", action="store_const", const="tagged", help="the same as --stream tagged"
    )
    stream.add_argument(
        "--stream-fd",
        type=read_stream_fd,
        default=1,
        metavar="FD",
        help="write frames to this inherited descriptor instead of stdout",
    )
    stream.add_argument(
        "--log",
        choices=("text", "json", "none"),
        help="a line on stderr for each request that ends: text (default on a terminal), json, or none (default)",
    )

    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--engine",
        choices=("cpu", "reference", "null"),
        default="cpu",
        help="reference: slow, by definition right; null: no weights, made-up tokens",
    )
    engine.add_argument(
        "--device",
        type=read_device,
        default="cpu",
        metavar="NAME",
        help="where the engine computes: cpu (default), cuda or cuda:N, the Nth NVIDIA GPU",
    )
    engine.add_argument(
        "--gpu-memory",
        type=read_gpu_memory,
        metavar="SIZE",
        help="of a GPU, for weights, cache and everything: a share of what is free, such as 0.8, or bytes "
        "(default: what all slots need at full context, at most 0.9)",
    )
    engine.add_argument(
        "--threads",
        type=at_least(1, MOST_THREADS),
        metavar="N",
        help="threads of the engine (default: the cores it may use)",
    )
    engine.add_argument(
        "--isa",
        choices=("auto", "avx512", "avxvnni", "avx2", "dotprod", "neon", "plain"),
        default="auto",
        help="instructions to compute with; all give the same bits",
    )
    engine.add_argument(
        "--quantize",
        choices=("q8_0", "q4_0"),
        help="quantize float matrices as they are loaded (embedding and head always to q8_0)",
    )
    engine.add_argument("--fault", type=read_fault, metavar="SPEC", help="break on purpose: see below")


def read_config(arguments: argparse.Namespace) -> Config:
    names = Config.__dataclass_fields__
    return Config(**{name: value for name, value in vars(arguments).items() if name in names})
