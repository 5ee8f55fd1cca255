"""The seeded tensors of make_tiny_model.py, named and shaped as each architecture's files have them."""

import argparse
import zlib

import gguf
import numpy as np
import tiny_drafting
import tiny_gemma4
import tiny_latent
from tiny_gemma4 import GEMMA_4
from tiny_state_space import ONE_BRANCH, STATE_SPACES, UNGATED, add_one_branch, add_state_space
from tiny_types import stored

CONVOLVED = ("lfm2", "lfm2moe")  # layers without kv heads are gated convolutions
HYBRIDS = ("qwen35", "qwen35moe", "qwen3next")
SHARED_EXPERT = ("qwen2moe", "qwen35moe", "qwen3next")
PLAIN_SHARED_EXPERT = (  # without a gate
    *("glm4moe", "afmoe", "deepseek2", "ernie4_5-moe", "granitemoe"),
    *("granitehybrid-moe", "nemotron_h_moe", "hunyuan-moe", "exaone-moe", "granite_swa-moe", "laguna"),
)
# Their first layer has no experts.
DENSE_FIRST = ("laguna", "lfm2moe", "glm4moe", "afmoe", "exaone-moe", "deepseek2", "ernie4_5-moe")
BIASED_CHOICE = ("minimax-m2", "nemotron_h_moe", *DENSE_FIRST)
WHOLE_NORMS = ("minimax-m2", "olmo2", "olmoe")  # of queries and keys: all heads as one vector
POST_NORMED = ("olmo2", "exaone4")  # branches norm what they add only
GRANITE_SWA = "granite_swa"
GRANITES_SWA = (GRANITE_SWA, "granite_swa-moe")
GATED = ("afmoe", "muse-glimmer")  # with a matrix for the gates of attention
FULL_FIRST = ("laguna",)  # of --interval layers the first has full attention, not the last
SINKS = ("gpt-oss", *GRANITES_SWA)
PARALLEL = ("command-r", "cohere2")  # both branches of a layer read the same norm
EXPERTS = (
    "lfm2moe",
    "mixtral",
    "minimax-m2",
    "olmoe",
    "qwen3moe",
    "mellum",
    "gpt-oss",
    "gemma4-moe",
    *SHARED_EXPERT,
    *PLAIN_SHARED_EXPERT,
)
SLIDING_GEMMAS = ("gemma2", "gemma3")
BIASED = ("qwen2", "qwen2moe", "gpt-oss", "glm4moe")
PLAIN_HEADS = (
    *("llama", "mistral3", "smollm3", "granite", "granitemoe", "ernie4_5-moe", "mixtral", "gemma", "gemma2"),
    *("qwen2", "qwen2moe", "gpt-oss", "arcee", *GRANITES_SWA, *PARALLEL, *STATE_SPACES),
)


class Weights:
    """Writes seeded tensors; `outgoing` is the gain of what is added to the residual stream."""

    def __init__(self, writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
        self.writer, self.chosen = writer, chosen
        self.outgoing = 4.5 if chosen.tied else 1.5  # otherwise a tied head would repeat the last token for ever
        if chosen.architecture == "gemma":
            self.outgoing *= 4  # its embedding is scaled
        if chosen.drafting:
            self.outgoing *= tiny_drafting.QUIET

    def normal(self, name: str, *shape: int) -> np.ndarray:
        """Each tensor has a generator of its own (RandomState: its stream never changes between versions)."""
        generator = np.random.RandomState([self.chosen.seed & 0xFFFFFFFF, zlib.crc32(name.encode())])
        return generator.standard_normal(shape).astype(np.float32)

    def matrix(
        self, name: str, rows: int, columns: int, gain: float, kind: str | None = None, experts: int = 0
    ) -> None:
        values = self.normal(name, (experts or 1) * rows, columns) * np.float32(gain / np.sqrt(columns))
        self.values(name, values, kind, experts)

    def values(self, name: str, values: np.ndarray, kind: str | None = None, experts: int = 0) -> None:
        kind = kind or self.chosen.type
        data = stored(values, kind)  # [experts * rows, bytes of one row]
        data = data.reshape(experts, len(values) // experts, -1) if experts else data
        self.writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])

    def norm(self, name: str, size: int, gain: float = 1.0) -> None:
        self.vector(name, np.float32(gain) * (1 + np.float32(0.1) * self.normal(name, size)))

    def bias(self, name: str, *shape: int) -> None:
        self.vector(name, np.float32(0.3) * self.normal(name, *shape))

    def vector(self, name: str, values: np.ndarray) -> None:
        self.writer.add_tensor(name, values)

    def attention(self, block: str, heads: int) -> None:
        chosen = self.chosen
        mixed, cache = heads * chosen.head_size, chosen.kv_heads * chosen.head_size
        self.matrix(f"{block}.attn_q.weight", mixed * (1 + (chosen.architecture in HYBRIDS)), chosen.width, 1.5)
        if chosen.architecture in GATED:
            self.matrix(f"{block}.attn_gate.weight", mixed, chosen.width, 1.5)
        if chosen.architecture == "laguna":
            self.matrix(f"{block}.attn_gate.weight", heads, chosen.width, 1.5)
        self.matrix(f"{block}.attn_k.weight", cache, chosen.width, 1.5)
        self.matrix(f"{block}.attn_v.weight", cache, chosen.width, 1.0)
        self.matrix(f"{block}.attn_output.weight", chosen.width, mixed, self.outgoing)
        if chosen.architecture in BIASED:
            self.bias(f"{block}.attn_q.bias", mixed)
            self.bias(f"{block}.attn_k.bias", cache)
            self.bias(f"{block}.attn_v.bias", cache)
        if chosen.architecture == "gpt-oss":
            self.bias(f"{block}.attn_output.bias", chosen.width)
        if chosen.architecture in SINKS:
            self.vector(f"{block}.attn_sinks.weight", 1 + self.normal(f"{block}.attn_sinks.weight", heads))
        if chosen.architecture not in PLAIN_HEADS:
            whole = chosen.architecture in WHOLE_NORMS
            self.norm(f"{block}.attn_q_norm.weight", mixed if whole else chosen.head_size)
            self.norm(f"{block}.attn_k_norm.weight", cache if whole else chosen.head_size)

    def recurrent(self, block: str) -> None:
        """A recurrent layer whose state decays to about nine tenths from one position to the next."""
        chosen = self.chosen
        heads, values = chosen.value_heads, chosen.value_heads * chosen.value_size
        channels = 2 * chosen.key_heads * chosen.key_size + values
        self.matrix(f"{block}.attn_qkv.weight", channels, chosen.width, 1.0)
        self.matrix(f"{block}.attn_gate.weight", values, chosen.width, 2.0)
        self.matrix(f"{block}.ssm_conv1d.weight", channels, chosen.conv_kernel, 1.5, "F32")
        self.vector(f"{block}.ssm_a", -np.exp(self.normal(f"{block}.ssm_a", heads) - 2))
        if chosen.architecture == "qwen3next":
            self.matrix(f"{block}.ssm_ba.weight", 2 * heads, chosen.width, 1.5)
        else:
            self.matrix(f"{block}.ssm_alpha.weight", heads, chosen.width, 1.5)
            self.matrix(f"{block}.ssm_beta.weight", heads, chosen.width, 1.5)
        self.bias(f"{block}.ssm_dt.bias", heads)
        self.norm(f"{block}.ssm_norm.weight", chosen.value_size)
        self.matrix(f"{block}.ssm_out.weight", chosen.width, values, 1.5 * self.outgoing)

    def convolution(self, block: str) -> None:
        width, kernel = self.chosen.width, self.chosen.conv_kernel
        self.matrix(f"{block}.shortconv.in_proj.weight", 3 * width, width, 1.0)
        self.matrix(f"{block}.shortconv.conv.weight", width, kernel, 1.5, "F32")
        self.matrix(f"{block}.shortconv.out_proj.weight", width, width, 1.5 * self.outgoing)

    def feed_forward(self, block: str, size: int) -> None:
        width = self.chosen.width
        if self.chosen.architecture not in UNGATED:
            self.matrix(f"{block}.ffn_gate.weight", size, width, 1.0)
        self.matrix(f"{block}.ffn_up.weight", size, width, 1.0)
        self.matrix(f"{block}.ffn_down.weight", width, size, self.outgoing)

    def experts(self, block: str) -> None:
        chosen = self.chosen
        self.matrix(f"{block}.ffn_gate_inp.weight", chosen.experts, chosen.width, 1.5, "F32")
        gated = chosen.architecture not in UNGATED
        if gated:
            self.matrix(f"{block}.ffn_gate_exps.weight", chosen.expert_ffn, chosen.width, 1.5, experts=chosen.experts)
        self.matrix(f"{block}.ffn_up_exps.weight", chosen.expert_ffn, chosen.width, 1.5, experts=chosen.experts)
        down = f"{block}.ffn_down_exps.weight"
        self.matrix(down, chosen.width, chosen.expert_ffn, self.outgoing, experts=chosen.experts)
        if chosen.architecture == "gpt-oss":
            self.bias(f"{block}.ffn_gate_inp.bias", chosen.experts)
            self.bias(f"{block}.ffn_gate_exps.bias", chosen.experts, chosen.expert_ffn)
            self.bias(f"{block}.ffn_up_exps.bias", chosen.experts, chosen.expert_ffn)
            self.bias(f"{block}.ffn_down_exps.bias", chosen.experts, chosen.width)
        if chosen.architecture in BIASED_CHOICE:
            bias = f"{block}.exp_probs_b.bias"
            self.vector(bias, np.float32(0.1) * self.normal(bias, chosen.experts))
        if chosen.architecture in SHARED_EXPERT:
            gate = f"{block}.ffn_gate_inp_shexp.weight"
            self.vector(gate, self.normal(gate, chosen.width) * np.float32(1.5 / np.sqrt(chosen.width)))
        if chosen.architecture in (*SHARED_EXPERT, *PLAIN_SHARED_EXPERT):
            fused = chosen.architecture in GRANITES_SWA  # gate and up in one
            if gated and not fused:
                self.matrix(f"{block}.ffn_gate_shexp.weight", chosen.shared_ffn, chosen.width, 1.0)
            self.matrix(f"{block}.ffn_up_shexp.weight", chosen.shared_ffn * (1 + fused), chosen.width, 1.0)
            self.matrix(f"{block}.ffn_down_shexp.weight", chosen.width, chosen.shared_ffn, self.outgoing)


def heads_of(chosen: argparse.Namespace, layer: int) -> int:
    full = chosen.architecture not in FULL_FIRST or layer % chosen.interval == 0
    return chosen.heads if full else chosen.local_heads or chosen.heads


def add_weights(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    weights = Weights(writer, chosen)
    weights.matrix("token_embd.weight", chosen.vocab, chosen.width, 3.0, chosen.embedding_type)
    if chosen.architecture in GEMMA_4:
        tiny_gemma4.add_outer(weights)
    for layer in range(chosen.layers):
        block = f"blk.{layer}"
        if chosen.architecture in ONE_BRANCH:
            add_one_branch(weights, layer)
            continue
        if chosen.architecture not in POST_NORMED:
            weights.norm(f"{block}.attn_norm.weight", chosen.width)
        if chosen.architecture in HYBRIDS and (layer + 1) % chosen.interval:
            weights.recurrent(block)
        elif chosen.architecture in CONVOLVED and (layer + 1) % chosen.interval:
            weights.convolution(block)
        elif chosen.architecture in STATE_SPACES and (layer + 1) % chosen.interval:
            add_state_space(weights, block)
        elif chosen.architecture in GEMMA_4:
            tiny_gemma4.add_attention(weights, layer)
        elif chosen.architecture == "deepseek2":
            tiny_latent.add_attention(weights, block)
        else:
            weights.attention(block, heads_of(chosen, layer))
        if chosen.architecture in (*GATED, *SLIDING_GEMMAS, *GEMMA_4, *POST_NORMED):  # louder than what comes in
            weights.norm(f"{block}.post_attention_norm.weight", chosen.width, 2 * weights.outgoing)
            weights.norm(f"{block}.post_ffw_norm.weight", chosen.width, 2 * weights.outgoing)
        after = "post_attention" if chosen.architecture in ("gpt-oss", "glm4moe", *HYBRIDS) else "ffn"
        if chosen.architecture not in (*POST_NORMED, *PARALLEL):
            weights.norm(f"{block}.{after}_norm.weight", chosen.width)
        if chosen.architecture in GEMMA_4:
            tiny_gemma4.add_rest(weights, layer)
        elif chosen.architecture in EXPERTS and (layer or chosen.architecture not in DENSE_FIRST):
            weights.experts(block)
        else:
            weights.feed_forward(block, chosen.ffn)
    if chosen.drafting:
        tiny_drafting.add_drafter(weights, chosen.architecture in EXPERTS)
    weights.norm("token_embd_norm.weight" if chosen.architecture in CONVOLVED else "output_norm.weight", chosen.width)
    if not chosen.tied:
        weights.matrix("output.weight", chosen.vocab, chosen.width, 3.0)
