"""How byte-level BPE cuts text into words before it merges: one entry per `tokenizer.ggml.pre` value.

Merges never cross a cut, so a wrong cut gives wrong tokens without any error. The names are llama.cpp's; what each one
does is what the model's own tokenizer.json says. "gpt-2" is the regex inside ByteLevel itself; those in SINGLE_DIGITS
cut every digit out first; those in COMPOSED compose letters with their accents (NFC) before they cut. "gpt-4o" is
OpenAI's o200k, of gpt-oss too, "tekken" Mistral's, "seed-coder" that of Seed-OSS."""

from typing import Any, Final

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _modern(digits: str, marks: str = "", ends: str = r"[\r\n]*") -> str:
    """The family that began with cl100k: its members differ in how many digits stay together, in whether accents
    (`marks`) are part of words, and in whether ends of lines stay with the signs before them."""
    words = rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}{marks}]+"
    signs = rf" ?[^\s\p{{L}}{marks}\p{{N}}]+{ends}"
    return "|".join((_CONTRACTIONS, words, digits, signs, _BLANKS))


def _by_case(digits: str, contractions: str) -> str:
    """The family of o200k: a word ends where a capital follows a small letter, and takes its contraction along. A
    letter without case, and an accent, may stand on either side."""
    uncased = r"\p{Lm}\p{Lo}\p{M}"
    capital, small = rf"[\p{{Lu}}\p{{Lt}}{uncased}]", rf"[\p{{Ll}}{uncased}]"
    words = (
        rf"[^\r\n\p{{L}}\p{{N}}]?{letters}{contractions}" for letters in (f"{capital}*{small}+", f"{capital}+{small}*")
    )
    return "|".join((*words, digits, r" ?[^\s\p{L}\p{N}]+[\r\n/]*", _BLANKS))


_ONE, _THREE = r"\p{N}", r"\p{N}{1,3}"
_SPLITS: Final = {
    **{
        name: _modern(_THREE)
        for name in ("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe")
    },
    **{name: _modern(_ONE) for name in ("qwen2", "deepseek-r1-qwen")},
    "qwen35": _modern(_ONE, r"\p{M}"),
    "seed-coder": _modern(_ONE, ends=""),
    "gpt-4o": _by_case(_THREE, f"{_CONTRACTIONS}?"),
    "tekken": _by_case(_ONE, ""),
}
SINGLE_DIGITS: Final = ("smollm", "refact")
COMPOSED: Final = ("qwen2", "qwen35")
UNNAMED: Final = "default"  # what a converter writes if it knows no name
SUPPORTED: Final = ("gpt-2", *_SPLITS, *SINGLE_DIGITS)


def pretokenizer(name: str) -> Any:
    """The pre-tokenizer called `name`; raises KeyError for one that is not in SUPPORTED."""
    match name:
        case "gpt-2":
            return ByteLevel(add_prefix_space=False)
        case _ if name in SINGLE_DIGITS:
            return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        case _:
            split = Split(Regex(_SPLITS[name]), behavior="isolated")
            return Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])
