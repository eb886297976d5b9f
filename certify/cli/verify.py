"""Check a bundle of evidence: its bytes, its signatures, and the verdict that its records give.

  certify verify evidence.tar
  certify verify DIR                           the bundle in a campaign's folder
  certify verify evidence.tar --allowed-signers FILE --json

Needs neither torch nor a network nor a database. Exit code 0: whole, signed by an allowed signer
(ssh-keygen(1), ALLOWED SIGNERS; by default allowed_signers in the home folder), and the records
give the claimed verdict, whichever it is. 1: changed, or the records give another verdict.
3: integrity only: unsigned, signer unknown, or judged by criteria that this version does not have.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS

if TYPE_CHECKING:
    import argparse

    from certify.evidence.verify import Verification

SCHEMA = "certify.verify/1"
VERIFIED, INTEGRITY_ONLY, REFUSED = "verified", "integrity only", "refused"
_EXIT = {VERIFIED: EXIT_PASS, INTEGRITY_ONLY: EXIT_CANNOT_JUDGE, REFUSED: EXIT_FAIL}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify verify``."""
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="evidence.tar, or its folder")
    parser.add_argument("--allowed-signers", metavar="FILE", help="who may sign")
    parser.add_argument("--home", metavar="DIR", help="folder that holds the state of certify")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Verify and say what holds; the exit code says how much."""
    from certify.evidence.archive import DamagedError
    from certify.evidence.keys import allowed_signers
    from certify.evidence.verify import find_bundle, verify

    path = find_bundle(args.bundle)
    allowed = allowed_signers(args.allowed_signers, args.home)
    try:
        found = verify(path, allowed)
    except DamagedError as error:
        document = {"bundle": str(path), "result": REFUSED, "reason": error.args[0]}
        lines = [f"REFUSED  {path}", f"  {error.args[0]}"]
    else:
        result, reason = _result(found)
        body = {k: v for k, v in dataclasses.asdict(found).items() if k != "path"}
        document = {"bundle": str(path), "result": result, "reason": reason, **body}
        document["promotes"] = found.promotes
        lines = _lines(found, result, reason)
    if args.json:
        print(json.dumps({"schema": SCHEMA, **document}, ensure_ascii=False))
    else:
        print("\n".join(lines))
    return _EXIT[str(document["result"])]


def _result(found: Verification) -> tuple[str, str]:
    """(result, why) of a bundle whose bytes are whole."""
    if found.judged is not None and not found.agrees:
        if found.judged != found.claimed:
            return REFUSED, f"it claims {found.claimed}, its records give {found.judged}"
        return REFUSED, "its gates are not those that its records give"
    if found.judged is None:
        version = found.criteria["version"]
        return INTEGRITY_ONLY, f"judged by criteria {version} that this version does not have"
    if found.signature == "signed":
        return VERIFIED, f"signed by {found.signer}"
    reasons = {
        "unsigned": "unsigned; integrity only, signer unknown",
        "unchecked": "ssh-keygen is not installed; integrity only, signer unknown",
    }
    return INTEGRITY_ONLY, reasons.get(found.signature, "integrity only, signer unknown")


def _lines(found: Verification, result: str, reason: str) -> list[str]:
    rows: dict[str, Any] = {
        "campaign": found.campaign,
        "recipe": found.recipe,
        "scale": f"{found.scale} on {found.device}",
        "criteria": f"{found.criteria['version']} ({found.criteria['sha256'][:12]})",
        "claimed": found.claimed + (f", with the seeded fault {found.inject}" * bool(found.inject)),
        "judged here": found.judged or "no",
        "key": found.keyid or "none",
        "sha256": found.sha256,
    }
    lines = [f"{result.upper()}  {found.path}", f"  {reason}", ""]
    lines += [f"  {name:<12} {value}" for name, value in rows.items()]
    if not found.promotes:
        lines += ["", "  it cannot promote"]
    return lines
