"""Tokens and prompts equal to transformers' on the demo model. Needs the optional packages, so it is slow."""

import json
import random
import runpy
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.chat import ChatTemplate
from paceline.clients.model_text import open_tokenizer
from paceline.clients.pretokenizers import pretokenizer

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
COUNT = 3000

KINDS = [
    "".join(map(chr, range(0x20, 0x7F))),
    "etaoinshrdlu" * 8,
    " \n\t\r\u00a0\u3000\u2028\u0085\u200b\x0b\x0c  ",
    "0123456789²³½Ⅷ①٣४",
    "".join(map(chr, range(0xA0, 0x530))),
    "".join(map(chr, range(0x900, 0xE80))),
    "".join(map(chr, range(0x4E00, 0x4F00))),
    "".join(map(chr, range(0x1F300, 0x1F700))) + "\u200d\ufe0f\U0001f1e8",
    "".join(map(chr, range(0x300, 0x370))),
    "".join(map(chr, range(0x20000, 0x20040))) + "\U0010ffff\ufffd\ufeff\x00\x1b",
]
WORDS = ["'s", "'LL", " the", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im", "\r\n", "  ", "http://", "don't"]


def texts() -> list[str]:
    """The same texts each time: runs of one script, of signs, of blanks, and of control tokens, one after the other."""
    chance = random.Random(7)

    def run() -> str:
        if chance.random() < 0.2:
            return chance.choice(WORDS)
        kind = chance.choice(KINDS)
        return "".join(chance.choice(kind) for _ in range(chance.randrange(1, 8)))

    return ["".join(run() for _ in range(chance.randrange(1, 12))) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    return runpy.run_path(str(HERE / "make_golden.py"))


@pytest.fixture(scope="module")
def independent(maker: dict[str, Any], demo_model: Path) -> Any:
    return maker["independent_tokenizer"](demo_model)


def test_the_golden_table_is_what_transformers_does(maker: dict[str, Any], independent: Any) -> None:
    assert maker["golden"](independent) == json.loads((HERE / "golden.json").read_text())


def test_encode_and_decode(independent: Any, demo_model: Path) -> None:
    ours = open_tokenizer(demo_model)
    for text in texts():
        ids = ours.encode(text)
        assert ids == independent.encode(text), repr(text)
        assert ours.decode(ids) == independent.decode(ids), repr(text)


def test_decode_of_any_ids(independent: Any, demo_model: Path) -> None:
    ours, chance = open_tokenizer(demo_model), random.Random(8)
    for _ in range(COUNT):
        ids = [chance.randrange(ours.vocab) for _ in range(chance.randrange(1, 12))]
        assert ours.decode(ids) == independent.decode(ids), ids


@pytest.mark.parametrize("pre", ["qwen2", "llama-bpe", "dbrx", "smaug-bpe", "qwen35", "gpt-4o", "tekken"])
def test_words_are_cut_as_transformers_cuts_them(pre: str) -> None:
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    split = Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[pre]), behavior="isolated")
    theirs, ours = Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)]), pretokenizer(pre)
    for text in texts():
        assert ours.pre_tokenize_str(text) == theirs.pre_tokenize_str(text), repr(text)


@pytest.mark.parametrize(
    "marks", [("{% generation %}", "{% endgeneration %}"), ("{%- generation -%}", "{%- endgeneration -%}")]
)
def test_what_the_model_said_is_marked_as_in_their_environment(marks: tuple[str, str]) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    begin, end = marks
    source = f"""{{% set who = 'me' %}}
{{% for m in messages %}}
  {begin}
    {{% set what = m.content %}}
    {{% for n in range(2) %}}{{{{ who }}}} {{{{ loop.index }}}} {{{{ what }}}}{{% endfor %}}
  {end}
{{{{ what is defined }}}}
{{% endfor %}}"""
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    (theirs,), _ = render_jinja_template([messages], chat_template=source)
    assert ChatTemplate(source).render(messages) == theirs
