"""What the files of one architecture have in common and do not say."""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from .drafting import DRAFTING
from .metadata_keys import Keys

RopeLayout = Literal["pairs", "halves"]
LayerKind = Literal["attention", "sliding", "unrotated", "recurrent", "feed_forward"]
Activation = Literal["silu", "gelu", "clamped", "relu2", "xielu"]
YarnWeight = Literal["", "scores", "turns"]
ROPE_PATTERN = "attention.rope_pattern"


@dataclass(frozen=True, slots=True)
class Family:
    """`rope_layout` "pairs" rotates the values 2i and 2i + 1 of a head together, "halves" i and i + rope_size / 2.

    Every `interval`-th layer is full attention, all others are of `layer_kind`; interval 0: every layer is full
    attention. The key `interval_key` of a file may give another interval, or a list: for each layer, whether it is
    sliding; where layers slide without an interval, it must be a list. `own_keys` are keys that change the maths and
    that this family reads. Some have rope.scaling.yarn_log_multiplier, and `yarn_weight` says what it does: by it
    "scores" grow, in place of what turns, or what "turns" grows less.
    """

    rope_layout: RopeLayout
    qkv_bias: bool = False  # queries, keys and values have a bias
    may_bias: bool = False  # they have one if the file has
    output_bias: bool = False  # attention's output has one
    expert_bias: bool = False  # the router and the experts have one
    sinks: bool = False  # each head has a score without a key
    rope_pattern: bool = False  # the file may have a list of the layers that rotate
    qk_norm: bool = False  # each head of queries and keys is normed before its rotation
    may_qk_norm: bool = False  # if the file has the norms
    whole_qk_norm: bool = False  # not each head: those of all heads as one vector
    rotates_first: bool = False  # their norms come after their rotation
    interval: int = 0
    interval_key: str = ""
    full_first: bool = False  # of so many layers the first is full attention, not the last
    switched_rope: bool = False  # nothing is rotated if rope.scaling.finetuned is false
    unrotated: int = 0  # every so many layers, the queries and keys of one are not rotated
    unrotated_full: bool = False  # where there are windows, those of layers without one are not rotated
    layer_kind: LayerKind = "attention"
    rope_base: float | None = 10000.0  # where the file has none; None: it must have one
    local_rope_base: float = 0.0  # of sliding layers; 0: they rotate as all others
    unscaled_windows: bool = False  # sliding layers rotate by the base of all others, unscaled
    may_slide: bool = False  # if the file has a window, it applies to every layer
    window_size: int = 0  # where the file has none; 0: none slides then
    must_slide: bool = False  # the file must have a window
    head_gates: bool = False  # each head of attention has a gate
    varied_heads: bool = False  # sliding layers may have another number of heads
    gated_attention: bool = False  # the query matrix also gives a gate for each output of attention
    ffn_norm: str = "ffn_norm"  # the name of the norm before the feed-forward part
    pre_norms: bool = True  # what a branch reads is normed
    post_norms: bool = False  # a branch's output is normed before it is added
    layer_norm: bool = False  # norms of the residual stream subtract its mean first
    parallel: bool = False  # the feed-forward part reads what attention reads
    activation: Activation = "silu"
    scaled_embedding: bool = False  # by the root of the width
    embedding_norm: bool = False  # a token's embedding is normed before anything reads it
    post_norm_epsilon: float = 0.0  # of post_norms; 0: that of all others
    must_scale: bool = False  # the file must have what embeddings, branches and logits are multiplied by
    must_scale_logits: bool = False  # the file must have a factor of logits; that of other families divides them
    attention_softcap: float = 0.0  # where the file has none
    final_softcap: float = 0.0
    scaled_by_width: int = 0  # with so many layers, queries are scaled by the width of a head's share, not its size
    scaled_queries: bool = True
    varied: bool = False  # layers differ in more than their windows (model_layers.py), and values are normed
    rope_factors: bool = False  # the file must have a divisor for each frequency of full attention
    experts: bool = False
    may_route: bool = False  # if the file has experts, they are used, by default as wide as a feed-forward part
    normalize_experts: bool = True  # where the file does not say
    sigmoid_routing: bool = False  # where the file does not say
    may_bias_choice: bool = False  # if the file has a bias for the choice of experts
    shared_expert: bool = False
    shared_gated: bool = False
    tempered: bool = False  # queries grow with their positions, if the file says how much
    latent: bool = False  # keys and values follow from a few values of each token (model_latent.py)
    dense_beside: bool = False  # beside the experts is a feed-forward part, each with norms of its own
    gated_convolution: bool = False  # recurrent layers are convolutions
    state_space: bool = False  # recurrent layers are selective state spaces (Mamba-2)
    headless: bool = False  # recurrent layers are those for which the file has no kv heads
    one_branch: bool = False  # and no feed-forward width either: a layer attends, recurs or feeds forward
    never_rotated: bool = False
    grouped_heads: bool = False  # the value heads of one key head lie side by side
    yarn_rounded: bool = True  # where the file does not say
    yarn_weight: YarnWeight = ""
    yarn_amplitude: bool = False  # rope.scaling.yarn_attn_factor is what cosines and sines are multiplied by
    own_keys: tuple[str, ...] = ()

    @property
    def recurs(self) -> bool:
        return self.layer_kind == "recurrent"

    @property
    def slides(self) -> bool:
        """Some layers have a window, others have none."""
        return self.layer_kind == "sliding"

    def kinds(self, keys: Keys, layers: int) -> tuple[LayerKind, ...]:
        switched_off = self.never_rotated or (self.switched_rope and not keys.flag("rope.scaling.finetuned", True))
        full: LayerKind = "unrotated" if switched_off else "attention"
        if self.headless:
            drafting = keys.optional_size(DRAFTING)
            heads = keys.counts("attention.head_count_kv", layers, drafting)
            widths = keys.counts("feed_forward_length", layers, drafting) if self.one_branch else [0] * layers
            return tuple(
                full if attends else "feed_forward" if width else "recurrent"
                for attends, width in zip(heads, widths, strict=True)
            )
        if self.slides and not self.window(keys):
            return tuple("attention" for _ in range(layers))
        full = "unrotated" if self.unrotated_full else full
        if self.slides and (keys.is_list(self.interval_key) or not self.interval):
            sliding, turns = keys.flags(self.interval_key, layers), self._turns(keys, layers)
            if still := [layer for layer in range(layers) if sliding[layer] and not turns[layer]]:
                raise ValueError(f"its layer {still[0]} has a window and does not rotate, expected layers that rotate")
            if any(sliding) and len({turn for slid, turn in zip(sliding, turns, strict=True) if not slid}) > 1:
                raise ValueError("some of its layers without a window rotate, expected all or none of them")
            return tuple(
                "sliding" if slid else full if turn else "unrotated" for slid, turn in zip(sliding, turns, strict=True)
            )
        if self.unrotated:
            return tuple("attention" if (layer + 1) % self.unrotated else "unrotated" for layer in range(layers))
        if self.window(keys) and self.may_slide:
            return tuple("sliding" for _ in range(layers))
        interval = keys.size(self.interval_key, self.interval) if self.interval else 1
        nth = 0 if self.full_first else interval - 1
        return tuple(full if layer % interval == nth else self.layer_kind for layer in range(layers))

    def _turns(self, keys: Keys, layers: int) -> list[bool]:
        """For each layer whether it rotates."""
        listed = self.rope_pattern and keys.has(ROPE_PATTERN)
        return keys.flags(ROPE_PATTERN, layers) if listed else [True] * layers

    def window(self, keys: Keys) -> int:
        """The positions that a sliding layer sees, or 0 where none slides."""
        if self.must_slide:
            return keys.size("attention.sliding_window")
        if self.window_size:
            return keys.size("attention.sliding_window", self.window_size)
        return keys.optional_size("attention.sliding_window") if self.may_slide or self.slides else 0

    def query_scale(self, layers: int, width: int, heads: int, head_size: int) -> float:
        """The factor of queries where the file gives none; the largest Gemmas derive it from their width."""
        if not self.scaled_queries:
            return 1.0
        return 1 / sqrt(width / heads if layers == self.scaled_by_width else head_size)
