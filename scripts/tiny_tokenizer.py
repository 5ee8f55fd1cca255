"""The tokenizer and the chat template of the tiny models."""

import itertools
from collections.abc import Iterator
from string import ascii_lowercase

import gguf

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = 2
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKS = ["<think>", "</think>"]
THINKING_TEMPLATE = CHAT_TEMPLATE.replace("message['content']", "message['content'].split('</think>')[-1]") + (
    "{% if add_generation_prompt %}{% if enable_thinking is defined and enable_thinking is false %}"
    "{{ '<think>\n\n</think>\n\n' }}{% else %}{{ '<think>\n' }}{% endif %}{% endif %}"
)


def byte_alphabet() -> list[str]:
    """The characters that stand for bytes in byte-level BPE, printable ASCII first, then blank and newline."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    stands_for = {byte: chr(byte) for byte in printable} | {byte: chr(256 + at) for at, byte in enumerate(others)}
    first = [*range(33, 127), 32, 10]
    return [stands_for[byte] for byte in [*first, *(byte for byte in range(256) if byte not in first)]]


def words() -> Iterator[str]:
    """ "th", then every lower-case word by length; each is one merge of the word without its last letter."""
    yield "th"
    for length in itertools.count(2):
        for letters in itertools.product(ascii_lowercase, repeat=length):
            if letters != ("t", "h"):
                yield "".join(letters)


def add_tokenizer(writer: gguf.GGUFWriter, vocab: int, thinking: bool) -> None:
    marks = MARKS if thinking else []
    vocab -= len(marks)
    alphabet = byte_alphabet()[: vocab - len(SPECIALS) - 1]
    merged = list(itertools.islice(words(), vocab - len(SPECIALS) - len(alphabet)))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*SPECIALS, *alphabet, *merged, *marks])
    control, normal, defined = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL, gguf.TokenType.USER_DEFINED
    types = [control] * len(SPECIALS) + [normal] * (vocab - len(SPECIALS)) + [defined] * len(marks)
    writer.add_token_types(types)
    writer.add_token_merges([f"{word[:-1]} {word[-1]}" for word in merged])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(END)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(THINKING_TEMPLATE if thinking else CHAT_TEMPLATE)
