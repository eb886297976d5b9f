"""Error texts -> signals: by owner of the symbol, library, module, name or attribute."""

from __future__ import annotations

import pytest

from certify.environment.report import read_report
from certify.environment.signals import SIGNALS
from certify.environment.symptoms.patterns import PATTERNS

NPU = "/x/site-packages/torch_npu/lib/libtorch_npu.so"
TEXTS = {
    "TypeError: init_multi_process_env() takes 9 positional arguments but 10 were given": (
        "tbe-signature"
    ),
    "TypeError: _worker_init() takes from 2 to 3 positional arguments but 4 were given": (
        "tbe-signature"
    ),
    "TypeError: init_process_pool() missing 1 required positional argument: 'x'": "tbe-signature",
    "AttributeError: module 'sglang.version' has no attribute '__version__'": "module-not-built",
    "AttributeError: module 'vllm._version' has no attribute 'version'": "module-not-built",
    "ModuleNotFoundError: No module named 'verl._version'": "module-not-built",
    "AttributeError: module 'torch_npu.version' has no attribute 'cann'": (
        "module-torch-npu-partial"
    ),
    "<module 'torch_npu' (namespace) from ['/usr/lib/site-packages/torch_npu']>": (
        "namespace-residue"
    ),
    "<module 'vllm' (namespace)>": "namespace-residue",
    "_NamespacePath(['/usr/lib/site-packages/triton'])": "namespace-residue",
    "No such file or directory: '/opp/built-in/op_impl/tbe/kernel/config/ascend310p'": (
        "kernels-missing"
    ),
    "Cannot find kernel config for Ascend310P3": "kernels-missing",
    "kernel of ascend310p does not exist": "kernels-missing",
    f"ImportError: {NPU}: undefined symbol: _ZN3atb9OtherThingEv": "symbol-atb",
    f"ImportError: {NPU}: undefined symbol: _ZN3c104impl3FooEv": "symbol-torch",
    f"ImportError: {NPU}: undefined symbol: _ZN5torch3BarEv": "symbol-torch",
    f"ImportError: {NPU}: undefined symbol: aclrtNewThing": "symbol-cann",
    f"ImportError: {NPU}: undefined symbol: HcclBrandNew": "symbol-cann",
    "undefined symbol: MsprofOther": "symbol-cann",
    "/usr/local/Ascend/cann-9.0.0/lib64/libruntime.so: undefined symbol: "
    "halNewCall": "symbol-driver",
    "/usr/local/Ascend/ascend-toolkit/latest/lib64/libge_runner.so: undefined symbol: "
    "_ZN2ge7NewNameEv": "symbol-cann-internal",
    "/x/my_ops/libcust_ops.so: undefined symbol: aclnnMine": "symbol-extension",
    "/x/turbo/_ops.so: undefined symbol: _ZNK6AsdOps3Ops3GetERKSs": "symbol-abi",
    "/a/nnal/atb/latest/atb/cxx_abi_1/lib/liba.so: undefined symbol: _ZN3Mki1DERKSs": "symbol-atb",
    "未定义符号：_ZN3atb3FooEv": "symbol-atb",
    "libstdc++.so.6: version `GLIBCXX_3.4.31' not found (required by x.so)": "libstdcxx-old",
    "/lib64/libc.so.6: version `GLIBC_2.34' not found (required by x.so)": "glibc-old",
    "libascend_hal.so: cannot open shared object file: No such file or directory": "library-driver",
    "libhccl.so: cannot open shared object file: No such file or directory": "library-cann",
    "libatb.so: cannot open shared object file: No such file or directory": "library-nnal",
    "libcudart.so.12: cannot open shared object file: No such file": "library-cuda",
    "libGL.so.1: cannot open shared object file: No such file": "library-other",
    "ModuleNotFoundError: No module named 'te.platform'": "module-cann",
    "ModuleNotFoundError: No module named 'decorator'": "module-cann-deps",
    "No module named 'triton.backends.ascend'": "module-triton-backend",
    "No module named 'triton.compiler'": "module-triton-damaged",
    "No module named 'triton'": "module-triton-absent",
    "No module named 'torch_npu'": "module-torch-npu",
    "No module named 'torch_npu._C'": "module-torch-npu-partial",
    "No module named 'vllm_ascend._version'": "module-not-built",
    "No module named 'mindspeed.core.fusions'": "module-mindspeed",
    "No module named 'megatron.bridge'": "module-megatron",
    "No module named 'flash_attn'": "module-cuda-only",
    "No module named 'vllm._C'": "benign-vllm-c",
    "No module named 'torch._inductor.scheduler'": "module-torch-too-old",
    "cannot import name 'X' from 'vllm' (unknown location)": "namespace-residue",
    "cannot import name 'X' from 'transformers.utils' (/x/utils.py)": "module-transformers",
    "cannot import name 'X' from 'megatron.core.utils' (/x/utils.py)": "module-megatron",
    "cannot import name 'ascend' from 'triton._C.libtriton'": "module-triton-backend",
    "module 'torch_npu' has no attribute '_autoload'": "module-torch-npu-partial",
    "module 'torch_npu' has no attribute 'npu_new_op'": "attribute-torch-npu-op",
    "module 'torch' has no attribute 'npu'": "module-torch-npu",
    "module 'numpy' has no attribute 'bool'": "attribute-numpy",
    "'_OpNamespace' 'npu' object has no attribute 'npu_new'": "attribute-torch-npu-op",
    "aclnnFooV9 or aclnnFooV9GetWorkspaceSize not in libopapi.so": "function-not-in-cann",
    "RuntimeError: Failed to find function aclmdlNew": "function-not-in-cann",
    "RuntimeError: Unsupported soc version: Ascend310B1": "soc-unsupported",
    "AclSetCompileopt(x, y), error code is 500001": "compile-option-failed",
    "build op model failed, result = 500001[FUNC:x]": "compile-option-failed",
    "Get ACL JitCompile default value failed": "jit-default-failed",
    "Op Cast does not has any binary.": "kernels-missing",
    "The binary_info_config.json of socVersion [ascend910b] does not support opType "
    "[X]": "kernels-missing",
    "init_multi_process_env() takes from 3 to 7 positional arguments but 8 were "
    "given": "tbe-signature",
    "Failed to load the backend extension: torch_npu.": "autoload-failed",
    "dcmi module initialize failed. ret is -8005": "dcmi-failed",
    "dcmi model initialized failed, because the device is used. ret is -8020": "device-used",
    "open /dev/davinci0: Permission denied": "device-permission",
    "npu-smi: command not found": "npu-smi-absent",
    "aclrtSetDevice failed, runtime result = 507033": "device-open-failed",
    "EI0006: Getting socket times out.": "collective-timeout",
    "ERROR: No matching distribution found for torch-npu==2.7.1.post1": "no-distribution",
    "torch-npu 2.8.0 depends on torch==2.8.0+cpu": "local-version-conflict",
    "Successfully uninstalled triton-3.2.0": "triton-uninstalled",
    "Package requires a different Python: 3.8.10 not in '>=3.9'": "python-required",
    "x-1.0-cp39-cp39-linux_aarch64.whl is not a supported wheel on this "
    "platform": "wheel-not-for-here",
    "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.2": "numpy-abi",
    "Setting accelerator to CPU. If you have GPU": "accelerator-cpu",
    "AssertionError: Torch not compiled with CUDA enabled": "cuda-not-compiled",
    "model type `foo` but Transformers does not recognize this "
    "architecture": "architecture-unknown",
    "RuntimeError: Failed to infer device type": "accelerator-unknown",
    "0 active drivers ([]). There should only be one.": "module-triton-backend",
    "this binary was compiled against CANN 8.0.RC2": "built-for",
    "The build version is 8.0.0, but the current environment version is 8.1.0": "built-for",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text: str) -> None:
    assert TEXTS[text] in {signal.id for signal in read_report(text).signals}


def test_removing_triton_ascend_is_not_removing_triton() -> None:
    signals = read_report("Successfully uninstalled triton-ascend-3.2.0").signals
    assert "triton-uninstalled" not in {signal.id for signal in signals}


def test_data_of_a_match_and_its_line() -> None:
    stack = read_report("first line\n" + f"OSError: {NPU}: undefined symbol: _ZN3atb3FooEv\n")
    signal = stack.signals[0]
    assert signal.source == "report:2"
    assert signal.data == {"symbol": "_ZN3atb3FooEv", "library": NPU}


def test_the_end_of_a_long_log_counts() -> None:
    noise = "permission denied: /tmp/x\n" * 5000
    stack = read_report(noise + "open /dev/davinci3: permission denied\n")
    assert [signal.data["path"] for signal in stack.signals] == ["/dev/davinci3"]


def test_patterns_and_registry_agree() -> None:
    for pattern in PATTERNS:
        assert pattern.signal is None or pattern.signal in SIGNALS
        assert pattern.anchors
        assert all(anchor == anchor.lower() for anchor in pattern.anchors)


def test_a_signal_is_decisive_or_has_candidates_or_is_benign() -> None:
    from matrices.load import read_table

    rules = {row["rule"] for row in read_table("rules")} | {"device-health"}
    for name, kind in SIGNALS.items():
        assert not (kind.decisive and kind.candidates), name
        assert not (kind.benign and (kind.decisive or kind.candidates)), name
        assert {kind.decisive, *kind.candidates} - {None} <= rules, name


def test_namespaces_by_design_are_no_residue() -> None:
    for text in ("<module 'megatron' (namespace)>", "_NamespacePath(['/x/google'])"):
        assert not read_report(text).signals
