"""Where words end, as the regexes of the models' own tokenizers have it."""

import unicodedata

import pytest
from paceline.clients.pretokenizers import pretokenizer


@pytest.mark.parametrize(
    "words",
    [
        ["Hello", "World", " XMLHttp", "Request", " i", "Phone", " HTMLs"],
        ["don't", " WE'LL", " they", "RE's", " O", "'Brien's", "'d'Ve"],
        ["123", "456", "78", " ", "5½Ⅷ", "x", "2"],
        ["你好World世界", "Abcひらがな", " ABCカタカナdef"],
        ["e\u0301a", "E\u0301", " \u0301a", "École", "ÉÉ\u0301"],
        ["ǅungla", " ǅǄʰAʰb"],
        ["http", "://", "a", "/b", "//\n/\n\n", " \n", "  ", " x", " \t"],
        ["(see", " below", ")!\r\n", "-x", "…", "\u00a0y", "  "],
    ],
    ids=lambda words: ascii("".join(words)),
)
def test_words_of_o200k(words: list[str]) -> None:
    """As OpenAI's own regex cuts them."""
    text = "".join(words)
    cut = pretokenizer("gpt-4o").pre_tokenize_str(text)
    assert [text[start:end] for _, (start, end) in cut] == words


def test_words_of_tekken_and_of_seed_oss() -> None:
    def words(pre: str, text: str) -> list[str]:
        return [text[start:end] for _, (start, end) in pretokenizer(pre).pre_tokenize_str(text)]

    assert words("tekken", "XMLHttp don't 12/\n") == ["XMLHttp", " don", "'t", " ", "1", "2", "/\n"]
    assert words("seed-coder", "XMLHttp don't 12!\n") == ["XMLHttp", " don", "'t", " ", "1", "2", "!", "\n"]
    assert words("bailingmoe2", "XMLHttp don'T 12!\n\n") == ["XMLHttp", " don", "'T", " ", "1", "2", "!\n\n"]
    assert words("pixtral", "XMLHttp don'T 1234/\n") == words("llama-bpe", "XMLHttp don'T 1234/\n")
    assert words("hunyuan", "XMLHttp don'T 12!\n\n") == ["XMLHttp", " don", "'T", " ", "1", "2", "!\n\n"]
    assert words("hunyuan-dense", "12345 \u4f60\u597dab") == ["123", "45", " ", "\u4f60\u597d", "ab"]
    for name in ("exaone4", "mellum", "olmo"):
        assert words(name, "XMLHttp don't 12!\n") == ["XMLHttp", " don", "'t", " 12", "!", "\n"]
    for name in ("exaone", "command-r", "mellum2"):
        assert words(name, "don't 12!\n") == words("refact", "don't 12!\n")
    assert words("refact", "don't 12!\n") == ["don", "'t", " ", "1", "2", "!", "\n"]


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("deepseek-llm", [" Hello", ",", " world", "!", "\r", "\n", "\n", " don", "'", "t", "(", "x", " ')", "   "]),
        ("deepseek-llm", ["a", "1", "2", "½", "Ⅷ", " ", "3", "²"]),
        ("deepseek-llm", ["Łó", "d", "ź", " ДНК", "ბა你好ひら각", "，", "A", "。", "\u3000", "x"]),
        ("deepseek-llm", ["Ϣ", "ab", "\u0560", "b", "\ua7c2", "c", "\U0001d400", "d", "Жéﬁ", "אב"]),
        ("deepseek-llm", ["def", " f", "(", "x", "):", "\n", "\treturn", " x", "+", "y", "\n"]),
        ("deepseek-coder", ["\n", " Hello", "ბა", " ", "你", "ע", ",", " \u00ab", "$=", "x", "1", "2"]),
        ("deepseek-v3", ["Hello", " world", "!?\n\n", "123", "45", " ", "6", ".x", "=y", "==", "你好ひら", "각", "  "]),
        ("deepseek-v3", ["don", "'t", " ", "\x00a\u0301", " $/", "b", "\r\n", "  "]),
        ("laguna", ["XMLHttp", " don", "'t", " ", "1", "2", "!", "\n\n", " ", " b", "."]),
        ("exaone-moe", ["Hello world", "'s", " a\u0301", " ", "1", "2", "!/\n", "\n"]),
        ("exaone-moe", ["(한국 어 말", ",", "  \n", " ", " x y"]),
        ("llama4", ["XMLHttp", "Request's", " ", "123", "4", "!\n/", "a"]),
        ("kimi-k2", ["XMLHttp", "Request's", "你好", "Ab", "123", "4", "!/\n", "/"]),
    ],
    ids=lambda value: value if isinstance(value, str) else ascii("".join(value))[:30],
)
def test_words_of_deepseek_and_of_kimi(pre: str, words: list[str]) -> None:
    text = "".join(words)
    cut = pretokenizer(pre).pre_tokenize_str(text)
    assert [text[start:end] for _, (start, end) in cut] == words


def test_cased_letters_that_deepseek_lists() -> None:
    """As many as in its own list, which knows nothing of later versions of Unicode. They make a word with each other;
    those among eastern scripts show that they are none of these, and the 52 wide ones are signs as well."""
    cut = pretokenizer("deepseek-llm").pre_tokenize_str

    def listed(letter: str) -> bool:
        return len(cut(f"{letter}你")) == 2 if "\u0800" <= letter <= "\u9fa5" else len(cut(f"{letter}Ж")) == 1

    cased = (one for one in map(chr, range(128, 0x110000)) if unicodedata.category(one) in ("Lu", "Ll", "Lt"))
    found = list(filter(listed, cased))
    assert (len(found), ascii(found[0]), ascii(found[-1])) == (2677 - 52, "'\\xb5'", "'\\U0001e943'")
