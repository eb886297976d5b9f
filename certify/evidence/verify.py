"""Checking a bundle: what is in it is what was written, who signed it, and whether its records
give the verdict that it claims. Reads the file alone; nothing is unpacked where it lies."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from certify.criteria.judge import judge_campaign
from certify.criteria.load import load_criteria
from certify.criteria.outcome import as_text
from certify.errors import CertifyError, UsageError
from certify.evidence.archive import DamagedError, name_fault, read_archive
from certify.evidence.attest import (
    Envelope,
    fixed_at,
    plan_statement,
    read_envelope,
    result_statement,
)
from certify.evidence.bundle import ATTESTATION, FILE, MANIFEST, SCHEMA
from certify.evidence.canonical import file_sha256, parse_canonical
from certify.evidence.contents import PLAN, PLAN_STATEMENT, VERDICT
from certify.evidence.keys import Checked, check
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.evidence.archive import Member

# What the signatures amount to, worst first.
UNSIGNED, UNCHECKED, UNKNOWN, SIGNED = "unsigned", "unchecked", "unknown signer", "signed"


@dataclass(frozen=True)
class Verification:
    """What was found in a whole bundle. sha256: of the file; signature: ``signed`` when plan and
    bundle are signed by one allowed signer, else why not; claimed and judged: the verdict it
    states and the one that its records give here, None where these criteria are not ours;
    agrees: whether the two documents are equal in everything."""

    path: str
    sha256: str
    campaign: str
    recipe: str
    scale: str
    device: str
    criteria: Mapping[str, str]
    signature: str
    signer: str | None
    keyid: str | None
    claimed: str
    judged: str | None
    agrees: bool
    inject: str | None

    @property
    def promotes(self) -> bool:
        """Whether a change of status may rest on it."""
        return self.signature == SIGNED and self.agrees


class Bundle:
    """An open bundle whose integrity was shown. Raises DamagedError when it cannot be."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.members = {member.name: member for member in read_archive(file, size)}
        self.manifest = self._manifest()
        self._compare()
        self.plan = self._object(PLAN)
        self.verdict = self._object(VERDICT)
        self.attestation = self._envelope(ATTESTATION)
        self.plan_statement = (
            self._envelope(PLAN_STATEMENT) if PLAN_STATEMENT in self.members else None
        )
        self._statements()

    def read(self, name: str) -> bytes:
        """The content of a member. Raises DamagedError when there is none."""
        member = self._member(name)
        self._file.seek(member.offset)
        return self._file.read(member.size)

    def document(self, name: str) -> Any:
        """A JSON member, None when there is none. Raises DamagedError when it is not JSON."""
        if name not in self.members:
            return None
        try:
            return load_json(self.read(name).decode("utf-8"))
        except ValueError:
            raise DamagedError(f"{name} is not JSON") from None

    def unpack(self, folder: Path) -> None:
        """Write what the judge reads into an empty folder."""
        for name in self.manifest["run_folders"]:
            (folder / "runs" / name).mkdir(parents=True, exist_ok=True)
        for name in self.members:
            if name == PLAN or "/records/" in name:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.read(name))

    def _member(self, name: str) -> Member:
        if name not in self.members:
            raise DamagedError(f"there is no {name}")
        return self.members[name]

    def _manifest(self) -> dict[str, Any]:
        try:
            body = parse_canonical(self.read(MANIFEST))
        except ValueError as error:
            raise DamagedError(f"the manifest is damaged: {error}") from None
        if not isinstance(body, dict) or body.get("schema") != SCHEMA:
            raise DamagedError(f"the manifest is not of schema {SCHEMA}")
        files, folders = body.get("files"), body.get("run_folders")
        if not isinstance(files, dict) or not isinstance(folders, list):
            raise DamagedError("the manifest lists no files")
        for name in folders:
            if not isinstance(name, str) or "/" in name or name_fault(name):
                raise DamagedError(f"the manifest names a run folder {name!r}")
        return body

    def _compare(self) -> None:
        listed = self.manifest["files"]
        there = set(self.members) - {MANIFEST, ATTESTATION}
        if missing := sorted(set(listed) - there):
            raise DamagedError(f"{missing[0]} is in the manifest and not in the bundle")
        if extra := sorted(there - set(listed)):
            raise DamagedError(f"{extra[0]} is in the bundle and not in the manifest")
        for name in sorted(there):
            member = self.members[name]
            if listed[name] != {"size": member.size, "sha256": member.sha256}:
                raise DamagedError(f"{name} is not the file that the manifest describes")

    def _object(self, name: str) -> dict[str, Any]:
        self._member(name)
        body = self.document(name)
        if not isinstance(body, dict):
            raise DamagedError(f"{name} is not an object")
        return body

    def _envelope(self, name: str) -> Envelope:
        try:
            return read_envelope(self.read(name))
        except ValueError as error:
            raise DamagedError(f"{name} is damaged: {error}") from None

    def _statements(self) -> None:
        """The statements must be those that these files give."""
        plan, manifest = self.read(PLAN), self.read(MANIFEST)
        try:
            expected = result_statement(manifest, plan, self.verdict)
        except (KeyError, TypeError):
            raise DamagedError(f"{VERDICT} is not a verdict") from None
        if self.attestation.payload != expected:
            raise DamagedError(f"{ATTESTATION} speaks of other files")
        if self.plan_statement is None:
            return
        try:
            fixed = fixed_at(self.plan_statement)
        except ValueError as error:
            raise DamagedError(f"{PLAN_STATEMENT} is {error}") from None
        campaign = str(self.plan.get("campaign_id"))
        if self.plan_statement.payload != plan_statement(plan, campaign, fixed):
            raise DamagedError(f"{PLAN_STATEMENT} speaks of another plan")


def find_bundle(named: Path) -> Path:
    """The file of a bundle that is named by itself or by its campaign's folder.

    Raises UsageError when there is none.
    """
    path = named / FILE if named.is_dir() else named
    if not path.is_file():
        raise UsageError(
            "there is no bundle",
            where=str(path),
            expected=f"{FILE}, as certify run writes it",
            hint="certify run RECIPE ends by writing its bundle",
        )
    return path


def verify(path: Path, allowed: Path | None) -> Verification:
    """Check everything. allowed: the file of allowed signers.

    Raises DamagedError when a byte is not as it was written or a signature is wrong.
    """
    with path.open("rb") as file:
        bundle = Bundle(file, path.stat().st_size)
        signature, signer = _signatures(bundle, allowed)
        judged, agrees = _judged(bundle)
    attested = bundle.attestation.signature
    criteria = bundle.verdict["criteria"]
    return Verification(
        path=str(path),
        sha256=file_sha256(path),
        campaign=str(bundle.plan.get("campaign_id")),
        recipe=str(bundle.plan.get("recipe_id")),
        scale=str(bundle.plan.get("scale")),
        device=str(bundle.plan.get("device")),
        criteria={"version": str(criteria["version"]), "sha256": str(criteria["sha256"])},
        signature=signature,
        signer=signer,
        keyid=attested.keyid if attested else None,
        claimed=str(bundle.verdict["verdict"]),
        judged=judged,
        agrees=agrees,
        inject=bundle.verdict.get("inject"),
    )


def _signatures(bundle: Bundle, allowed: Path | None) -> tuple[str, str | None]:
    """The plan must be signed as the bundle is: by the same signer."""
    states: list[Checked] = []
    for name, envelope in (
        (ATTESTATION, bundle.attestation),
        (PLAN_STATEMENT, bundle.plan_statement),
    ):
        if envelope is None or envelope.signature is None:
            states.append(Checked(UNSIGNED))
            continue
        found = check(envelope.signed_bytes, envelope.signature, allowed)
        if found.state == "wrong":
            raise DamagedError(f"the signature in {name} is not of these bytes")
        states.append(found)
    kinds = {found.state for found in states}
    signers = {found.signer for found in states}
    if UNSIGNED in kinds:
        return UNSIGNED, None
    if "unchecked" in kinds:
        return UNCHECKED, None
    if kinds == {"valid"} and len(signers) == 1:
        return SIGNED, states[0].signer
    return UNKNOWN, None


def _judged(bundle: Bundle) -> tuple[str | None, bool]:
    """(the verdict of this installation's judge, whether it is the claimed one in everything)."""
    criteria = bundle.verdict["criteria"]
    try:
        ours = load_criteria(str(criteria["version"]))
    except UsageError:
        return None, False
    if ours.sha256 != criteria["sha256"]:
        return None, False
    with tempfile.TemporaryDirectory(prefix="certify-verify-") as name:
        bundle.unpack(Path(name))
        try:
            verdict = judge_campaign(Path(name))
        except CertifyError as error:
            raise DamagedError(f"its records cannot be judged: {error.what}") from None
    return verdict.verdict, load_json(as_text(verdict)) == bundle.verdict
