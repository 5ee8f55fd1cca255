"""Who may import whom. Read from the source, so that an import inside a function counts too."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("protocol", "daemon", "native", "clients")
STANDARD = sys.stdlib_module_names

# What a folder may import besides itself: other folders of ours, packages that are not.
ALLOWED = {
    "protocol": {"msgpack"},
    "daemon": {"paceline.protocol"},
    "native": {"numpy", "gguf", "safetensors", "tqdm"},
    "clients": {"paceline.protocol", "tokenizers", "jinja2"},
}
# The named exceptions, file by file.
EXCEPTIONS = {
    "daemon/engine.py": {"paceline.native"},
    "daemon/grammar_worker.py": {"llguidance"},
    "daemon/saved.py": {"msgpack"},
    "native/files/folder_tokens.py": {"tokenizers"},
    "clients/cli.py": {"paceline.daemon", "paceline.native.weights"},
    "clients/__init__.py": {"paceline.native.weights"},
    "clients/tokenizer.py": {"paceline.native.weights"},
    "clients/sentence_pieces.py": {"paceline.native.weights"},
    "clients/chat.py": {"paceline.native.weights"},
    "clients/folder_text.py": {"paceline.native.weights"},
    "clients/model_text.py": {"paceline.native.weights"},
    "clients/encode.py": {"paceline.native.weights"},
    "clients/bench.py": {"paceline.native.weights", "tqdm"},
    "clients/models.py": {"paceline.native.weights", "paceline.native.files.demo_model"},
    "clients/own_daemon.py": {"tqdm"},
    "clients/completion.py": {"shtab"},
    "clients/frames.py": {"paceline.native.weights"},
    "clients/http/answering.py": {"starlette"},
    "clients/http/app.py": {"starlette"},
    "clients/http/connection.py": {"httptools", "uvicorn"},
    "clients/http/guard.py": {"starlette"},
    "clients/http/metrics.py": {"prometheus_client"},
    "clients/http/serve.py": {"paceline.native.weights", "uvicorn"},
}
# What the rooms of the proxy, and the text side that they share, may import of the proxy besides themselves.
PROXY = {
    "requests": {"refused"},
    "speech": {"requests"},
    "answers": {"requests", "speech", "news", "refused", "texts", "call_ids"},
    "texts.py": {"requests", "speech", "refused", "chats", "infill"},
    "chats.py": {"requests", "speech", "refused", "template_needs", "grammars"},
    "grammars": {"requests", "speech", "refused"},
    "infill.py": set(),
    "template_needs.py": {"requests", "speech", "call_ids"},
    "news.py": {"speech"},
}
# The rooms without I/O, lock, thread, clock or native handle: all of a folder but its shell.
PURE = {
    "protocol/": set(),
    "daemon/": {
        "answers",
        "engine",
        "execution",
        "prompts",
        "stdio",
        "outbox",
        "inbox",
        "loop",
        "main",
        "config",
        "crash",
        "faulty",
        "grammar_worker",
        "grammars",
        "observers",
        "snapshot_files",
        "heap",
        "trace_file",
    },
}
# What these may import of the standard library: datetime to show a time that they are told, argparse for what is wrong
# with a word. And what needs no import but is I/O.
PURE_MODULES = {
    *("__future__", "argparse", "array", "bisect", "collections", "contextlib", "dataclasses", "datetime", "enum"),
    *("hashlib", "heapq", "itertools", "json", "math", "re", "struct", "typing"),
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Full names of the modules that a file imports, ours as paceline.X.Y."""
    folder = path.parent.relative_to(ROOT).parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ("paceline", *folder)[: len(folder) + 2 - node.level] if node.level else ()
            module = ".".join((*base, node.module)) if node.module else ".".join(base)
            found |= {module} if node.module else {f"{module}.{alias.name}" for alias in node.names}
    return found


def calls(path: Path) -> set[str]:
    """Names that a file calls as they are."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def is_within(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_what_it_may(folder: str) -> None:
    for path in sources(folder):
        name = path.relative_to(ROOT).as_posix()
        allowed = ALLOWED[folder] | {f"paceline.{folder}"} | EXCEPTIONS.get(name, set())
        wrong = {one for one in imports(path) if one.split(".")[0] not in STANDARD and not is_within(one, allowed)}
        assert not wrong, f"{name} imports {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("room", PROXY)
def test_a_room_of_the_proxy_imports_what_it_may(room: str) -> None:
    proxy = "paceline.clients.http"
    allowed = {f"{proxy}.{one}" for one in (room.removesuffix(".py"), *PROXY[room])}
    place = ROOT / "clients" / "http" / room
    paths = [place] if place.suffix else sorted(place.glob("*.py"))
    assert paths
    for path in paths:
        wrong = {one for one in imports(path) if is_within(one, {proxy}) and not is_within(one, allowed)}
        assert not wrong, f"{path.name} imports {', '.join(sorted(wrong))}"


def test_exceptions_are_needed() -> None:
    for name, allowed in EXCEPTIONS.items():
        for one in allowed:
            assert any(is_within(found, {one}) for found in imports(ROOT / name)), f"{name} no longer imports {one}"


def test_pure_rooms_import_nothing_impure() -> None:
    for folder, shell in PURE.items():
        for path in sources(folder):
            if path.stem in shell:
                continue
            wrong = {one for one in imports(path) if one.split(".")[0] in STANDARD - PURE_MODULES}
            assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"
            assert not (called := calls(path) & IMPURE_CALLS), f"{path.relative_to(ROOT)} calls {called}"


def test_only_engine_knows_native_and_only_loop_joins() -> None:
    for path in sources("daemon"):
        found = imports(path)
        if path.stem not in ("loop", "main"):
            assert not {"paceline.daemon.session", "paceline.daemon.outbox"} <= found, path


def test_pybind11_stays_in_bindings() -> None:
    for path in (ROOT / "native").rglob("*"):
        if path.suffix in (".h", ".cpp", ".cu") and path.parent.name != "bindings":
            assert "pybind11" not in path.read_text(encoding="utf-8"), path


def test_nothing_is_imported_from_scripts_or_tests() -> None:
    for folder in FOLDERS:
        for path in sources(folder):
            assert not any(one.split(".")[0] in ("scripts", "tests") for one in imports(path)), path


def test_every_folder_is_packaged() -> None:
    import tomllib

    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["wheel"]["packages"]
    assert packages == {f"paceline/{folder}": folder for folder in FOLDERS}
