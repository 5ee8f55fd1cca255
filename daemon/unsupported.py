"""What the contract has, the grammar reads, and this daemon does not do yet: the one place that says so."""

from __future__ import annotations

from typing import Final

from ..protocol import Options, Refusal

_OPTIONS: Final = {"logprobs": 0, "logit_bias": ()}
"""And what each option is when it is left out."""


def check_options(options: Options) -> None:
    for name, left_out in _OPTIONS.items():
        if getattr(options, name) != left_out:
            raise Refusal("unsupported", f"the option {name} is not supported yet: leave it out")
