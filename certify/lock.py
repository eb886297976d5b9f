"""The full stack written down, and what has drifted from it since.

A lock holds what decides whether two machines run the same thing: versions of every component,
commits of checkouts, every Python package, devices, the variables that may be recorded, the digest
of the image and of the scripts that were named. Two locks of one stack are equal byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from certify.environment.stack import Stack

SCHEMA = "certify.lock/1"
# What identifies the state of a component beside its version.
_DETAILS = ("git_version", "commit", "branch", "tag", "dirty", "abi", "chip", "editable")
# Variables that name a machine or a moment, not a setup.
_VOLATILE = re.compile(r"(RANK|LOCAL_RANK|WORLD_SIZE|MASTER_|_IP$|HOST|PORT|_PATH$|PATH$|IFNAME)")
_IMAGE = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_SCRIPT_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Drift:
    """One difference. place: section and name, as ``components cann``; locked and found: the two
    values, empty when there is none on that side."""

    place: str
    locked: str
    found: str


def lock_of(
    stack: Stack, *, image: str | None = None, scripts: Iterable[Path] = ()
) -> dict[str, Any]:
    """The lock of a stack. image: reference with its digest (name@sha256:...).

    Raises UsageError for an image without digest and for a script that cannot be read.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "components": {
            key: _component(sightings[0].version, sightings[0].detail)
            for key, sightings in sorted(stack.components.items())
            if sightings
        },
        "devices": _devices(stack),
        "packages": dict(sorted(stack.packages.items())),
        "variables": {
            name: value
            for name, value in sorted(stack.variables.items())
            if not _VOLATILE.search(name)
        },
        "scripts": {path.as_posix(): _digest(path) for path in sorted(scripts)},
    }
    if image is not None:
        if not _IMAGE.search(image):
            raise UsageError(
                f"image {image!r} carries no digest, and a tag can move",
                where="--image",
                expected="name@sha256:<64 hexadecimal digits>",
                hint="docker image inspect --format '{{index .RepoDigests 0}}' <image>",
            )
        document["image"] = image
    return document


def _component(version: str, detail: Mapping[str, str]) -> dict[str, str]:
    kept = {name: detail[name] for name in _DETAILS if detail.get(name)}
    return {"version": version, **dict(sorted(kept.items()))}


def _devices(stack: Stack) -> dict[str, int]:
    """How many devices of each name: the index and the bus id differ between equal machines."""
    counts: dict[str, int] = {}
    for device in stack.devices:
        memory = f" {device.memory_mb} MB" if device.memory_mb else ""
        counts[device.name + memory] = counts.get(device.name + memory, 0) + 1
    return dict(sorted(counts.items()))


def _digest(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_SCRIPT_BYTES:
            raise UsageError("this is no script: over 16 MiB", where=str(path))
        return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read the script: {reason}", where=str(path)) from error


def to_text(document: Mapping[str, Any]) -> str:
    """The lock as a file: one entry a line, so that a diff shows what moved."""
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def read_lock(path: Path) -> dict[str, Any]:
    """A lock from a file. Raises UsageError when it is none."""
    try:
        document = load_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read the lock: {reason}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON: {error}", where=str(path)) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(
            "this is no lock", where=str(path), expected=f"schema {SCHEMA}", hint="certify lock"
        )
    _check_shape(document, path)
    return document


# What each section holds by name.
_SECTIONS: dict[str, type] = {
    "components": dict, "devices": int, "packages": str, "variables": str, "scripts": str,
}  # fmt: skip


def _check_shape(document: Mapping[str, Any], path: Path) -> None:
    """Raises UsageError for a section that is missing or of another shape: compared as it is, it
    would count as empty and hide every drift."""
    for name, kind in _SECTIONS.items():
        section = document.get(name)
        if not isinstance(section, dict):
            found = "missing" if name not in document else type(section).__name__
            raise UsageError(
                f"the section {name} of the lock is {found}", where=str(path), expected="an object",
                hint="certify lock",
            )  # fmt: skip
        for key, value in section.items():
            good = isinstance(value, kind) and not isinstance(value, bool)
            if good and kind is dict:
                texts = all(isinstance(part, str) for part in value.values())
                good = texts and "version" in value
            if not good:
                raise UsageError(
                    f"{name} {key} of the lock is {value!r:.60}", where=str(path),
                    expected=_EXPECTED[name], hint="certify lock",
                )  # fmt: skip
    image = document.get("image")
    if "image" in document and not (isinstance(image, str) and _IMAGE.search(image)):
        raise UsageError(
            f"the image of the lock is {image!r:.60}", where=str(path),
            expected="name@sha256:<64 hexadecimal digits>",
        )  # fmt: skip
    unknown = sorted(set(document) - {"schema", "image", *_SECTIONS})
    if unknown:
        raise UsageError(
            f"the lock has sections that no lock has: {', '.join(unknown)}", where=str(path)
        )


_EXPECTED = {
    "components": "an object of texts with its version",
    "devices": "a number",
    "packages": "a version",
    "variables": "a text",
    "scripts": "sha256:...",
}


def drift(locked: Mapping[str, Any], found: Mapping[str, Any]) -> list[Drift]:
    """Every difference between two locks, by section and name.

    Scripts are compared only where the lock names them; an image only when both sides know one.
    """
    differences = []
    for section in ("components", "devices", "packages", "variables", "scripts"):
        old, new = _section(locked, section), _section(found, section)
        names = old if section == "scripts" else {**old, **new}
        for name in sorted(names):
            if old.get(name) != new.get(name):
                place = f"{section} {name}"
                differences.append(Drift(place, _shown(old.get(name)), _shown(new.get(name))))
    images = locked.get("image"), found.get("image")
    if all(images) and images[0] != images[1]:
        differences.append(Drift("image", str(images[0]), str(images[1])))
    return differences


def _section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = document.get(name)
    return section if isinstance(section, dict) else {}


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return " ".join(f"{key}={part}" for key, part in sorted(value.items()))
    return str(value)
