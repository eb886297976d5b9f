"""Container image references: what a tag says of CANN, Python, chip, system and framework.

A tag is a promise, not a sighting: everything read here is ``inferred``.
"""

from __future__ import annotations

import re

from certify.environment.products import chip_family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_REFERENCE = re.compile(
    r"(?<![\w/.-])((?:[a-z0-9][\w.-]{0,80}(?::\d{2,5})?/){0,5}[a-z0-9][\w.-]{1,80}):"
    r"([A-Za-z0-9_][\w.-]{1,127})(?:@sha256:[0-9a-f]{12,64})?"
)
_CANN = re.compile(r"cann[-_]?v?(\d+\.\d+(?:\.(?:rc|RC)?\d+)?(?:[.-](?:alpha|beta)[.\d]*)?)", re.I)
_PYTHON = re.compile(r"(?:^|[-_])py(?:thon)?(3)\.?(\d{1,2})(?=$|[-_.])", re.I)
_TORCH = re.compile(r"(?:^|[-_])(?:torch|pytorch|pt)[-_]?(\d+\.\d+(?:\.\d+)?)", re.I)
_TORCH_NPU = re.compile(r"torch[-_]?npu[-_]?(\d+\.\d+\.\d+(?:\.post\d+)?)", re.I)
_SYSTEM = re.compile(r"(ubuntu|openeuler|debian|centos|kylin)[-_]?(\d+(?:\.\d+)?)?", re.I)
_CHIP = re.compile(
    r"(?:^|[-_])(910b\d?|910_?93|910c|910a|310p\d?|310b|950(?:pr|dt)?|a2|a3|a5)(?=$|[-_.])", re.I
)
_VERSION = re.compile(r"^v?(\d+\.\d+(?:\.\d+)?(?:[.-]?(?:rc|post|dev|alpha|beta)[.-]?\d+)*)", re.I)
_ARCH = re.compile(r"(aarch64|arm64|x86_64|amd64)", re.I)
# Without a registry or folder only a tag that speaks of this world makes an image.
_TAG_HINT = re.compile(r"cann\d|cann-|910|310p|950|openeuler|ubuntu|py3", re.I)
_GENERATIONS = {"a2": "A2", "a3": "A3", "a5": "950"}
# Last part of a repository -> the component whose version its tag begins with.
_APPLICATIONS = {
    "cann": "cann", "vllm-ascend": "vllm_ascend", "vllm_ascend": "vllm_ascend",
    "ms-swift": "ms_swift", "swift": "ms_swift", "llamafactory": "llamafactory",
    "llama-factory": "llamafactory", "verl": "verl", "sglang": "sglang", "veomni": "veomni",
    "mindspeed-llm": "mindspeed_llm", "mindspeed-core": "mindspeed_core", "mindie": "mindie",
    "lmdeploy": "lmdeploy", "triton-ascend": "triton_ascend", "pytorch": "torch", "torch": "torch",
}  # fmt: skip
_HINTS = ("cann", "910", "950", "310", "ascend", "npu", "vllm", "mindspeed", "openeuler", "mindie")


def read_images(text: str, source: str, out: StackBuilder) -> str:
    """Read every image reference in a line that looks like one of this world.

    Returns the line without them: what a tag names is no version of what is installed.
    """
    found = False
    rest = text
    for match in _REFERENCE.finditer(text[:4000]):
        repository, tag = match.groups()
        joined = f"{repository}:{tag}".lower()
        if "/" not in repository and ("-" not in tag or not _TAG_HINT.search(tag)):
            continue
        if not any(hint in joined for hint in _HINTS) or repository.startswith(("http", "file")):
            continue
        if re.fullmatch(r"[\d.]+", repository) or tag.isdigit():
            continue
        found = True
        rest = rest.replace(match.group(0), " ")
        out.add("image", f"{repository}:{tag}", source, "stated")
        _read_tag(repository.rsplit("/", 1)[-1].lower(), tag, source, out)
    for word in re.findall(r"`([\w.:/-]{12,160})`", text[:4000]):
        if word.count("-") >= 3 and _CANN.search(word) and ":" in word and not found:
            found = True
            rest = rest.replace(word, " ")
            out.add("image", word, source, "stated")
            _read_tag(word.split(":")[0].lower(), word, source, out)
    return rest


def _read_tag(application: str, tag: str, source: str, out: StackBuilder) -> None:
    where = f"{source}: image {application}:{tag}"[:200]
    joined = f"{application}-{tag}"
    component = _APPLICATIONS.get(application)
    version = _VERSION.match(tag)
    if component and version:
        out.add(component, version.group(1), where, "inferred", image=tag)
    own = re.match(rf"{re.escape(application)}-((?:8|9|1\d)\.\d[\w.]*)-", tag.lower())
    if own and component != "cann":
        # Tags that repeat the application's name put CANN's version behind it.
        out.add("cann", own.group(1), where, "inferred", image=tag)
    for expression, name in ((_CANN, "cann"), (_TORCH_NPU, "torch_npu"), (_TORCH, "torch")):
        found = expression.search(joined)
        if found and component != name:
            out.add(name, found.group(1), where, "inferred", image=tag)
    python = _PYTHON.search(joined)
    if python:
        out.add("python", f"3.{python.group(2)}", where, "inferred", image=tag)
    system = _SYSTEM.search(joined)
    if system:
        label = f"{system.group(1).lower()} {system.group(2) or ''}".strip()
        out.add("os", label, where, "inferred", image=tag)
    chip = _CHIP.search(joined)
    if chip:
        word = chip.group(1).lower()
        family = _GENERATIONS.get(word) or chip_family(word)
        if family:
            out.add("image_product", family, where, "inferred", chip=word, image=tag)
    arch = _ARCH.search(joined)
    if arch:
        word = arch.group(1).lower()
        out.add("arch", {"arm64": "aarch64", "amd64": "x86_64"}.get(word, word), where, "inferred")
