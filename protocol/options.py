"""The options of START and RESTORE: one table says how each is written and read; HELP prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from .output_grammar import Grammar, read_grammar, write_grammar
from .words import LARGEST_LONG, integer, keyword, name, positive, quoted, real, switch, wrong


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a request's tokens are chosen, and what is told of the choice (logprobs).

    temp 0 is greedy, top_k 0 is off, seed None is drawn at START.
    """

    temp: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    rep_penalty: float = 1.0
    freq_penalty: float = 0.0
    pres_penalty: float = 0.0
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    sampling: Sampling = Sampling()
    stop: tuple[int, ...] = ()
    ignore_eos: bool = False
    hash: bool = False
    priority: int = 0
    snap: tuple[int, str] | None = None
    grammar: Grammar | None = None
    predict: tuple[int, ...] = ()


class Option(NamedTuple):
    """`read` and `write` are inverse to one another; samp sets seven options at once and is never written."""

    form: str
    does: str
    read: Callable[[str, str], Any]
    write: Callable[[Any], str] = str


def read_options(words: Iterable[str]) -> Options:
    values: dict[str, Any] = {}
    for word in words:
        written, equals, value = word.partition("=")
        key = keyword(written).lower()
        if not equals or key not in OPTIONS:
            wrong(f"{quoted(word)} is no option: those are {' '.join(OPTIONS)}")
        read = OPTIONS[key].read(key, value)
        found = read if key == "samp" else {key: read}
        if twice := values.keys() & found.keys():
            wrong(f"{quoted(word)} sets {min(twice)} a second time")
        values |= found
    sampling = {key: values.pop(key) for key in _SAMPLING if key in values}
    return Options(Sampling(**sampling), **values)


def write_options(options: Options) -> list[str]:
    """Just those that differ from their defaults, in the order of the table."""
    words = []
    for key, option in OPTIONS.items():
        holder, plain = (options.sampling, _PLAIN.sampling) if key in _SAMPLING else (options, _PLAIN)
        value = getattr(holder, key, None)
        if value != getattr(plain, key, None):
            words.append(f"{key}={option.write(value)}")
    return words


def _read_samp(label: str, word: str) -> dict[str, Any]:
    parts = word.split(",")
    if len(parts) not in (5, 7):
        wrong(f"{label} {quoted(word)} has {len(parts)} values, not 5 or 7: temp,top_p,top_k,rep_pen,seed[,freq,pres]")
    return {key: OPTIONS[key].read(f"{label}: {key}", part) for key, part in zip(_SAMP, parts, strict=False)}


def _read_tokens(label: str, word: str) -> tuple[int, ...]:
    return tuple(integer(f"{label}: token", part, 0) for part in word.split(","))


def _write_tokens(tokens: tuple[int, ...]) -> str:
    return ",".join(map(str, tokens))


def _read_bias(label: str, word: str) -> tuple[tuple[int, float], ...]:
    biases: dict[int, float] = {}
    for pair in word.split(","):
        token, _, bias = pair.partition(":")
        key = integer(f"{label}: token", token, 0)
        if key in biases:
            wrong(f"{label}: token {key} is given twice")
        biases[key] = real(f"{label}: bias", bias)
    return tuple(biases.items())


def _read_snap(label: str, word: str) -> tuple[int, str]:
    position, _, snapshot = word.partition(":")
    return integer(f"{label}: position", position, 1), name(f"{label}: name", snapshot)


def _whole(label: str, word: str) -> int:
    return integer(label, word, 0)


OPTIONS: Final[dict[str, Option]] = {
    "temp": Option("temp=<x>", "temperature, from 0 up; 0 is greedy", lambda k, w: real(k, w, 0.0)),
    "top_k": Option("top_k=<n>", "keep the n likeliest tokens; 0 is off", _whole),
    "top_p": Option("top_p=<x>", "keep the likeliest that sum to x, above 0 up to 1", lambda k, w: positive(k, w, 1.0)),
    "min_p": Option("min_p=<x>", "drop what is below x times the likeliest", lambda k, w: real(k, w, 0.0, 1.0)),
    "rep_penalty": Option("rep_penalty=<x>", "over prompt and output, above 0; 1 is off", positive),
    "freq_penalty": Option("freq_penalty=<x>", "over output, by count; 0 is off", real),
    "pres_penalty": Option("pres_penalty=<x>", "over output, once; 0 is off", real),
    "seed": Option("seed=<n>", "fixes the tokens; drawn without it", lambda k, w: integer(k, w, 0, LARGEST_LONG)),
    "samp": Option("samp=<temp,top_p,top_k,rep_pen,seed[,freq,pres]>", "the same in one word", _read_samp),
    "stop": Option("stop=<id,…>", "tokens that end the request", _read_tokens, _write_tokens),
    "ignore_eos": Option("ignore_eos=<0|1>", "go on past the end of sequence", switch, lambda v: str(int(v))),
    "hash": Option("hash=<0|1>", "SHA-256 over all output logits, in end", switch, lambda v: str(int(v))),
    "logit_bias": Option(
        "logit_bias=<id>:<x>,…",
        "added to their logits",
        _read_bias,
        lambda v: ",".join(f"{t}:{b!r}" for t, b in v),
    ),
    "logprobs": Option("logprobs=<n>", "the n likeliest beside each token, as an event before it", _whole),
    "priority": Option("priority=<n>", "before others in the queue", _whole),
    "snap": Option("snap=<position>:<name>", "a snapshot in mid-prefill", _read_snap, lambda v: f"{v[0]}:{v[1]}"),
    "grammar": Option(
        'grammar={"json":<schema>}', "what the output must match; or regex, lark", read_grammar, write_grammar
    ),
    "predict": Option("predict=<id,…>", "what the output may be like: tried ahead", _read_tokens, _write_tokens),
}

_SAMP: Final = ("temp", "top_p", "top_k", "rep_penalty", "seed", "freq_penalty", "pres_penalty")
_SAMPLING: Final = frozenset(field.name for field in fields(Sampling))
_PLAIN: Final = Options()
