"""Random tiny models of the plain families (llama, qwen2, qwen3) from transformers, written as GGUF."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from .families import VOCAB
from .family_files import NAMES, OUTER, PLAIN_NORMS, paired
from .family_keys import add_yarn


def random_model(options: dict[str, Any]) -> Any:
    import torch
    import transformers

    torch.manual_seed(7)
    family = options.get("family", "llama").capitalize()
    head_size = options.get("head_size", options["width"] // options["heads"])
    config = getattr(transformers, f"{family}Config")(
        vocab_size=VOCAB,
        hidden_size=options["width"],
        intermediate_size=options["ffn"],
        num_hidden_layers=3,
        num_attention_heads=options["heads"],
        num_key_value_heads=options["kv_heads"],
        head_dim=head_size,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        tie_word_embeddings=options["tied"],
        rope_parameters={"rope_theta": options.get("rope_base", 10000.0)}
        | options.get("rope", {"rope_type": "default"}),
        initializer_range=0.2,
    )
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for name, weights in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(weights, 0.5, 1.5)
        if name.endswith("bias"):
            torch.nn.init.normal_(weights, 0.0, 0.5)
    return model


def export(model: Any, path: Path) -> None:
    config = model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_size = model.model.layers[0].self_attn.head_dim
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(head_size)
    if config.rope_parameters["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_parameters["factor"])
    if config.rope_parameters["rope_type"] == "yarn":
        add_yarn(writer, config.rope_parameters)
    if config.rope_parameters["rope_type"] == "llama3":
        base = config.rope_parameters["rope_theta"] ** (-np.arange(0, head_size, 2) / head_size)
        writer.add_tensor("rope_freqs.weight", (base / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    for name, parameter in model.named_parameters():
        weights, (stem, ending) = parameter.detach().numpy(), name.rsplit(".", 1)
        if stem in OUTER:
            writer.add_tensor(f"{OUTER[stem]}.weight", weights)
            continue
        _, _, layer, part = stem.split(".", 3)
        if part.endswith("q_proj") and config.model_type == "llama":
            weights = paired(weights, config.num_attention_heads)
        if part.endswith("k_proj") and config.model_type == "llama":
            weights = paired(weights, config.num_key_value_heads)
        writer.add_tensor(f"blk.{layer}.{(NAMES | PLAIN_NORMS)[part]}.{ending}", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
