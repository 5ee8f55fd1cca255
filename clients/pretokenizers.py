"""How byte-level BPE cuts text into words before it merges: one entry per `tokenizer.ggml.pre` value.

Merges never cross a cut, so a wrong cut gives wrong tokens without any error. The names are llama.cpp's; what each one
does is what the model's own tokenizer.json says. Those in PLAIN have the regex inside ByteLevel itself; those in
SINGLE_DIGITS cut every digit out first; those in COMPOSED compose letters with their accents (NFC) before they cut.
"bailingmoe2" is Ling's, "gpt-4o" OpenAI's o200k, of gpt-oss too, "tekken" Mistral's, "pixtral" Llama's for the same
tokens (Nemotron's, and some of Mistral's folders), "seed-coder" that of Seed-OSS, "kimi-k2" that of Moonlight too.
DeepSeek's cut several times, each regex within the words that those before it made: what "deepseek-llm" calls signs
holds A to Z as well, so that a word ends where its ASCII letters do."""

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


def _by_case(digits: str, contractions: str, ends: str = r"[\r\n/]*", but: str = "") -> str:
    """The family of o200k: a word ends where a capital follows a small letter, and takes its contraction along. A
    letter without case, and an accent, may stand on either side. Letters that are in the class `but` are in none."""
    uncased = rf"\p{{Lm}}\p{{Lo}}\p{{M}}{but and f'&&[^{but}]'}"
    capital, small = rf"[\p{{Lu}}\p{{Lt}}{uncased}]", rf"[\p{{Ll}}{uncased}]"
    words = (
        rf"[^\r\n\p{{L}}\p{{N}}]?{letters}{contractions}" for letters in (f"{capital}*{small}+", f"{capital}+{small}*")
    )
    return "|".join((*words, digits, rf" ?[^\s\p{{L}}\p{{N}}]+{ends}", _BLANKS))


_ONE, _THREE = r"\p{N}", r"\p{N}{1,3}"
_HAN: Final = r"\p{Han}"
_CHINESE: Final = r"\x{4E00}-\x{9FA5}"
_KANA: Final = r"\x{3040}-\x{30FF}"
_UNLISTED: Final = (  # cased letters that DeepSeek's list lacks, with what else no letter of the list stands between
    r"\x{560}-\x{588}\x{10C7}-\x{10FF}\x{1C80}-\x{1C8F}\x{2D00}-\x{2D2F}\x{A790}-\x{AB6F}"
    r"\x{10500}-\x{10C7F}\x{10D00}-\x{1189F}\x{118E0}-\x{1E8FF}\x{1E944}-\x{10FFFF}"
)
_LISTED: Final = rf"[\p{{Lu}}\p{{Ll}}\p{{Lt}}&&[^{_UNLISTED}]]"
_SIGNS: Final = r"[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]"
_EASTERN: Final = r"[\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]+"
_DEEPSEEK_3: Final = (
    _THREE,
    rf"[{_CHINESE}{_KANA}]+",
    "|".join(
        (
            r"[!-/:-@\[-`{-~][A-Za-z]+",
            r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
            r" ?[\p{P}\p{S}]+[\r\n]*",
            _BLANKS,
        )
    ),
)
_SPLITS: Final[dict[str, tuple[str, ...]]] = {
    **{
        name: (_modern(_THREE),)
        for name in ("llama-bpe", "llama3", "llama-v3", "lfm2", "pixtral", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe")
    },
    **{name: (_modern(_ONE),) for name in ("qwen2", "deepseek-r1-qwen", "bailingmoe2", "hunyuan")},
    "qwen35": (_modern(_ONE, r"\p{M}"),),
    "seed-coder": (_modern(_ONE, ends=""),),
    "laguna": (r"[^\n]+|\n+", _modern(_ONE)),
    "exaone-moe": (
        "|".join(
            (
                _CONTRACTIONS,
                r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",  # words go on behind a blank
                _ONE,
                r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                r"\s*[\r\n]|\s+(?!\S)|\s+",
            )
        ),
    ),
    **dict.fromkeys(("gpt-4o", "llama4", "minimax-m2"), (_by_case(_THREE, f"{_CONTRACTIONS}?"),)),
    "tekken": (_by_case(_ONE, ""),),
    "kimi-k2": (rf"{_HAN}+|" + _by_case(_THREE, f"{_CONTRACTIONS}?", r"[\r\n]*", _HAN),),
    **dict.fromkeys(("deepseek-v3", "joyai-llm", "hunyuan-dense"), _DEEPSEEK_3),
    "deepseek-llm": (r"[\r\n]", rf"\s?{_LISTED}+", rf"\s?{_SIGNS}+", r"\s+$", _EASTERN),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EASTERN),
}
_THEN_DIGITS: Final = ("deepseek-llm", "deepseek-coder")  # cut every digit out last
SINGLE_DIGITS: Final = ("smollm", "refact", "exaone", "command-r", "mellum2")
COMPOSED: Final = ("qwen2", "qwen35", "olmo", "command-r")
UNNAMED: Final = "default"  # what a converter writes if it knows no name
PLAIN: Final = ("gpt-2", "exaone4", "mellum", "olmo")
SUPPORTED: Final = (*PLAIN, *_SPLITS, *SINGLE_DIGITS)


def pretokenizer(name: str) -> Any:
    """The pre-tokenizer called `name`; raises KeyError for one that is not in SUPPORTED."""
    if name in PLAIN:
        return ByteLevel(add_prefix_space=False)
    if name in SINGLE_DIGITS:
        return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    splits = [Split(Regex(one), behavior="isolated") for one in _SPLITS[name]]
    digits = [Digits(individual_digits=True)] if name in _THEN_DIGITS else []
    return Sequence([*splits, *digits, ByteLevel(add_prefix_space=False, use_regex=False)])
