"""Tokens that end a text in whatever vocabulary has them: files often name only one of several ends.

Only a control token of a GGUF file, or a special one of a folder, is an end by its spelling. Any other may be text:
`</s>` is a tag of HTML in Gemma's vocabulary. But some spellings are nothing else, and files of Gemma 1 have one of
them as a normal token: those are made control tokens, as in llama.cpp.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf

from .model_file import read_object

CONTROL = int(gguf.TokenType.CONTROL)
SETTINGS = "tokenizer_config.json"
TOKENIZER = "tokenizer.json"
OF_MESSAGES = "<|end|>"
OF_ANSWERS = ("<|return|>", "<|call|>")
OF_GEMMA_4 = ("<turn|>", "<|tool_response>")  # the other is where the results of its calls begin
OF_TURNS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<end_of_utterance>"),
    *(OF_MESSAGES, *OF_ANSWERS, *OF_GEMMA_4),
)
OF_TEXTS = ("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>")
OF_CODE = ("<EOT>", "▁<EOT>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")  # that was filled in, and of a file
SURE = frozenset(OF_TURNS + OF_TEXTS)
ENDS = (*OF_TURNS, *OF_TEXTS, "<eos>", "</s>", *OF_CODE)


def with_sure_ends(values: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a GGUF file, with such tokens as control tokens."""
    tokens, types = values.get("tokenizer.ggml.tokens"), values.get("tokenizer.ggml.token_type")
    if not isinstance(tokens, list) or not isinstance(types, list) or len(tokens) != len(types):
        return dict(values)
    sure = [
        CONTROL if isinstance(token, str) and token in SURE else kind for token, kind in zip(tokens, types, strict=True)
    ]
    return {**values, "tokenizer.ggml.token_type": sure}


def control_ends(values: Mapping[str, Any]) -> list[int]:
    """The ids of ends in the vocabulary of a GGUF file."""
    tokens, types = values.get("tokenizer.ggml.tokens"), values.get("tokenizer.ggml.token_type")
    if not isinstance(tokens, list) or not isinstance(types, list) or len(tokens) != len(types):
        return []
    return _ends_among((token, tokens[token]) for token, kind in enumerate(types) if kind == CONTROL)


def special_ends(path: Path) -> list[int]:
    """The ids of ends among the special tokens of a folder; none of a file that is damaged, as only texts need it."""
    settings = _object(path / SETTINGS)
    named = settings.get("eos_token")
    return _ends_among(_special_tokens(path, settings), named.get("content") if isinstance(named, dict) else named)


def end_tokens(values: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids under eos_token_id, which is one, a list, or nothing."""
    found = values.get("eos_token_id")
    ends = found if isinstance(found, list) else [] if found is None else [found]
    if not all(type(end) is int for end in ends):
        raise ValueError(f"the key 'eos_token_id' is {found!r}, expected a token id or a list of them")
    return tuple(ends)


def _ends_among(tokens: Iterable[tuple[int, Any]], *named: Any) -> list[int]:
    """The ids of those that end a text by their spelling, or are `named`."""
    spellings = (*ENDS, *named)
    found = {token: text for token, text in tokens if text in spellings}
    other = OF_MESSAGES if {*OF_ANSWERS} <= {*found.values()} else None
    return [token for token, text in found.items() if text != other]


def _special_tokens(path: Path, settings: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for token, entry in _added_tokens(path, settings):
        if isinstance(entry, dict) and entry.get("special") is True and str(token).isdecimal():
            yield int(token), str(entry.get("content"))


def _added_tokens(path: Path, settings: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The id and entry of each added token: from the settings, which are short, or else from the tokenizer."""
    listed = settings.get("added_tokens_decoder")
    if isinstance(listed, dict):
        return list(listed.items())
    found = _object(path / TOKENIZER).get("added_tokens")
    return [(entry.get("id"), entry) for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _object(path: Path) -> dict[str, Any]:
    try:
        return read_object(path)
    except ValueError:
        return {}
