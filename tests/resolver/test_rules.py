"""Rules by tables of pasted text: which rule fires, how hard, and what stays quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.environment.report import read_report
from certify.resolver.rules import RULES
from certify.resolver.rules.recipe import RecipeNeeds
from certify.resolver.rules.variables import allocator_options, fits
from certify.resolver.verdict import judge
from tests.environment.test_npu_smi import A2, A3, A950, P310

if TYPE_CHECKING:
    from certify.resolver.findings import Verdict
    from matrices.load import Matrix

HEALTHY = A2.replace("25.3.rc1", "25.5.0").replace("Warning", "OK     ")
GOOD = "torch==2.9.0\ntorch_npu==2.9.0\nCANN 8.5.0\npython 3.11\n" + HEALTHY


def severities(verdict: Verdict) -> dict[str, str]:
    order = ("info", "warning", "error")
    found: dict[str, str] = {}
    for finding in verdict.findings:
        before = found.get(finding.rule, "info")
        found[finding.rule] = max(before, finding.severity, key=order.index)
    return found


FIRES: dict[str, tuple[str, str, str]] = {
    # name: text, rule, severity
    "torch of another release": ("torch==2.6.0\ntorch-npu==2.7.1", "torch-pair", "error"),
    "torchvision": ("torch==2.7.1\ntorchvision==0.20.1", "torch-pair", "error"),
    "wheel and far CANN": ("torch-npu==2.1.0.post12\nCANN 9.1.0", "torch-npu-cann", "error"),
    "old driver, declared N": (
        "CANN 9.1.0\n" + A2.replace("25.3.rc1", "25.0.rc1"), "cann-driver", "error"),
    "driver older than the table": (
        "CANN 8.3.RC1\n" + A2.replace("25.3.rc1", "24.1.0"), "cann-driver", "warning"),
    "triton-ascend of another CANN": ("triton-ascend==3.2.1\nCANN 8.5.0", "triton-cann", "error"),
    "triton beside": ("triton==3.6.0\ntriton-ascend==3.2.0", "triton-exclusive", "error"),
    "triton removed": (
        "triton-ascend==3.2.0\nSuccessfully uninstalled triton-3.5.0", "triton-integrity", "error"),
    "ops package of another release": (
        "Ascend-cann-toolkit_9.1.0_linux-aarch64.run\n"
        "Ascend-cann-910b-ops_9.0.0_linux-aarch64.run", "cann-kernels", "error"),
    "nnal of another release": (
        "CANN 9.1.0\nAscend-cann-atb : 8.5.0\nPlatform : aarch64", "nnal", "error"),
    "numpy 2 under an old CANN": ("numpy==2.1.0\nCANN 8.1.RC1", "numpy", "error"),
    "transformers too new for torch_npu": (
        "transformers==4.53.0\ntorch-npu==2.1.0.post12", "transformers-range", "error"),
    "python without wheels": ("python 3.8\ntorch==2.9.0\ntorch-npu==2.9.0", "python", "error"),
    "MindSpeed of another branch": (
        "MindSpeed-LLM: 26.1.0\nMindSpeed: 2.3.0_core_r0.12.1", "mindspeed-pair", "error"),
    "Megatron of another line": (
        "MindSpeed: 26.1.0_core_r0.12.1\nMegatron-LM core_v0.8.0", "megatron-pair", "error"),
    "device without a place in the table": (
        "MindSpeed-LLM: 26.1.0\n" + P310, "soc", "error"),
    "old CANN on 950": ("CANN 8.2.RC1\n" + A950, "soc", "error"),
    "CUDA build": ("torch==2.6.0+cu124\ntorch-npu==2.6.0", "no-cuda-wheels", "error"),
    "CUDA packages": ("torch-npu==2.6.0\nnvidia-cublas-cu12==12.4\n", "no-cuda-wheels", "warning"),
    "image for another chip": (
        "image: quay.io/ascend/cann:8.5.0-a3-ubuntu22.04-py3.11\n" + A2, "soc", "warning"),
    "sightings that differ": (
        "CANN 8.2.RC1\nimage: quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11",
        "cann-layout", "warning"),
    "alarm": (A2.replace("| OK  ", "| Alarm"), "device-health", "warning"),
    "lost card": (
        "".join(f"0{n}:00.0 Processing accelerators: Huawei Technologies Device d801\n"
                for n in range(7)), "device-health", "warning"),
    "ABI unknown": ("ATB_HOME_PATH=/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_0",
                    "cxx-abi", "info"),
    "ABI differs": (
        "ATB_HOME_PATH=/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_0\n"
        "_GLIBCXX_USE_CXX11_ABI=1", "cxx-abi", "error"),
    "wheel of another Python": (
        "Python 3.10.12\nERROR: x-1-cp39-cp39-linux_aarch64.whl is not a supported wheel on this "
        "platform.", "python", "error"),
    "wheel of another machine": (
        "aarch64\nERROR: x-1-cp39-cp39-linux_x86_64.whl is not a supported wheel on this platform.",
        "package-index", "error"),
    "+cpu on x86": ("torch-npu 2.8.0 depends on torch==2.8.0+cpu", "package-index", "error"),
    "wrapper alone": ("Failed to load the backend extension: torch_npu", "autoload-wrapper",
                      "warning"),
    "two checkouts": ("PYTHONPATH=/a/Megatron-LM:/b/Megatron-LM-core", "megatron-single", "error"),
    "checkout beside the package": (
        "PYTHONPATH=/a/Megatron-LM\nmegatron-core==0.15.0", "megatron-single", "error"),
    "built for another CANN": (
        "CANN 8.1.RC1\nlibfoo was built for CANN 8.0.RC2", "built-for-cann", "error"),
    "message names its CANN": ("CANN 8.0.RC2\nthis op needs CANN >= 8.2.RC1", "torch-npu-cann",
                               "error"),
    "variables out of range": ("HCCL_CONNECT_TIMEOUT=60", "variables", "error"),
    "torch under CANN, wheel unknown": ("torch==2.5.1\nCANN 8.1.RC1", "torch-npu-cann", "info"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str, matrix: Matrix) -> None:
    text, rule, severity = FIRES[name]
    assert severities(judge(read_report(text), matrix)).get(rule) == severity


QUIET: dict[str, tuple[str, str]] = {
    # name: text, rule that must be no error
    "vllm asks for another torch": (
        "vllm 0.8.5 requires torch==2.6.0, but you have torch 2.5.1 which is incompatible.",
        "torch-pair"),
    "+cpu on aarch64": ("aarch64\ntorch-npu 2.8.0 depends on torch==2.8.0+cpu", "package-index"),
    "CUDA hard-coded": (
        "torch==2.7.1\ntorch-npu==2.7.1\nTorch not compiled with CUDA enabled",
        "transformers-range"),
    "local part of torch": ("torch==2.7.1+cpu\ntorch-npu==2.7.1.post2", "torch-pair"),
    "point release of CANN": ("triton-ascend==3.2.1\nCANN 9.0.1", "triton-cann"),
    "collectives": ("EI0006: Getting socket times out", "cann-driver"),
    "numpy 2 under a new CANN": ("numpy==2.1.0\nCANN 9.1.0", "numpy"),
    "a closed node explains DCMI": (
        "crw-rw---- 1 1000 1000 1, 0 Jan 1 10:00 /dev/davinci0\nuid=7(u) gid=7(u)\n"
        "dcmi module initialize failed. ret is -8005", "container-devices"),
    "a promise of an image": (
        "image: quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.11\ntorch-npu==2.1.0.post12",
        "torch-npu-cann"),
    "a train is no version": ("CANN 8.2\ntorch-npu==2.9.0.post8", "torch-npu-cann"),
}  # fmt: skip


@pytest.mark.parametrize("name", QUIET)
def test_quiet(name: str, matrix: Matrix) -> None:
    text, rule = QUIET[name]
    assert severities(judge(read_report(text), matrix)).get(rule) != "error"


VERDICTS = {
    "reference": GOOD,
    "compatible": GOOD.replace("CANN 8.5.0", "CANN 9.0.0"),
    "unverified": GOOD.replace(HEALTHY, ""),
    "incompatible": GOOD.replace("torch==2.9.0", "torch==2.8.0"),
    "unknown": "it does not work, please help",
}


@pytest.mark.parametrize("word", VERDICTS)
def test_verdicts(word: str, matrix: Matrix) -> None:
    assert judge(read_report(VERDICTS[word]), matrix).verdict == word


def test_what_is_missing_is_asked_for(matrix: Matrix) -> None:
    missing = {item.component for item in judge(read_report("CANN 8.5.0"), matrix).missing}
    assert {"torch", "torch_npu", "driver", "product", "python"} <= missing
    assert not judge(read_report(GOOD), matrix).missing


def test_candidates_are_all_named_and_excluded_ones_left_out(matrix: Matrix) -> None:
    text = "AclSetCompileopt(x), error code is 500001"
    assert severities(judge(read_report(text), matrix)) == {
        "numpy": "warning", "cann-python-deps": "warning", "container-devices": "warning",
        "python": "info",
    }  # fmt: skip
    narrowed = severities(judge(read_report(text + "\nnumpy==1.26.4\nCANN 8.1.RC1\n"), matrix))
    assert "numpy" not in narrowed
    confirmed = severities(judge(read_report(text + "\nnumpy==2.0.1\nCANN 8.1.RC1\n"), matrix))
    assert confirmed["numpy"] == "error"


def test_the_smallest_change_honours_keep(matrix: Matrix) -> None:
    stack = read_report("torch==2.6.0\ntorch-npu==2.7.1\nCANN 8.3.RC1\n" + A2)
    free = judge(stack, matrix).resolution
    assert free is not None
    moved = {change.component for change in free.changes}
    assert len(moved) == 1
    assert moved <= {"torch", "torch_npu"}
    kept = judge(stack, matrix, keep=tuple(moved)).resolution
    assert kept is not None
    assert {change.component for change in kept.changes} == {"torch", "torch_npu"} - moved


def test_the_product_can_be_given(matrix: Matrix) -> None:
    text = "CANN 8.2.RC1\ntorch==2.6.0\ntorch-npu==2.6.0"
    assert "soc" not in severities(judge(read_report(text), matrix))
    assert severities(judge(read_report(text), matrix, product="950"))["soc"] == "error"


NEEDS = RecipeNeeds(
    "some-recipe", "fsdp2", product="A3", npus_per_node=16, model_type="qwen3_moe",
    branch="26.0.0", env={"TRAINING_BACKEND": "mindspeed_fsdp", "TASK_QUEUE_ENABLE": "2"},
)  # fmt: skip
RECIPE = {
    "another family": (A2, "soc", "error"),
    "too few devices": (A3, "recipe-pins", "error"),
    "another branch": ("MindSpeed-LLM: 2.3.0", "recipe-pins", "warning"),
    "another variable": ("TASK_QUEUE_ENABLE=1", "recipe-pins", "warning"),
    "another backend": ("TRAINING_BACKEND=megatron", "recipe-pins", "error"),
    "old transformers": ("transformers==4.44.0", "transformers-model", "error"),
    "backend unset": ("torch==2.7.1", "recipe-pins", "info"),
}


@pytest.mark.parametrize("name", RECIPE)
def test_recipe(name: str, matrix: Matrix) -> None:
    text, rule, severity = RECIPE[name]
    found = severities(judge(read_report(text), matrix, recipe=NEEDS))
    assert found.get(rule) == severity


def test_a_model_that_is_only_mentioned_makes_no_demand(matrix: Matrix) -> None:
    stack = read_report("model: qwen3_moe\ntransformers==4.44.0")
    assert "transformers-model" not in severities(judge(stack, matrix))


BAD_VARIABLES = {
    "HCCL_EXEC_TIMEOUT=3600\nHCCL_EVENT_TIMEOUT=1868": "error",
    "HCCL_CONNECT_TIMEOUT=9000": "error",
    "ASCEND_LAUNCH_BLOCKING=1": "warning",
    "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True,max_split_size_mb:256": "error",
    "PYTORCH_NPU_ALLOC_CONF=page_size:1g,segment_size_mb:20": "warning",
    "PYTORCH_NPU_ALLOC_CONF=pinned_mem_register:True,pin_memory_expandable_segments:True": "error",
    "TORCH_HCCL_ZERO_COPY=1": "error",
    "STREAMS_PER_DEVICE=16": "warning",
    "MULTI_STREAM_MEMORY_REUSE=2": "info",
    "TORCH_TRANSFER_TO_NPU=yes": "error",
    "INF_NAN_MODE_ENABLE=0\nAscend 910B3": "error",
    "HCCL_OP_EXPANSION_MODE=AIV\nAscend 910B3": "warning",
    "HCCL_OP_EXPANSION_MODE=AIV\nHCCL_DETERMINISTIC=true": "warning",
    "ASCEND_GLOBAL_LOG_LEVEL=0": "warning",
    "NPU_ASD_ENABLE=0\ntorch-npu==2.7.1.post2": "info",
}


@pytest.mark.parametrize("text", BAD_VARIABLES)
def test_known_bad_variables(text: str, matrix: Matrix) -> None:
    assert severities(judge(read_report(text), matrix)).get("variables") == BAD_VARIABLES[text]


@pytest.mark.parametrize(
    "text",
    ["HCCL_CONNECT_TIMEOUT=1800", "HCCL_EXEC_TIMEOUT=3600", "TASK_QUEUE_ENABLE=2",
     "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", "HCCL_CONNECT_TIMEOUT=$T",
     "HCCL_EVENT_TIMEOUT=0\nHCCL_EXEC_TIMEOUT=1836"],
)  # fmt: skip
def test_good_variables(text: str, matrix: Matrix) -> None:
    assert "variables" not in severities(judge(read_report(text), matrix))


def test_the_array_form_keeps_its_commas() -> None:
    text = "roundup_power2_divisions:[256:1,512:2,>:8],expandable_segments:True"
    assert allocator_options(text) == {
        "roundup_power2_divisions": "[256:1,512:2,>:8]", "expandable_segments": "True",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("check", "value", "good"),
    [("one:0|1", "1", True), ("one:True|False", "true", True), ("one:0|1", "2", False),
     ("int:1:", "0", False), ("int:120:7200", "7200", True), ("int:1:5", "1.5", False),
     ("float:0:1", "0.95", True), ("int:0:9", "many", False)],
)  # fmt: skip
def test_checks_of_the_table(check: str, value: str, good: bool) -> None:
    assert fits(check, value) is good


def test_an_unlisted_build_is_doubtful(matrix: Matrix) -> None:
    text = "vllm-ascend==0.11.0rc1.dev99\nvllm==0.11.0"
    assert severities(judge(read_report(text), matrix))["framework-row"] == "warning"


def test_pairs_are_judged_before_the_rules_that_look_at_them() -> None:
    assert next(iter(RULES)) == "declared pairs"


CUDA_HOSTS = {
    "transformers env": (
        "- `transformers` version: 4.51.0\n- Python version: 3.11.9\n"
        "- PyTorch version (GPU?): 2.6.0+cu124 (True)\n- Using GPU in script?: yes"
    ),
    "newer transformers env": (
        "- PyTorch version (accelerator?): 2.6.0+cu124 (CUDA)\n- GPU type: NVIDIA A100-SXM4-80GB"
    ),
    "collect_env": (
        "PyTorch version: 2.6.0+cu124\nIs CUDA available: True\nPython version: 3.11.9\n"
        "GPU 0: NVIDIA H100 80GB HBM3\nNvidia driver version: 550.54.15\n"
        "[pip3] torch==2.6.0+cu124\n[pip3] nvidia-nccl-cu12==2.21.5"
    ),
    "llamafactory-cli env": (
        "- `llamafactory` version: 0.9.2\n- Python version: 3.11.9\n"
        "- PyTorch version: 2.6.0+cu124 (GPU)\n- GPU type: NVIDIA GeForce RTX 4090"
    ),
    "accelerate env": (
        "- PyTorch version (GPU?): 2.6.0+cu124 (True)\n- PyTorch NPU available: False\n"
        "- GPU type: Tesla V100-SXM2-32GB"
    ),
    "nvidia-smi": (
        "torch==2.6.0+cu124\nPython 3.11.9\n"
        "+-----------------------------------------------------------------------------+\n"
        "| NVIDIA-SMI 550.54.15      Driver Version: 550.54.15     CUDA Version: 12.4  |\n"
        "|-------------------------------+----------------------+----------------------+\n"
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
        "|   0  NVIDIA A100-SXM4-80GB On | 00000000:07:00.0 Off |                    0 |\n"
        "+-----------------------------------------------------------------------------+"
    ),
    "wheel alone": "torch==2.6.0+cu124",
}


@pytest.mark.parametrize("name", CUDA_HOSTS)
def test_a_cuda_host_is_not_blamed_for_cuda(name: str, matrix: Matrix) -> None:
    verdict = judge(read_report(CUDA_HOSTS[name]), matrix)
    assert "error" not in severities(verdict).values()
    assert "no-cuda-wheels" not in severities(verdict)
    assert verdict.verdict != "incompatible"


def test_what_a_cuda_host_must_still_show(matrix: Matrix) -> None:
    verdict = judge(read_report(CUDA_HOSTS["transformers env"]), matrix)
    asked = {missing.component for missing in verdict.missing}
    assert asked == {"cuda_driver"}


@pytest.mark.parametrize(
    "text", ["npu-smi info: OK", "CANN 8.5.0", "torch_npu==2.6.0", "Ascend 910B3", "昇腾服务器"]
)
def test_a_cuda_build_on_an_npu_host_is_an_error(text: str, matrix: Matrix) -> None:
    verdict = judge(read_report("torch==2.6.0+cu124\n" + text), matrix)
    assert severities(verdict)["no-cuda-wheels"] == "error"


def test_a_listed_build_alone_is_listed(matrix: Matrix) -> None:
    assert "framework-row" not in severities(judge(read_report("vllm-ascend==0.18.0"), matrix))


ABI = "export ATB_HOME_PATH=/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_{}\nlibtorch_npu.so: "


@pytest.mark.parametrize(
    ("folder", "symbol", "rule"),
    [
        ("0", "_ZN3atb3FooERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "cxx-abi"),
        ("1", "_ZN3atb3FooERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "nnal"),
        ("1", "_ZN3atb3FooERKSs", "cxx-abi"),
        ("0", "_ZN3atb3FooERKSs", "nnal"),
        ("1", "_ZN3atb3FooEv", "nnal"),
    ],
)
def test_strings_of_the_other_abi(folder: str, symbol: str, rule: str, matrix: Matrix) -> None:
    text = ABI.format(folder) + "undefined symbol: " + symbol
    found = severities(judge(read_report(text), matrix))
    assert [name for name in ("cxx-abi", "nnal") if found.get(name) == "error"] == [rule]


def firmware_stack(declared: str, firmware: str, listed: str = "", driver: str = "25.5.0") -> str:
    text = f"Version={driver}\nascendhal_version=7.35.23\npackage_version={driver}\n"
    if declared:
        text += f"compatible_version_fw={declared}\n"
    text += f"\nVersion={firmware}\nfirmware_version=1.0\npackage_version={driver}\n"
    return text + (f"compatible_version_drv={listed}\n" if listed else "")


@pytest.mark.parametrize(
    ("declared", "firmware", "listed", "driver", "severity"),
    [
        ("[7.0.0,7.7.99]", "7.7.0.1.231", "", "25.5.0", None),
        ("[7.0.0,7.7.99]", "7.7.99.4.2", "", "25.5.0", None),
        ("[7.0.0,7.7.99]", "8.1.0.1.100", "", "25.5.0", "error"),
        ("[7.0.0,7.7.99]", "6.4.12.1.241", "[23.0.0,23.0.0.]", "25.5.0", "error"),
        # a newer firmware names the driver, which cannot know it
        ("[7.0.0,7.7.99]", "8.1.0.1.100", "[24.1,24.1.],[25.5,25.5.]", "25.5.0", None),
        # the firmware alone speaks: of drivers before it with certainty, of later ones not
        ("", "7.7.0.1.231", "[25.0,25.0.]", "24.1.0", "error"),
        ("", "7.7.0.1.231", "[23.0.rc3,23.0.rc3.]", "25.5.0", "warning"),
        ("", "7.7.0.1.231", "[25.0,25.0.]", "25.0.rc1.1", None),
        ("", "7.7.0.1.231", "", "25.5.0", None),
    ],
)
def test_driver_and_firmware_by_their_own_files(
    declared: str, firmware: str, listed: str, driver: str, severity: str | None, matrix: Matrix
) -> None:
    verdict = judge(read_report(firmware_stack(declared, firmware, listed, driver)), matrix)
    found = [f for f in verdict.findings if f.text == "firmware-out-of-range"]
    assert [f.severity for f in found] == ([severity] if severity else [])
    assert all(f.rule == "cann-driver" and firmware in f.values["firmware"] for f in found)


def test_pips_number_of_mindspeed_is_no_release(matrix: Matrix) -> None:
    verdict = judge(read_report("mindspeed==0.12.1\nMindSpeed-LLM 26.1.0"), matrix)
    (found,) = [f for f in verdict.findings if f.rule == "mindspeed-pair"]
    assert (found.text, found.severity) == ("mindspeed-pip", "warning")
    assert found.values["wanted"] == "26.1.0_core_r0.12.1"


def test_an_editable_mindspeed_is_looked_up_where_it_lies(matrix: Matrix) -> None:
    text = "Package Version Editable project location\nmindspeed  0.12.1  /opt/MindSpeed"
    verdict = judge(read_report(text), matrix)
    (found,) = [f for f in verdict.findings if f.rule == "mindspeed-pair"]
    assert (found.text, found.values["path"]) == ("mindspeed-checkout", "/opt/MindSpeed")


def test_a_commit_of_mindspeed_is_said_to_be_one(matrix: Matrix) -> None:
    commit = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"
    text = f"-e git+https://h/MindSpeed.git@{commit}#egg=mindspeed\nMindSpeed-LLM 26.1.0"
    verdict = judge(read_report(text), matrix)
    (found,) = [f for f in verdict.findings if f.rule == "mindspeed-pair"]
    assert (found.text, found.values["commit"]) == ("mindspeed-commit", commit)


def test_a_branch_outweighs_pips_number(matrix: Matrix) -> None:
    text = "mindspeed==0.12.1\nMindSpeed 2.3.0_core_r0.12.1\nMindSpeed-LLM 26.1.0"
    verdict = judge(read_report(text), matrix)
    assert verdict.versions["mindspeed_core"] == "2.3.0_core_r0.12.1"
    (found,) = [f for f in verdict.findings if f.rule == "mindspeed-pair"]
    assert (found.text, found.severity) == ("pair-incompatible", "error")


def test_the_placeholder_of_mindspeed_is_an_error(matrix: Matrix) -> None:
    verdict = judge(read_report("mindspeed==0.0.1.dev1\nMindSpeed-LLM 26.1.0"), matrix)
    assert severities(verdict)["package-index"] == "error"


COLLECTED = "=== certify:collector 1 ===\nview: {view}\n\n=== certify:npu-smi info ===\n" \
    "npu-smi: command not found\n"  # fmt: skip


@pytest.mark.parametrize(
    ("view", "more", "text", "severity"),
    [
        ("host", "", "no-npu-seen", "info"),
        ("container", "", "no-npu-seen", "info"),
        ("host", "torch_npu==2.9.0\n", "npu-smi-absent-on-host", "warning"),
        ("container", "torch_npu==2.9.0\n", "signal-npu-smi-absent", "warning"),
    ],
)
def test_an_absent_npu_smi_by_where_it_is_absent(
    view: str, more: str, text: str, severity: str, matrix: Matrix
) -> None:
    verdict = judge(read_report(COLLECTED.format(view=view) + more), matrix)
    found = [f for f in verdict.findings if f.rule == "container-devices"]
    assert [(f.text, f.severity) for f in found] == [(text, severity)]


def test_a_privileged_container_is_advised_to_containers_only(matrix: Matrix) -> None:
    from certify.environment.render.document import document

    def hints(text: str) -> list[str]:
        shown = document(read_report(text), judge(read_report(text), matrix), matrix, "en")
        return [f["hint"] for f in shown["findings"] if f["rule"] == "container-devices"]

    failed = "torch_npu==2.9.0\nassert torch.npu.device_count() == 0\n"
    alone, in_docker = hints(failed), hints(failed + "docker run -it ascend-image bash\n")
    assert alone
    assert not any("docker" in hint for hint in alone)
    assert any("docker" in hint for hint in in_docker)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("export HCCL_DETERMINISTIC=True\n" + A2, ["determinism-on"]),
        ("export HCCL_DETERMINISTIC=false\n" + A2, ["determinism-off"]),
        ("export LCCL_DETERMINISTIC=1\n" + A2, ["determinism-off"]),
        ("export HCCL_DETERMINISTIC=strict\n" + A3, ["determinism-on"]),
        ("export HCCL_DETERMINISTIC=strict\n" + P310, ["determinism-on", "determinism-strict"]),
        (A2, []),
    ],
)
def test_settings_of_determinism(text: str, texts: list[str], matrix: Matrix) -> None:
    found = judge(read_report(text), matrix).findings
    assert sorted(f.text for f in found if f.text.startswith("determinism")) == texts
    assert all(f.severity != "error" for f in found if f.rule == "variables")


def test_a_recipe_says_whether_it_can_repeat(matrix: Matrix) -> None:
    needs = RecipeNeeds("some", "mcore", product="A2")
    texts = {f.text for f in judge(read_report(A2), matrix, recipe=needs).findings}
    assert "determinism-unset" in texts
    chosen = read_report("export HCCL_DETERMINISTIC=true\n" + A2)
    assert "determinism-unset" not in {f.text for f in judge(chosen, matrix, recipe=needs).findings}


@pytest.mark.parametrize(
    ("tag", "severity"), [("core_v0.12.1", "info"), ("core_v0.8.0", "warning")]
)
def test_megatrons_tag_in_the_place_of_mindspeeds_branch(
    tag: str, severity: str, matrix: Matrix
) -> None:
    verdict = judge(read_report(f"MindSpeed Core {tag}\nMindSpeed-LLM 26.1.0\n"), matrix)
    (found,) = [f for f in verdict.findings if f.text == "mindspeed-megatron-tag"]
    assert (found.rule, found.severity) == ("mindspeed-pair", severity)
    # Another line than the release is built for cannot be right, whatever the branch.
    assert (severities(verdict)["mindspeed-pair"] == "error") == (tag == "core_v0.8.0")
    assert found.values["wanted"] == "26.1.0_core_r0.12.1"
