"""The resolver: published claims x what is installed -> pairs judged, and the smallest change.

Pure: no I/O beyond the matrix that the caller loads, no clock, no environment.

    from matrices.load import load
    from certify.resolver import Context, pair_results, render, smallest_change

    matrix = load()                                       # 5 ms, compiled
    have = {"torch": "2.7.1+cpu", "torch_npu": "2.7.1", "cann": "9.0.0", "driver": "25.5.1"}
    results = pair_results(matrix, have, Context(product="A2", arch="aarch64"))
    change = smallest_change(matrix, have, context, keep={"driver"})
    upgrade = smallest_change(matrix, have, context, target={"cann": "9.1.0"})

`have` maps component keys to versions as spelled where they were found; keys are those of
matrices/components.tsv: torch torch_npu torch_npu_git torchvision triton_ascend triton cann
cann_ops nnal hdk driver firmware mindspeed_llm mindspeed_core megatron transformers numpy python
glibc vllm vllm_ascend verl llamafactory deepspeed accelerate cuda cuda_driver. What is unknown is
left out; a version that cannot be read gives results of status ``undeclared``. `driver` stands for
`hdk` where only it is known. `product` and `arch` come through the `Context`.

PairResult: rule (cases/README ids plus cuda-driver), status reference | compatible | incompatible |
undeclared, components (subject, object), found {component: version}, expected {component: nearest
declared values, best first}, claims (ids, see `Matrix.claim`), why (typed reasons; `render(reason,
lang)` gives the sentence in en or zh), conflict (id in conflicts.tsv), strict (an undeclared pair
under a rule that its source calls strict would have been incompatible).
"""

from __future__ import annotations

from certify.resolver.model import Change, Context, PairResult, Reason, Resolution
from certify.resolver.pairs import pair_results
from certify.resolver.words import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from certify.resolver.change import smallest_change

__all__ = [
    "Change",
    "Context",
    "PairResult",
    "Reason",
    "Resolution",
    "pair_results",
    "render",
    "smallest_change",
]


def __getattr__(name: str) -> Any:
    """The search is loaded on first use: judging pairs, as check-env does, never needs it."""
    if name == "smallest_change":
        from certify.resolver.change import smallest_change

        return smallest_change
    raise AttributeError(name)
