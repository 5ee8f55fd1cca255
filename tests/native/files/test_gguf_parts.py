"""Models that are split over several GGUF files."""

import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.native.files.gguf_parts import other_parts
from paceline.native.weights import ModelUnreadable, open_model

from ..rows import all_logits

PARTS = [f"tiny-{part:05}-of-00003.gguf" for part in (1, 2, 3)]


@pytest.fixture(scope="module")
def split(tiny_model, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model in one file, and the first of the three that the gguf package splits it into."""
    whole = tiny_model(seed=4)
    reader, folder = gguf.GGUFReader(whole), tmp_path_factory.mktemp("split")
    writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama", split_max_tensors=-(-len(reader.tensors) // 3))
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind, inner = field.types[0], field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), kind, inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert sorted(path.name for path in folder.iterdir()) == PARTS
    return whole, folder / PARTS[0]


def test_a_split_model_is_the_model(split: tuple[Path, Path]) -> None:
    ids = list(range(5, 25))
    logits = [all_logits(open_core(path, slots=1, context=64), 0, ids) for path in split]
    assert (logits[0] == logits[1]).all()


def test_every_part_must_be_there(split: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(split[1].parent, tmp_path / "copy")
    (tmp_path / "copy" / PARTS[2]).unlink()
    with pytest.raises(ModelUnreadable, match=f"its part {PARTS[2]} is missing"):
        open_model(tmp_path / "copy" / PARTS[0])
    shutil.copy(split[1].parent / PARTS[1], tmp_path / "copy" / PARTS[2])
    with pytest.raises(ModelUnreadable, match=r"tensors, expected|more than once"):  # the second part twice
        open_core(tmp_path / "copy" / PARTS[0], slots=1)


def test_a_later_part_names_the_first(split: tuple[Path, Path]) -> None:
    with pytest.raises(ModelUnreadable, match=f"it is part 2 of 3, expected the first, {PARTS[0]}"):
        open_model(split[1].with_name(PARTS[1]))


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("a.gguf", {"split.count": 3}, "a name that ends in -00001-of-00003.gguf"),
        ("a-00001-of-00002.gguf", {"split.count": 3}, "a name that ends in -00001-of-00003.gguf"),
        ("a-00001-of-00003.gguf", {"split.count": 3, "split.no": 3}, "'split.no' and 'split.count' are 3 and 3"),
        ("a.gguf", {"split.count": "x"}, "are 0 and 'x'"),
        ("a.gguf", {"split.count": 1 << 40}, "expected a part of several"),
    ],
)
def test_what_cannot_be_followed_is_said(name: str, values: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        other_parts(Path(name), values)


def test_a_model_in_one_file_has_no_other_parts() -> None:
    assert other_parts(Path("a.gguf"), {}) == other_parts(Path("a.gguf"), {"split.count": 1}) == []
