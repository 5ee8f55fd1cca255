"""A layer that drafts: what it drafts, in whatever company and chunks, and that no text depends on it."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest
from paceline.native.core import PAGE, open_core
from paceline.native.drafting import ARCHITECTURES, REPEATING
from paceline.native.model import read_shape
from paceline.native.reference_draft import DraftingReference
from paceline.native.weights import ModelUnreadable, open_model
from paceline.protocol import Sampling

from .changed_files import written
from .drafted_texts import CONTEXT, MOST, TINY, Writer, ids_of, opened, told
from .rows import Row, table


@pytest.fixture(scope="module", params=ARCHITECTURES)
def path(request: pytest.FixtureRequest, tiny_model: Any) -> Path:
    return tiny_model(architecture=request.param, **TINY)


def reference(path: Path) -> DraftingReference:
    metadata, tensors = open_model(path, drafting=True)
    return DraftingReference(read_shape(metadata, tensors), tensors)


def test_drafts_are_the_references(path: Path) -> None:
    core, definition = opened(path, cache_type_k="f32", cache_type_v="f32"), reference(path)
    for seed, chunk in ((1, CONTEXT), (2, 5), (3, 1)):
        prompt = ids_of(seed, 11)
        writer = Writer(core, 0, prompt, MOST)
        for _ in range(20):
            row = writer.row(chunk)
            (output,), _ = core.step([row])
            writer.take(row, output)
            if row.outputs:
                wanted = definition.draft([*prompt, *writer.tokens], MOST)
                assert [int(logits.argmax()) for logits in wanted] == list(writer.draft)


def test_some_drafts_are_right_and_no_token_depends_on_them(path: Path) -> None:
    core, plain = opened(path), opened(path, drafting=False)
    prompt = ids_of(4, 20)
    with_drafts, without = told(core, 1, prompt, 60), told(plain, 1, prompt, 60, ahead=0)
    assert with_drafts.tokens == without.tokens
    assert without.steps == 60
    assert with_drafts.steps < 50


@pytest.mark.parametrize("kind", ["Q4_0", "F16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_drafts_are_the_same_in_any_company_and_chunks(tiny_model: Any, kind: str, threads: int) -> None:
    core = opened(tiny_model(architecture="qwen35", type=kind, ffn=96, **TINY), threads=threads)
    prompt = ids_of(5, 70)
    alone = told(core, 0, prompt, 30)
    assert told(core, 2, prompt, 30).drafts == alone.drafts
    assert told(core, 0, prompt, 30, chunk=64).drafts == alone.drafts
    assert told(core, 3, prompt, 30, chunk=1).drafts == alone.drafts
    others = [Writer(core, slot, ids_of(slot, 9 * slot), ahead) for slot, ahead in ((1, 2), (2, 0), (3, 4))]
    assert told(core, 0, prompt, 30, chunk=33, company=others)[:3] == alone[:3]


def test_drafts_are_drawn_as_the_model_draws(tiny_model: Any) -> None:
    """With the request's bias, and penalties for what it has written, the drafted tokens before them among it."""
    core = opened(tiny_model(architecture="qwen35", **TINY))
    biased = told(core, 0, ids_of(6, 8), 4, sampling=Sampling(logit_bias=((7, 100.0),)))
    assert set(biased.tokens) == {7}
    assert set(biased.drafts) == {(7,) * MOST}
    shy = told(core, 0, ids_of(6, 8), 12, sampling=Sampling(pres_penalty=2.0, freq_penalty=2.0, rep_penalty=50.0))
    for draft, behind in zip(shy.drafts, shy.behind, strict=True):
        assert len({*shy.tokens[:behind], *draft}) == behind + len(draft)


def test_drawn_drafts_are_right_as_often_as_the_likeliest(tiny_model: Any) -> None:
    """They have the model's own draws: with draws of their own they would hardly ever agree."""
    core = opened(tiny_model(architecture="qwen35", **TINY))
    drawn = [told(core, 0, ids_of(seed, 8), 40, sampling=Sampling(temp=2.0, seed=seed)) for seed in range(4)]
    plain = [told(core, 0, ids_of(seed, 8), 40, 0, sampling=Sampling(temp=2.0, seed=seed)) for seed in range(4)]
    assert [one.tokens for one in drawn] == [one.tokens for one in plain]
    assert sum(one.steps for one in drawn) < 150


def test_a_text_that_ends_with_the_context(tiny_model: Any) -> None:
    core = open_core(tiny_model(architecture="qwen35", **TINY), slots=1, context=40, replay=9, drafting=True)
    writer = Writer(core, 0, ids_of(7, 30), 8)
    while writer.position < 40:
        row = writer.row()
        row = row._replace(tokens=row.tokens[: 40 - row.position], outputs=min(row.outputs, 40 - row.position))
        (output,), _ = core.step([row])
        writer.take(row, output)
        assert writer.position + len(writer.draft) <= 40
    assert writer.draft == ()


def test_no_more_is_drafted_than_the_table_has_room_for(tiny_model: Any) -> None:
    core = opened(tiny_model(architecture="qwen35", **TINY))
    row = Row(0, ids_of(8, PAGE - 1), 0, 1, array("i", [0]), ahead=MOST)
    (output,), _ = core.step([row])
    assert len(output[3]) == 2  # behind the token at the page's last position, and behind that


def test_a_seat_goes_on_with_the_entries_of_its_pages(tiny_model: Any) -> None:
    """Without recurrent layers. The first of them that it lacks is the one that waits for the next token."""
    core = opened(tiny_model(architecture="qwen35", interval=1, **TINY))
    prompt = ids_of(9, PAGE + 20)
    donor = told(core, 0, prompt, 6)
    pages = table(0, CONTEXT)
    core.seat(1, prompt[:PAGE], None)
    row = Row(1, prompt[PAGE:], PAGE, 1, array("i", [pages[0], *table(1, CONTEXT)[1:]]), len(prompt), ahead=MOST)
    (output,), _ = core.step([row])
    assert output[0] == (donor.tokens[0],)
    assert output[3] == donor.drafts[0]


def test_what_a_step_reads_of_the_weights(path: Path) -> None:
    core = opened(path, threads=1)
    native, prompt = core.stepper, ids_of(10, 40)
    results, whole = core.step([Row(0, prompt, 0, 1, table(0, CONTEXT), ahead=0)])
    assert results[0][3] == ()
    assert whole <= native.weight_bytes
    _, more = core.step([Row(0, prompt, 0, 1, table(0, CONTEXT), ahead=1)])
    assert more == whole + native.head_bytes
    _, most = core.step([Row(0, prompt, 0, 1, table(0, CONTEXT), ahead=3)])
    assert most == more + 2 * native.draft_bytes
    assert core.draft_cost == native.draft_bytes / native.token_bytes > 0


def test_rows_that_cannot_be_drafted_for(tiny_model: Any) -> None:
    path = tiny_model(architecture="qwen35", **TINY)
    core, plain = opened(path), opened(path, drafting=False)
    row = Row(0, [1, 2], 0, 1, table(0, CONTEXT), ahead=1)
    with pytest.raises(ValueError, match="row of slot 0: -1 tokens to draft behind 1 outputs"):
        core.step([row._replace(ahead=-1)])
    with pytest.raises(ValueError, match="row of slot 0: 1 tokens to draft behind 0 outputs"):
        core.step([row._replace(outputs=0)])
    with pytest.raises(ValueError, match="row of slot 0: 1 tokens to draft, and the model has no layer that drafts"):
        plain.step([row])
    with pytest.raises(
        ValueError, match="row of slot 0: the token that follows, 300, is outside the vocabulary of 300"
    ):
        core.step([row._replace(outputs=0, ahead=0, following=300)])
    assert plain.draft_cost == 0
    assert plain.page_bytes < core.page_bytes
    assert plain.fingerprint != core.fingerprint


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_its_product_is_quantized_with_the_others(tiny_model: Any, kind: str) -> None:
    path = tiny_model(architecture="qwen35", **TINY)
    small, whole = opened(path, quantize=kind), opened(path)
    assert small.stepper.draft_bytes < 0.4 * whole.stepper.draft_bytes
    assert told(small, 0, ids_of(11, 9), 40).steps < 38


def test_a_layer_that_cannot_be_used_is_left_out(tiny_model: Any, tmp_path: Path) -> None:
    path = tiny_model(architecture="qwen35", **TINY)
    own_head = written(path, tmp_path / "head.gguf", {}, ["blk.2.nextn.shared_head_head.weight"])
    assert opened(own_head).draft_cost == 0
    two = written(path, tmp_path / "two.gguf", {"qwen35.nextn_predict_layers": 2, "qwen35.block_count": 4}, [])
    assert opened(two).draft_cost == 0


def test_a_damaged_layer_is_left_out_and_named(tiny_model: Any, tmp_path: Path, capfd: Any) -> None:
    path = tiny_model(architecture="qwen35", **TINY)
    plain, ids = opened(path, drafting=False), ids_of(13, 5)
    for less, more, says in (
        (("blk.2.nextn.enorm",), [], r"the tensor 'blk.2.nextn.enorm.weight' [1, 64] is missing"),
        (("blk.2.attn_k.",), [], r"the tensor 'blk.2.attn_k.weight' [32, 64] is missing"),
        (
            ("blk.2.attn_k_norm",),
            ["blk.2.attn_k_norm.weight"],
            "the tensor 'blk.2.attn_k_norm.weight' is [1, 8], expec",
        ),
        ((), ["blk.2.nextn.more.weight"], "the tensor 'blk.2.nextn.more.weight' is not part of a supported qwen35"),
    ):
        core = opened(written(path, tmp_path / "damaged.gguf", {}, more, less))
        assert core.draft_cost == 0
        assert told(core, 0, ids, 4, ahead=0).tokens == told(plain, 0, ids, 4, ahead=0).tokens
        said = capfd.readouterr().err
        assert "paceline: without its layer that drafts: " in said
        assert says in said


def test_what_is_wrong_elsewhere_is_an_error(tiny_model: Any, tmp_path: Path, capfd: Any) -> None:
    path = tiny_model(architecture="qwen35", **TINY)
    with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.1.attn_k.weight'"):
        opened(written(path, tmp_path / "damaged.gguf", {}, [], ("blk.1.attn_k.",)))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("architecture", REPEATING)
def test_the_models_embedding_and_head_may_be_there_again(tiny_model: Any, tmp_path: Path, architecture: str) -> None:
    path = tiny_model(architecture=architecture, **TINY)
    copies = ["blk.2.nextn.embed_tokens.weight", "blk.2.nextn.shared_head_head.weight"]
    ours, theirs = opened(written(path, tmp_path / "copies.gguf", {}, copies)), opened(path)
    assert told(ours, 0, ids_of(12, 9), 20) == told(theirs, 0, ids_of(12, 9), 20)
    assert ours.stepper.weight_bytes == theirs.stepper.weight_bytes
