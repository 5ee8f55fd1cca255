"""Random tiny models of the newer families from transformers, and what they compute."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import latent_files, lfm2_files, routed_families, state_space_files, windowed_files
from .routed_families import CHOICE_BIAS

VOCAB = 131
CLASSES = {
    "mixtral": ("MixtralConfig", "MixtralForCausalLM"),
    "ministral3": ("Ministral3Config", "Ministral3ForCausalLM"),
    "qwen2moe": ("Qwen2MoeConfig", "Qwen2MoeForCausalLM"),
    "gemma": ("GemmaConfig", "GemmaForCausalLM"),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM"),
    "qwen3moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM"),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM"),
    "seed_oss": ("SeedOssConfig", "SeedOssForCausalLM"),
    "phi3": ("Phi3Config", "Phi3ForCausalLM"),
    "glm4": ("Glm4Config", "Glm4ForCausalLM"),
    "hunyuan_dense": ("HunYuanDenseV1Config", "HunYuanDenseV1ForCausalLM"),
    "hunyuan_moe": ("HunYuanMoEV1Config", "HunYuanMoEV1ForCausalLM"),
    "arcee": ("ArceeConfig", "ArceeForCausalLM"),
    "granite": ("GraniteConfig", "GraniteForCausalLM"),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM"),
    "minimax_m2": ("MiniMaxM2Config", "MiniMaxM2ForCausalLM"),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM"),
    "olmoe": ("OlmoeConfig", "OlmoeForCausalLM"),
    "olmo3": ("Olmo3Config", "Olmo3ForCausalLM"),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM"),
    "cohere": ("CohereConfig", "CohereForCausalLM"),
    "cohere2": ("Cohere2Config", "Cohere2ForCausalLM"),
    "ernie4_5": ("Ernie4_5Config", "Ernie4_5ForCausalLM"),
    **routed_families.CLASSES,
    **latent_files.CLASSES,
    **lfm2_files.CLASSES,
    **state_space_files.CLASSES,
    **windowed_files.CLASSES,
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
    "gemma4": ("Gemma4TextConfig", "Gemma4ForCausalLM"),
    "qwen35": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM"),
    "qwen35moe": ("Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM"),
    "qwen3next": ("Qwen3NextConfig", "Qwen3NextForCausalLM"),
}
EPSILONS = (
    dict.fromkeys(lfm2_files.CLASSES, "norm_eps")
    | dict.fromkeys(state_space_files.ONE_BRANCH, "layer_norm_epsilon")
    | dict.fromkeys(("cohere", "cohere2"), "layer_norm_eps")
)
BUFFERS = (CHOICE_BIAS, "layer_scalar", lfm2_files.CHOICE_BIAS)
SLIDING_GEMMAS = ("gemma2", "gemma3")
GRANITES = ("granite", "granitemoe", "granitemoeshared")
EXPERTS = ("mixtral", "minimax_m2", "olmoe", "lfm2moe", "gpt_oss", "qwen2moe", "qwen3moe", "qwen35moe", "qwen3next")
CENTRED = (
    "gemma",
    "muse_glimmer",
    *SLIDING_GEMMAS,
    "qwen35",
    "qwen35moe",
    "qwen3next",
)  # their norms' weights are stored minus one


def random_family_model(family: str, options: dict[str, Any]) -> Any:
    import torch
    import transformers

    torch.manual_seed(7)
    config_class, model_class = (getattr(transformers, name) for name in CLASSES[family])
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": 512, "initializer_range": 0.2}
    sizes |= {EPSILONS.get(family, "rms_norm_eps"): 1e-5}
    config = (
        windowed_files.config_of(family, sizes | options)
        if family in windowed_files.CLASSES
        else config_class(**sizes, **options)
    )
    model = model_class(config).eval()
    if family in (
        *EXPERTS,
        "nemotron_h_moe",
        "hunyuan_moe",
        *routed_families.CLASSES,
        *latent_files.CLASSES,
        *windowed_files.ROUTED,
    ) or options.get("enable_moe_block"):
        model.set_experts_implementation("eager")  # the others want rows of a multiple of 16 bytes
    for name, weights in stored(model):
        if name.endswith((CHOICE_BIAS, lfm2_files.CHOICE_BIAS)):
            torch.nn.init.normal_(weights, 0.0, 0.1)
        elif family == "muse_glimmer" and name.endswith(("_proj.weight", "lm_head.weight", "embed_tokens.weight")):
            torch.nn.init.normal_(weights, 0.0, 0.2)
        elif family == "muse_glimmer" and name.endswith("language_model.norm.weight"):  # the one that is not centred
            torch.nn.init.uniform_(weights, 0.5, 1.5)
        elif family == "gemma4" and ".post_" in name:  # else a tied head would repeat the last token for ever
            torch.nn.init.uniform_(weights, 3.0, 6.0)
        elif (
            (family == "gemma4" and name.endswith(("layer_scalar", "router.scale", "per_expert_scale")))
            or name.endswith("linear_attn.norm.weight")
            or ("norm" in name and family not in CENTRED)
        ):
            torch.nn.init.uniform_(weights, 0.5, 1.5)
        elif family in SLIDING_GEMMAS and ".post_" in name:  # else a tied head would repeat the last token for ever
            torch.nn.init.uniform_(weights, 3.0, 6.0)
        elif family == "gemma" and name.endswith(("o_proj.weight", "down_proj.weight")):  # the same
            torch.nn.init.normal_(weights, 0.0, 2.0)
        elif family == "glm4" and ".post_" in name and "attention_layernorm" not in name:
            torch.nn.init.uniform_(weights, 0.5, 1.5)
        elif windowed_files.is_constant(name):
            torch.nn.init.normal_(weights, 0.3, 0.5)
        elif name.endswith("sinks"):
            torch.nn.init.normal_(weights, 1.0, 1.0)
        elif name.endswith(("_proj.bias", "router.bias", "conv1d.bias")):
            torch.nn.init.normal_(weights, 0.0, 0.5)
        elif "norm" in name:  # centred at 0
            torch.nn.init.uniform_(weights, -0.5, 0.5)
        elif name.endswith("A_log"):
            torch.nn.init.normal_(weights, -1.0, 1.0)
        elif name.endswith("dt_bias"):
            torch.nn.init.normal_(weights, 0.0, 0.5)
        elif name.endswith(".D"):
            torch.nn.init.normal_(weights, 1.0, 1.0)
        elif name.endswith(("conv1d.weight", "conv.conv.weight")):
            torch.nn.init.normal_(weights, 0.0, 0.7)
        elif ".experts." in name or name.endswith(
            (
                "mlp.gate.weight",
                "mlp.gate.wg.weight",
                "mixer.gate.weight",
                "feed_forward.gate.weight",
                "block_sparse_moe.router.weight",
                "block_sparse_moe.router.layer.weight",
                "mlp.router.gate.weight",
            )
        ):
            torch.nn.init.normal_(weights, 0.0, 0.3)
    if model.config.to_dict().get("attn_logit_softcapping"):
        model.set_attn_implementation("eager")  # the others have no soft-cap
    return model


def stored(model: Any) -> Iterator[tuple[str, Any]]:
    """The parameters, and what is as good as one."""
    yield from model.named_parameters()
    yield from ((name, values) for name, values in model.named_buffers() if name.endswith(BUFFERS))


def expected_logits(model: Any, ids: list[int]) -> np.ndarray:
    """[positions, vocab], of one whole pass: no cache of transformers has a say.

    Gemma 3's attention knows the soft-cap of the scores, but its module does not hand it the config's.
    """
    import torch

    cap = model.config.to_dict().get("attn_logit_softcapping") if "gemma3" in model.config.model_type else None
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False, **({"softcap": cap} if cap else {})).logits[0].numpy()
