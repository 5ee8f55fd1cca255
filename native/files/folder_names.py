"""The tensors of a Hugging Face folder by their GGUF names, in the form that GGUF has them.

More than names differ. In GGUF llama's queries and keys rotate by pairs, norms that a folder stores minus one have the
one added, experts are stacked, and recurrent layers have separate projections.
"""

import re
from collections.abc import Iterator, Mapping

import numpy as np

from ..drafting import ARCHITECTURES, JOIN
from ..families import FAMILIES
from .folder_drafting import drafter_parts
from .folder_expert_names import expert_matrix, expert_parts, granite_shared_parts
from .folder_gemma4 import OUTER_NAMES, gemma4_parts
from .folder_gpt_oss import gpt_oss_parts
from .folder_latent import latent_parts
from .folder_lfm2 import lfm2_parts
from .folder_parts import Change, Parts, float32, same
from .folder_recurrent import recurrent_parts
from .folder_sizes import Sizes
from .folder_state_space import one_branch_parts, state_space_parts
from .model_file import Tensor
from .rearrange import Indexes, as_float32, renamed, stacked, take_rows

OUTER = ("model.language_model.", "language_model.model.", "language_model.", "model.", "backbone.")
EMBEDDINGS = ("embed_tokens.weight", "embeddings.weight")  # the second is Nemotron's
FINAL_NORMS = ("norm.weight", "norm_f.weight", "embedding_norm.weight")  # the second is Nemotron's, the third LFM2's
SEEING = re.compile(
    r"(model\.)?(visual|vision_(tower|model|embedder|adapter|projection)|multi_modal_projector|audio_tower|embed_(vision|audio))\."
)
DRAFTERS = re.compile(r"(model\.)?mtp[._]")  # the head that drafts tokens ahead, of Qwen's later models and ERNIE's
# Families whose queries and keys rotate by halves in a folder, by pairs in GGUF.
PAIRED = (
    "llama",
    "arcee",
    "mistral3",
    "granite",
    "granitemoe",
    "granitehybrid",
    "granite_swa",
    "muse-glimmer",
    "smollm3",
)
MIXED = (
    "glm4moe",
    "deepseek2",
    "mistral4",
    "dots1",
    "afmoe",
    "exaone-moe",
    "laguna",
    "ernie4_5-moe",
    "gemma4",
)  # families with a plain feed-forward part in some layers, or all
# Families that store norm weights minus one.
CENTRED = ("gemma", "gemma2", "gemma3", "muse-glimmer", "qwen35", "qwen35moe", "qwen3next")


def gguf_tensors(found: Mapping[str, Tensor], sizes: Sizes, tied: bool | None) -> Iterator[Tensor]:
    """`found` is by Hugging Face name, a 1-d tensor having one row; raises ValueError naming what is wrong."""
    parts, layers = _parts(sizes), sizes.layers
    layers += f"model.layers.{layers}.{JOIN}" in found
    norm = _centred if sizes.architecture in CENTRED else float32
    embeds = any(_short(name) in EMBEDDINGS for name in found)
    experts: dict[tuple[int, str], dict[int, Tensor]] = {}
    for name, tensor in found.items():
        short = _short(name)
        layer, part = _layer(short)
        if short in EMBEDDINGS:
            yield renamed(tensor, "token_embd.weight")
        elif short in FINAL_NORMS:
            centred = norm if sizes.architecture != "muse-glimmer" else float32
            yield renamed(centred(tensor, sizes), "output_norm.weight")
        elif short in OUTER_NAMES and sizes.architecture == "gemma4":
            target = OUTER_NAMES[short]
            yield renamed(norm(tensor, sizes) if "norm" in target else tensor, target)
        elif short == "lm_head.weight":
            if tied and not embeds:  # one matrix, stored by its other name
                yield renamed(tensor, "token_embd.weight")
            elif not (tied and _is_embedding(tensor, found)):
                yield renamed(tensor, "output.weight")
        elif layer is not None and layer < layers and part in parts:
            for target, change in parts[part]:
                yield renamed(change(tensor, sizes), f"blk.{layer}.{target}")
        elif layer is not None and layer < layers and (expert := expert_matrix(part, sizes)):
            kind, number = expert
            experts.setdefault((layer, kind), {})[number] = tensor
        elif layer is None or not layers <= layer < sizes.layers + sizes.drafting:
            raise ValueError(f"the tensor {name!r} is not part of a supported {sizes.architecture} model")
    if sizes.query_norm:
        yield from _plain_norms(sizes)
    if tied is False and not any(_short(name) == "lm_head.weight" for name in found):
        raise ValueError("the tensor 'lm_head.weight' is missing, and tie_word_embeddings is false")
    for (layer, kind), members in experts.items():
        if wrong := set(range(sizes.experts)) ^ set(members):
            says = "is one too many" if min(wrong) in members else "is missing"
            raise ValueError(
                f"the {kind} matrix of expert {min(wrong)} in layer {layer} {says}, expected 0 to {sizes.experts - 1}"
            )
        yield stacked(f"blk.{layer}.ffn_{kind}_exps.weight", [members[number] for number in range(sizes.experts)])


def _plain_norms(sizes: Sizes) -> Iterator[Tensor]:
    """Of queries and keys, whose folders have no weights for them."""
    for layer in range(sizes.layers):
        for part, weight in (("q", sizes.query_norm), ("k", 1.0)):
            weights = np.full((1, sizes.head_size), weight, np.float32).view(np.uint8)
            yield Tensor(f"blk.{layer}.attn_{part}_norm.weight", "F32", 1, sizes.head_size, weights)


def _is_embedding(head: Tensor, found: Mapping[str, Tensor]) -> bool:
    """Whether a head that is stored although it is tied equals the embedding; one that differs is used as the head, as
    in transformers."""
    embedding = next((tensor for name, tensor in found.items() if _short(name) in EMBEDDINGS), None)
    return embedding is not None and embedding.type == head.type and np.array_equal(embedding.data, head.data)


def is_ignored(name: str) -> bool:
    """Whether a tensor of the folder is no part of decoding text."""
    return bool(SEEING.match(name) or DRAFTERS.match(name)) or name.endswith("rotary_emb.inv_freq")


def _short(name: str) -> str:
    for prefix in OUTER:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def _layer(short: str) -> tuple[int | None, str]:
    match = re.fullmatch(r"layers\.(\d+)\.(.+)", short)
    return (int(match[1]), match[2]) if match else (None, short)


def _parts(sizes: Sizes) -> Parts:
    """The parts of a layer."""
    architecture, family = sizes.architecture, FAMILIES[sizes.architecture]
    if family.gated_convolution:
        return {**lfm2_parts(), **(expert_parts(architecture) if sizes.experts else {})}
    if family.one_branch:
        return one_branch_parts()
    norm = _centred if architecture in CENTRED else float32
    paired = architecture in PAIRED
    parts: dict[str, tuple[tuple[str, Change], ...]] = {
        "input_layernorm.weight": (("attn_norm.weight", norm),),
        "self_attn.q_proj.weight": (("attn_q.weight", _paired_queries if paired else same),),
        "self_attn.k_proj.weight": (("attn_k.weight", _paired_keys if paired else same),),
        "self_attn.v_proj.weight": (("attn_v.weight", same),),
        "self_attn.o_proj.weight": (("attn_output.weight", same),),
    }
    if architecture == "glm4":
        parts["post_self_attn_layernorm.weight"] = (("post_attention_norm.weight", norm),)
        parts["post_attention_layernorm.weight"] = (("ffn_norm.weight", norm),)
        parts["post_mlp_layernorm.weight"] = (("post_ffw_norm.weight", norm),)
    elif architecture == "apertus":
        parts["attention_layernorm.weight"] = parts.pop("input_layernorm.weight")
        parts["feedforward_layernorm.weight"] = (("ffn_norm.weight", norm),)
    elif architecture == "afmoe":
        parts["post_attention_layernorm.weight"] = (("post_attention_norm.weight", norm),)
        parts["pre_mlp_layernorm.weight"] = (("ffn_norm.weight", norm),)
        parts["post_mlp_layernorm.weight"] = (("post_ffw_norm.weight", norm),)
    elif family.post_norms:
        parts["post_attention_layernorm.weight"] = (("post_attention_norm.weight", norm),)
        parts["pre_feedforward_layernorm.weight"] = (("ffn_norm.weight", norm),)
        parts["post_feedforward_layernorm.weight"] = (("post_ffw_norm.weight", norm),)
    elif not family.parallel:
        parts["post_attention_layernorm.weight"] = ((f"{family.ffn_norm}.weight", norm),)
    if family.gated_attention and not family.recurs:  # others have gates and queries in one matrix
        parts["self_attn.gate_proj.weight"] = (("attn_gate.weight", same),)
    if family.head_gates:
        parts["self_attn.g_proj.weight"] = (("attn_gate.weight", same),)
    if family.sinks:
        parts["self_attn.sinks"] = (("attn_sinks.weight", float32),)
    if family.qkv_bias or family.may_bias:
        parts |= {f"self_attn.{part}_proj.bias": ((f"attn_{part}.bias", float32),) for part in "qkv"}
    if family.qk_norm or family.may_qk_norm:
        parts |= {f"self_attn.{part}_norm.weight": ((f"attn_{part}_norm.weight", norm),) for part in "qk"}
    if family.rotates_first:  # Hunyuan's
        parts["self_attn.query_layernorm.weight"] = (("attn_q_norm.weight", norm),)
        parts["self_attn.key_layernorm.weight"] = (("attn_k_norm.weight", norm),)
    if architecture == "gemma4":
        parts |= gemma4_parts()
    if family.latent:
        parts |= latent_parts(sizes.head_keys, sizes.head_values)
    if architecture == "gpt-oss":
        parts |= gpt_oss_parts()
    elif sizes.experts:
        parts |= expert_parts(architecture)
    if not sizes.experts or architecture in MIXED:
        parts |= {f"mlp.{part}_proj.weight": ((f"ffn_{part}.weight", same),) for part in ("gate", "up", "down")}
        parts["mlp.gate_up_proj.weight"] = (("ffn_up.weight", same),)  # of Phi 3 and GLM 4
        parts["self_attn.qkv_proj.weight"] = (("attn_qkv.weight", same),)
    if family.state_space:
        parts |= state_space_parts()
        if not sizes.experts:
            parts |= granite_shared_parts("")
    elif family.recurs:
        parts |= recurrent_parts(tiled=not family.grouped_heads)
    if architecture in ARCHITECTURES:
        parts |= drafter_parts(norm)
    return parts


def _centred(tensor: Tensor, sizes: Sizes) -> Tensor:
    return as_float32(tensor, lambda values: values + np.float32(1))


def _paired_queries(tensor: Tensor, sizes: Sizes) -> Tensor:
    return take_rows(tensor, _pairs(sizes.heads, sizes.head_size))


def _paired_keys(tensor: Tensor, sizes: Sizes) -> Tensor:
    return take_rows(tensor, _pairs(sizes.kv_heads, sizes.head_size))


def _pairs(heads: int, head_size: int) -> Indexes:
    """Row order that takes each head from halves to pairs: rows i and i + head_size / 2 become adjacent."""
    return np.arange(heads * head_size).reshape(heads, 2, head_size // 2).swapaxes(1, 2).ravel()
