"""The tokenizer and the chat template of a model, whether it is a GGUF file or a Hugging Face folder."""

from pathlib import Path

from .chat import ChatTemplate
from .folder_text import FolderTokenizer, folder_chat_template
from .tokenizer import Tokenizer


def open_tokenizer(path: str | Path) -> Tokenizer | FolderTokenizer:
    """Raises ModelUnreadable."""
    return FolderTokenizer(Path(path)) if Path(path).is_dir() else Tokenizer.from_gguf(path)


def open_chat_template(path: str | Path) -> ChatTemplate:
    """Raises ModelUnreadable, also for a model without a template."""
    return folder_chat_template(Path(path)) if Path(path).is_dir() else ChatTemplate.from_gguf(path)
