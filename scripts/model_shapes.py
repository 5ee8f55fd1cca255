"""The shapes of the models that make_shaped_model.py writes."""

from dataclasses import replace

from paceline.native.shape import ModelShape


def dense(architecture: str, layers: int, **sizes: int) -> ModelShape:
    qwen = architecture != "llama"
    return ModelShape(
        architecture=architecture,
        layers=layers,
        rope_base=1e6 if qwen else 1e4,
        rope_size=sizes["head_size"],
        rope_layout="halves" if qwen else "pairs",
        norm_epsilon=1e-6 if qwen else 1e-5,
        tied=False,
        qkv_bias=False,
        qk_norm=qwen,
        kinds=("attention",) * layers,
        query_scale=sizes["head_size"] ** -0.5,
        **sizes,
    )


DEMO_VOCAB = 49152
HEADS_OF_128 = {"head_size": 128, "vocab": 151936, "context": 40960}
SHAPES = {
    "8b": dense("qwen3", 36, width=4096, ffn=12288, heads=32, kv_heads=8, **HEADS_OF_128),
    "bench": dense(
        "llama", 24, width=1024, ffn=2816, heads=16, kv_heads=4, head_size=64, vocab=DEMO_VOCAB, context=8192
    ),
    "tiny": dense("qwen3", 2, width=256, ffn=768, heads=4, kv_heads=2, head_size=64, vocab=304, context=1024),
    "moe": replace(
        dense("qwen3moe", 4, width=2048, ffn=768, heads=32, kv_heads=4, **HEADS_OF_128),
        experts=128,
        experts_used=8,
        expert_ffn=768,
    ),
    "gpt-oss": replace(
        dense("gpt-oss", 4, width=2880, ffn=2880, heads=64, kv_heads=8, head_size=64, vocab=DEMO_VOCAB, context=131072),
        qkv_bias=True,
        output_bias=True,
        expert_bias=True,
        qk_norm=False,
        sinks=True,
        rope_base=1.5e5,
        ffn_norm="post_attention_norm",
        window=128,
        experts=32,
        experts_used=4,
        expert_ffn=2880,
    ),
    "glm-flash": replace(
        dense(
            "deepseek2", 4, width=2048, ffn=10240, heads=20, kv_heads=1, head_size=576, vocab=DEMO_VOCAB, context=202752
        ),
        qk_norm=False,
        rope_size=64,
        rope_layout="pairs",
        query_scale=256**-0.5,
        latent=512,
        query_rank=768,
        latent_keys=192,
        latent_values=256,
        experts=64,
        experts_used=4,
        expert_ffn=1536,
        shared_ffn=1536,
        dense_layers=1,
        sigmoid_routing=True,
        normalize_experts=True,
    ),
    "lfm2": replace(
        dense("lfm2", 16, width=2048, ffn=8192, heads=32, kv_heads=8, head_size=64, vocab=DEMO_VOCAB, context=128000),
        tied=True,
        kinds=tuple("attention" if layer in (2, 5, 8, 10, 12, 14) else "recurrent" for layer in range(16)),
        gated_convolution=True,
        conv_kernel=3,
    ),
    "granite-h": replace(
        dense(
            "granitehybrid",
            40,
            width=1536,
            ffn=4096,
            heads=12,
            kv_heads=4,
            head_size=128,
            vocab=DEMO_VOCAB,
            context=131072,
        ),
        tied=True,
        qk_norm=False,
        rope_layout="pairs",
        norm_epsilon=1e-5,
        kinds=tuple("unrotated" if layer in (5, 15, 25, 35) else "recurrent" for layer in range(40)),
        state_space=True,
        grouped_heads=True,
        conv_kernel=4,
        key_heads=1,
        value_heads=48,
        key_size=128,
        value_size=64,
    ),
    "qwen35": replace(
        dense("qwen35", 24, width=1024, ffn=3584, heads=8, kv_heads=2, head_size=256, vocab=DEMO_VOCAB, context=262144),
        tied=True,
        rope_base=1e7,
        rope_size=64,
        kinds=(*("recurrent",) * 3, "attention") * 6,
        gated_attention=True,
        ffn_norm="post_attention_norm",
        conv_kernel=4,
        key_heads=16,
        value_heads=16,
        key_size=128,
        value_size=128,
    ),
    "gemma4": replace(
        dense("gemma4", 10, width=1536, ffn=6144, heads=8, kv_heads=1, head_size=512, vocab=DEMO_VOCAB, context=131072),
        tied=True,
        kinds=(*("sliding",) * 4, "attention") * 2,
        local_head_size=256,
        value_norm=True,
        post_norms=True,
        layer_scale=True,
        window=512,
        borrowing_layers=5,
        borrowing_ffn=12288,
        token_inputs=256,
        final_softcap=30.0,
    ),
}
