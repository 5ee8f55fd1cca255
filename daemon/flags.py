"""The daemon's flags: a command line in, a frozen Config out."""

from __future__ import annotations

import argparse

from .config import Config
from .faults import FORMS
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
MOST_DRAFT = 64
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")
DEFAULT = Config()


def add_daemon_arguments(parser: argparse.ArgumentParser, served: bool = False) -> None:
    """served: behind `paceline serve`, which reads the stream itself and has other defaults (http/flags.py)."""
    parser.argument_default = argparse.SUPPRESS  # the defaults are Config's
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
        metavar="N",
        help=f"requests that hold their place in the cache at once (default {DEFAULT.slots})",
    )
    room.add_argument(
        "--max-ctx",
        type=at_least(2),
        metavar="N",
        help="most tokens of one request, prompt and output (default: the model's, at most 4096)",
    )
    room.add_argument(
        "--queue", type=at_least(0), metavar="N", help=f"requests that may wait for a slot (default {DEFAULT.queue})"
    )
    room.add_argument(
        "--queue-tokens",
        type=at_least(0),
        metavar="N",
        help=f"tokens of prompt that may wait for a slot, in all (default {DEFAULT.queue_tokens})",
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
        metavar="N",
        help="kept states of models with recurrent layers, for snapshots and known beginnings "
        f"(default {DEFAULT.states})",
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
            help=f"how the cache holds {what} (default {DEFAULT.cache_type_k}; "
            "the reference engine always holds float32)",
        )
    room.add_argument(
        "--max-line",
        type=at_least(1),
        metavar="BYTES",
        help=f"longest line on stdin (default {64 if served else DEFAULT.max_line >> 20} MiB)",
    )

    turns = parser.add_argument_group("turns")
    turns.add_argument(
        "--max-batch", type=at_least(1), metavar="N", help="most requests in one step (default: as many as slots)"
    )
    turns.add_argument(
        "--step-tokens",
        type=at_least(1),
        metavar="N",
        help="most tokens of a step in which somebody decodes, drafted ones aside "
        "(default 64, or twice as many as requests in a step)",
    )
    turns.add_argument(
        "--prefill-tokens",
        type=at_least(1),
        metavar="N",
        help=f"most tokens of a step in which nobody does (default {DEFAULT.prefill_tokens})",
    )
    turns.add_argument(
        "--draft",
        type=at_least(0, MOST_DRAFT),
        metavar="N",
        help="most tokens that a step tries ahead for one request, where its text goes on as it did before, or as a "
        f"layer of the model drafts it: fewer steps, the same tokens (default {DEFAULT.draft}; 0: none)",
    )
    turns.add_argument(
        "--coalesce",
        action="store_true",
        help="equal deterministic requests that overlap in time share one row (in auto mode)",
    )
    regrants = "regrant always: no request ever parks" + " (always so here)" * served
    turns.add_argument("--auto", action="store_true", help=regrants)

    stream = parser.add_argument_group("stream")
    stream.add_argument(
        "--stream",
        type=read_stream,
        metavar="FORM",
        help=argparse.SUPPRESS
        if served
        else "tagged: binary frames (default); text: a line for each (default on a terminal); "
        "bare: just the values, of one request at a time, and the messages on stderr",
    )
    stream.add_argument(
        "--stream-tagged",
        dest="stream",
        action="store_const",
        const="tagged",
        help=argparse.SUPPRESS if served else "the same as --stream tagged",
    )
    stream.add_argument(
        "--stream-fd",
        type=read_stream_fd,
        metavar="FD",
        help=argparse.SUPPRESS if served else "write frames to this inherited descriptor instead of stdout",
    )
    stream.add_argument(
        "--log",
        choices=("text", "json", "none"),
        help="a line on stderr for each request that ends: "
        + ("text (default), json, or none" if served else "text (default on a terminal), json, or none (default)"),
    )

    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--engine",
        choices=("cpu", "reference", "null"),
        help="reference: slow, by definition right; null: no weights, made-up tokens",
    )
    engine.add_argument(
        "--device",
        type=read_device,
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
        choices=("auto", "amx", "avx512", "avxvnni", "avx2", "dotprod", "neon", "plain"),
        help="instructions to compute with; all give the same bits",
    )
    engine.add_argument(
        "--quantize",
        choices=("q8_0", "q4_0"),
        help="quantize float matrices as they are loaded (embedding and head always to q8_0)",
    )
    engine.add_argument(
        "--fault",
        type=read_fault,
        metavar="SPEC",
        help=f"break on purpose: see {'`paceline daemon --help`' if served else 'below'}",
    )


def read_config(arguments: argparse.Namespace) -> Config:
    names = Config.__dataclass_fields__
    return Config(**{name: value for name, value in vars(arguments).items() if name in names})
