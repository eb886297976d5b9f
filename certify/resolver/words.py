"""Reasons as sentences, in English and Chinese. Text is made only here, at the very end."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.resolver.model import Reason

SENTENCES: dict[str, tuple[str, str]] = {
    "paired": (
        "{source} pairs {subject} {subject_spec} with {object} {object_spec}",
        "{source}：{subject} {subject_spec} 配套 {object} {object_spec}",
    ),
    "declared": (
        "{source} declares {subject} {subject_spec} and {object} {object_spec} compatible",
        "{source}：{subject} {subject_spec} 与 {object} {object_spec} 声明兼容",
    ),
    "excluded": (
        "{source} says that {subject} {subject_spec} and {object} {object_spec} do not go together",
        "{source}：{subject} {subject_spec} 与 {object} {object_spec} 不可配套",
    ),
    "required": (
        "{source}: {subject} {subject_spec} requires {object} {object_spec}",
        "{source}：{subject} {subject_spec} 要求 {object} {object_spec}",
    ),
    "not-listed": (
        "{object} {found} is not among what is declared for {subject} {version}: {listed}",
        "{subject} {version} 声明的 {object} 为 {listed}，不含 {found}",
    ),
    "state-product": (
        "which {object} goes with {subject} {version} depends on the product, of which only the "
        "family is known ({listed}): state it with --product",
        "{subject} {version} 配套的 {object} 因具体产品而异（{listed}），请用 --product 指明产品",
    ),
    "unknown": (
        "no published table names {subject} {version} together with {object}",
        "公开资料没有给出 {subject} {version} 与 {object} 的配套关系",
    ),
    "unreadable": (
        "{component} {found} cannot be read as a version",
        "{component} {found} 无法识别为版本号",
    ),
    "product": (
        "torch_npu {version} is product release {product}",
        "torch_npu {version} 对应产品版本 {product}",
    ),
    "ambiguous-product": (
        "torch_npu {version} was released as {products}; its git_version tells which",
        "torch_npu {version} 对应多个产品版本（{products}），需用 git_version 区分",
    ),
    "same-train": (
        "{object} {found} is of the same train as {declared}, which is declared",
        "{object} {found} 与已声明的 {declared} 属同一版本系列",
    ),
    "prerelease": (
        "{object} {found} is a test build: tables speak of releases only",
        "{object} {found} 是测试版本，配套表只覆盖正式版本",
    ),
    "newer": (
        "{object} {found} is newer than everything declared for {subject} {version} "
        "(newest: {declared})",
        "{object} {found} 比 {subject} {version} 声明的最新版本 {declared} 还新",
    ),
    "older": (
        "{object} {found} is older than everything declared for {subject} {version} "
        "(oldest: {declared})",
        "{object} {found} 比 {subject} {version} 声明的最早版本 {declared} 还旧",
    ),
    "older-than-excluded": (
        "{object} {found} is older than {declared}, which is already declared incompatible",
        "{object} {found} 比已声明不兼容的 {declared} 更旧",
    ),
    "release": (
        "a torch_npu wheel is built for one torch release: {version} needs torch {needed}",
        "torch_npu 与 torch 版本一一对应：{version} 需要 torch {needed}",
    ),
    "same-release": (
        "{subject} and {object} are released together: {version} with {needed}",
        "{subject} 与 {object} 同版本发布：{version} 配 {needed}",
    ),
    "elsewhere": (
        "only {source} lists this pair; it does not override {subject}'s own tables, which do not "
        "declare it",
        "仅 {source} 列出该组合，不能代替 {subject} 自身的配套表，后者未声明",
    ),
    "disagree": (
        "sources disagree ({conflict}): {handling}",
        "资料之间存在冲突（{conflict}）：{handling}",
    ),
    "megatron-tag": (
        "{found} is a Megatron-LM tag; MindSpeed Core branches of that line: {listed}",
        "{found} 是 Megatron-LM 的标签；对应的 MindSpeed Core 分支：{listed}",
    ),
    "core-line": (
        "the branch {version} is for Megatron core {needed}",
        "分支 {version} 对应 Megatron core {needed}",
    ),
    "commit": (
        "{subject} is known by commit only; compare it with the published commits {listed}",
        "{subject} 仅能按提交号识别，请对照公开的提交 {listed}",
    ),
}


def render(reason: Reason, lang: str = "en") -> str:
    """The sentence of a reason, without a final full stop. lang: ``en`` or ``zh``."""
    english, chinese = SENTENCES[reason.kind]
    return (chinese if lang == "zh" else english).format_map(reason.values)
