"""Flags in, Config out."""

from __future__ import annotations

import argparse

import pytest
from paceline.daemon.config import Config
from paceline.daemon.faults import Faults
from paceline.daemon.flags import add_daemon_arguments, read_config


def parse(*words: str) -> Config:
    parser = argparse.ArgumentParser()
    add_daemon_arguments(parser)
    return read_config(parser.parse_args(words))


def test_without_flags_everything_has_its_default() -> None:
    assert parse() == Config()


def test_every_flag() -> None:
    config = parse(
        *("a.gguf", "--engine", "reference", "--slots", "8", "--max-ctx", "512", "--max-batch", "3", "--queue", "0"),
        *("--step-tokens", "32", "--prefill-tokens", "256", "--cache-bytes", "123", "--auto", "--threads", "2"),
        *("--draft", "3"),
        *("-ctk", "q8_0", "--cache-type-v", "q4_0"),
        *("--isa", "plain", "--stream", "text", "--stream-fd", "5", "--max-line", "99"),
        *("--fault", "once@2", "--log", "json", "--device", "cuda:1", "--gpu-memory", "0.5"),
    )
    assert config == Config(
        model="a.gguf",
        engine="reference",
        device="cuda:1",
        gpu_memory=0.5,
        slots=8,
        max_ctx=512,
        max_batch=3,
        step_tokens=32,
        prefill_tokens=256,
        draft=3,
        queue=0,
        cache_bytes=123,
        cache_type_k="q8_0",
        cache_type_v="q4_0",
        auto=True,
        threads=2,
        isa="plain",
        stream="text",
        stream_fd=5,
        max_line=99,
        log="json",
        fault=Faults(once=2),
    )


@pytest.mark.parametrize(
    ("flags", "rows", "tokens"),
    [
        ("", 4, 64),
        ("--slots 32", 32, 64),
        ("--slots 100", 100, 200),
        ("--slots 100 --max-batch 40", 40, 80),
        ("--slots 2 --max-batch 9", 2, 64),
        ("--slots 100 --step-tokens 7", 100, 7),
    ],
)
def test_a_prefill_has_its_share_of_a_step_however_many_decode(flags: str, rows: int, tokens: int) -> None:
    config = parse(*flags.split())
    assert (config.most_rows, config.most_step_tokens) == (rows, tokens)


def test_the_originals_spellings() -> None:
    assert parse("--stream", "bare") == Config(stream="bare")
    for word in ("--target-cache-slots=6", "--cache-slots=6"):
        assert parse(word, "--stream-tagged", "--max-ctx=128") == Config(slots=6, stream="tagged", max_ctx=128)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--slots x", "'x': expected a whole number from 1 to 4096"),
        ("--slots -3", "'-3': expected a whole number from 1 to 4096"),
        ("--threads 100000", "'100000': expected a whole number from 1 to 1024"),
        ("--max-batch 0", "'0': expected a whole number from 1 to 2147483647"),
        ("--queue ٣", "'٣': expected a whole number from 0 to 2147483647"),
        ("--stream-fd 4294967296", "'4294967296': expected a whole number from 1 to 2147483647"),
        ("--max-ctx 99999999999999999999", "expected a whole number from 2 to 2147483647"),
        ("--cache-bytes 9223372036854775808", "expected a whole number from 1 to 9223372036854775807"),
        ("--stream sideways", "'sideways': expected tagged, text or bare"),
        ("--stream-fd 2", "2 is the log"),
        ("--fault now", "'now' is no fault"),
        ("--log loud", "invalid choice: 'loud'"),
        ("--isa sse", "invalid choice: 'sse'"),
        ("--device gpu", "'gpu': expected cpu, cuda or cuda:N"),
        ("--device cuda:", "'cuda:': expected cpu, cuda or cuda:N"),
        ("--device cuda:x", "'cuda:x': expected cpu, cuda or cuda:N"),
        ("--gpu-memory 0", "'0': expected a share above 0 and up to 1, or bytes"),
        ("--gpu-memory 1.5", "'1.5': expected a share above 0 and up to 1, or bytes"),
        ("--gpu-memory much", "'much': expected a share above 0 and up to 1, or bytes"),
        ("-ctk q5_1", "invalid choice: 'q5_1'"),
    ],
)
def test_a_wrong_word_is_named(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*words.split())
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err
