"""Which releases of megatron-core this backend was checked against.

The standard library's metadata is read, nothing of megatron is imported: the answer must be known
before its first import, because the compatibility of `runner.backends.mcore.cpu` starts there.
"""

from __future__ import annotations

from importlib import metadata

from certify.errors import InfrastructureError

# From, up to but not including. The tests run 0.16; 0.12 by the documented run of docs/mcore.md.
SUPPORTED = (((0, 12), (0, 13)), ((0, 16), (0, 17)))
RANGE = ">=0.16,<0.17"
ALL = f"{RANGE} or >=0.12,<0.13"


def installed() -> str:
    """The installed version. Raises InfrastructureError when megatron-core is missing."""
    try:
        return metadata.version("megatron-core")
    except metadata.PackageNotFoundError:
        raise InfrastructureError(
            "megatron-core is not installed",
            where="the mcore backend (the Megatron-LM reference)",
            expected=f"megatron-core{ALL}",
            hint=f'pip install "megatron-core{RANGE}"',
        ) from None


def _numbers(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def require_supported() -> str:
    """The installed version, if it was checked. Raises InfrastructureError otherwise.

    An unchecked release is refused on every device: a reference of unknown semantics proves
    nothing, and the CPU patches were written against the sources of these releases.
    """
    version = installed()
    found = _numbers(version)
    if found is not None and any(low <= found < high for low, high in SUPPORTED):
        return version
    raise InfrastructureError(
        f"megatron-core {version} was not checked as a reference",
        where="the mcore backend (the Megatron-LM reference)",
        expected=f"megatron-core{ALL}",
        hint=f'pip install "megatron-core{RANGE}"',
    )


def is_older_line() -> bool:
    """Whether the installed release is of the line 0.12, which lacks what 0.16 has."""
    try:
        found = _numbers(metadata.version("megatron-core"))
    except metadata.PackageNotFoundError:
        return False
    return found is not None and found < SUPPORTED[1][0]
