"""A recipe from a Hugging Face model folder: its config.json decides what can be known of it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.scale import features, require_scalable
from matrices import files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES = 1 << 20  # of a config.json; published ones have a few kilobytes


@dataclass(frozen=True)
class Adaptation:
    """What it cost to train a model that no published row names.

    files, lines: of model code written for it; conversions: steps that a user takes to convert
    weights. Zero of each for a class that transformers ships.
    """

    model_class: str
    stock: bool
    files: int
    lines: int
    conversions: int

    def said(self) -> str:
        """One line."""
        whose = "stock class of transformers" if self.stock else "own class"
        return (
            f"adaptation: {self.files} files and {self.lines} lines of model code changed, "
            f"{self.conversions} weight-conversion steps ({self.model_class}, {whose})"
        )


def is_folder(name: str, path: Path) -> bool:
    """Whether a word of the command line means a model folder and not a recipe."""
    return path.is_dir() or "/" in name or name in (".", "..")


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder. Raises UsageError for a folder that has no usable one, and
    CannotJudgeError for an architecture that no rule scales down."""
    path = folder / "config.json"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(
            "no config.json", where=str(folder), expected="a Hugging Face model folder"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"unreadable config.json: {error}", where=str(path)) from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise UsageError(
            "a configuration without model_type",
            where=str(path),
            expected="the config.json of a causal language model",
        )
    if isinstance(config.get("text_config"), dict):
        raise UsageError(
            f"{config['model_type']} is made of several models (text_config and others)",
            where=str(path),
            expected="a language model alone",
            hint="put the text_config by itself into a folder's config.json",
        )
    require_scalable(config["model_type"])
    for key in ("hidden_size", "vocab_size"):
        if not isinstance(config.get(key), int) or config[key] < 1:
            raise UsageError(
                f"{key} is {config.get(key)!r}", where=str(path), expected="a positive number"
            )
    return config


def recipe_id(folder: Path) -> str:
    """A name for the campaigns of a folder."""
    slug = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    return f"folder-{slug or 'model'}"


def _template(folder: Path) -> str | None:
    """Where instruction data would get its template."""
    if (folder / "chat_template.jinja").is_file():
        return "chat_template.jinja"
    try:
        tokenizer = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return "chat_template of tokenizer_config.json" if tokenizer.get("chat_template") else None


def recipe_of(
    folder: Path, config: Mapping[str, Any], built: Mapping[str, Any]
) -> tuple[dict[str, Any], Adaptation]:
    """(facts of a recipe, what the adaptation cost).

    built: what ``python -m runner.describe`` said of the configuration.
    """
    shared = files.read_toml("folder_recipe.toml")
    experts = list(built["ep_modules"])
    parallel = {
        "fsdp_modules": list(built["fsdp_modules"]),
        "ep": shared["parallel"]["ep_limit"] if experts else 1,
    }
    if experts:
        parallel |= {"ep_modules": experts, "ep_fsdp_modules": experts}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    recipe: dict[str, Any] = {
        "schema": "certify.recipe/1",
        "id": recipe_id(folder),
        "kind": "folder",
        "name": folder.resolve().name,
        "backend": "fsdp2",
        "stage": "pretrain",
        "source": {"folder": folder.resolve().name, "config_sha256": digest},
        "model": {"model_id": config["model_type"], "class": built["class"]},
        "features": list(features(config)),
        "parallel": parallel,
        "batch": {},
        "training": {"seq_length": config.get("max_position_embeddings"), **shared["training"]},
        "data": {"template": _template(folder)},
    }
    cost = Adaptation(
        model_class=str(built["class"]),
        stock=bool(built["stock"]),
        files=int(built["own_files"]),
        lines=int(built["own_lines"]),
        conversions=0,
    )
    recipe["adaptation"] = asdict(cost)
    return recipe, cost


def upstream_class(recipe: Mapping[str, Any], public: Mapping[str, Any]) -> str | None:
    """What to say where a published YAML's model_id selects a class of upstream's own.

    The built-in engine trains the stock class in its place; both names are recorded.
    """
    model_id = (recipe.get("model") or {}).get("model_id")
    if recipe.get("kind") == "folder" or model_id is None:
        return None
    return (
        f"model_id {model_id} selects a class of MindSpeed-LLM there; here it is the class of "
        f"transformers for {public.get('model_type')}"
    )
