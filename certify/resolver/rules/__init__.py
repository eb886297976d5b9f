"""The rules of check-env. `RULES` is the registry, in the order in which they run: the judged pairs
first, since other rules look at them. The ids that findings carry are in
matrices/rules.tsv."""

from __future__ import annotations

from certify.resolver.rules import (
    cann,
    containers,
    declared,
    determinism,
    firmware,
    frameworks,
    mindspeed,
    packages,
    symptoms,
    variables,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from certify.resolver.facts import Facts
    from certify.resolver.findings import Finding

RULES: dict[str, Callable[[Facts], Iterable[Finding]]] = {
    "declared pairs": declared.pairs,
    "driver and firmware": firmware.check,
    "symptoms": symptoms.symptoms,
    "cann layout": cann.layout,
    "cann environment": cann.environment,
    "cann kernels": cann.kernels,
    "cann python packages": cann.python_deps,
    "cann required": cann.required,
    "built for": cann.built_for,
    "c++ abi": cann.abi,
    "container permissions": containers.permissions,
    "container topology": containers.topology,
    "container mounts": containers.mounts,
    "npu-smi": containers.tool,
    "device health": containers.health,
    "image product": containers.image,
    "package index": packages.index,
    "cuda wheels": packages.cuda,
    "triton": packages.triton,
    "pip conflicts": packages.conflicts,
    "python": packages.python,
    "autoload": frameworks.autoload,
    "operators": frameworks.operators,
    "unbuilt framework": frameworks.unbuilt,
    "unlisted framework": frameworks.unlisted,
    "torch too old": frameworks.torch_age,
    "cuda message": frameworks.cuda_message,
    "megatron": frameworks.megatron,
    "mindspeed release": mindspeed.release,
    "several modules": mindspeed.several,
    "torch_npu not seen": frameworks.unpaired,
    "variables": variables.check,
    "determinism": determinism.check,
    "sources": frameworks.sources,
}
