"""Fake file systems: what installers of CANN, drivers and Python packages leave behind."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

SITE = "usr/local/python3.11.9/lib/python3.11/site-packages"


def write(root: Path, path: str, text: str | bytes) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode() if isinstance(text, str) else text)
    return target


def link(root: Path, path: str, target: str) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def package(root: Path, name: str, version: str, site: str = SITE, metadata: str = "") -> None:
    folder = f"{site}/{name}-{version}.dist-info"
    write(root, f"{folder}/METADATA", f"Name: {name}\nVersion: {version}\n{metadata}")


def torch_npu(root: Path, version: str, git: str = "", site: str = SITE) -> None:
    package(
        root, "torch_npu", version, site, f"Requires-Dist: torch=={version.split('.post')[0]}\n"
    )
    text = f"__version__ = '{version}'\n" + (f"git_version = '{git}'\n" if git else "")
    write(root, f"{site}/torch_npu/version.py", text)
    write(root, f"{site}/torch_npu/__init__.py", "raise RuntimeError('imported')\n")
    write(root, f"{site}/torch_npu/_C.cpython-311-aarch64-linux-gnu.so", b"\x7fELF")


def torch(root: Path, version: str, site: str = SITE, abi: str = "1") -> None:
    package(root, "torch", version.split("+")[0], site)
    write(root, f"{site}/torch/version.py", f"__version__ = '{version}'\ncuda = None\n")
    write(root, f"{site}/torch/__init__.py", "raise RuntimeError('imported')\n")
    write(
        root,
        f"{site}/torch/share/cmake/Torch/TorchConfig.cmake",
        f'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={abi}")\n',
    )


def cann_old(root: Path, version: str, base: str = "usr/local/Ascend") -> None:
    """Layout up to 8.3: a versioned folder, and ``latest`` as a folder full of links."""
    tree = f"{base}/ascend-toolkit/{version}"
    write(
        root,
        f"{tree}/aarch64-linux/ascend_toolkit_install.info",
        f"package_name=Ascend-cann-toolkit\nversion={version}\n"
        "innerversion=V100R001C22SPC001B231\ncompatible_version=[V100R001C15],[V100R001C18]\n"
        f"arch=aarch64\nos=linux\npath=/{tree}/aarch64-linux\n",
    )
    for part in ("toolkit", "runtime", "opp", "opp_kernel"):
        write(root, f"{tree}/{part}/version.info", f"Version=8.2.0.0.201\nversion_dir={version}\n")
        link(root, f"{base}/ascend-toolkit/latest/{part}", f"../{version}/{part}")
    write(root, f"{base}/ascend-toolkit/set_env.sh", "# nothing\n")


def cann_new(
    root: Path, version: str, base: str = "usr/local/Ascend", *, current: bool = True
) -> None:
    """Layout from 8.5 on: ``cann-<version>`` and the pointer ``cann``."""
    tree = f"{base}/cann-{version}"
    write(
        root,
        f"{tree}/aarch64-linux/ascend_toolkit_install.info",
        f"package_name=Ascend-cann-toolkit\nversion={version}\n"
        f"innerversion=V100R001C25SPC001B232\narch=aarch64\npath=/{tree}\n",
    )
    write(
        root,
        f"{tree}/aarch64-linux/ascend_ops_install.info",
        f"package_name=Ascend-cann-910b-ops\nversion={version}\n",
    )
    for chip in ("ascend910b", "ascend910_93"):
        write(root, f"{tree}/opp/built-in/op_impl/ai_core/tbe/kernel/{chip}/x.json", "{}")
    write(root, f"{tree}/set_env.sh", "# nothing\n")
    if current:
        link(root, f"{base}/cann", f"cann-{version}")


def driver(root: Path, version: str, firmware: str = "7.7.0.1.231") -> None:
    write(
        root,
        "usr/local/Ascend/driver/version.info",
        f"Version={version}\nascendhal_version=7.35.23\nInnerversion=V100R001C21SPC002B220\n"
        f"compatible_version=[V100R001C17]\ncompatible_version_fw=[7.0.0,7.7.99]\n"
        f"package_version={version}\n",
    )
    write(
        root,
        "usr/local/Ascend/firmware/version.info",
        f"Version={firmware}\nfirmware_version=1.0\npackage_version={version}\n"
        "compatible_version_drv=[23.0.0,23.0.0.],[25.0,25.0.]\n",
    )
    write(
        root,
        "etc/ascend_install.info",
        "UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\n",
    )


def nnal(root: Path, version: str, base: str = "usr/local/Ascend") -> None:
    text = (
        f"    Ascend-cann-atb : {version}\n    Ascend-cann-atb Version : {version}.B150\n"
        "    Platform : aarch64\n    commit id : f10dc20391d8af04c3f8024aca0e0dfa94d2a0a5\n"
    )
    write(root, f"{base}/nnal/atb/{version}/version.info", text)
    link(root, f"{base}/nnal/atb/latest", version)


def system(root: Path, name: str = "ubuntu", version: str = "22.04") -> None:
    write(root, "etc/os-release", f'NAME="{name}"\nID={name}\nVERSION_ID="{version}"\n')
    write(root, "bin/sh", b"\x7fELF\x02\x01\x01" + b"\0" * 11 + b"\xb7\x00" + b"\0" * 44)
    write(root, "lib64/libc.so.6", b"\0GNU C Library (Ubuntu) stable release version 2.35.\n\0")
    write(root, "usr/lib64/libstdc++.so.6.0.30", b"\x7fELF")
    link(root, "usr/lib64/libstdc++.so.6", "libstdc++.so.6.0.30")


def reference_host(root: Path) -> None:
    """A stack that the tables pair: CANN 8.5.0, HDK 25.5.0, torch_npu 2.9.0."""
    system(root)
    cann_new(root, "8.5.0")
    nnal(root, "8.5.0")
    driver(root, "25.5.0")
    torch(root, "2.9.0+cpu")
    torch_npu(root, "2.9.0")
    package(root, "numpy", "1.26.4")
    for name in ("decorator", "attrs", "psutil", "scipy", "sympy", "cffi", "cloudpickle"):
        package(root, name, "1.0")


def record_row(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def triton_ascend(root: Path, version: str, library: bytes = b"ascend" * 10) -> None:
    """The package with its RECORD, all files as installed."""
    files = {
        "triton/__init__.py": b"__version__ = '3.2.0'\n",
        "triton/_C/libtriton.so": library,
        "triton/backends/ascend/__init__.py": b"",
    }
    for path, content in files.items():
        write(root, f"{SITE}/{path}", content)
    rows = "".join(record_row(path, content) for path, content in files.items())
    package(root, "triton_ascend", version)
    write(root, f"{SITE}/triton_ascend-{version}.dist-info/RECORD", rows)


def git(
    root: Path, top: str, head: str, packed: str = "", refs: dict[str, str] | None = None
) -> None:
    write(root, f"{top}/.git/HEAD", head + "\n")
    if packed:
        write(root, f"{top}/.git/packed-refs", packed)
    for name, commit in (refs or {}).items():
        write(root, f"{top}/.git/{name}", commit + "\n")
