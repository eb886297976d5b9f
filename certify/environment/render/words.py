"""The few sentences around findings, in both languages."""

from __future__ import annotations

import os

WORDS: dict[str, tuple[str, str]] = {
    "reference": ("reference: this is a published combination", "reference：与公开配套组合一致"),
    "compatible": ("compatible: declared to go together", "compatible：已声明兼容"),
    "unverified": (
        "unverified: nothing proves a fault, and not everything is declared or visible",
        "unverified：没有证明存在问题，但并非全部可见或已声明",
    ),
    "incompatible": (
        "incompatible: something cannot work as it is",
        "incompatible：存在不能工作的部分",
    ),
    "unknown": ("unknown: too little is visible to judge", "unknown：可见信息不足，无法判断"),
    "verdict": ("verdict", "结论"),
    "error": ("error", "错误"),
    "warning": ("warning", "警告"),
    "info": ("note", "说明"),
    "found": ("found", "发现"),
    "expected": ("expected", "应为"),
    "source": ("source", "来源"),
    "why": ("why", "依据"),
    "hint": ("hint", "建议"),
    "stack": ("what was seen", "已识别"),
    "missing": ("what is missing", "缺少的信息"),
    "change": ("smallest change", "最小改动"),
    "cost": ("cost", "代价"),
    "install": ("install", "安装"),
    "stops": ("stops running jobs on this machine", "会中断本机正在运行的任务"),
    "stays": ("may stay", "可保持不变"),
    "blocked": ("cannot be reached", "无法达成"),
    "row": ("target row", "目标组合"),
    "nothing": ("nothing to change", "无需改动"),
    "with": ("with", "与"),
    "for": ("for", "对应"),
    "or": ("or", "或"),
    "absent": ("absent", "不安装"),
    "undeclared": ("a pair that the component's own table lists", "组件自身的兼容表列出的组合"),
    "node": ("node", "节点"),
    "others": ("the other {count}", "其余 {count} 个"),
    "cluster": ("cluster", "集群"),
    "equal": ("equal on all {count} nodes", "{count} 个节点一致"),
    "silent": ("no answer", "无应答"),
    "outliers": ("outliers", "不一致"),
    "collector": (
        "all of it at once: certify collector > collect.sh; sh collect.sh > report.txt",
        "一次收集全部信息：certify collector > collect.sh; sh collect.sh > report.txt",
    ),
}


def word(key: str, lang: str, **values: str) -> str:
    """A word or sentence of `WORDS` in ``en`` or ``zh``."""
    english, chinese = WORDS[key]
    return (chinese if lang == "zh" else english).format_map(values)


def language() -> str:
    """``zh`` under a Chinese locale, else ``en``."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
