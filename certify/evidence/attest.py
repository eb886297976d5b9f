"""What is signed: in-toto Statements in DSSE envelopes (in-toto attestation framework v1, DSSE v1).

Two statements: of the plan, made before anything it plans is launched, and of the whole bundle,
whose subject is its manifest. An envelope without a signature says the same and proves no author.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.evidence.canonical import sha256
from certify.evidence.keys import Signature, decoded, keyid, sign
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
# Ours: what was fixed before launch, and when by the clock of the signer.
FIXED_PLAN = "urn:ascend-certify:fixed-plan:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
# The words of the test-result predicate for our verdicts.
_RESULTS = {"PASS": "PASSED", "FAIL": "FAILED"}
_INCONCLUSIVE = "WARNED"


@dataclass(frozen=True)
class Envelope:
    """payload: the statement's bytes; signature: None in an unsigned envelope."""

    payload: bytes
    signature: Signature | None

    @property
    def signed_bytes(self) -> bytes:
        """What the signature covers: DSSE's pre-authentication encoding."""
        kind = PAYLOAD_TYPE.encode()
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(self.payload), self.payload)


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def plan_statement(plan: bytes, campaign: str, fixed_unix_s: float) -> bytes:
    """The statement of a plan. plan: the bytes of ``plan.json``."""
    return _compact(
        {
            "_type": STATEMENT,
            "subject": [{"name": "plan.json", "digest": {"sha256": sha256(plan)}}],
            "predicateType": FIXED_PLAN,
            "predicate": {"campaign": campaign, "fixed_unix_s": fixed_unix_s},
        }
    )


def result_statement(manifest: bytes, plan: bytes, verdict: Mapping[str, Any]) -> bytes:
    """The statement of a bundle. manifest, plan: the bytes of these files; verdict: the document
    of ``verdict.json``."""

    def gates(*wanted: str) -> list[str]:
        return [str(g["gate"]) for g in verdict["gates"] if g["verdict"] in wanted]

    criteria = verdict["criteria"]
    return _compact(
        {
            "_type": STATEMENT,
            "subject": [{"name": "manifest.json", "digest": {"sha256": sha256(manifest)}}],
            "predicateType": TEST_RESULT,
            "predicate": {
                "result": _RESULTS.get(str(verdict["verdict"]), _INCONCLUSIVE),
                "configuration": [
                    {"name": "plan.json", "digest": {"sha256": sha256(plan)}},
                    {
                        "name": f"criteria {criteria['version']}",
                        "digest": {"sha256": criteria["sha256"]},
                    },
                ],
                "passedTests": gates("PASS"),
                "warnedTests": gates("INCONCLUSIVE"),
                "failedTests": gates("FAIL"),
            },
        }
    )


def envelope_text(payload: bytes, key: Path | None) -> bytes:
    """One line of JSON: the envelope of a statement, signed when there is a key.

    Raises UsageError when the key cannot sign.
    """
    signatures = []
    if key is not None:
        made = sign(Envelope(payload, None).signed_bytes, key)
        signatures = [{"keyid": made.keyid, "sig": base64.b64encode(made.blob).decode()}]
    body = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": signatures,
    }
    return _compact(body) + b"\n"


def read_envelope(data: bytes) -> Envelope:
    """The envelope of a text that `envelope_text` wrote. Raises ValueError for any other."""
    body = load_json(data.decode("utf-8"))
    if not isinstance(body, dict) or set(body) != {"payload", "payloadType", "signatures"}:
        raise ValueError("not an envelope")
    if _compact(body) + b"\n" != data:
        raise ValueError("not in canonical form")
    if body["payloadType"] != PAYLOAD_TYPE:
        raise ValueError(f"its payload is {body['payloadType']!r}")
    payload, signatures = decoded(str(body["payload"])), body["signatures"]
    if signatures == []:
        return Envelope(payload, None)
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise ValueError("other than one signature")
    one = signatures[0]
    if not isinstance(one, dict) or set(one) != {"keyid", "sig"}:
        raise ValueError("not a signature")
    blob = decoded(str(one["sig"]))
    if keyid(blob) != one["keyid"]:
        raise ValueError("the signature is of another key than it says")
    return Envelope(payload, Signature(str(one["keyid"]), blob))


def fixed_at(envelope: Envelope) -> float:
    """When a plan was fixed, Unix seconds. Raises ValueError for another statement."""
    body = load_json(envelope.payload.decode("utf-8"))
    try:
        return float(body["predicate"]["fixed_unix_s"])
    except (KeyError, TypeError):
        raise ValueError("not the statement of a plan") from None
