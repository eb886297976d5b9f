"""Which releases of megatron-core this backend was checked against.

The standard library's metadata is read, nothing of megatron is imported: the answer must be known
before its first import, because the compatibility of `runner.backends.mcore.cpu` starts there.
"""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from certify.errors import InfrastructureError

SUPPORTED = ((0, 16), (0, 17))  # from, up to but not including
RANGE = ">=0.16,<0.17"


def installed() -> str:
    """The installed version. Raises InfrastructureError when megatron-core is missing."""
    try:
        return metadata.version("megatron-core")
    except metadata.PackageNotFoundError:
        raise InfrastructureError(
            "megatron-core is not installed",
            where="the mcore backend (the Megatron-LM reference)",
            expected=f"megatron-core{RANGE}",
            hint=f'pip install "megatron-core{RANGE}"',
        ) from None


def require_for_checkpoints() -> None:
    """Raises InfrastructureError when what Megatron's checkpoint writer needs is missing.

    It says so in a process of its own only, while the one that trains waits for ever.
    """
    if find_spec("psutil") is None:
        raise InfrastructureError(
            "psutil is not installed",
            where="Megatron's distributed checkpoints",
            expected="psutil, which megatron-core needs and does not depend on",
            hint="pip install psutil",
        )


def require_supported() -> str:
    """The installed version, if it was checked. Raises InfrastructureError otherwise.

    An unchecked release is refused on every device: a reference of unknown semantics proves
    nothing, and the CPU patches were written against the sources of the releases in `RANGE`.
    """
    version = installed()
    parts = version.split(".")
    known = len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit()
    if known and SUPPORTED[0] <= (int(parts[0]), int(parts[1])) < SUPPORTED[1]:
        return version
    raise InfrastructureError(
        f"megatron-core {version} was not checked as a reference",
        where="the mcore backend (the Megatron-LM reference)",
        expected=f"megatron-core{RANGE}",
        hint=f'pip install "megatron-core{RANGE}"',
    )
