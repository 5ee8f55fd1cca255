"""How byte-level BPE cuts text into words before it merges: one entry per `tokenizer.ggml.pre` value.

Merges never cross a cut, so a wrong cut gives wrong tokens without any error. The names are llama.cpp's; what each one
does is what the model's own tokenizer.json says. "gpt-2" is the regex inside ByteLevel itself; "smollm" cuts every
digit out first; those in COMPOSED compose letters with their accents (NFC) before they cut. "gpt-4o" is OpenAI's
o200k, of gpt-oss too."""

from typing import Any, Final

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _modern(digits: str, marks: str = "") -> str:
    """The family that began with cl100k: its members differ in how many digits stay together, and in whether accents
    (`marks`) are part of words."""
    words = rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}{marks}]+"
    signs = rf" ?[^\s\p{{L}}{marks}\p{{N}}]+[\r\n]*"
    return "|".join((_CONTRACTIONS, words, digits, signs, _BLANKS))


def _by_case() -> str:
    """Of o200k: a word ends where a capital follows a small letter, and takes its contraction along. A letter without
    case, and an accent, may stand on either side."""
    uncased = r"\p{Lm}\p{Lo}\p{M}"
    capital, small = rf"[\p{{Lu}}\p{{Lt}}{uncased}]", rf"[\p{{Ll}}{uncased}]"
    words = (
        rf"[^\r\n\p{{L}}\p{{N}}]?{letters}{_CONTRACTIONS}?"
        for letters in (f"{capital}*{small}+", f"{capital}+{small}*")
    )
    return "|".join((*words, r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", _BLANKS))


_SPLITS: Final = {
    "llama-bpe": _modern(r"\p{N}{1,3}"),
    "qwen2": _modern(r"\p{N}"),
    "deepseek-r1-qwen": _modern(r"\p{N}"),
    "qwen35": _modern(r"\p{N}", r"\p{M}"),
    "gpt-4o": _by_case(),
}
COMPOSED: Final = ("qwen2", "qwen35")
UNNAMED: Final = "default"  # what a converter writes if it knows no name
SUPPORTED: Final = ("gpt-2", *_SPLITS, "smollm")


def pretokenizer(name: str) -> Any:
    """The pre-tokenizer called `name`; raises KeyError for one that is not in SUPPORTED."""
    match name:
        case "gpt-2":
            return ByteLevel(add_prefix_space=False)
        case "smollm":
            return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        case _:
            split = Split(Regex(_SPLITS[name]), behavior="isolated")
            return Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])
