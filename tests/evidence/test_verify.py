"""A bundle is what it claims, or it is refused; who signed it decides whether it may promote."""

from __future__ import annotations

import base64
import io
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from certify.evidence.archive import DamagedError, read_archive, write_archive
from certify.evidence.bundle import write_bundle
from certify.evidence.canonical import canonical, sha256
from certify.evidence.verify import verify
from tests.criteria.synthetic import Campaign
from tests.evidence.conftest import allow, answer, make_key, tiny_campaign, write_campaign

ROOT = Path(__file__).resolve().parents[2]


def contents(path: Path) -> dict[str, bytes]:
    data = path.read_bytes()
    members = read_archive(io.BytesIO(data), len(data))
    return {m.name: data[m.offset : m.offset + m.size] for m in members}


def rewrite(path: Path, files: dict[str, bytes]) -> Path:
    with path.open("wb") as out:
        write_archive(out, files)
    return path


def test_a_signed_pass_is_verified(passing, allowed, capsys):
    code, found = answer(capsys, str(passing / "evidence.tar"), "--allowed-signers", str(allowed))
    assert (code, found["result"], found["promotes"]) == (0, "verified", True)
    assert found["signer"] == "ci@example.org"
    assert (found["claimed"], found["judged"]) == ("PASS", "PASS")


def test_its_statement_is_what_in_toto_and_dsse_say(passing, allowed, tmp_path):
    """Read and checked without our reader: DSSE by hand, the signature by ssh-keygen."""
    files = contents(passing / "evidence.tar")
    envelope = json.loads(files["attestation.intoto.jsonl"])
    payload = base64.b64decode(envelope["payload"])
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"].startswith("https://in-toto.io/attestation/test-result/")
    assert statement["predicate"]["result"] == "PASSED"
    assert statement["subject"][0]["digest"]["sha256"] == sha256(files["manifest.json"])
    kind = envelope["payloadType"]
    signed = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    blob = envelope["signatures"][0]["sig"]
    armour = tmp_path / "sig"
    armour.write_text(f"-----BEGIN SSH SIGNATURE-----\n{blob}\n-----END SSH SIGNATURE-----\n")
    words = ["-Y", "verify", "-f", str(allowed), "-I", "ci@example.org", "-n", "ascend-certify"]
    subprocess.run(["ssh-keygen", *words, "-s", str(armour)], input=signed, check=True)


def test_the_same_folder_gives_the_same_bytes(passing, key, tmp_path):
    copy = shutil.copytree(passing, tmp_path / "elsewhere")
    again, _ = write_bundle(copy, key, tmp_path / "again.tar")
    assert again.read_bytes() == (passing / "evidence.tar").read_bytes()


def test_unsigned_is_integrity_only(passing, allowed, tmp_path, capsys):
    path, _ = write_bundle(passing, None, tmp_path / "u.tar")
    code, found = answer(capsys, str(path), "--allowed-signers", str(allowed))
    assert (code, found["result"], found["promotes"]) == (3, "integrity only", False)
    assert "integrity only, signer unknown" in found["reason"]


def test_a_signer_that_nobody_allowed(passing, tmp_path, capsys):
    code, found = answer(capsys, str(passing))
    assert (code, found["signature"], found["promotes"]) == (3, "unknown signer", False)
    other = allow(tmp_path, make_key(tmp_path, "other"), "other@example.org")
    code, found = answer(capsys, str(passing), "--allowed-signers", str(other))
    assert (code, found["signature"]) == (3, "unknown signer")


def test_allowed_signers_of_the_home_folder(passing, allowed, tmp_path, capsys):
    (tmp_path / "home").mkdir()
    shutil.copy(allowed, tmp_path / "home" / "allowed_signers")
    assert answer(capsys, str(passing))[0] == 0


def test_a_plan_that_was_signed_by_somebody_else(passing, key, tmp_path, capsys):
    """A bundle signed later over another's plan shows no order in time."""
    other = make_key(tmp_path, "other")
    folder = write_campaign(tmp_path / "c", Campaign(), other)
    write_bundle(folder, key)
    both = tmp_path / "both"
    both.write_text(
        allow(tmp_path, key, "a@x").read_text() + allow(tmp_path, other, "b@x").read_text()
    )
    code, found = answer(capsys, str(folder), "--allowed-signers", str(both))
    assert (code, found["promotes"]) == (3, False)


def test_a_plan_that_was_not_signed(key, allowed, tmp_path, capsys):
    folder = write_campaign(tmp_path / "c", Campaign(), None)
    write_bundle(folder, key)
    code, found = answer(capsys, str(folder), "--allowed-signers", str(allowed))
    assert (code, found["signature"]) == (3, "unsigned")


def test_a_failing_campaign_is_verified_as_failing(key, allowed, tmp_path, capsys):
    campaign = Campaign().edit_step("candidate", 120, loss=9.0, loss_hex=(9.0).hex())
    folder = write_campaign(tmp_path / "c", campaign, key)
    write_bundle(folder, key)
    code, found = answer(capsys, str(folder), "--allowed-signers", str(allowed))
    assert (code, found["claimed"], found["judged"]) == (0, "FAIL", "FAIL")


def test_a_verdict_that_the_records_do_not_give_is_refused(key, allowed, tmp_path, capsys):
    """Signed by an allowed signer, every digest right, and still a lie."""
    campaign = Campaign().edit_step("candidate", 120, loss=9.0, loss_hex=(9.0).hex())
    folder = write_campaign(tmp_path / "c", campaign, key)
    claimed = json.loads((folder / "verdict.json").read_text())
    claimed["verdict"] = "PASS"
    for gate in claimed["gates"]:
        gate["verdict"] = gate["verdict"].replace("FAIL", "PASS")
    (folder / "verdict.json").write_text(json.dumps(claimed))
    write_bundle(folder, key)
    code, found = answer(capsys, str(folder), "--allowed-signers", str(allowed))
    assert (code, found["result"], found["promotes"]) == (1, "refused", False)
    assert found["reason"] == "it claims PASS, its records give FAIL"


def test_criteria_that_this_version_does_not_have(passing, key, tmp_path, capsys):
    folder = shutil.copytree(passing, tmp_path / "c")
    body = json.loads((folder / "verdict.json").read_text())
    body["criteria"] = {"version": "v99", "sha256": "0" * 64}
    (folder / "verdict.json").write_text(json.dumps(body))
    write_bundle(folder, key)
    code, found = answer(capsys, str(folder))
    assert (code, found["judged"], found["result"]) == (3, None, "integrity only")


# ---- every byte


def small_bundle(tmp_path: Path, key: Path | None) -> Path:
    folder = write_campaign(tmp_path / "small", tiny_campaign(), key)
    return write_bundle(folder, key)[0]


def changed_at(path: Path, data: bytes, place: int, value: int) -> Path:
    path.write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
    return path


def undetected(tmp_path: Path, bundle: Path, allowed: Path, mutations) -> list[tuple[int, int]]:
    data, target = bundle.read_bytes(), tmp_path / "mutant.tar"
    missed = []
    for place, value in mutations(data):
        try:
            verify(changed_at(target, data, place, value), allowed)
        except DamagedError:
            continue
        missed.append((place, value))
    return missed


def test_every_byte_of_an_unsigned_bundle_counts(tmp_path, allowed):
    bundle = small_bundle(tmp_path, None)
    verify(bundle, allowed)
    chance = random.Random(8)

    def one_value_each(data):
        return ((i, byte ^ chance.randrange(1, 256)) for i, byte in enumerate(data))

    assert undetected(tmp_path, bundle, allowed, one_value_each) == []


def test_every_byte_of_a_signature_counts(tmp_path, key, allowed):
    bundle = small_bundle(tmp_path, key)
    assert verify(bundle, allowed).signature == "signed"
    data = bundle.read_bytes()
    chance = random.Random(8)
    start = data.index(b'"signatures":[{')
    end = data.index(b"\n", start)

    def within(_):
        # Half of the bytes here, all of them in the slow test.
        return ((i, data[i] ^ chance.randrange(1, 128)) for i in range(start, end, 2))

    assert undetected(tmp_path, bundle, allowed, within) == []


@pytest.mark.slow
def test_every_single_bit_of_a_signed_bundle_counts(tmp_path, key, allowed):
    bundle = small_bundle(tmp_path, key)

    def bits(data):
        return ((i, byte ^ 1 << bit) for i, byte in enumerate(data) for bit in range(8))

    assert undetected(tmp_path, bundle, allowed, bits) == []


# ---- forged as a whole


def forged(tmp_path: Path, passing: Path, change) -> Path:
    files = contents(passing / "evidence.tar")
    change(files)
    return rewrite(tmp_path / "forged.tar", files)


def manifest_again(files: dict[str, bytes]) -> None:
    body = json.loads(files["manifest.json"])
    others = {k: v for k, v in files.items() if k not in ("manifest.json",)}
    others.pop("attestation.intoto.jsonl")
    body["files"] = {n: {"size": len(d), "sha256": sha256(d)} for n, d in others.items()}
    files["manifest.json"] = canonical(body)


def test_a_manifest_that_was_written_again_is_not_the_signed_one(passing, allowed, tmp_path):
    def change(files):
        name = next(n for n in files if n.endswith("candidate/records/rank-00000.jsonl"))
        files[name] = files[name].replace(b'"loss": 5', b'"loss": 4', 1)
        manifest_again(files)

    with pytest.raises(DamagedError, match="speaks of other files"):
        verify(forged(tmp_path, passing, change), allowed)


def test_another_plan_under_the_old_statement(passing, allowed, tmp_path):
    def change(files):
        files["plan.json"] = files["plan.json"].replace(b'"tiny"', b'"full"', 1)
        manifest_again(files)

    with pytest.raises(DamagedError):
        verify(forged(tmp_path, passing, change), allowed)


@pytest.mark.parametrize("name", ["plan.json", "verdict.json", "attestation.intoto.jsonl"])
def test_what_must_be_there(passing, allowed, tmp_path, name):
    with pytest.raises(DamagedError, match=name.split(".")[0]):
        verify(forged(tmp_path, passing, lambda files: files.pop(name)), allowed)


def test_a_file_that_nobody_listed(passing, allowed, tmp_path):
    with pytest.raises(DamagedError, match="not in the manifest"):
        verify(forged(tmp_path, passing, lambda f: f.update({"extra": b"x"})), allowed)


def test_run_folders_lead_nowhere_else(passing, allowed, tmp_path):
    def change(files):
        body = json.loads(files["manifest.json"])
        body["run_folders"] += ["../../outside"]
        files["manifest.json"] = canonical(body)

    with pytest.raises(DamagedError, match="run folder"):
        verify(forged(tmp_path, passing, change), allowed)


# ---- the command line


def test_what_is_no_bundle(tmp_path, capsys):
    (tmp_path / "x.tar").write_bytes(b"no tar" * 500)
    code, found = answer(capsys, str(tmp_path / "x.tar"))
    assert (code, found["result"]) == (1, "refused")
    code, found = answer(capsys, str(tmp_path / "absent.tar"))
    assert code == 2
    assert "there is no bundle" in found["error"]["what"]


def test_it_needs_neither_torch_nor_a_database(passing, allowed, tmp_path):
    script = (
        "import sys\n"
        "for name in ('torch', 'sqlalchemy', 'alembic', 'numpy', 'jinja2', 'socket'):\n"
        "    sys.modules[name] = None\n"
        "from certify.cli import main\n"
        f"sys.exit(main(['verify', {str(passing)!r}, '--allowed-signers', {str(allowed)!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("VERIFIED")
    assert "tiny on cpu" in done.stdout


def test_without_ssh_keygen(passing, allowed, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    code, found = answer(capsys, str(passing), "--allowed-signers", str(allowed))
    assert (code, found["signature"]) == (3, "unchecked")
    assert "ssh-keygen is not installed" in found["reason"]
