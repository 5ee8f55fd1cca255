"""Which tokens of a vocabulary end a text, in a GGUF file and in a folder."""

import json
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter, TokenType
from paceline.native.files.text_ends import CONTROL, SETTINGS, TOKENIZER, control_ends, special_ends, with_sure_ends
from paceline.native.weights import open_model

NORMAL = 1
HARMONY = ["<|endoftext|>", "<|return|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|call|>"]
CASES = [
    (HARMONY, ["<|endoftext|>", "<|return|>", "<|call|>"]),
    (["<|call|>", "<|end|>", "<|return|>"], ["<|call|>", "<|return|>"]),
    (["<|end|>", "<|return|>"], ["<|end|>", "<|return|>"]),
    (["<|endoftext|>", "<|assistant|>", "<|end|>"], ["<|endoftext|>", "<|end|>"]),  # of Phi-3
    (["<|end|>", "<|call|>", "<|im_start|>", "<|im_end|>"], ["<|end|>", "<|call|>", "<|im_end|>"]),
    (["<pad>", "<eos>", "<|turn>", "<turn|>", "<|tool_response>", "<tool_response|>"],
     ["<eos>", "<turn|>", "<|tool_response>"]),  # of Gemma 4
    ([], []),
]  # fmt: skip


def gguf(tokens: list[Any], *types: int) -> dict[str, object]:
    return {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": list(types) or [CONTROL] * len(tokens)}


def special(content: str, is_special: bool = True) -> dict[str, object]:
    return {"content": content, "special": is_special}


@pytest.mark.parametrize(("tokens", "ends"), CASES)
def test_the_end_of_a_message_is_none_of_an_answer_that_has_its_own(tokens: list[str], ends: list[str]) -> None:
    assert [tokens[token] for token in control_ends(gguf(tokens))] == ends


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("tokens", "ends"), CASES)
def test_a_folder_has_the_same_ends(tmp_path: Path, tokens: list[str], ends: list[str], listed: bool) -> None:
    if listed:
        entries = {str(number): special(token) for number, token in enumerate(tokens)}
        (tmp_path / SETTINGS).write_text(json.dumps({"added_tokens_decoder": entries, "eos_token": None}))
    else:
        added = [{"id": number} | special(token) for number, token in enumerate(tokens)]
        (tmp_path / TOKENIZER).write_text(json.dumps({"added_tokens": added}))
    assert [tokens[token] for token in special_ends(tmp_path)] == ends


def test_only_control_tokens_are_ends_but_what_is_surely_one_is_made_one() -> None:
    tokens = ["<|return|>", "</s>", "<|end|>", "<|call|>", "a"]
    values = gguf(tokens, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL)
    assert control_ends(values) == []
    assert with_sure_ends(values)["tokenizer.ggml.token_type"] == [CONTROL, NORMAL, CONTROL, CONTROL, NORMAL]
    assert control_ends(with_sure_ends(values)) == [0, 3]
    assert control_ends(with_sure_ends(gguf(["<|return|>", "<|end|>"], NORMAL, NORMAL))) == [0, 1]


def test_gemma_4_ends_where_results_begin() -> None:
    """Its files have that mark as a token of the user's, so that it shows, and a tag of HTML as a normal one."""
    tokens, user_defined = ["<eos>", "<turn|>", "<|tool_response>", "<|tool_call>", "</s>"], 4
    values = gguf(tokens, CONTROL, CONTROL, user_defined, user_defined, NORMAL)
    assert control_ends(values) == [0, 1]
    made = with_sure_ends(values)
    assert made["tokenizer.ggml.token_type"] == [CONTROL, CONTROL, CONTROL, user_defined, NORMAL]
    assert control_ends(made) == [0, 1, 2]


@pytest.mark.parametrize(
    "values", [{}, gguf(["<|end|>"], CONTROL, CONTROL), {"tokenizer.ggml.tokens": ["<|end|>"]}, gguf([5, None])]
)
def test_a_vocabulary_that_is_damaged_has_none(values: dict[str, object]) -> None:
    assert control_ends(values) == []
    assert with_sure_ends(values) == values


@pytest.mark.parametrize("named", ["<stop>", {"content": "<stop>"}])
def test_a_folder_may_name_another(tmp_path: Path, named: object) -> None:
    entries = {"3": special("<stop>"), "4": special("</s>"), "5": special("<|end|>", False), "x": special("<|end|>")}
    (tmp_path / SETTINGS).write_text(json.dumps({"added_tokens_decoder": entries, "eos_token": named}))
    assert special_ends(tmp_path) == [3, 4]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"added_tokens_decoder": 5}'])
def test_a_folder_that_is_damaged_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / SETTINGS).write_text(text)
    (tmp_path / TOKENIZER).write_text(text)
    assert special_ends(tmp_path) == []


@pytest.mark.parametrize("architecture", ["gemma3", "llama"])
def test_a_turn_ends_at_the_control_tokens_that_the_vocabulary_has(tmp_path: Path, architecture: str) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", architecture)
    control, normal, added = TokenType.CONTROL, TokenType.NORMAL, TokenType.USER_DEFINED
    types = {"<pad>": control, "<eos>": control, "<end_of_turn>": normal, "<|eot_id|>": control, "<EOT>": normal}
    types |= {"</s>": added, "<|endoftext|>": control, "<|file_sep|>": control}
    writer.add_token_list(list(types))
    writer.add_token_types(list(types.values()))
    writer.add_eos_token_id(3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert open_model(tmp_path / "model.gguf")[0].eos == (3, 1, 2, 6, 7)
