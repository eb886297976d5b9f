"""The document as JUnit XML: one test case a rule, failures for errors."""

from __future__ import annotations

from typing import Any

from certify.light import lazy

_FORBIDDEN = lazy("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _escape(text: str) -> str:
    text = _FORBIDDEN.sub("?", str(text))
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


def junit(document: dict[str, Any]) -> str:
    """A test suite. Warnings and missing facts are skipped cases: neither pass nor failure."""
    cases = []
    failures = skipped = 0
    for finding in document["findings"]:
        name = _escape(f"{finding['rule']}: {finding['component']}")
        body = _escape(
            "\n".join(
                [finding["found"], f"expected: {finding['expected']}", *finding["why"],
                 f"source: {finding['source']}", f"hint: {finding['hint']}"]
            )
        )  # fmt: skip
        message = _escape(finding["found"])
        if finding["severity"] == "error":
            failures += 1
            inner = f'<failure message="{message}">{body}</failure>'
        elif finding["severity"] == "warning":
            skipped += 1
            inner = f'<skipped message="{message}"/>'
        else:
            inner = f"<system-out>{body}</system-out>"
        cases.append(f'  <testcase classname="check-env" name="{name}">{inner}</testcase>')
    for item in document["missing"]:
        skipped += 1
        cases.append(
            f'  <testcase classname="check-env" name="{_escape("missing: " + item["what"])}">'
            f'<skipped message="{_escape(item["command"])}"/></testcase>'
        )
    good = document["verdict"] in ("reference", "compatible")
    name = _escape(f"verdict: {document['verdict']}")
    inner = "" if good or failures else '<skipped message="not judged"/>'
    skipped += not (good or failures)
    cases.append(f'  <testcase classname="check-env" name="{name}">{inner}</testcase>')
    head = (
        f'<testsuite name="certify check-env" tests="{len(cases)}" failures="{failures}" '
        f'skipped="{skipped}" errors="0">'
    )
    return "\n".join(
        ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", head, *cases, "</testsuite>",
         "</testsuites>"]
    )  # fmt: skip
