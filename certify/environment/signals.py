"""Signals: sightings that are no versions, and the rules they speak for.

`SIGNALS` is the registry. A signal with one **decisive** rule is evidence enough for an error
under that rule; **candidates** are causes known to give the same text, in the order in which
they should be looked at: they become findings that ask, unless the versions seen confirm or
exclude them. **benign** signals are known to be harmless and only explained.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from certify.light import dataclass


@dataclass(frozen=True)
class SignalKind:
    """decisive: the rule proven broken by the sighting; candidates: rules that may explain it;
    component: what is at fault; benign: harmless, shown as a note."""

    decisive: str | None = None
    candidates: tuple[str, ...] = ()
    component: str = ""
    benign: bool = False


SIGNALS: dict[str, SignalKind] = {
    # symbols that a library asked for and the loader could not find, by owner of the symbol
    "symbol-atb": SignalKind("nnal", component="nnal"),
    "symbol-torch": SignalKind("torch-pair", component="torch"),
    "symbol-cann": SignalKind("torch-npu-cann", component="cann"),
    "symbol-cann-internal": SignalKind("cann-uniform", component="cann"),
    "symbol-driver": SignalKind("cann-driver", component="driver"),
    "symbol-abi": SignalKind("cxx-abi", component="nnal"),
    "symbol-extension": SignalKind("built-for-cann", component="extension"),
    "symbol-unnamed": SignalKind(None, ("torch-pair", "torch-npu-cann"), "torch"),
    "function-not-in-cann": SignalKind("torch-npu-cann", component="cann"),
    "libstdcxx-old": SignalKind("glibc", component="libstdc++"),
    "glibc-old": SignalKind("glibc", component="glibc"),
    # libraries that the loader could not find
    "library-driver": SignalKind("container-devices", component="driver"),
    "library-cann": SignalKind("cann-environment", component="cann"),
    "library-nnal": SignalKind("nnal", component="nnal"),
    "library-cuda": SignalKind("no-cuda-wheels", component="cuda"),
    "library-other": SignalKind(None, (), "library"),
    # Python modules, names and attributes
    "module-cann": SignalKind("cann-environment", component="cann"),
    "module-cann-deps": SignalKind("cann-python-deps", component="cann"),
    "module-triton-backend": SignalKind("triton-exclusive", component="triton"),
    "module-triton-damaged": SignalKind("triton-integrity", component="triton_ascend"),
    "module-triton-absent": SignalKind(None, ("triton-integrity",), "triton_ascend"),
    "accelerator-unknown": SignalKind(None, ("accelerator-import",), "torch_npu"),
    "module-torch-npu": SignalKind("accelerator-import", component="torch_npu"),
    "module-torch-npu-partial": SignalKind("module-shadow", component="torch_npu"),
    "module-not-built": SignalKind(None, ("framework-row", "package-index"), "framework"),
    "module-mindspeed": SignalKind("mindspeed-pair", component="mindspeed_core"),
    "module-megatron": SignalKind("megatron-pair", component="megatron"),
    "module-transformers": SignalKind("transformers-range", component="transformers"),
    "module-framework": SignalKind("framework-row", component="framework"),
    "module-torch-too-old": SignalKind(None, ("deepspeed-torch", "framework-row"), "torch"),
    "module-cuda-only": SignalKind("no-cuda-wheels", component="cuda"),
    "module-shadowed": SignalKind("module-shadow", component="python"),
    "namespace-residue": SignalKind("namespace-residue", component="python"),
    "attribute-torch-npu-op": SignalKind("framework-row", component="torch_npu"),
    "attribute-numpy": SignalKind("numpy", component="numpy"),
    "numpy-abi": SignalKind("numpy", component="numpy"),
    # devices and containers
    "dcmi-failed": SignalKind("container-devices", component="driver"),
    "device-used": SignalKind("container-devices", component="driver"),
    "device-permission": SignalKind("container-permissions", component="driver"),
    "device-nodes-closed": SignalKind("container-permissions", component="driver"),
    "uid-without-name": SignalKind("container-permissions", component="container"),
    "devices-not-mounted": SignalKind("container-devices", component="container"),
    "no-devices-seen": SignalKind(None, ("container-devices", "container-permissions")),
    "npu-smi-absent": SignalKind(None, ("container-devices",), "driver"),
    "no-topology-in-container": SignalKind(None, ("container-devices",), "container"),
    "device-lost": SignalKind(None, ("device-health",), "driver"),
    "device-alarm": SignalKind(None, ("device-health",), "driver"),
    "driver-firmware-mismatch": SignalKind("cann-driver", component="firmware"),
    "driver-not-supported": SignalKind(None, ("cann-driver",), "driver"),
    "device-open-failed": SignalKind(None, ("container-devices", "cann-driver")),
    # torch_npu and CANN run-time errors
    "soc-unsupported": SignalKind("soc", component="torch_npu"),
    "kernels-missing": SignalKind("cann-kernels", component="cann_ops"),
    "op-unsupported": SignalKind(None, ("cann-kernels", "torch-npu-cann"), "cann"),
    "op-compile-failed": SignalKind(None, ("torch-npu-cann", "cann-python-deps", "numpy"), "cann"),
    "compile-option-failed": SignalKind(
        None, ("numpy", "cann-python-deps", "container-devices"), "cann"
    ),
    "jit-default-failed": SignalKind(None, ("cann-driver", "container-devices"), "driver"),
    "tbe-signature": SignalKind(None, ("cann-uniform",), "cann"),
    "cann-required": SignalKind(None, ("torch-npu-cann",), "cann"),
    "autoload-trace": SignalKind(None, ("autoload-wrapper",), "torch_npu"),
    "autoload-failed": SignalKind(None, ("autoload-wrapper",), "torch_npu"),
    "collective-timeout": SignalKind(benign=True, component="hccl"),
    "aicore-error": SignalKind(benign=True, component="cann"),
    # packages
    "no-distribution": SignalKind("package-index", component="pip"),
    "local-version-conflict": SignalKind("package-index", component="torch"),
    "dependency-conflict": SignalKind(None, ("torch-pair", "framework-row"), "pip"),
    "triton-uninstalled": SignalKind(None, ("triton-integrity",), "triton_ascend"),
    "python-required": SignalKind("python", component="python"),
    "wheel-not-for-here": SignalKind(None, ("python", "package-index"), "python"),
    "placeholder-package": SignalKind("package-index", component="pip"),
    "built-for": SignalKind(None, ("built-for-cann",), "extension"),
    "stated-requirement": SignalKind(benign=True),
    # frameworks
    "accelerator-cpu": SignalKind("accelerator-import", component="torch_npu"),
    "cuda-not-compiled": SignalKind(None, ("transformers-range",), "torch"),
    "architecture-unknown": SignalKind("transformers-model", component="transformers"),
    "megatron-path": SignalKind(None, ("megatron-single",), "megatron"),
    "benign-vllm-c": SignalKind(benign=True, component="vllm"),
    "benign-triton-absent": SignalKind(benign=True, component="triton"),
    "benign-log-level": SignalKind(benign=True, component="driver"),
    # seen on a live host or in a tree
    "cann-several": SignalKind(None, ("cann-layout",), "cann"),
    "cann-env-differs": SignalKind(None, ("cann-layout", "cann-environment"), "cann"),
    "cann-field-empty": SignalKind(None, ("cann-layout",), "cann"),
    "cann-parts-differ": SignalKind("cann-uniform", component="cann"),
    "cann-paths-mixed": SignalKind("cann-uniform", component="cann"),
    "cann-paths-repeated": SignalKind(None, ("cann-uniform",), "cann"),
    "cann-env-unset": SignalKind(None, ("cann-environment",), "cann"),
    "triton-files-foreign": SignalKind("triton-exclusive", component="triton"),
    "triton-files-missing": SignalKind("triton-integrity", component="triton_ascend"),
    "module-link-name": SignalKind("module-shadow", component="python"),
    "module-shadow-path": SignalKind("module-shadow", component="python"),
    "namespace-folder": SignalKind("namespace-residue", component="python"),
    "megatron-several": SignalKind("megatron-single", component="megatron"),
    "module-several": SignalKind(None, ("module-shadow",), "python"),
    "kernels-absent": SignalKind(None, ("cann-kernels",), "cann_ops"),
    "driver-not-on-path": SignalKind(None, ("container-devices",), "driver"),
    "npu-smi-hangs": SignalKind(None, ("device-health",), "driver"),
    "link-down": SignalKind(None, ("device-health",), "network"),
    "distribution-twice": SignalKind(None, ("namespace-residue",), "pip"),
    "unreadable": SignalKind(benign=True),
    # which machine it is: read by Facts.accelerator, no finding of their own
    "cuda-host": SignalKind(benign=True, component="cuda"),
    "npu-named": SignalKind(benign=True),
}
