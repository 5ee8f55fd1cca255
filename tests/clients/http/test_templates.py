"""Models whose chat template is missing or broken: they have no chat, say why, and complete texts all the same."""

from argparse import ArgumentError, ArgumentParser
from collections.abc import Callable
from pathlib import Path

import pytest
from paceline.clients.http.flags import add_serve_arguments
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests.asked import Chat, Text
from paceline.clients.http.texts import Texts

from .served import Served

HELLO = [{"role": "user", "content": "Hi"}]
SIZES = (128, 64)


@pytest.fixture(scope="module")
def broken(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return changed(tiny_model(), tmp_path_factory.mktemp("secret") / "broken.gguf", b"{% endfor %}", b"{% endfox %}")


def changed(model: Path, path: Path, old: bytes, new: bytes) -> Path:
    """A copy in which other bytes, as many, stand in their place."""
    data = model.read_bytes()
    assert data.count(old) == 1 and len(old) == len(new)
    path.write_bytes(data.replace(old, new))
    return path


def test_a_broken_template_is_not_an_absent_one(broken: Path, silent_model: Path) -> None:
    for path, code, reason in (
        (broken, "broken_template", "its chat template is broken: Encountered unknown tag 'endfox'"),
        (silent_model, "no_template", "this model has no chat template"),
    ):
        texts = Texts.open(path, *SIZES)
        with pytest.raises(HttpRefused) as caught:
            texts.read(Chat(tuple(HELLO)))
        assert (caught.value.status, caught.value.code) == (400, code)
        assert reason in caught.value.message and "use /v1/completions" in caught.value.message
        assert texts.read(Text("a")).ids


def test_another_template_may_stand_in_its_place(
    broken: Path, silent_model: Path, tiny_model: Callable[..., Path]
) -> None:
    for path in (tiny_model(), broken, silent_model):
        texts = Texts.open(path, *SIZES, "ab{{ messages[0].content }}")
        assert texts.broken is None
        assert texts.read(Chat(tuple(HELLO))).ids[-2:] == texts.read(Text("Hi")).ids[-2:]
        assert texts.read(Chat(tuple(HELLO))).chat.text == "abHi"  # type: ignore[union-attr]


def test_a_server_takes_it_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("one two {{ messages[0].content }}", encoding="utf-8")
    with Served("--engine", "null", "--chat-template", str(tmp_path / "own.jinja")) as served:
        answer = served.post("/v1/chat/completions", messages=HELLO, max_tokens=1).json()
        assert answer["usage"]["prompt_tokens"] == len("one two Hi")


def test_a_file_that_is_no_template_is_usage(tmp_path: Path) -> None:
    parser = ArgumentParser(exit_on_error=False)
    add_serve_arguments(parser)
    for content, reason in (
        (b"{% if %}", "its chat template is broken"),
        (b"\xff", "can't decode"),
        (b" \n", "it is empty, expected a template"),
        (None, "No such file or directory, expected a file"),
    ):
        path = tmp_path / "own.jinja"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ArgumentError, match=reason):
            parser.parse_args(["--chat-template", str(path)])


def test_it_is_said_at_the_start_and_to_whoever_asks_for_a_chat(broken: Path) -> None:
    with Served(str(broken), "--threads", "1") as served:
        (line,) = [line for line in served.said if "chat" in line]
        assert line.startswith("paceline serve: broken has no chat: its chat template is broken: ")
        for path, more in (("/v1/chat/completions", {}), ("/v1/messages", {"max_tokens": 5})):
            refused = served.post(path, messages=HELLO, **more)
            message = refused.json()["error"]["message"]
            assert refused.status_code == 400 and "unknown tag 'endfox'" in message and "secret" not in message
            assert refused.json()["error"]["type"] == "invalid_request_error"
        assert served.completion(prompt="ab", max_tokens=3, temperature=0)
