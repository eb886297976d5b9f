"""Rules of environment variables that a script exports.

Values, ranges and bad combinations are those of torch_npu's and CANN's documents
(Ascend/pytorch docs/zh/api/environment_variable at 9e73e708a; hiascend, HCCL).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.recipes.lint.context import Context, Hit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# variable -> least and greatest whole number it takes.
_RANGES = {
    "HCCL_CONNECT_TIMEOUT": (120, 7200),
    "HCCL_EXEC_TIMEOUT": (0, 2147483647),
    "HCCL_EVENT_TIMEOUT": (0, 2147483647),
    "HCCL_BUFFSIZE": (1, 1 << 31),
    "TASK_QUEUE_ENABLE": (0, 2),
    "ASCEND_LAUNCH_BLOCKING": (0, 1),
    "COMBINED_ENABLE": (0, 1),
    "INF_NAN_MODE_ENABLE": (0, 1),
    "TORCH_TRANSFER_TO_NPU": (0, 1),
    "MULTI_STREAM_MEMORY_REUSE": (0, 3),
    "TORCH_HCCL_ZERO_COPY": (0, 1),
    "ACL_DEVICE_SYNC_TIMEOUT": (1, 2147483),
    "PER_STREAM_QUEUE": (0, 1),
    "ASCEND_GLOBAL_LOG_LEVEL": (0, 4),
    "HCCL_WHITELIST_DISABLE": (0, 1),
}
_DEFAULT_EXEC_TIMEOUT = 1836


def _allocator(text: str) -> dict[str, str]:
    pairs = (part.partition(":") for part in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def ranges(c: Context) -> Iterator[Hit]:
    """E02: values outside what a variable takes."""
    env: Mapping[str, Any] = c.raw.get("env", {})
    for name, (least, most) in _RANGES.items():
        value = env.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or not least <= value <= most:
            yield Hit("E02", f"{name}={value}, takes {least} to {most}", f"env.{name}")
    affinity = env.get("CPU_AFFINITY_CONF")
    if affinity is not None and str(affinity).split(",")[0] not in ("0", "1", "2"):
        yield Hit("E02", f"CPU_AFFINITY_CONF={affinity}", "env.CPU_AFFINITY_CONF")


def combinations(c: Context) -> Iterator[Hit]:
    """E03: settings that exclude each other."""
    env: Mapping[str, Any] = c.raw.get("env", {})
    allocator = _allocator(str(env.get("PYTORCH_NPU_ALLOC_CONF", "")))
    expandable = allocator.get("expandable_segments") == "True"
    for name in ("max_split_size_mb", "garbage_collection_threshold"):
        if expandable and name in allocator:
            found = f"expandable_segments:True with {name}"
            yield Hit("E03", found, "env.PYTORCH_NPU_ALLOC_CONF")
    if {"pin_memory_expandable_segments", "pinned_mem_register"} <= set(allocator):
        found = "pin_memory_expandable_segments with pinned_mem_register"
        yield Hit("E03", found, "env.PYTORCH_NPU_ALLOC_CONF")
    if "PYTORCH_ALLOC_CONF" in env and "PYTORCH_NPU_ALLOC_CONF" in env:
        found = "PYTORCH_ALLOC_CONF and PYTORCH_NPU_ALLOC_CONF (refused from TorchNPU 26.2.0)"
        yield Hit("E03", found, "env.PYTORCH_ALLOC_CONF")
    event, run = env.get("HCCL_EVENT_TIMEOUT"), env.get("HCCL_EXEC_TIMEOUT", _DEFAULT_EXEC_TIMEOUT)
    if isinstance(event, int) and isinstance(run, int) and 0 < event <= run:
        found = f"HCCL_EVENT_TIMEOUT {event} is not above HCCL_EXEC_TIMEOUT {run}"
        yield Hit("E03", found, "env.HCCL_EVENT_TIMEOUT")
    if env.get("TORCH_HCCL_ZERO_COPY") == 1:
        product = c.get("product") or c.get("product_hint")
        if not expandable or product not in (None, "A3"):
            found = f"TORCH_HCCL_ZERO_COPY needs expandable_segments:True and A3, here {product}"
            yield Hit("E03", found, "env.TORCH_HCCL_ZERO_COPY")
    if env.get("INF_NAN_MODE_ENABLE") == 0 and env.get("INF_NAN_MODE_FORCE_DISABLE") != 1:
        found = "INF_NAN_MODE_ENABLE=0 without INF_NAN_MODE_FORCE_DISABLE=1"
        yield Hit("E03", found, "env.INF_NAN_MODE_ENABLE")


def advice(c: Context) -> Iterator[Hit]:
    """E04, E06: advised against, or without effect."""
    env: Mapping[str, Any] = c.raw.get("env", {})
    if env.get("ASCEND_LAUNCH_BLOCKING") == 1:
        found = "ASCEND_LAUNCH_BLOCKING=1 is for debugging: the task queue is off"
        yield Hit("E04", found, "env.ASCEND_LAUNCH_BLOCKING")
    if env.get("MULTI_STREAM_MEMORY_REUSE") == 2:
        found = "MULTI_STREAM_MEMORY_REUSE=2 is not recommended"
        yield Hit("E04", found, "env.MULTI_STREAM_MEMORY_REUSE")
    if env.get("STREAMS_PER_DEVICE") not in (None, 8, 32):
        found = f"STREAMS_PER_DEVICE={env['STREAMS_PER_DEVICE']}: only 8 and 32 count"
        yield Hit("E04", found, "env.STREAMS_PER_DEVICE")
    if env.get("HCCL_OP_EXPANSION_MODE") == "AIV":
        if str(env.get("HCCL_DETERMINISTIC", "")).lower() == "true":
            yield Hit("E04", "HCCL_DETERMINISTIC=true overrides AIV", "env.HCCL_OP_EXPANSION_MODE")
        if (c.get("product") or c.get("product_hint")) == "A2":
            found = "HCCL_OP_EXPANSION_MODE=AIV is for inference on A2"
            yield Hit("E04", found, "env.HCCL_OP_EXPANSION_MODE")
    if env.get("ASCEND_GLOBAL_LOG_LEVEL") in (0, 1):
        found = f"ASCEND_GLOBAL_LOG_LEVEL={env['ASCEND_GLOBAL_LOG_LEVEL']} slows training"
        yield Hit("E04", found, "env.ASCEND_GLOBAL_LOG_LEVEL")
    if "NPU_ASD_ENABLE" in env:
        yield Hit("E06", f"NPU_ASD_ENABLE={env['NPU_ASD_ENABLE']}", "env.NPU_ASD_ENABLE")


def backend(c: Context) -> Iterator[Hit]:
    """E01, E05: what the training program itself demands."""
    env: Mapping[str, Any] = c.raw.get("env", {})
    from_script = c.imported is None or c.imported.script is not None
    if c.fsdp2 and from_script and env.get("TRAINING_BACKEND") != "mindspeed_fsdp":
        yield Hit("E01", f"TRAINING_BACKEND={env.get('TRAINING_BACKEND', '(unset)')}", "env")
    split = c.number("parallel.tp") > 1 or c.number("parallel.cp") > 1
    connections = env.get("CUDA_DEVICE_MAX_CONNECTIONS")
    if c.raw["backend"] == "mcore" and split and connections != 1:
        shown = "(unset)" if connections is None else connections
        at = "env.CUDA_DEVICE_MAX_CONNECTIONS"
        yield Hit("E05", f"CUDA_DEVICE_MAX_CONNECTIONS={shown}", at)


CHECKS = (ranges, combinations, advice, backend)
