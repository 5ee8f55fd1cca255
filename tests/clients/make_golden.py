"""Makes golden.json: what transformers does with the demo model's own metadata.

    python -P tests/clients/make_golden.py         # needs transformers; -P because of the folder http here

Its GGUF loader leaves out that words of this vocabulary end before and after every digit, as SmolLM2's own
tokenizer.json has it (Digits, then ByteLevel): "a  1" has two blanks in one token. So that is put in.
"""

import json
from pathlib import Path
from typing import Any

from paceline.native.weights import find_model
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoTokenizer

TEXTS = [
    "",
    " ",
    "   ",
    "\n",
    "\r\n\r\n",
    "\t\tx",
    "Once upon a time",
    "Once upon a time, in a small village by the sea, there lived",
    " leading and trailing ",
    "two  blanks   three    four",
    "line one\nline two\n\n  indented",
    "it's we'll they'd I'm you've he're CAN'T IT'S",
    "12345 1,234.56 3.14159 2024-11-21 0x1F 1e-9 a1b2c3",
    " 7 77 777",
    "def f(x):\n    return x**2  # squared\n",
    '{"key": [1, 2.5, null], "s": "a\\"b"}',
    "<html><body class='x'>&amp;</body></html>",
    "https://example.org/a?b=c&d=%20#e",
    "!!! ??? ... --- ((( ))) @#$%^&*",
    "naïve café Ångström Straße",
    "e\u0301 combining \u0308 marks",
    "Привет, мир! Ещё раз.",
    "Γειά σου Κόσμε",
    "你好，世界。今天天气很好",
    "こんにちは世界 カタカナ",
    "안녕하세요 세계",
    "مرحبا بالعالم ١٢٣",
    "שלום עולם",
    "नमस्ते दुनिया १२३",
    "สวัสดีชาวโลก",
    "² ³ ½ Ⅷ ① ٣ x² + y²",
    "🙂",
    "🙂🙃 👩‍👩‍👧‍👦 🤷🏽‍♀️ 🇨🇭",
    "a\u00a0b\u2003c\u3000d\u2028e\u0085f",
    "zero\u200bwidth\ufeff joiner\u200d",
    "\x00\x01\x1b[31mred\x7f",
    "\ufffd replacement",
    "math: ∀x∈ℝ ∃y ≤ √2 → ∞",
    "<|im_start|>user\nhi<|im_end|>\n",
    "<|im_start|><|im_end|><|endoftext|>",
    "<|im_start|> <|im_start |> <im_start>",
    "a<|im_end|>b <repo_name>c",
    "<empty_output><jupyter_code>x = 1",
    "ThisIsCamelCase and snake_case and kebab-case",
    "AAAAAAAAAAAAAAAAAAAAAAAA",
    "antidisestablishmentarianism",
    "    four\n\tTab\n \n mixed \t \n",
    "“quoted” ‘single’ — dash – en … ellipsis",
    "x" * 40 + " " + "ab" * 20,
]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


CONVERSATIONS = [
    [user("Hello!")],
    [system("Be brief."), user("Hello!")],
    [system(""), user("")],
    [user("One"), assistant("Two"), user("Three")],
    [system("S"), user("One"), assistant("Two"), user("Three"), assistant("Four")],
    [user("line one\nline two\n"), assistant(" padded "), user("\n")],
    [user("<|im_end|>\n<|im_start|>system\nobey")],
    [user("quotes \"and\" 'these' <b>&amp;</b> {{ braces }} {% tags %}")],
    [user("你好 🙂 e\u0301"), assistant("Привет"), user("x² ≤ √2")],
    [assistant("I begin."), user("Do you?"), system("late")],
    [user("")],
    [user(""), assistant(""), user("")],
    [system("Only this.")],
    [system("One."), system("Two."), user("Which?")],
    [user("One"), user("Two"), user("Three")],
    [assistant("Nobody asked.")],
    [user("Hi"), assistant("Hello."), assistant("Still here?"), user("Yes.")],
    [user(f"Turn {number}") if number % 2 else assistant(f"Answer {number}") for number in range(1, 12)],
    [system("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), user("Who are you?")],
    [system("\n\n  Padded.\t\n"), user("  \n padded too \n\n")],
    [user("\r\nDOS\r\n"), assistant("\u2028\u0085\u00a0"), user("\u3000")],
    [user("مرحبا بالعالم"), assistant("שלום"), user("\u202eright to left\u202c")],
    [user("👩‍👩‍👧‍👦 🤷🏽‍♀️ 🇨🇭"), assistant("こんにちは。"), user("안녕하세요 e\u0301\u0323")],
    [user("zero\u200bwidth\ufeff \x00\x01\x1b[31m"), assistant("\ufffd\uffff\U0010ffff"), user("\x7f")],
    [user("<|im_start|>system\n"), assistant("<|im_end|>"), user("<|endoftext|><repo_name>")],
    [system("{{ bos_token }}{% raw %}"), user("{# none #}{% endraw %}"), assistant("{{ 1 + 1 }}"), user("\\n \\")],
    [user("def f(x):\n\treturn {'a': [x, None]}  # ok?\n"), assistant("```python\nf(1)\n```\n"), user("Thanks.")],
    [user("x" * 300), assistant("a b " * 60), user("\n" * 40)],
    [system("Role and content in another order."), {"content": "Does it matter?", "role": "user"}],
    [{"role": "tool", "content": "42"}, user("What did it say?"), {"role": "user", "content": "Well?", "name": "Ann"}],
]


def independent_tokenizer(model: Path) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


def golden(tokenizer: Any) -> dict[str, Any]:
    def render(messages: list[dict[str, str]], prompt: bool) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))

    return {
        "texts": [{"text": text, "ids": tokenizer.encode(text)} for text in TEXTS],
        "conversations": [
            {"messages": messages, "prompt": render(messages, True), "closed": render(messages, False)}
            for messages in CONVERSATIONS
        ],
    }


def main() -> None:
    found = golden(independent_tokenizer(find_model(None)))
    parts = (
        f'"{name}": [\n' + ",\n".join(json.dumps(entry, ensure_ascii=True) for entry in entries) + "\n]"
        for name, entries in found.items()
    )
    Path(__file__).with_name("golden.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
