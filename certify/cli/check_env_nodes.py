"""Answers of several nodes: from files, or asked for over ssh."""

from __future__ import annotations

import os
import shlex
from typing import Any

from certify.environment.nodes import expand
from certify.environment.render.document import SCHEMA
from certify.errors import InfrastructureError, UsageError
from certify.json_text import load_json

_TIMEOUT_S = 60.0
_AT_ONCE = 32
_VERDICTS = ("reference", "compatible", "unverified", "incompatible", "unknown")
_SEVERITIES = ("error", "warning", "info")
# Fields of a finding that every output of a merge reads.
_TEXTS = ("rule", "severity", "component", "found", "expected", "source", "hint")


def read_nodes(paths: list[str]) -> dict[str, dict[str, Any]]:
    """Node name (the file's name) -> its document. Raises UsageError for a file that is none."""
    documents: dict[str, dict[str, Any]] = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}", where="--merge") from error
        name = os.path.basename(path).removesuffix(".json")
        documents[name] = checked(text, path)
    return documents


def checked(text: str, where: str) -> dict[str, Any]:
    """A check-env document. Raises UsageError for anything else."""
    try:
        document = load_json(text)
    except ValueError as error:
        raise UsageError(
            f"this is no JSON: {error}",
            where=where,
            expected=f"the output of certify check-env --json ({SCHEMA})",
            hint="certify check-env --json > $(hostname).json",
        ) from error  # fmt: skip
    wrong = _wrong(document)
    if wrong:
        raise UsageError(
            f"this is no answer of check-env: {wrong}", where=where, expected=f"schema {SCHEMA}",
            hint="certify check-env --json > $(hostname).json",
        )  # fmt: skip
    answer: dict[str, Any] = document
    return answer


def _wrong(document: Any) -> str:
    """What keeps a document from being one of check-env; empty when nothing does."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return "no schema of it"
    if document.get("verdict") not in _VERDICTS:
        return "no verdict"
    stack, findings = document.get("stack"), document.get("findings")
    if not isinstance(stack, dict) or not isinstance(findings, list):
        return "no stack or no findings"
    for name, row in stack.items():
        if not isinstance(row, dict) or not isinstance(row.get("version"), str):
            return f"stack.{name} has no version"
    for number, row in enumerate(findings):
        if not isinstance(row, dict) or not all(isinstance(row.get(k), str) for k in _TEXTS):
            return f"findings[{number}] lacks one of {', '.join(_TEXTS)}"
        if row["severity"] not in _SEVERITIES:
            return f"findings[{number}].severity is {row['severity']!r}"
        why = row.get("why")
        if not isinstance(why, list) or not all(isinstance(one, str) for one in why):
            return f"findings[{number}].why is no list of texts"
    return ""


def ask_nodes(text: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Run ``certify check-env --json`` on each node over ssh, many at once.

    Returns the answers by node, and why the others gave none.

    CERTIFY_SSH is the command to reach a node (default ``ssh -o BatchMode=yes``), CERTIFY_REMOTE
    what is called there (default ``certify``). Raises InfrastructureError when no node answers,
    naming the first one.
    """
    from concurrent.futures import ThreadPoolExecutor

    try:
        names = expand(text)
    except ValueError as error:
        raise UsageError(str(error), where="--nodes", expected="node[01-16],other") from error
    if not names or any(name.startswith("-") for name in names):
        raise UsageError("no node names", where="--nodes", expected="node[01-16],other")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(names, pool.map(_ask, names), strict=True))
    silent = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    if len(silent) == len(names):
        name, reason = next(iter(silent.items()))
        raise InfrastructureError(
            f"none of {len(names)} nodes gave an answer, first {name}: {reason}",
            where="--nodes",
            hint=f"ssh {name} certify check-env --json",
        )
    return {n: answer for n, answer in answers.items() if isinstance(answer, dict)}, silent


def _ask(name: str) -> dict[str, Any] | str:
    import subprocess

    command = shlex.split(os.environ.get("CERTIFY_SSH", "ssh -o BatchMode=yes"))
    remote = shlex.split(os.environ.get("CERTIFY_REMOTE", "certify"))
    try:
        done = subprocess.run(
            [*command, name, *remote, "check-env", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TIMEOUT_S:g} s"
    except OSError as error:
        return str(error)
    try:
        return checked(done.stdout, name)
    except UsageError:
        return (done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1][:200]
