"""Names: packages to component keys, spellings that people use, variables that may be recorded."""

from __future__ import annotations

from certify.light import lazy

# PEP 503 name -> component key of the matrix, where they differ by more than "-" and "_".
_RENAMED = {
    "mindspeed": "mindspeed_core",
    "megatron-core": "megatron",
    "megatron-lm": "megatron",
    "ms-swift": "ms_swift",
    "mooncake-transfer-engine": "mooncake",
    "llamafactory": "llamafactory",
    "llama-factory": "llamafactory",
    # conda calls them so, and people write a pin for what is no package of pip
    "cann": "cann",
    "cann-toolkit": "cann",
    "cann-kernels": "cann_ops",
    "cann-nnal": "nnal",
}
_COMPONENT_PACKAGES = frozenset(
    (
        "torch", "torch-npu", "torchvision", "torchaudio", "triton-ascend", "triton",
        "transformers", "tokenizers", "accelerate", "deepspeed", "numpy", "scipy", "peft", "attrs",
        "decorator", "psutil", "mindspeed", "mindspeed-llm", "mindspeed-mm", "megatron-core",
        "megatron-lm", "megatron-bridge", "mcore-bridge", "mbridge", "fsdpturbo", "fla-npu", "vllm",
        "vllm-ascend", "verl", "llamafactory", "llama-factory", "veomni", "ms-swift", "sglang",
        "sgl-kernel", "sgl-kernel-npu", "mooncake-transfer-engine", "xgrammar", "flagtree",
        "bitsandbytes", "flash-attn", "apex", "mindietorch", "mindie-turbo", "ray", "datasets",
        "trl", "cloudpickle", "cffi", "sympy", "absl-py", "ml-dtypes", "te", "hccl", "auto-tune",
        "opc-tool", "transformer-engine", "torchair", "lmcache", "lmcache-ascend", "lmdeploy",
        "dlinfer-ascend", "huggingface-hub", "safetensors", "sentencepiece", "pydantic", "protobuf",
        "tornado", "openmind", "torchdata", "torchtitan", "nvidia-nccl-cu12", "cupy", "xformers",
        "gradio", "fastapi", "modelscope", "flashinfer-python", "onnxruntime", "diffusers",
    )
)  # fmt: skip

_SEPARATORS = lazy(r"[-_.]+")


def normal(name: str) -> str:
    """A package name in PEP 503 form."""
    return _SEPARATORS.sub("-", name.strip()).lower()


def is_known_package(name: str) -> bool:
    """Whether a normalised package name is one that reports are searched for."""
    return name in _COMPONENT_PACKAGES or name.startswith("nvidia-")


def component_of(name: str) -> str | None:
    """The component key of a normalised package name, None for packages no rule speaks of."""
    if name in _RENAMED:
        return _RENAMED[name]
    return name.replace("-", "_") if is_known_package(name) else None


# Environment variables that may be recorded: by prefix or exact name. Never a name that looks
# like a secret, whatever its prefix.
_PREFIXES = (
    "ASCEND", "ATB_", "HCCL_", "LCCL_", "LCAL_", "ACL_", "TORCH", "PYTORCH_", "NPU_", "TRITON_",
    "CANN_", "MINDSPEED_", "MEGATRON", "GLOO_", "P2P_HCCL_", "MSPROF", "NCCL_", "CUDA_", "VLLM_",
    "VERL_", "ASDOPS_", "TP_SOCKET", "INF_NAN_", "OMP_NUM", "MKL_NUM", "GE_", "AICPU_", "HF_HUB_O",
    "TRANSFORMERS_O", "CLOSE_MATMUL", "MULTI_STREAM", "TASK_QUEUE", "RT_", "TE_PARALLEL",
)  # fmt: skip
_NAMES = frozenset(
    (
        "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PATH", "TOOLCHAIN_HOME",
        "TASK_QUEUE_ENABLE", "PER_STREAM_QUEUE", "COMBINED_ENABLE", "STREAMS_PER_DEVICE",
        "MULTI_STREAM_MEMORY_REUSE", "OOM_SNAPSHOT_ENABLE", "CPU_AFFINITY_CONF", "RANK_TABLE_FILE",
        "TRAINING_BACKEND", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "WORLD_SIZE",
        "RANK", "LOCAL_RANK", "NNODES", "NPROC_PER_NODE", "MASTER_PORT", "OPP_CUSTOM_PATH",
        "PYTHONHASHSEED", "DETERMINISTIC", "ENABLE_ATB", "DDK_PATH", "NPU_HOST_LIB",
        "CLOSE_MATMUL_K_SHIFT", "CUBLAS_WORKSPACE_CONFIG", "USE_OPTIMIZED_MODEL", "IMAGE", "DEVICE",
        "NO_CUDA_EXT", "MAX_JOBS", "LANG_ENV", "container",
    )
)  # fmt: skip
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "_KEY", "CREDENTIAL", "AUTH", "COOKIE", "PWD")


def may_record(variable: str) -> bool:
    """Whether a variable is on the allow-list and its name is no secret's."""
    if any(word in variable.upper() for word in _SECRET):
        return False
    return variable in _NAMES or variable.startswith(_PREFIXES)
