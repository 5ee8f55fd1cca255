"""What a file says of recurrent layers: gated DeltaNet, state spaces, gated convolutions."""

from typing import Any

from .family import Family
from .metadata_keys import Keys


def read_recurrent(keys: Keys, family: Family) -> dict[str, Any]:
    """Nothing for a family whose layers all attend."""
    if not family.recurs:
        return {}
    if family.gated_convolution:
        taps = keys.size("shortconv.l_cache")
        if taps < 2:  # there would be no state, and no prefix to go on from
            raise ValueError(f"the key '{keys.architecture}.shortconv.l_cache' is {taps}, expected at least 2")
        return {"gated_convolution": True, "conv_kernel": taps}
    value_heads, inner = keys.size("ssm.time_step_rank"), keys.size("ssm.inner_size")
    if inner % value_heads:
        raise ValueError(
            f"the key '{keys.architecture}.ssm.inner_size' is {inner}, no multiple of its {value_heads} value heads"
        )
    return {
        "conv_kernel": keys.size("ssm.conv_kernel"),
        "key_heads": keys.size("ssm.group_count"),
        "value_heads": value_heads,
        "key_size": keys.size("ssm.state_size"),
        "value_size": inner // value_heads,
        "state_space": family.state_space,
    }
