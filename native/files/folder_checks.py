"""Refuses a config.json whose keys would change the maths in ways that no GGUF key can say."""

from collections.abc import Collection, Mapping
from typing import Any

from ..families import FAMILIES
from ..family import Family
from .folder_families import ARCHITECTURES, OWN, PARTIAL
from .folder_rope import Rope
from .folder_unused import ANNOUNCED, UNUSED, UNUSED_BY_FAMILY
from .folder_windows import USUAL_LAYERS


def check_supported(values: Mapping[str, Any], kind: str, rope: Rope) -> None:
    """Raises ValueError with the name of the first key of config.json, of model type `kind`, that is not supported."""
    architecture = ARCHITECTURES[kind]
    family = FAMILIES[architecture]
    own = OWN.get(architecture, ())
    for key, harmless in {**UNUSED, **UNUSED_BY_FAMILY.get(architecture, {})}.items():
        if key not in own and (value := values.get(key)) is not None and value not in harmless:
            raise _unsupported(key, value, " or ".join(map(repr, harmless)) or "null")
    for partial in (rope.partial, rope.local_partial):
        if partial != 1 and architecture not in PARTIAL:
            raise _unsupported("partial_rotary_factor", partial, "1.0")
    if architecture not in USUAL_LAYERS:  # which check their own
        _check_unrotated(values.get("no_rope_layers"), family.unrotated)
    quantization = values.get("quantization_config")
    if isinstance(quantization, dict) and quantization.get("quant_method") == "bitnet":
        raise ValueError("its quantization_config says 'bitnet', whose weights are quantized while it runs")
    _check_activation(values, kind, family)


def check_tensors(values: Mapping[str, Any], architecture: str, found: Collection[str]) -> None:
    """Raises ValueError where a key of config.json says that tensors are there which are not among `found`, or the
    other way round: transformers would make up the former and leave out the latter."""
    for key, part in ANNOUNCED.get(architecture, {}).items():
        name, says = f"blk.0.{part}", values.get(key, False)
        there = name in found
        if says is not there:
            why = "is there" if there else "is missing"
            raise ValueError(f"the key {key!r} of config.json is {says!r}, expected {there}: the tensor {name!r} {why}")


def _check_unrotated(flags: Any, interval: int) -> None:
    """flags [layers] or None: 1 for a layer that rotates. interval: every so many layers one does not; 0: all do."""
    if flags is None:
        return
    if not isinstance(flags, list) or flags != [
        int(not interval or (n + 1) % interval != 0) for n in range(len(flags))
    ]:
        expected = f"a 0 for every {interval} layers, and 1 for the others" if interval else "a 1 for every layer"
        raise ValueError(f"the key 'no_rope_layers' of config.json is {flags!r}, supported: {expected}")


def _check_activation(values: Mapping[str, Any], kind: str, family: Family) -> None:
    key = "hidden_activation" if family.scaled_embedding and family.slides else "hidden_act"
    expected = {"gelu": "gelu_pytorch_tanh", "relu2": "relu2", "xielu": "xielu"}.get(family.activation, "silu")
    activation = values.get(key, expected)
    if activation != expected and not (kind == "gemma" and activation == "gelu"):  # which meant the same
        raise _unsupported(key, activation, repr(expected))


def _unsupported(key: str, value: Any, supported: str) -> ValueError:
    return ValueError(f"the key {key!r} of config.json is {value!r}, supported: {supported}")
