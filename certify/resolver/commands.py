"""Lines that a person can paste to carry out a change. Nothing here is ever run by us."""

from __future__ import annotations

from certify.versions import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.resolver.model import Context

# What package files are called after the product.
_PACKAGE_NAMES = {
    "A2": "910b",
    "A2-inference": "910b",
    "A3": "A3",
    "A3-inference": "A3",
    "910": "910",
    "310P": "310p",
    "950": "950",
    "Atlas350": "950",
    "Atlas850": "950",
    "Atlas950SuperPoD": "950",
}
_PIP_NAMES = {
    "torch_npu": "torch_npu",
    "triton_ascend": "triton-ascend",
    "vllm_ascend": "vllm-ascend",
}
_CHECKOUTS = {
    "mindspeed_llm": "MindSpeed-LLM",
    "mindspeed_core": "MindSpeed",
    "megatron": "Megatron-LM",
}
_CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
_TRITON_INDEX = "https://triton-ascend.osinfra.cn/pypi/simple"


def commands_for(key: str, row: Mapping[str, str], context: Context) -> tuple[str, ...]:
    """The lines for one component of the target row, empty when there is no general one."""
    version = row[key]
    if version == "none":
        return (f"pip uninstall -y {_PIP_NAMES.get(key, key)}",)
    arch = context.arch or "$(uname -m)"
    chip = _PACKAGE_NAMES.get(context.product or "", "<chip>")
    if key in ("cann", "cann_ops", "nnal"):
        return _cann(key, version, arch, chip, row)
    if key in ("hdk", "driver"):
        return (
            f"bash Ascend-hdk-{chip}-npu-firmware_{version}.run --upgrade",
            f"bash Ascend-hdk-{chip}-npu-driver_{version}_linux-{arch}.run --upgrade",
            "reboot",
        )
    if key in _CHECKOUTS:
        folder = _CHECKOUTS[key]
        return (f"git -C {folder} fetch --tags origin && git -C {folder} checkout {version}",)
    if key == "python":
        wanted = f"'python{version}'" if version[0] in "<>" else f"python={version}"
        return (f"conda create -n certified {wanted}",)
    if key == "torch" and "torch_npu" in row:
        # On x86_64 torch_npu asks for the +cpu build, which PyPI does not carry.
        index = f" --index-url {_CPU_WHEELS}" if context.arch != "aarch64" else ""
        wanted = f"'torch{version}'" if version[0] in "<>" else f"torch=={version}"
        return (f"pip install {wanted}{index}",)
    if key == "triton_ascend":
        extra = f" --extra-index-url {_TRITON_INDEX}" if _off_pypi(version) else ""
        return (f"pip install --no-deps triton-ascend=={version}{extra}",)
    if key in ("cuda", "cuda_driver"):
        return ()
    if version[0] in "<>":
        return (f"pip install '{_PIP_NAMES.get(key, key)}{version}'",)
    dependencies = "--no-deps " if "torch_npu" in row else ""
    return (f"pip install {dependencies}{_PIP_NAMES.get(key, key)}=={version.removeprefix('v')}",)


def _off_pypi(version: str) -> bool:
    """Whether only the project's own index has it: PyPI ends at 3.2.0."""
    found, last = parse("pep440", version), parse("pep440", "3.2.0")
    return found is not None and last is not None and found > last


def _cann(key: str, version: str, arch: str, chip: str, row: Mapping[str, str]) -> tuple[str, ...]:
    found = parse("cann", version)
    new_layout = found is not None and found.train >= (8, 5)
    if key == "nnal":
        return (f"bash Ascend-cann-nnal_{version}_linux-{arch}.run --install",)
    if key == "cann_ops":
        name = f"Ascend-cann-{chip}-ops" if new_layout else f"Ascend-cann-kernels-{chip}"
        return (f"bash {name}_{version}_linux-{arch}.run --install",)
    folder = "cann" if new_layout else "ascend-toolkit"
    # Ops package and NNAL belong to the release even where nobody said that they are there.
    parts = [part for other in ("cann_ops", "nnal") if other not in row
             for part in _cann(other, version, arch, chip, row)]  # fmt: skip
    return (
        f"bash Ascend-cann-toolkit_{version}_linux-{arch}.run --install",
        *parts,
        f"source /usr/local/Ascend/{folder}/set_env.sh",
    )
