"""The folder that tests of config.json change."""

from pathlib import Path

import pytest

from .folders import LLAMA, llama_tensors, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny", llama_tensors(), LLAMA)
