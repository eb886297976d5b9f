"""Who should have had a missing Python module, name or attribute.

Each function takes the named parts of a match and the line it stood in, and returns the id of a
signal, or None when the text says nothing about the stack.
"""

from __future__ import annotations

# --- owners of modules -------------------------------------------------------------------------
# CANN's own Python packages, which set_env.sh puts on PYTHONPATH.
_CANN_MODULES = (
    "tbe",
    "te",
    "acl",
    "hccl",
    "auto_tune",
    "schedule_search",
    "te_fusion",
    "opc_tool",
    "asc_op_compile_base",
    "tbetoolkits",
    "impl",
    "aclruntime",
)
# Third-party packages that CANN's compiler imports (install guide, "Python dependencies").
_CANN_NEEDS = (
    "decorator",
    "attr",
    "attrs",
    "psutil",
    "scipy",
    "sympy",
    "cffi",
    "absl",
    "cloudpickle",
    "ml_dtypes",
    "tornado",
    "pathlib2",
    "google.protobuf",
    "synr",
)
_MODULE_OWNERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (
            "triton._C.libtriton.ascend",
            "triton.backends.ascend",
            "triton.language.extra.ascend",
            "triton.language.extra.cann",
            "triton._C.libtriton",
        ),
        "module-triton-backend",
    ),
    (
        (
            "triton.compiler",
            "triton.language",
            "triton.runtime",
            "triton.backends",
            "triton._C",
            "triton.tools",
            "triton._utils",
        ),
        "module-triton-damaged",
    ),
    (("vllm._C", "vllm._moe_C", "vllm._rocm_C"), "benign-vllm-c"),
    (
        (
            "vllm_ascend.vllm_ascend_C",
            "vllm_ascend_C",
        ),
        "module-not-built",
    ),
    (
        (
            "torch_npu._C",
            "torch_npu.version",
            "torch_npu.npu",
            "torch_npu.utils",
            "torchnpugen",
            "torch_npu._",
            "torch._C",
            "torch.version",
        ),
        "module-torch-npu-partial",
    ),
    (("torch_npu",), "module-torch-npu"),
    (("mindspeed_llm", "modellink"), "module-mindspeed"),
    (("mindspeed", "fsdpturbo", "mindspeed_mm"), "module-mindspeed"),
    (("megatron", "mbridge", "mcore_bridge"), "module-megatron"),
    (("transformers",), "module-transformers"),
    (
        (
            "flash_attn",
            "flash_attn_2_cuda",
            "xformers",
            "apex",
            "amp_C",
            "cupy",
            "pynvml",
            "pycuda",
            "fused_layer_norm_cuda",
            "bitsandbytes.cuda",
            "transformer_engine_torch",
            "deep_ep",
            "deep_gemm",
        ),
        "module-cuda-only",
    ),
    (
        ("vllm", "vllm_ascend", "sglang", "verl", "swift", "llamafactory", "lmdeploy"),
        "module-framework",
    ),
    (
        (
            "torch._inductor",
            "torch.distributed",
            "torch._dynamo",
            "torch.library",
            "torch._higher",
            "torch.compiler",
            "torch.nn.attention",
            "torch.utils",
            "torch.export",
            "torch._",
        ),
        "module-torch-too-old",
    ),
)


def _owned(module: str, prefix: str) -> bool:
    return (
        module == prefix
        or module.startswith((prefix + ".",))
        or (prefix.endswith("_") and module.startswith(prefix))
    )


def module_signal(data: dict[str, str], line: str) -> str | None:
    """The signal of a module that could not be imported, by its owner."""
    module = data.get("module", "")
    if "unknown location" in line:
        return "namespace-residue"
    if "is not a package" in line and module.startswith("triton._C"):
        return "module-triton-backend"
    if module == "triton":
        return "module-triton-absent"
    first = module.split(".")[0]
    if module.endswith(("._version", "._build_info")):
        built = version_module_signal(module, line)
        if built is not None:
            return built
    if first in _CANN_MODULES:
        return "module-cann"
    if first in _CANN_NEEDS or module in _CANN_NEEDS:
        return "module-cann-deps"
    for prefixes, signal in _MODULE_OWNERS:
        if any(_owned(module, prefix) for prefix in prefixes):
            return signal
    return None


# Packages that share one folder by design and therefore have no __init__.py.
_NAMESPACES_BY_DESIGN = frozenset(
    ("megatron", "google", "nvidia", "azure", "zope", "ruamel", "backports", "opentelemetry",
     "mpl_toolkits", "sphinxcontrib", "jaraco")
)  # fmt: skip


def namespace_signal(data: dict[str, str], line: str) -> str | None:
    """The signal of a module that Python shows as a namespace: a folder left behind."""
    path = data.pop("path", "")
    if path:
        data["module"] = path.rstrip("/").rsplit("/", 1)[-1]
        data["path"] = path
    first = data.get("module", "").split(".")[0]
    return None if not first or first in _NAMESPACES_BY_DESIGN else "namespace-residue"


def name_signal(data: dict[str, str], line: str) -> str | None:
    """The signal of ``cannot import name X from M``: M has another version than the caller."""
    module = data.get("module", "")
    if "unknown location" in line:
        return "namespace-residue"
    if module.startswith("triton._C.libtriton") or (
        module.startswith("triton") and data.get("name") == "ascend"
    ):
        return "module-triton-backend"
    first = module.split(".")[0]
    owners = {
        "transformers": "module-transformers",
        "huggingface_hub": "module-transformers",
        "tokenizers": "module-transformers",
        "mindspeed": "module-mindspeed",
        "mindspeed_llm": "module-mindspeed",
        "fsdpturbo": "module-mindspeed",
        "megatron": "module-megatron",
        "mcore_bridge": "module-megatron",
        "vllm": "module-framework",
        "vllm_ascend": "module-framework",
        "verl": "module-framework",
        "sglang": "module-framework",
        "swift": "module-framework",
        "trl": "module-framework",
        "triton": "module-triton-damaged",
        "torch": "module-torch-too-old",
        "llamafactory": "module-framework",
        "tbe": "tbe-signature",
        "te": "tbe-signature",
    }
    if first == "torch_npu":
        partial = "partially initialized" in line
        return "module-torch-npu-partial" if partial else "attribute-torch-npu-op"
    if first in owners:
        return owners[first]
    return "module-shadowed" if "partially initialized" in line else None


_TORCH_NPU_BASICS = frozenset(
    ("_autoload", "npu", "_C", "utils", "version", "__version__", "contrib", "distributed")
)


_BUILT_FROM_SOURCE = frozenset(
    (
        "vllm", "vllm_ascend", "torchair", "sgl_kernel_npu", "sglang", "verl", "swift", "deepspeed",
        "llamafactory", "lmdeploy", "triton_ascend", "mindspeed", "mindspeed_llm", "megatron",
        "transformers", "accelerate", "peft", "fla_npu", "lmcache_ascend", "veomni",
    )
)  # fmt: skip


def version_module_signal(module: str, line: str) -> str | None:
    """The signal of a version or build module that is absent or empty: it is written by the build,
    so its package runs from a source folder or was installed by halves."""
    first = module.split(".")[0]
    if first in ("torch_npu", "torch"):
        return "module-torch-npu-partial"
    if first == "triton":
        return "module-triton-damaged"
    return "module-not-built" if first in _BUILT_FROM_SOURCE else None


def attribute_signal(data: dict[str, str], line: str) -> str | None:
    """The signal of ``module 'M' has no attribute 'X'``."""
    module, name = data.get("module", ""), data.get("name", "")
    if module.endswith(("._version", ".version", "._build_info")):
        return version_module_signal(module, line)
    if module == "torch_npu":
        return "module-torch-npu-partial" if name in _TORCH_NPU_BASICS else "attribute-torch-npu-op"
    if module in ("torch_npu._C", "torch.ops.npu", "torch.npu"):
        return "attribute-torch-npu-op"
    if module == "torch" and name == "npu":
        return "module-torch-npu"
    if module in ("torch", "torch._C") and "partially initialized" in line:
        return "module-shadowed"
    if module == "triton" or module.startswith("triton."):
        return "module-triton-damaged"
    if module in ("numpy", "np"):
        return "attribute-numpy"
    first = module.split(".")[0]
    if first in ("tbe", "te", "acl"):
        return "tbe-signature"
    return {
        "mindspeed": "module-mindspeed",
        "megatron": "module-megatron",
        "transformers": "module-transformers",
        "vllm": "module-framework",
        "vllm_ascend": "module-framework",
    }.get(first)


def ops_signal(data: dict[str, str], line: str) -> str:
    """``'_OpNamespace' 'npu' object has no attribute``: an operator this torch_npu lacks."""
    return "attribute-torch-npu-op"


def uninstall_signal(data: dict[str, str], line: str) -> str | None:
    """Removing plain triton takes triton-ascend's files with it."""
    return "triton-uninstalled"
