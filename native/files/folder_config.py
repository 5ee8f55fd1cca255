"""config.json of a Hugging Face folder, translated into GGUF's keys.

A key that would change the maths and has no GGUF key to say so is refused by name (folder_checks.py); a key that the
model may not use either (a sliding window of a qwen2) is passed on, and refused where the shape is read.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..families import FAMILIES
from ..yarn import stretched
from .folder_checks import check_supported, check_tensors
from .folder_experts import expert_count, expert_values
from .folder_families import (
    ARCHITECTURES,
    DRAFTING,
    MULTIPLIERS,
    OWN,
    QWEN_2_VL,
    SOFTCAPS,
    TEMPERED,
)
from .folder_gemma4 import full_heads, gemma4_values
from .folder_keys import MOST, ConfigKeys
from .folder_latent import TURNING, latent_values, rope_layout, without_share
from .folder_layers import recurrent_interval
from .folder_lfm2 import lfm2_values
from .folder_rope import read_rope
from .folder_sizes import Sizes
from .folder_state_space import state_space_kind, state_space_sizes, state_space_values
from .folder_values import filled_values
from .folder_windows import window_values, with_one_theta, with_usual_layers
from .text_ends import end_tokens

HEADS = "num_attention_heads_per_layer"


class Config:
    """The keys of config.json, those of the language model for one that can also see."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._outer = values
        inner = values.get("text_config")
        outside = {key: values[key] for key in ("model_type", "quantization_config") if key in values}
        merged = {**outside, **inner} if isinstance(inner, dict) else dict(values)
        kind = merged.get("model_type")
        if not isinstance(kind, str) or kind not in ARCHITECTURES:
            raise ValueError(f"its model_type is {kind!r}, supported: {', '.join(ARCHITECTURES)}")
        kind = state_space_kind(merged, kind)
        self._kind, self.architecture = kind, ARCHITECTURES[kind]
        self._family = FAMILIES[self.architecture]
        self._sliding_gemma = self.architecture in ("gemma2", "gemma3")
        self._values = with_one_theta(with_usual_layers(filled_values(merged, kind), kind), kind)
        self._keys = ConfigKeys(self._values)
        self._rope = read_rope(self._values, kind)
        if kind == "mistral4":
            self._rope = without_share(self._rope, self._keys)
        check_supported(self._values, kind, self._rope)

    def sizes(self) -> Sizes:
        heads = self._keys.size("num_attention_heads")
        usual = max(1, self._keys.size("hidden_size") // heads)
        head_size = self._keys.size(TURNING) if self._family.latent else self._keys.size("head_dim", usual)
        if head_size % 2:
            raise ValueError(f"its head size is {head_size}, expected an even number")
        layers = self._keys.layers()
        kv_heads = self._keys.size("num_key_value_heads", heads)
        if self._family.varied:
            kv_heads, head_size = full_heads(self._keys, layers)
        if self._family.latent:
            kv_heads = 1
        sizes = Sizes(
            architecture=self.architecture,
            layers=layers,
            drafting=self._keys.count(DRAFTING) if DRAFTING in OWN.get(self.architecture, ()) else 0,
            width=self._keys.size("hidden_size"),
            heads=heads,
            kv_heads=kv_heads,
            head_size=head_size,
            experts=expert_count(self._keys, self._kind),
            head_keys=self._keys.size("qk_nope_head_dim") if self._family.latent else 0,
            head_values=self._keys.size("v_head_dim") if self._family.latent else 0,
            query_norm=self._keys.number("qk_scale_factor") if self.architecture == "muse-glimmer" else 0.0,
            **self._recurrent_sizes(),
        )
        most = max(each if isinstance(each := self._heads(layers), list) else [each])
        counts = (most, most, sizes.kv_heads, sizes.key_heads, sizes.value_heads)
        widths = (head_size, sizes.head_keys + sizes.head_values, head_size, sizes.key_size, sizes.value_size)
        for count, width in zip(counts, widths, strict=True):
            if count * width > MOST:
                raise ValueError(f"its {count} heads of {width} are wider than {MOST}")
        return sizes

    def _heads(self, layers: int) -> int | list[int]:
        """Of all layers, or of each."""
        heads = self._keys.size("num_attention_heads")
        if not self._family.varied_heads or HEADS not in self._values:
            return heads
        return self._keys.sizes(HEADS, layers)

    @property
    def context(self) -> int:
        longest = "model_max_length" if self._kind == "cohere" else ""  # Command R's, where the other is less
        given = self._keys.size(longest if longest in self._values else "max_position_embeddings")
        rope = self._rope
        return stretched(given, rope.trained, rope.factor) if rope.kind == "yarn" else given

    @property
    def vocab(self) -> int:
        return self._keys.size("vocab_size")

    @property
    def tied(self) -> bool | None:
        """Whether the embedding is the head too; None where config.json leaves it to the tensors."""
        parts = (self._outer, self._values) if "text_config" in self._outer else (self._values,)
        values = [part.get("tie_word_embeddings") for part in parts]
        if self._kind in QWEN_2_VL and True in values:
            return True
        return next((value for value in values if isinstance(value, bool)), None)

    @property
    def ends(self) -> tuple[int, ...]:
        return end_tokens(self._values) + end_tokens(self._outer)

    def gguf_values(self) -> dict[str, Any]:
        """Every number of the model under its GGUF key."""
        sizes = self.sizes()
        values: dict[str, Any] = {
            "block_count": sizes.layers,
            "context_length": self.context,
            "embedding_length": self._keys.size("hidden_size"),
            "attention.head_count": self._heads(sizes.layers),
            "attention.head_count_kv": sizes.kv_heads,
            "attention.key_length": sizes.head_size,
            "attention.value_length": sizes.head_size,
            **self._norm_values(),
            "vocab_size": self.vocab,
        }
        if "intermediate_size" in self._values or not (self._family.shared_gated or self._family.one_branch):
            values["feed_forward_length"] = self._keys.size("intermediate_size")
        if sizes.experts:
            values |= expert_values(self._keys, self._kind, sizes.layers)
        if sizes.key_heads:
            values |= self._recurrent_values(sizes)
        if self._family.gated_convolution:
            values |= lfm2_values(self._keys, sizes.layers, sizes.kv_heads)
        if self._family.latent:
            values |= latent_values(self._keys, self._kind, self._rope)
        if self._kind in TEMPERED:
            values["attention.temperature_scale"] = self._rope.temperature
            values["attention.temperature_length"] = int(self._rope.trained)
        if self._family.varied:
            values |= gemma4_values(self._keys, sizes) | {"rope.freq_base_swa": self._rope.local_base}
        else:
            values |= window_values(self._keys, self._kind, sizes.layers, self.context)
            if self._family.unscaled_windows and "sliding_window" in self._values:
                values |= self._rope.local_values(sizes.head_size)
        if self._sliding_gemma:
            values |= self._gemma_values()
        if self._family.must_scale_logits:
            values["logit_scale"] = self._keys.number("logit_scale")
        if self.architecture == "muse-glimmer":
            values["final_logit_softcapping"] = self._keys.number("final_logit_softcapping")
        if OWN.get(self.architecture) == tuple(MULTIPLIERS):
            values |= {key: self._keys.number(name, 1.0) for name, key in MULTIPLIERS.items()}
        return {
            "general.architecture": self.architecture,
            **{f"{self.architecture}.{key}": value for key, value in values.items()},
            **self._rope.gguf_values(self.architecture, sizes.head_size),
            **({"paceline.rope_layout": rope_layout(self._keys, self._kind)} if self._family.latent else {}),
        }

    def _norm_values(self) -> dict[str, Any]:
        if self._family.layer_norm:
            return {"attention.layer_norm_epsilon": self._keys.number("layer_norm_eps")}
        return {"attention.layer_norm_rms_epsilon": self._keys.number("rms_norm_eps", 1e-6)}

    @property
    def curved(self) -> bool:
        """Whether each layer's activation has constants of its own."""
        return self._family.activation == "xielu"

    def rope_divisors(self) -> dict[str, Sequence[float]]:
        """What each frequency is divided by, under the name of GGUF's tensor for it; none without such scaling."""
        return self._rope.divisors(self.architecture, self.sizes().head_size)

    def _recurrent_sizes(self) -> dict[str, int]:
        if self._family.state_space:
            return state_space_sizes(self._keys, self._family.one_branch)
        recurs = self._family.recurs and not self._family.gated_convolution
        return {
            "key_heads": self._keys.size("linear_num_key_heads") if recurs else 0,
            "value_heads": self._keys.size("linear_num_value_heads") if recurs else 0,
            "key_size": self._keys.size("linear_key_head_dim") if recurs else 0,
            "value_size": self._keys.size("linear_value_head_dim") if recurs else 0,
        }

    def _recurrent_values(self, sizes: Sizes) -> dict[str, Any]:
        if sizes.value_heads % sizes.key_heads:
            raise ValueError(f"its {sizes.value_heads} value heads are no multiple of its {sizes.key_heads} key heads")
        values = {
            "ssm.state_size": sizes.key_size,
            "ssm.group_count": sizes.key_heads,
            "ssm.time_step_rank": sizes.value_heads,
            "ssm.inner_size": sizes.value_heads * sizes.value_size,
        }
        if self._family.state_space:
            return values | state_space_values(self._keys, sizes, self._family.one_branch)
        kernel, interval = self._keys.size("linear_conv_kernel_dim"), self._interval(sizes.layers)
        return {**values, "ssm.conv_kernel": kernel, "full_attention_interval": interval}

    def _interval(self, layers: int) -> int:
        kinds = self._values.get("layer_types")
        return self._keys.size("full_attention_interval") if kinds is None else recurrent_interval(kinds, layers)

    def _gemma_values(self) -> dict[str, Any]:
        values = {"rope.freq_base_swa": self._rope.local_base} if self.architecture == "gemma3" else {}
        values |= {key: self._keys.number(key) if key in self._values else 0.0 for key in SOFTCAPS}
        scalar = self._keys.number("query_pre_attn_scalar")
        return {**values, "attention.scale": scalar**-0.5}

    def check_tensors(self, found: Collection[str]) -> None:
        """`found`: their GGUF names; raises ValueError where config.json and they disagree."""
        check_tensors(self._values, self.architecture, found)
