"""Versions and devices that people type: ``CANN: 8.0.RC2.2``, ``torch-npu-2.10.post4``, ``A2``.

A line is cut into clauses; in a clause a known name followed by a version is a sighting. Clauses
that speak of what would be needed, recommended or documented are no sightings, and a device that
something was moved *from* is not the device in use.
"""

from __future__ import annotations

import re

from certify.environment.names import component_of, is_known_package, normal
from certify.environment.paths import extension_in, python_in
from certify.environment.products import chip_family, server_family
from certify.environment.report.environment_dumps import add_arch
from certify.environment.report.images import read_images
from certify.environment.report.packages import add_package, read_inline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

# Spellings of components that are no package names. The longest that fits wins.
_SPELLINGS = {
    "ascend-cann-toolkit": "cann", "cann-toolkit": "cann", "cann toolkit": "cann", "cann": "cann",
    "kernel/toolkit": "cann", "toolkit/kernel": "cann", "toolkit": "cann", "ascend toolkit": "cann",
    "cann-kernels": "cann_ops", "cann kernels": "cann_ops", "cann ops": "cann_ops",
    "cann-ops": "cann_ops", "opp_kernel": "cann_ops", "nnal": "nnal", "atb": "nnal",
    "cann-nnal": "nnal", "npu-smi": "driver", "npu driver": "driver", "ascend driver": "driver",
    "driver/firmware": "driver", "driver": "driver", "npu驱动": "driver", "驱动固件": "driver",
    "固件驱动": "driver", "固件与驱动": "driver", "驱动": "driver", "hdk": "driver",
    "firmware": "firmware", "固件": "firmware", "pytorch-npu": "torch_npu", "pta": "torch_npu",
    "torchnpu": "torch_npu", "torch npu": "torch_npu", "pytorch": "torch", "python": "python",
    "mindspeed-llm": "mindspeed_llm", "mindspeed llm": "mindspeed_llm",
    "mindspeed_llm": "mindspeed_llm", "modellink": "mindspeed_llm",
    "mindspeed-core": "mindspeed_core", "mindspeed core": "mindspeed_core",
    "mindspeed": "mindspeed_core", "megatron-lm": "megatron", "megatron-core": "megatron",
    "megatron core": "megatron", "megatron_core": "megatron", "megatron": "megatron",
    "glibc": "glibc", "gcc": "gcc", "llama-factory": "llamafactory",
    "llama factory": "llamafactory",
    "fsdpturbo": "fsdpturbo", "gpustack": "gpustack", "llama-box": "llama_box",
    "llamabox": "llama_box", "llama.cpp": "llama_cpp", "lmcache-ascend": "lmcache_ascend",
    "docker runtime": "docker_runtime", "vllm ascend": "vllm_ascend", "mindie": "mindie",
    "vllm": "vllm", "swift": "ms_swift", "昇腾cann": "cann", "昇腾驱动": "driver",
}  # fmt: skip
_PACKAGES = (
    "torch", "torch-npu", "torch_npu", "torchvision", "torchaudio", "triton-ascend",
    "triton_ascend", "triton", "transformers", "tokenizers", "accelerate", "deepspeed", "numpy",
    "scipy", "peft", "trl", "vllm", "vllm-ascend", "vllm_ascend", "verl", "sglang", "llamafactory",
    "llama-factory", "veomni", "ms-swift", "ms_swift", "mindspeed", "fla-npu", "fla_npu",
    "flagtree", "megatron-bridge", "mcore-bridge", "xgrammar", "ray", "datasets", "bitsandbytes",
    "flash-attn", "mindietorch", "sgl-kernel-npu", "huggingface-hub", "decorator", "attrs",
    "psutil", "sympy", "cffi", "cloudpickle", "torchair", "lmdeploy",
)  # fmt: skip
_WORDS = tuple(sorted({*_SPELLINGS, *_PACKAGES}, key=len, reverse=True))
_NAMES = "|".join(re.escape(word).replace(r"\ ", r"[ _-]") for word in _WORDS)
# What may stand between a name and its version: "the CANN version I use now is 9.1".
_LINKS = (
    "version|number|ver\\.?|toolkit|is|was|are|of|at|now|currently|installed|in use"
    "|(?:i|we) (?:have|use)|(?:has been |been )?(?:upgraded|downgraded|updated|set|moved) to"
)
_PARTICLES = (
    "版本|分支|号|为|是|的|了|已经?|目前|现在|当前|现|安装|装|使用|用|(?:升级|降级|更新|切换)到了"
)
# After these a number is no version: "torch is 2.5 times slower".
_MEASURE = re.compile(
    r"\s?(?:[x×%倍]|times\b|[kmgt]i?b\b|ms\b|s\b|sec|min|hours?\b|tokens?\b|tflops)", re.I
)
_RATIO = re.compile(r"\d+\.\d+[xX]")
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9_./@-])(?P<name>{_NAMES})(?![A-Za-z])"
    rf"(?P<between>(?:[\s:=@\-_`'\"*|(~]|(?:{_LINKS})(?![A-Za-z])|{_PARTICLES}|[vV](?=\d)){{0,60}})"
    r"(?P<version>[\d.]{1,12}(?:RC\d|rc\d)?_core_r[\d.]{1,8}|core_[rv][\d.]{1,8}"
    r"|\d{1,4}\.\d[A-Za-z\d.+!]{0,60}(?:-(?:alpha|beta|rc)[.\d]{0,8})?(?: ?rc\d)?"
    r"|(?<=[-_ :=])(?:master|main)\b)",
    re.I,
)
NEEDED = re.compile(
    r"\brequire[sd]?\b|\brequested\b|\buninstall|卸载|\brow\b|\bdepends? on\b|\bneeds?\b"
    r"|\brecommend|\bshould\b|\bmust\b|\bexpect(?:s|ed)\b"
    r"|\bupgrade to\b|\bdowngrade to\b|\bonly works?\b|\bfixed in\b|\bneeded\b"
    r"|(?<!not )\bsupport(?:s|ed)?\b|\bminimum\b"
    r"|\bcompatible with\b|\bat least\b|\(docs?\)|\bdocument(?:ation|ed|s)?\b|\bdocs?:|\breadme\b"
    r"|升级到(?!了)|降级到(?!了)|要求|需要|建议|推荐|支持|文档|应为|应该|官方|至少|配套表|兼容"
    r"|Requires-Dist|>=|<=|!=|~=",
    re.I,
)
_CLAUSE = re.compile(r"[,;|\t]|(?<=[\w)])\.\s|。|并且|但是|\bbut\b|\bwhile\b")
_MOVED_TO = re.compile(
    r"迁移到|移植到|移到|换到|搬到|切换到|moved to|migrated to|copied to|switch(?:ed)? to"
    r"|porting to"
)
_MOVED_FROM = re.compile(
    r"copied from|moved from|migrated from|ported from|built for|复制自|来自|拷贝自|image for"
)
_CHIP = re.compile(
    r"(?<![A-Za-z0-9_./-])(?:Ascend[ _-]?)?(910B[1-4]C?(?:-\d)?|910_93\d{0,2}|910_95\w{0,4}|910C"
    r"|910ProA"
    r"|910ProB"
    r"|910PremiumA|910A|910B|310P\d?|310B\d?|950PR|950DT|Ascend910|Ascend950"
    r"|Ascend310)(?![A-Za-z0-9_])",
    re.I,
)
_SERVER = re.compile(
    r"(?:\bAtlas\s?|\b)(?:\d{3,4}\s?[TIC]{0,2}\s?(?:RC)?\s?|Atlas\s?|昇腾\s?)(?:A2|A3|A5)\b"
    r"|\bA[235]\s?(?:训练|服务器|集群|推理)"
    r"|(?:设备|机器|硬件|[Dd]evice|[Hh]ardware|NPU|npu)\s?[:=]?\s?(?:A2|A3|A5)\b",
    re.I,
)
_ATLAS = re.compile(r"\bAtlas\s?(300I|300V|300T|350|850|950|200I|500)\b", re.I)
_OS = re.compile(
    r"(?<![A-Za-z0-9_-])(ubuntu|openeuler|centos|debian|kylin|euleros|uos|红帽|麒麟|欧拉)"
    r"[ _:-]{0,2}v?"
    r"(\d+(?:\.\d+){0,2}(?:-SP\d| ?LTS(?:-SP\d)?| ?\(LTS-SP\d\))?)",
    re.I,
)
_ARCH = re.compile(r"(?<![A-Za-z0-9_.])(aarch64|x86_64|arm64|amd64|armv8)(?![A-Za-z0-9_.])", re.I)
_PYTHON_BANNER = re.compile(r"^\s*(?:>>> )?Python (3\.\d{1,2}(?:\.\d{1,2})?)\b")
_MODEL = re.compile(r"^\s*(?:model|model_type|模型)\s?[:=]\s?`?([A-Za-z][\w.-]{1,60})", re.I)
_INSTALLED_LIST = re.compile(r"^\s*(?:installed|packages|已安装|安装了)\s*[:=]\s*(.{3,400})$", re.I)
_REQUIRES_DIST = re.compile(r"Requires-Dist")
_LOG = re.compile(
    r"^\s*(?:\[?(?:INFO|WARNING|ERROR|DEBUG|EVENT|CRITICAL|TRACE)\]?\b|File \"|at \S+:\d+"
    r"|\(\S+ pid=\d+|"
    r"\[?\d{4}-\d\d-\d\d[ T-]\d\d:\d\d)"
)
_LIVELY = ("cann", "torch", "python", "driver", "驱动", "npu", "910", "310", "950", "atlas", "昇腾",
           "mindspeed", "megatron", "triton", "transformers", "ubuntu", "openeuler", "numpy",
           "vllm", "a5", "设备",
           "固件", "firmware", "glibc", "aarch64", "x86_64", "arm64", "sglang", "verl", "swift",
           "deepspeed", "accelerate", "installed", "model", "atb", "nnal", "kernel", "hdk", "image",
           "ascend", "centos", "kylin", "llama", "python3", ".whl", "flagtree", "pta", "fsdpturbo",
           "a2", "a3", " -> ")  # fmt: skip
BREAK = re.compile(r"<br ?/?>", re.I)
MOST_LINES = 2_500


def lively(low: str) -> bool:
    """Whether a lower-case line can hold anything for `read_line`."""
    return any(word in low for word in _LIVELY)


def read_line(line: str, source: str, out: StackBuilder) -> None:
    """One line that no other format has taken."""
    if len(line) > 4000:
        line = line[:2000] + " " + line[-2000:]
    if "<" in line:
        line = BREAK.sub(" ", line)
    _paths(line, source, out)
    read_inline(line, source, out)
    banner = _PYTHON_BANNER.match(line)
    if banner:
        out.add("python", banner.group(1), source, "stated")
    if _LOG.match(line) or "depends on" in line or "but you have" in line:
        return
    line = read_images(line, source, out)
    listed = _INSTALLED_LIST.match(line)
    if listed:
        _installed(listed.group(1), source, out)
    if _REQUIRES_DIST.search(line):
        return
    model = _MODEL.match(line)
    if model:
        out.add("model_type", model.group(1).lower(), source, "stated")
    _devices(line, source, out)
    for clause in _clauses(line):
        _versions(clause, source, out)
    system = _OS.search(line)
    if system:
        out.add("os", f"{system.group(1).lower()} {system.group(2)}", source, "stated")
    for arch in _ARCH.findall(line)[:3]:
        add_arch(arch, source, out)


def _clauses(line: str) -> list[str]:
    return [clause for clause in _CLAUSE.split(line) if clause and clause.strip()][:60]


def _versions(clause: str, source: str, out: StackBuilder) -> None:
    needed = NEEDED.search(clause)
    for match in _NAMED.finditer(clause):
        name, version = match.group("name"), match.group("version").rstrip(".,;:-_)")
        component = component_named(name)
        if component is None or "://" in clause[: match.start()].rsplit(" ", 1)[-1]:
            continue
        if not _plausible(component, version) or _is_measure(version, clause[match.end() :]):
            continue
        if needed and needed.start() != match.start():
            out.signal("stated-requirement", clause, source, component=component, version=version)
            continue
        _add_typed(component, name.lower(), version, clause, source, out)


def _is_measure(version: str, rest: str) -> bool:
    """Whether the number is a ratio, a time or a size."""
    return bool(_MEASURE.match(rest)) or bool(_RATIO.fullmatch(version))


def component_named(name: str) -> str | None:
    """The component that a spelling or a package name stands for."""
    low = name.lower()
    return _SPELLINGS.get(low) or component_of(normal(low))


def add_version(name: str, version: str, clause: str, source: str, out: StackBuilder) -> None:
    """A component and its version that a table names, if the number can be one of it."""
    component = component_named(name)
    if component is not None and _plausible(component, version):
        _add_typed(component, name, version, clause, source, out)


def _plausible(component: str, version: str) -> bool:
    """A Megatron path like ``megatron/core`` has no version; years and ports are none either."""
    if component == "python" and not version.startswith(("3.", "2.7")):
        return False
    if not version[0].isdigit():
        return component in ("mindspeed_llm", "mindspeed_core", "megatron", "fsdpturbo")
    major = version.split(".")[0]
    if component in ("cann", "cann_ops", "nnal"):
        return major in ("3", "5", "6", "7", "8", "9", "10", "11")
    return not (major.isdigit() and len(major) > 2)


def _add_typed(
    component: str, name: str, version: str, clause: str, source: str, out: StackBuilder
) -> None:
    detail = {"said": clause.strip()[:120]}
    if component == "driver" and version.split(".")[0] in ("5", "6", "7", "8", "9"):
        # No driver has such a number: people call CANN "the driver".
        component = "cann"
    if component in ("torch_npu", "torch") and version.count(".post") and version.count(".") == 2:
        head, post = version.split(".post", 1)
        version = f"{head}.0.post{post}"
    if is_known_package(normal(name)) and component not in ("megatron", "mindspeed_core"):
        add_package(name, version, source, out, "stated", **detail)
    else:
        out.add(component, version, source, "stated", **detail)


def _devices(line: str, source: str, out: StackBuilder) -> None:
    to, origin = _MOVED_TO.search(line), _MOVED_FROM.search(line)
    for match in _CHIP.finditer(line):
        if to and match.start() < to.start():
            continue
        if origin and match.start() > origin.start():
            continue
        name = match.group(0)
        before = line[: match.start()]
        if before.endswith(("cann-kernels-", "kernels-")):
            continue
        family = chip_family(name)
        if family:
            out.add("product", family, source, "stated", chip=name)
            out.add("chip", name.removeprefix("Ascend").strip(" _-"), source, "stated")
    server = _SERVER.search(line)
    if server and not (to and server.start() < to.start()):
        family = server_family(server.group(0))
        if family:
            out.add("product", family, source, "stated", server=server.group(0).strip())
    atlas = _ATLAS.search(line)
    if atlas:
        card = atlas.group(1).upper()
        family = {"300I": "310P", "300V": "310P", "350": "950", "850": "950", "950": "950"}.get(
            card
        )
        if family and "A2" not in line[atlas.end() : atlas.end() + 4]:
            out.add("product", family, source, "stated", server=atlas.group(0))


def _installed(names: str, source: str, out: StackBuilder) -> None:
    """``installed: vllm, triton, triton-ascend``: packages without versions."""
    for word in re.split(r"[,\s]+", names):
        key = normal(word)
        component = component_of(key) if key else None
        if component and key not in out.packages:
            out.packages[key] = "unknown"
            out.add(component, "unknown", source, "stated")


_POINTER = re.compile(
    r"-> (?:\.\./(\d+\.\d[\w.]{0,30})/(?:toolkit|runtime|compiler|opp)\b"
    r"|cann-(\d+\.\d[\w.-]{0,30}))"
)


def _paths(line: str, source: str, out: StackBuilder) -> None:
    """What file paths give away: Python's version, the machine, where CANN's pointer leads."""
    if "-> " in line:
        pointer = _POINTER.search(line)
        if pointer:
            version = pointer.group(1) or pointer.group(2)
            out.add("cann", version, source, "stated", pointer="yes")
    if "python3." in line and "/" in line:
        version = python_in(line)
        if version:
            out.add("python", version, f"{source}: path", "inferred")
    if ".cpython-3" in line:
        extension = extension_in(line)
        if extension:
            out.add("python", extension[0], f"{source}: path", "inferred")
            out.add("arch", extension[1], f"{source}: path", "inferred")
