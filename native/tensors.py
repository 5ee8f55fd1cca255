"""The tensors that a model of some shape has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from .shape import ModelShape

Expected = tuple[str, int, int]  # name, rows, columns


def expected_tensors(shape: ModelShape) -> Iterator[Expected]:
    """Every tensor, lazily: the layer count of a damaged file may be huge."""
    yield "token_embd.weight", shape.vocab, shape.width
    if shape.embedding_norm:
        yield "token_embd_norm.weight", 1, shape.width
    if shape.token_inputs:
        yield "per_layer_token_embd.weight", shape.vocab, shape.layers * shape.token_inputs
        yield "per_layer_model_proj.weight", shape.layers * shape.token_inputs, shape.width
        yield "per_layer_proj_norm.weight", 1, shape.token_inputs
    for layer in range(shape.layers + shape.drafting):
        for name, rows, columns in chain(mixer(shape, layer), feed_forward(shape, layer), layer_end(shape)):
            yield f"blk.{layer}.{name}", rows, columns
    if shape.drafting:
        yield f"blk.{shape.layers}.nextn.eh_proj.weight", shape.width, 2 * shape.width
        yield f"blk.{shape.layers}.nextn.enorm.weight", 1, shape.width
        yield f"blk.{shape.layers}.nextn.hnorm.weight", 1, shape.width
    yield "output_norm.weight", 1, shape.width
    if not shape.tied:
        yield "output.weight", shape.vocab, shape.width


def mixer(shape: ModelShape, layer: int) -> Iterator[Expected]:
    """What mixes positions, if anything does."""
    if shape.kinds[layer] == "recurrent":
        return recurrent_layer(shape)
    if not shape.attends(layer):
        return iter(())
    return latent_attention(shape) if shape.latent else attention(shape, layer)


def attention(shape: ModelShape, layer: int) -> Iterator[Expected]:
    heads = shape.heads_of(shape.kinds[layer])
    mixed, cache = heads.heads * heads.head_size, heads.kv_heads * heads.head_size
    keeps = shape.keeper_of(layer) == layer
    if shape.pre_norms:
        yield "attn_norm.weight", 1, shape.width
    yield "attn_q.weight", mixed * (2 if shape.gated_attention else 1), shape.width
    yield "attn_output.weight", shape.width, mixed
    if keeps:
        yield "attn_k.weight", cache, shape.width
    if keeps and shape.has_values(layer):
        yield "attn_v.weight", cache, shape.width
    if shape.qkv_bias:
        yield "attn_q.bias", 1, mixed
        yield "attn_k.bias", 1, cache
        yield "attn_v.bias", 1, cache
    if shape.output_bias:
        yield "attn_output.bias", 1, shape.width
    if shape.sinks:
        yield "attn_sinks.weight", 1, heads.heads
    if shape.head_gates:
        yield "attn_gate.weight", heads.heads, shape.width
    if shape.qk_norm:
        yield "attn_q_norm.weight", 1, mixed if shape.whole_qk_norm else heads.head_size
    if shape.qk_norm and keeps:
        yield "attn_k_norm.weight", 1, cache if shape.whole_qk_norm else heads.head_size
    if shape.value_norm and keeps:
        yield "attn_v_norm.weight", 1, heads.head_size


def latent_attention(shape: ModelShape) -> Iterator[Expected]:
    """The matrices of heads lie one below the other."""
    queries = shape.heads * (shape.latent_keys + shape.rope_size)
    yield "attn_norm.weight", 1, shape.width
    if shape.query_rank:
        yield "attn_q_a.weight", shape.query_rank, shape.width
        yield "attn_q_a_norm.weight", 1, shape.query_rank
        yield "attn_q_b.weight", queries, shape.query_rank
    else:
        yield "attn_q.weight", queries, shape.width
    yield "attn_kv_a_mqa.weight", shape.latent + shape.rope_size, shape.width
    yield "attn_kv_a_norm.weight", 1, shape.latent
    yield "attn_k_b.weight", shape.heads * shape.latent, shape.latent_keys
    yield "attn_v_b.weight", shape.heads * shape.latent_values, shape.latent
    yield "attn_output.weight", shape.width, shape.heads * shape.latent_values


def gated_convolution(shape: ModelShape) -> Iterator[Expected]:
    yield "attn_norm.weight", 1, shape.width
    yield "shortconv.in_proj.weight", 3 * shape.width, shape.width
    yield "shortconv.conv.weight", shape.width, shape.conv_kernel
    yield "shortconv.out_proj.weight", shape.width, shape.width


def recurrent_layer(shape: ModelShape) -> Iterator[Expected]:
    if shape.gated_convolution:
        yield from gated_convolution(shape)
        return
    values = shape.value_heads * shape.value_size
    channels = 2 * shape.key_heads * shape.key_size + values
    yield "attn_norm.weight", 1, shape.width
    yield "attn_qkv.weight", channels, shape.width
    yield "attn_gate.weight", values, shape.width
    yield "ssm_conv1d.weight", channels, shape.conv_kernel
    yield "ssm_a", 1, shape.value_heads
    yield "ssm_alpha.weight", shape.value_heads, shape.width
    yield "ssm_dt.bias", 1, shape.value_heads
    yield "ssm_norm.weight", 1, values if shape.state_space else shape.value_size
    yield "ssm_out.weight", shape.width, values
    if shape.state_space:
        yield "ssm_conv1d.bias", 1, channels
        yield "ssm_d", 1, shape.value_heads
    else:
        yield "ssm_beta.weight", shape.value_heads, shape.width


def feed_forward(shape: ModelShape, layer: int) -> Iterator[Expected]:
    if not shape.feeds_forward(layer):
        return
    yield from feed_forward_norms(shape)
    if shape.experts and layer >= shape.dense_layers:
        yield from experts(shape)
        return
    ffn = shape.ffn_of(layer)
    if shape.gated:
        yield "ffn_gate.weight", ffn, shape.width
    if shape.curves:
        yield "ffn_xielu.weight", 1, 3
    yield "ffn_up.weight", ffn, shape.width
    yield "ffn_down.weight", shape.width, ffn


def experts(shape: ModelShape) -> Iterator[Expected]:
    """Of the routed experts, those of one kind lie one below the other in a single tensor."""
    yield "ffn_gate_inp.weight", shape.experts, shape.width
    if shape.gated:
        yield "ffn_gate_exps.weight", shape.experts * shape.expert_ffn, shape.width
    yield "ffn_up_exps.weight", shape.experts * shape.expert_ffn, shape.width
    yield "ffn_down_exps.weight", shape.experts * shape.width, shape.expert_ffn
    if shape.expert_bias:
        yield "ffn_gate_inp.bias", 1, shape.experts
        yield "ffn_gate_exps.bias", shape.experts, shape.expert_ffn
        yield "ffn_up_exps.bias", shape.experts, shape.expert_ffn
        yield "ffn_down_exps.bias", shape.experts, shape.width
    if shape.choice_bias:
        yield "exp_probs_b.bias", 1, shape.experts
    if shape.shared_gated:
        yield "ffn_gate_inp_shexp.weight", 1, shape.width
    if shape.expert_norms:
        for name in ("ffn_gate_inp_norm", "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
            yield f"{name}.weight", 1, shape.width
    if shape.shared_ffn:
        if shape.gated:
            yield "ffn_gate_shexp.weight", shape.shared_ffn, shape.width
        yield "ffn_up_shexp.weight", shape.shared_ffn, shape.width
        yield "ffn_down_shexp.weight", shape.width, shape.shared_ffn


def feed_forward_norms(shape: ModelShape) -> Iterator[Expected]:
    if shape.pre_norms and not shape.parallel:
        yield f"{shape.ffn_norm}.weight", 1, shape.width
    if shape.post_norms:
        yield "post_attention_norm.weight", 1, shape.width
        yield "post_ffw_norm.weight", 1, shape.width


def layer_end(shape: ModelShape) -> Iterator[Expected]:
    if shape.token_inputs:
        yield "inp_gate.weight", shape.token_inputs, shape.width
        yield "proj.weight", shape.width, shape.token_inputs
        yield "post_norm.weight", 1, shape.width
    if shape.layer_scale:
        yield "layer_output_scale.weight", 1, 1


def is_vector(name: str) -> bool:
    """Norms, biases and the small tensors that are no product's weights, or (routers) too sensitive to be rounded."""
    part = name.rsplit(".", 2)[-2] if name.endswith(".weight") else name.rsplit(".", 1)[-1]
    small = (
        "ssm_a",
        "ssm_d",
        "ssm_conv1d",
        "conv",
        "ffn_gate_inp",
        "ffn_gate_inp_shexp",
        "attn_sinks",
        "ffn_xielu",
        "layer_output_scale",
        "enorm",
        "hnorm",
        "bias",
    )
    return part in small or part.startswith("rope_") or part.removesuffix("_1").removesuffix("_2").endswith("_norm")
