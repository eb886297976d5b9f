"""Signatures by ``ssh-keygen -Y``: made with a person's or a machine's ssh key, checked against a
file of allowed signers, both without a network.

A signature is kept as the base64 of the blob that ssh-keygen writes between its armour lines
(OpenSSH, PROTOCOL.sshsig), because armour has many texts for one signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import UsageError
from certify.home import home_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMESPACE = "ascend-certify"
ALLOWED_FILE = "allowed_signers"
_MAGIC = b"SSHSIG"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_PATIENCE_S = 60


@dataclass(frozen=True)
class Signature:
    """keyid: ``SHA256:...``, the fingerprint of the signing key; blob: see the module."""

    keyid: str
    blob: bytes


@dataclass(frozen=True)
class Checked:
    """state: ``valid`` (by a signer of the file), ``unknown`` (a whole signature by somebody
    else), ``wrong`` (of other bytes, or damaged), ``unchecked`` (no ssh-keygen here).
    signer: the principal that the file names, for ``valid`` only."""

    state: str
    signer: str | None = None


def signing_key(explicit: str | None = None) -> Path | None:
    """The configured key: ``--key``, else ``$CERTIFY_SIGNING_KEY``; None where neither is set.

    Raises UsageError when it is not there.
    """
    named = explicit or os.environ.get("CERTIFY_SIGNING_KEY")
    if not named:
        return None
    path = Path(named).expanduser().absolute()
    if not path.is_file():
        raise UsageError(
            "the signing key is not there",
            where=f"CERTIFY_SIGNING_KEY={named}",
            expected="the path of an ssh private key, or of a public one whose agent runs",
            hint="ssh-keygen -t ed25519 -f KEY, and name KEY",
        )
    return path


def allowed_signers(explicit: str | None = None, home: str | None = None) -> Path | None:
    """The file of allowed signers: ``--allowed-signers``, else ``$CERTIFY_ALLOWED_SIGNERS``, else
    ``allowed_signers`` in the home folder; None when there is none.

    Raises UsageError when a named one is not there.
    """
    named = explicit or os.environ.get("CERTIFY_ALLOWED_SIGNERS")
    if named:
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise UsageError(
                "the file of allowed signers is not there",
                where=named,
                expected="lines of the form: PRINCIPAL KEYTYPE KEY",
                hint="see ssh-keygen(1), ALLOWED SIGNERS",
            )
        return path
    default = home_folder(home) / ALLOWED_FILE
    return default if default.is_file() else None


def _ssh_keygen(words: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["ssh-keygen", *words],
        input=data,
        capture_output=True,
        timeout=_PATIENCE_S,
        check=False,
        # A key with a passphrase must fail here, not wait for somebody.
        env={**os.environ, "SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"},
    )


def available() -> bool:
    """Whether signatures can be made and checked on this machine."""
    return shutil.which("ssh-keygen") is not None


def sign(data: bytes, key: Path) -> Signature:
    """Sign bytes. Raises UsageError when the key cannot sign."""
    if not available():
        raise UsageError("ssh-keygen is not installed", where="signing", hint="install OpenSSH")
    done = _ssh_keygen(["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE], data)
    lines = done.stdout.decode("ascii", "replace").split()
    if done.returncode != 0 or not lines:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(
            f"the key cannot sign: {said[-1] if said else 'ssh-keygen failed'}",
            where=str(key),
            expected="a key without passphrase, or one that the agent holds",
        )
    inner = done.stdout.decode("ascii").split(_BEGIN)[1].split(_END)[0]
    blob = base64.b64decode("".join(inner.split()))
    return Signature(keyid(blob), blob)


def keyid(blob: bytes) -> str:
    """The fingerprint of the key inside a signature. Raises ValueError for another blob."""
    start = len(_MAGIC) + 8
    if blob[: len(_MAGIC)] != _MAGIC or len(blob) < start:
        raise ValueError("not an ssh signature")
    length = int.from_bytes(blob[start - 4 : start], "big")
    key = blob[start : start + length]
    if len(key) != length:
        raise ValueError("a signature that is cut off")
    fingerprint = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return f"SHA256:{fingerprint}"


def decoded(text: str) -> bytes:
    """The bytes of canonical base64. Raises ValueError for any other text of them."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if base64.b64encode(data).decode() != text:
        raise ValueError("base64 in another form")
    return data


def check(data: bytes, signature: Signature, allowed: Path | None) -> Checked:
    """Whose signature of these bytes this is."""
    if not available():
        return Checked("unchecked")
    text = base64.b64encode(signature.blob).decode()
    armour = "\n".join([_BEGIN, *(text[i : i + 70] for i in range(0, len(text), 70)), _END, ""])
    with tempfile.TemporaryDirectory(prefix="certify-sig-") as folder:
        file = Path(folder) / "sig"
        file.write_text(armour, encoding="ascii")
        common = ["-n", NAMESPACE, "-s", str(file)]
        if _ssh_keygen(["-Y", "check-novalidate", *common], data).returncode != 0:
            return Checked("wrong")
        if allowed is None:
            return Checked("unknown")
        found = _ssh_keygen(["-Y", "find-principals", "-s", str(file), "-f", str(allowed)], b"")
        for principal in found.stdout.decode("utf-8", "replace").splitlines():
            words = ["-Y", "verify", "-I", principal, "-f", str(allowed), *common]
            if found.returncode == 0 and _ssh_keygen(words, data).returncode == 0:
                return Checked("valid", principal)
    return Checked("unknown")
