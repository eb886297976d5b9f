"""examples:
  certify explain HCCL_CONNECT_TIMEOUT       an environment variable: meaning, range, conflicts
  certify explain torch-npu-cann             a rule of check-env
  certify explain EI0006                     an Ascend error code (also ERR00100, 507015, -8020)
  certify explain torch_npu-0014             a claim of the matrix, or a conflict: C-15

Explains one rule, gate, environment variable, error code, claim or conflict. Without a topic
it lists what can be asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from certify.errors import EXIT_PASS, UsageError
from certify.explain import Explanation, explain, topics
from matrices.load import load

if TYPE_CHECKING:
    import argparse

SCHEMA = "certify.explain/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify explain``."""
    parser.add_argument("topic", nargs="?", metavar="ID", help="what to explain")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the text")
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
    found = explain(args.topic, load(), args.lang)
    if found is None:
        raise _unknown(args.topic)
    if args.json:
        print(json.dumps(_document(found), ensure_ascii=False))
    else:
        print(_page(found))
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


def _page(found: Explanation) -> str:
    lines = [f"{found.topic} ({found.kind})", f"  {found.meaning}"]
    if found.facts:
        lines.append("")
        width = max(map(len, found.facts))
        lines += [f"  {name:<{width}}  {value}" for name, value in found.facts.items()]
    if found.rules:
        lines += ["", f"  look at: {', '.join(found.rules)}"]
    return "\n".join(lines)


def _unknown(topic: str) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(topic.upper(), [name.upper() for name in topics()], n=3, cutoff=0.6)
    names = {name.upper(): name for name in topics()}
    hint = "certify explain lists the topics"
    if near:
        hint = "did you mean: " + ", ".join(names[name] for name in near) + "?"
    return UsageError(f"nothing is known about {topic!r}", where="certify explain", hint=hint)
