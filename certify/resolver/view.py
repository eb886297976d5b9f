"""From a `Stack` (sightings, devices) to what the resolver asks for (versions, context)."""

from __future__ import annotations

from certify.light import lazy
from certify.resolver.model import Context
from certify.versions import from_free_text, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.stack import Stack
    from matrices.load import Matrix

_ARCHES = {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64"}


# The number that pip shows of MindSpeed: that of a Megatron line.
MEGATRON_LINE = lazy(r"^0\.\d+(?:\.\d+)?$")


def line_of_number(family: str, text: str) -> str:
    """A version of a branch family; the number of a Megatron line as the line, ``core_r0.12.1``,
    since it names no release. Everything else stays as it is."""
    return f"core_r{text}" if family == "branch" and MEGATRON_LINE.match(text) else text


def have_of(stack: Stack, matrix: Matrix) -> dict[str, str]:
    """Component -> version in force, for the components that the matrix knows.

    A spelling that its family cannot read is normalised when it holds a version at all.
    """
    have = {}
    for key, sightings in stack.components.items():
        if key not in matrix.components or not sightings or key in ("product", "arch"):
            continue
        raw = sightings[0].version
        family = matrix.family(key)
        raw = line_of_number(family, raw)
        if parse(family, raw) is None:
            normal = from_free_text(family, raw)
            raw = normal.raw if normal is not None else raw
        have[key] = raw
    return have


def context_of(stack: Stack, model_type: str | None = None) -> Context:
    """Product family and architecture, each None when no sighting tells."""
    from certify.environment.products import chip_family

    product = _first(stack, "product")
    if product is None:
        families = {chip_family(device.name, hbm_mb=device.memory_mb) for device in stack.devices}
        product = families.pop() if len(families) == 1 else None
    arch = (_first(stack, "arch") or "").lower() or None
    return Context(product, _ARCHES.get(arch, arch) if arch else None, model_type)


def _first(stack: Stack, key: str) -> str | None:
    sightings = stack.components.get(key)
    return sightings[0].version if sightings else None
