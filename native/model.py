"""What a supported model is, and the check that a file holds one.

Everything here is strict: a key that would change the maths and a tensor that no formula uses are refused by name,
because a model run with a bias left out or an unscaled rotation still produces fluent, wrong text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from .arrange import arranged
from .drafting import DRAFTING, FINAL_NORM, JOIN
from .families import FAMILIES
from .family import Family, LayerKind
from .files.model_file import MATRIX_TYPES
from .metadata_keys import Keys
from .model_curves import read_curves
from .model_experts import CHOICE_BIAS, dense_size, read_experts
from .model_latent import read_latent
from .model_layers import dense_widths, kv_heads, query_heads, read_layers, read_windows
from .model_recurrent import read_recurrent
from .rope_scaling import ROPE_FREQUENCIES, ROPE_TENSORS, read_scaling
from .shape import ModelShape
from .sizes import check_sizes
from .tensors import expected_tensors, is_vector
from .weights import Metadata, ModelUnreadable, Tensor

VECTOR_TYPES = ("F32",)
MOST_TEMPERATURE = 1.0  # of a temperature's scale, which is a tenth in all known models
FIRST_BIAS = "blk.0.attn_q.bias"
FIRST_NORM = "blk.0.attn_q_norm.weight"

# Keys that change the maths, with the value that leaves it alone.
UNUSED_KEYS: Mapping[str, Any] = {
    "attention.causal": True,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.scale": 0.0,
    "attention.shared_kv_layers": 0,
    "attention.sliding_window": 0,
    "attention.temperature_length": 0,
    "attention.temperature_scale": 0.0,
    "attn_logit_softcapping": 0.0,
    "embedding_scale": 1.0,
    "expert_count": 0,
    "expert_gating_func": 1,
    "expert_group_count": 0,
    "expert_group_used_count": 0,
    "expert_weights_scale": 1.0,
    "final_logit_softcapping": 0.0,
    "interleave_moe_layer_step": 1,
    "logit_scale": 1.0,
    "moe_latent_size": 0,
    "embedding_length_per_layer_input": 0,
    DRAFTING: 0,
    "residual_scale": 1.0,
    "rope.freq_base_swa": 0.0,
    "rope.scale_linear": 1.0,
    "ssm.dt_b_c_rms": False,
}


def read_shape(metadata: Metadata, tensors: Sequence[Tensor]) -> ModelShape:
    """Reads the shape and checks the tensors against it; raises ModelUnreadable naming what is wrong."""
    try:
        shape = _read(metadata, tensors)
        check_sizes(shape)
        _check_tensors(shape, arranged(shape, tensors))
        keys = Keys(shape.architecture, metadata.values)
        family = FAMILIES[shape.architecture]
        scaling = read_scaling(keys, shape.rope_base, shape.rope_size, tensors, family)
        shape = replace(shape, **scaling._asdict())
    except ValueError as problem:
        raise ModelUnreadable(f"cannot use the model {metadata.path}: {problem}") from None
    return shape


def _read(metadata: Metadata, tensors: Sequence[Tensor]) -> ModelShape:
    architecture = metadata.architecture
    family = FAMILIES.get(architecture)
    if family is None:
        raise ValueError(f"its architecture is {architecture!r}, supported: {', '.join(FAMILIES)}")
    keys = Keys(architecture, metadata.values)
    if family.may_route and keys.optional_size("expert_count"):
        family = replace(family, experts=True)
    for name, harmless in UNUSED_KEYS.items():
        value = metadata.values.get(f"{architecture}.{name}", harmless)
        if name not in family.own_keys and value != harmless:
            raise ValueError(f"the key '{architecture}.{name}' is {value!r}, supported: {harmless!r}")
    layout = metadata.values.get("paceline.rope_layout", family.rope_layout)
    if layout not in ("pairs", "halves"):
        raise ValueError(f"the key 'paceline.rope_layout' is {layout!r}, expected 'pairs' or 'halves'")
    layers = _read_layers(keys)
    if (family.varied or family.varied_heads) and layers > len(tensors):  # its lists would not fit
        raise ValueError(f"the key '{architecture}.block_count' is {layers}, and it has {len(tensors)} tensors")
    kinds = family.kinds(keys, min(layers, len(tensors)))  # each layer has tensors: a damaged count may be huge
    width = keys.size("embedding_length")
    heads, local_heads = query_heads(keys, family, kinds)
    head_size = keys.size("attention.key_length", width // heads)
    if not family.latent and (value_size := keys.size("attention.value_length", head_size)) != head_size:
        raise ValueError(
            f"the key '{architecture}.attention.value_length' is {value_size}, expected the key length, {head_size}"
        )
    drafting = int(any(tensor.name == f"blk.{layers}.{JOIN}" for tensor in tensors))
    if family.rope_factors and all(tensor.name != ROPE_FREQUENCIES for tensor in tensors):
        raise ValueError(f"the tensor {ROPE_FREQUENCIES!r} is missing, expected one divisor for each frequency")
    unscaled = None if family.must_scale else 1.0
    values: dict[str, Any] = dict(
        architecture=architecture,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=_kv_heads(keys, family, kinds, heads),
        head_size=head_size,
        ffn=dense_widths(keys, len(kinds))[0]
        if family.varied and not family.experts
        else dense_size(keys, family, len(kinds)),
        vocab=metadata.vocab,
        context=keys.size("context_length"),
        rope_base=keys.positive("rope.freq_base", family.rope_base),
        rope_size=keys.size("rope.dimension_count", head_size),
        rope_layout=layout,
        norm_epsilon=_norm_epsilon(keys, family),
        tied=all(tensor.name != "output.weight" for tensor in tensors),
        qkv_bias=family.qkv_bias or (family.may_bias and any(tensor.name == FIRST_BIAS for tensor in tensors)),
        output_bias=family.output_bias,
        expert_bias=family.expert_bias,
        sinks=family.sinks,
        qk_norm=family.qk_norm or (family.may_qk_norm and any(tensor.name == FIRST_NORM for tensor in tensors)),
        whole_qk_norm=family.whole_qk_norm,
        rotates_first=family.rotates_first,
        kinds=(*kinds, *["attention"] * drafting),
        drafting=drafting,
        gated_attention=family.gated_attention,
        head_gates=family.head_gates,
        local_heads=local_heads,
        pre_norms=family.pre_norms,
        post_norms=family.post_norms,
        post_norm_epsilon=family.post_norm_epsilon,
        embedding_norm=family.embedding_norm,
        layer_norm=family.layer_norm,
        parallel=family.parallel,
        ffn_norm=family.ffn_norm,
        one_branch=family.one_branch,
        activation=family.activation,
        curves=read_curves(keys, len(kinds)) if family.activation == "xielu" else (),
        embedding_scale=_embedding_scale(keys, family, width, unscaled),
        residual_scale=keys.positive("residual_scale", unscaled),
        logit_scale=keys.positive("logit_scale")
        if family.must_scale_logits
        else 1 / keys.positive("logit_scale", unscaled),
        attention_softcap=keys.optional("attn_logit_softcapping", family.attention_softcap),
        final_softcap=keys.optional("final_logit_softcapping", family.final_softcap),
        query_scale=keys.optional("attention.scale") or family.query_scale(layers, width, heads, head_size),
        grouped_heads=family.grouped_heads,
        **read_windows(keys, family),
        **_read_temperature(keys, family),
        **read_layers(keys, family, kinds, tensors),
        **read_experts(keys, family, tensors, len(kinds)),
        **read_recurrent(keys, family),
    )
    return ModelShape(**values | read_latent(keys, family))


def _kv_heads(keys: Keys, family: Family, kinds: Sequence[LayerKind], heads: int) -> int:
    """Of layers with full attention."""
    if family.varied:
        return kv_heads(keys, kinds, heads)[0]
    drafting = keys.optional_size(DRAFTING)
    if family.headless:
        return keys.only_count("attention.head_count_kv", len(kinds), drafting)
    return keys.one_size("attention.head_count_kv", len(kinds) + drafting, heads)


def _norm_epsilon(keys: Keys, family: Family) -> float:
    """Nemotron's files may have it under the name that goes with LayerNorm."""
    rms, other = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
    return keys.positive(other if family.layer_norm or (family.one_branch and not keys.has(rms)) else rms)


def _embedding_scale(keys: Keys, family: Family, width: int, unscaled: float | None) -> float:
    if family.scaled_embedding:
        return float(np.sqrt(np.float32(width)))
    return keys.positive("embedding_scale", unscaled)


def _read_layers(keys: Keys) -> int:
    """The number of layers without those that draft, which open_model leaves out."""
    layers, drafting = keys.size("block_count"), keys.optional_size(DRAFTING)
    if drafting >= layers:
        raise ValueError(
            f"the key '{keys.architecture}.{DRAFTING}' is {drafting}, expected less than its {layers} layers"
        )
    return layers - drafting


def _read_temperature(keys: Keys, family: Family) -> dict[str, Any]:
    """Its length is the context of training where the file has none."""
    scale = keys.optional("attention.temperature_scale") if family.tempered else 0.0
    if scale > MOST_TEMPERATURE:
        raise ValueError(
            f"the key '{keys.architecture}.attention.temperature_scale' is {scale}, expected at most {MOST_TEMPERATURE}"
        )
    if not scale:
        return {}
    trained = keys.size("rope.scaling.original_context_length", keys.size("context_length"))
    return {
        "temperature_scale": scale,
        "temperature_length": keys.optional_size("attention.temperature_length") or trained,
    }


def _check_tensors(shape: ModelShape, tensors: Sequence[Tensor]) -> None:
    found = {tensor.name: tensor for tensor in tensors}
    if len(found) != len(tensors):
        twice = next(name for name, count in Counter(tensor.name for tensor in tensors).items() if count > 1)
        raise ValueError(f"the tensor {twice!r} is there more than once")
    optional = [(name, 1, shape.rope_size // 2) for name in ROPE_TENSORS if name in found]
    if shape.drafting and (name := f"blk.{shape.layers}.{FINAL_NORM}") in found:
        optional.append((name, 1, shape.width))
    for name, rows, columns in chain(expected_tensors(shape), optional):  # lazily: a damaged count may be huge
        tensor = found.pop(name, None)
        if tensor is None:
            raise ValueError(f"the tensor {name!r} [{rows}, {columns}] is missing")
        if (tensor.rows, tensor.columns) != (rows, columns):
            raise ValueError(f"the tensor {name!r} is [{tensor.rows}, {tensor.columns}], expected [{rows}, {columns}]")
        supported = VECTOR_TYPES if is_vector(name) else MATRIX_TYPES
        if tensor.type not in supported:
            raise ValueError(f"the tensor {name!r} is {tensor.type}, supported: {', '.join(supported)}")
    for tensor in tensors if shape.sinks else ():
        if tensor.name.endswith(".attn_sinks.weight") and not (tensor.data.view(np.float32) < np.inf).all():
            raise ValueError(f"the tensor {tensor.name!r} holds a score that is no number")  # it would be lost
    for tensor in tensors if shape.choice_bias else ():
        if tensor.name.endswith(CHOICE_BIAS) and not np.isfinite(tensor.data.view(np.float32)).all():
            raise ValueError(f"the tensor {tensor.name!r} holds a bias that is no finite number")
    if found:
        raise ValueError(f"the tensor {min(found)!r} is not part of a supported {shape.architecture} model")
