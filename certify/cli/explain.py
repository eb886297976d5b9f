"""examples:
  certify explain HCCL_CONNECT_TIMEOUT       an environment variable: meaning, range, conflicts
  certify explain torch-npu-cann             a rule of check-env
  certify explain EI0006                     an Ascend error code (also ERR00100, 507015, -8020)
  certify explain torch_npu-0014             a claim of the matrix, or a conflict: C-15
  certify explain resume                     a gate: rule, numbers, reasons, what its FAIL means

Explains one gate, rule, environment variable, error code, claim or conflict. Without a topic
it lists what can be asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from certify.environment.render.words import language
from certify.errors import EXIT_PASS, UsageError
from certify.explain import Explanation, explain, topics
from matrices.load import load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

SCHEMA = "certify.explain/1"


# Labels of the page; the JSON keys stay as they are.
_CHINESE = {
    "rule": "规则", "variable": "环境变量", "error code": "错误码", "claim": "配套声明",
    "conflict": "来源冲突", "chip": "芯片", "dies": "die 数",
    "memory mb": "显存（MB）", "gate": "判据", "pairs": "组合", "hint": "建议", "values": "取值",
    "default": "默认值", "conflicts": "冲突", "needs": "前提", "set by": "由谁设置",
    "options": "选项", "source": "来源", "family": "类别", "state": "状态", "where": "条件",
    "since": "起始", "note": "备注", "one": "一方", "other": "另一方", "handling": "处理",
    "claims": "相关声明", "look at": "参见", "not published": "未公布", "user": "用户",
    "unset": "未设置", "a FAIL means": "不合格通常意味着",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify explain``."""
    parser.add_argument("topic", nargs="?", metavar="ID", help="what to explain")
    parser.add_argument("--lang", choices=("en", "zh"), help="default: by locale")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Prints one explanation, or the list of topics. Raises UsageError for an unknown topic."""
    if args.topic is None:
        names = topics()
        if args.json:
            print(json.dumps({"schema": SCHEMA, "topics": names}, ensure_ascii=False))
        else:
            print("\n".join(names))
        return EXIT_PASS
    lang = args.lang or language()
    found = explain(args.topic, load(), lang)
    if found is None:
        raise _unknown(args.topic)
    if args.json:
        print(json.dumps(_document(found), ensure_ascii=False))
    else:
        print(_page(found, lang))
    return EXIT_PASS


def _document(found: Explanation) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "topic": found.topic,
        "kind": found.kind,
        "meaning": found.meaning,
        "facts": found.facts,
        "rules": list(found.rules),
    }


def _page(found: Explanation, lang: str) -> str:
    def word(text: str) -> str:
        return _CHINESE.get(text, text) if lang == "zh" else text

    lines = [f"{found.topic} ({word(found.kind)})", f"  {found.meaning}"]
    if found.facts:
        lines.append("")
        facts = {_label(name, word): word(value) for name, value in found.facts.items()}
        width = max(map(columns, facts))
        lines += [f"  {name}{' ' * (width - columns(name))}  {v}" for name, v in facts.items()]
    if found.rules:
        lines += ["", f"  {word('look at')}: {', '.join(found.rules)}"]
    return "\n".join(lines)


# Labels of a gate that end in a name: these words alone are translated.
_OPENINGS = {"limit ": "限值 ", "scale ": "规模 ", "case ": "公开案例 "}


def _label(name: str, word: Callable[[str], str]) -> str:
    for opening, chinese in _OPENINGS.items():
        if name.startswith(opening):
            return (chinese if word("gate") != "gate" else opening) + name[len(opening) :]
    return word(name)


def columns(text: str) -> int:
    """The columns of a terminal that a text fills: Chinese characters fill two."""
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _unknown(topic: str) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(topic.upper(), [name.upper() for name in topics()], n=3, cutoff=0.6)
    names = {name.upper(): name for name in topics()}
    hint = "certify explain lists the topics"
    if near:
        hint = "did you mean: " + ", ".join(names[name] for name in near) + "?"
    return UsageError(f"nothing is known about {topic!r}", where="certify explain", hint=hint)
