"""What paths and path variables say: the CANN tree they point at, the ABI of ATB, checkouts."""

from __future__ import annotations

from certify.light import lazy

# .../ascend-toolkit/8.2.RC1/..., .../cann-9.0.0/..., .../nnae/8.0.RC3/...
_CANN_DIR = lazy(r"/(?:ascend-toolkit|nnae)/(\d[\w.-]*)(?:/|$)|/cann-(\d[\w.-]*)(?:/|$)")
_CANN_ROOT = lazy(
    r"^(.*?/(?:ascend-toolkit|nnae)/(?:\d[\w.-]*|latest)|.*?/cann(?:-\d[\w.-]*)?)(?:/|$)"
)
_ABI = lazy(r"/cxx_abi_([01])(?:/|$)")
_NNAL = lazy(r"/nnal/(?:atb|asdsip)/(\d[\w.-]*)/")
_PYTHON_DIR = lazy(r"python(3\.\d{1,2}(?:\.\d{1,2})?)/")
_SITE_DIR = lazy(r"/python(3\.\d{1,2})/(?:site|dist)-packages")
_EXTENSION = lazy(r"\.cpython-3(\d{1,2})-(x86_64|aarch64)-linux-gnu\.so")


def cann_version_in(path: str) -> str | None:
    """The CANN version that a path names, None for ``latest`` or another path."""
    match = _CANN_DIR.search(path)
    return (match.group(1) or match.group(2)) if match else None


def cann_root_of(path: str) -> str | None:
    """The CANN tree that a path lies in, without what follows it."""
    match = _CANN_ROOT.match(path)
    if match is None or "/driver/" in path or "/nnal/" in path:
        return None
    return match.group(1)


def atb_abi_in(path: str) -> str | None:
    """``0`` or ``1`` when the path lies in one of ATB's two ABI folders."""
    match = _ABI.search(path if path.endswith("/") else path + "/")
    return match.group(1) if match else None


def nnal_version_in(path: str) -> str | None:
    """The NNAL version that a path names."""
    match = _NNAL.search(path)
    return match.group(1) if match else None


def python_in(path: str) -> str | None:
    """The Python version that a path names, with its patch number where it is there."""
    match = _PYTHON_DIR.search(path)
    return match.group(1) if match else None


def extension_in(text: str) -> tuple[str, str] | None:
    """(Python version, architecture) of an extension module's file name."""
    match = _EXTENSION.search(text)
    return (f"3.{match.group(1)}", match.group(2)) if match else None


def split(value: str) -> list[str]:
    """The entries of a path variable, without empty ones and unexpanded references."""
    return [part for part in value.strip().strip("\"'").split(":") if part and "$" not in part]
