"""What was asked for, resolved: recipe, scale, device, data and options of one campaign."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certify
from certify import __version__
from certify.campaign.reference_side import reference_backend
from certify.errors import CannotJudgeError, UsageError
from matrices import files

if TYPE_CHECKING:
    from certify.campaign.stacks import Stack
    from certify.recipes.scale import ScaledRecipe

SCALES = ("tiny",)
KNOWN_SCALES = ("tiny", "reduced", "full")
STAGES = ("pretrain",)
# Distributions whose version decides a trajectory.
TRAINING_PACKAGES = ("torch", "transformers", "megatron-core", "numpy", "tokenizers", "safetensors")
# Variables by which the same code and processor compute with other instructions.
ARITHMETIC_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
)


@dataclass(frozen=True)
class Request:
    """One campaign as asked for. recipe, public: the published facts and the model's public
    configuration; scale: the parsed scale file; fault: (side, name) or None; further_data_paths,
    max_documents: as `certify.runspec.PrepareSpec`; injections: of the worker-loss phase, None
    for the scale's number; stacks: to come from and to go to, of the upgrade phase."""

    recipe_id: str
    backend: str
    stage: str
    scale_name: str
    device: str
    recipe: dict[str, Any]
    public: dict[str, Any]
    scale: dict[str, Any]
    scaled: ScaledRecipe
    data_path: str | None
    tokenizer_path: str | None
    phases: tuple[str, ...]
    fault: tuple[str, str] | None
    versions: dict[str, str]
    command: tuple[str, ...]
    further_data_paths: tuple[str, ...] = ()
    max_documents: int | None = None
    injections: int | None = None
    stacks: tuple[Stack, Stack] | None = None

    @property
    def reference(self) -> str:
        """The backend of the reference."""
        formula = self.scaled.training["aux_loss_formula"]
        return reference_backend(self.scaled.hf_config, self.backend, formula)

    @property
    def key(self) -> str:
        """Digest by which an interrupted campaign of the same request is found again."""
        parts = {
            "certify": __version__,
            "recipe": self.recipe_id,
            "backend": self.backend,
            "stage": self.stage,
            "scale": self.scale,
            "device": self.device,
            "public": self.public,
            "scaled": dataclasses.asdict(self.scaled),
            "data": _identity(self.data_path),
            "further_data": [_identity(path) for path in self.further_data_paths],
            "max_documents": self.max_documents,
            "tokenizer": _identity(self.tokenizer_path),
            "phases": self.phases,
            "fault": self.fault,
            "injections": self.injections,
            "stacks": [dataclasses.asdict(stack) for stack in self.stacks or ()],
            "versions": self.versions,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _identity(path: str | None) -> list[list[Any]] | None:
    """Names, sizes and times of the files at a path: enough to see that input changed."""
    if path is None:
        return None
    root = Path(path)
    found = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    return [[str(p), p.stat().st_size, p.stat().st_mtime_ns] for p in found]


def source_digest() -> str:
    """sha256 over the sources that decide a trajectory: a changed runner keeps no old reference."""
    root = Path(certify.__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in ("runner", "certify/records", "certify/runspec"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def training_versions() -> dict[str, str]:
    """Everything of this machine's software that decides a trajectory: versions from package
    metadata, our own sources, and the variables that choose other arithmetic.

    Raises UsageError for a missing package.
    """
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version(), "certify sources": source_digest()}
    versions |= {name: os.environ[name] for name in ARITHMETIC_VARIABLES if name in os.environ}
    for name in TRAINING_PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            raise UsageError(
                f"{name} is not installed",
                where="certify run",
                expected="the extra 'run'",
                hint='pip install "ascend-certify[run]"',
            ) from None
    return versions


def choose_scale(name: str) -> tuple[str, str]:
    """(scale, why). ``auto`` takes the largest scale that this version can run here.

    Raises CannotJudgeError for a scale that this version does not run.
    """
    if name == "auto":
        return "tiny", "the largest scale this version runs without the recipe's cluster"
    if name not in KNOWN_SCALES:
        raise UsageError(
            f"unknown scale {name!r}",
            where="--scale",
            expected=f"one of auto, {', '.join(KNOWN_SCALES)}",
        )
    if name not in SCALES:
        raise CannotJudgeError(
            f"scale {name!r} cannot be run by this version",
            where="--scale",
            expected=f"one of auto, {', '.join(SCALES)}",
            hint="certify run RECIPE --scale tiny",
        )
    return name, "as asked for"


def load_scale(name: str) -> dict[str, Any]:
    """A parsed file of ``matrices/scales``."""
    return files.read_toml(f"scales/{name}.toml")
