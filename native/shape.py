"""The sizes and constants of one model, as its cores and the reference read them."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from .family import Activation, LayerKind, RopeLayout

Curve = tuple[float, float, float]  # of x² above 0, of eˣ - 1 - x below, and of x


class Heads(NamedTuple):
    """The sizes of a layer's attention, of what is kept of keys and values."""

    heads: int
    kv_heads: int
    head_size: int
    rope_size: int
    value_size: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes and constants of one model; `rope_layout` may also come from the key paceline.rope_layout.

    Attention reads queries times `query_scale`. A query of a "sliding" layer sees the last `window` positions, its own
    included, and rotates by `local_rope_base`, unscaled, unless that is 0. Those of an "unrotated" layer see all
    positions and do not rotate.
    A "recurrent" layer holds, for each value head, a state [key_size, value_size] and the last conv_kernel - 1 inputs
    of its convolution; of a gated_convolution these alone. Value head h reads key head h // (value_heads / key_heads)
    if `grouped_heads`, else h mod key_heads. In a state_space (Mamba-2) the keys and queries are its B and C, key heads
    its groups, value heads its heads.
    Where layers are of `one_branch`, those that mix positions have no feed-forward part, and "feed_forward" layers have
    nothing else.
    """

    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocab: int
    context: int
    rope_base: float
    rope_size: int
    rope_layout: RopeLayout
    norm_epsilon: float
    tied: bool
    qkv_bias: bool  # queries, keys and values have a bias
    qk_norm: bool  # each head of queries and keys is normed before its rotation
    kinds: tuple[LayerKind, ...]  # [layers + drafting]
    query_scale: float
    drafting: int = 0  # 1: behind the layers is one that drafts (drafting.py)
    output_bias: bool = False  # attention's output has one
    expert_bias: bool = False  # the router and each expert's matrices have one
    sinks: bool = False  # attn_sinks: a score of each head that takes its share of a softmax and has no value
    rope_divisors: tuple[float, ...] = ()  # of each frequency, where RoPE is scaled: [rope_size / 2]
    rope_amplitude: float = 1.0  # of its cosines and sines
    short_divisors: tuple[float, ...] = ()  # the divisors where there are no more positions than short_context
    short_context: int = 0
    temperature_scale: float = 0.0  # of queries, which grow with their position (rope.py); 0: they do not
    temperature_length: int = 0
    window: int = 0
    local_rope_base: float = 0.0  # 0: sliding layers rotate as all others do
    local_heads: int = 0  # of sliding layers; 0: as elsewhere
    local_kv_heads: int = 0
    local_head_size: int = 0
    local_rope_size: int = 0
    post_norm_epsilon: float = 0.0  # of post_norms; 0: norm_epsilon
    embedding_norm: bool = False  # a token's embedding is normed, without weights, before anything reads it
    value_norm: bool = False  # each head of values is normed, without weights
    keys_as_values: bool = False  # with full attention: values are the keys before norm and rotation
    latent: int = 0  # values from which all heads' keys and values follow; head_size is these and rope_size more
    query_rank: int = 0  # queries come of so many values; 0: of the residual stream itself
    latent_keys: int = 0  # of each head, without what turns
    latent_values: int = 0  # of each head
    borrowing_layers: int = 0  # the last so many read the keys and values of the last layer of their kind before them
    borrowing_ffn: int = 0  # the width of their feed-forward part; 0: as elsewhere
    layer_scale: bool = False  # what leaves a layer is multiplied by a number of its own
    token_inputs: int = 0  # values that each layer takes of a token itself (Gemma's "per-layer embeddings")
    gated_attention: bool = False  # attn_q has, per head, head_size rows of query, then as many of gate
    head_gates: bool = False  # attn_gate has a row for each head, whose outputs are multiplied by its softplus
    whole_qk_norm: bool = False  # not each head: those of all heads as one vector
    rotates_first: bool = False  # queries and keys are normed after their rotation, not before
    pre_norms: bool = True  # attn_norm and ffn_norm of what a branch reads
    post_norms: bool = False  # post_attention_norm and post_ffw_norm of a branch's output, before it is added
    layer_norm: bool = False  # norms of the residual stream subtract its mean first
    parallel: bool = False  # the feed-forward part reads what attention reads, and has no norm of its own
    ffn_norm: str = "ffn_norm"  # the name of the norm before the feed-forward part
    one_branch: bool = False
    activation: Activation = "silu"  # "gelu" is its tanh form, "clamped" gpt-oss's (reference_math.py)
    curves: tuple[Curve, ...] = ()  # [layers], the constants of each layer's "xielu"
    embedding_scale: float = 1.0
    residual_scale: float = 1.0  # of what each branch adds
    logit_scale: float = 1.0
    attention_softcap: float = 0.0  # 0: none
    final_softcap: float = 0.0  # 0: none
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0  # 0: no shared expert
    dense_layers: int = 0  # the first so many layers have a feed-forward part in place of experts
    sigmoid_routing: bool = False  # an expert's weight is the sigmoid of its score, not its share of a softmax
    choice_bias: bool = False  # exp_probs_b is added to the weights where experts are chosen, not where they count
    expert_groups: int = 1  # of as many experts each, of which the likeliest groups_used are chosen from
    groups_used: int = 1
    normalize_experts: bool = False  # the weights of the chosen experts are divided by their sum
    expert_scale: float = 1.0  # of what the routed experts add
    shared_gated: bool = False  # the shared expert's output is multiplied by the sigmoid of a score
    expert_norms: bool = False  # the router, the experts and the shared expert each have norms of their own
    conv_kernel: int = 0
    key_heads: int = 0
    value_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    gated_convolution: bool = False  # recurrent layers are a convolution of gated inputs [width], without heads
    state_space: bool = False  # recurrent layers are selective state spaces (reference_recurrent.py)
    grouped_heads: bool = False

    def heads_of(self, kind: LayerKind) -> Heads:
        if self.latent:
            return Heads(self.heads, 1, self.head_size, self.rope_size, self.latent)
        if kind != "sliding":
            return Heads(self.heads, self.kv_heads, self.head_size, self.rope_size, self.head_size)
        heads, size = self.local_heads or self.heads, self.local_head_size or self.head_size
        return Heads(heads, self.local_kv_heads or self.kv_heads, size, self.local_rope_size or self.rope_size, size)

    def keeper_of(self, layer: int) -> int:
        """The layer whose keys and values it reads: itself, or the last of its kind that keeps any. Raises ValueError
        where there is none."""
        first = self.layers - self.borrowing_layers
        if layer < first or layer >= self.layers:
            return layer
        for earlier in reversed(range(min(first, len(self.kinds)))):
            if self.kinds[earlier] == self.kinds[layer]:
                return earlier
        raise ValueError(f"its layer {layer} borrows keys and values, and no {self.kinds[layer]} layer keeps any")

    @property
    def gated(self) -> bool:
        """Whether feed-forward parts have a gate."""
        return self.activation not in ("relu2", "xielu")

    def attends(self, layer: int) -> bool:
        return self.kinds[layer] in ("attention", "sliding", "unrotated")

    def feeds_forward(self, layer: int) -> bool:
        return not self.one_branch or self.kinds[layer] == "feed_forward"

    def has_values(self, layer: int) -> bool:
        """Whether it has a matrix of values."""
        return not (self.keys_as_values and self.kinds[layer] == "attention")

    def ffn_of(self, layer: int) -> int:
        borrows = self.borrowing_ffn and layer >= self.layers - self.borrowing_layers
        return self.borrowing_ffn if borrows else self.ffn

    def within(self, context: int) -> Self:
        """The shape for slots of so many positions. A frequency's divisor must be the same for all positions that see
        each other, so it is chosen here, once for all requests."""
        chosen = self.short_divisors if context <= self.short_context else self.rope_divisors
        return replace(self, rope_divisors=chosen, short_divisors=(), short_context=0)
