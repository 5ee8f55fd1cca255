"""What several of these tests read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from gguf import GGUFWriter


@pytest.fixture(scope="session")
def bare_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file that says nothing but its architecture."""
    path = tmp_path_factory.mktemp("models") / "bare.gguf"
    writer = GGUFWriter(path, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="session")
def silent_model(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model without a chat template."""
    path = tmp_path_factory.mktemp("models") / "silent.gguf"
    path.write_bytes(tiny_model().read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_templete"))
    return path
