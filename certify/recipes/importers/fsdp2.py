"""MindSpeed-LLM's FSDP2 configuration: YAML and command line, checked against its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.importers.base import (
    Imported,
    Problem,
    get,
    product_hint,
    product_of,
    put,
    script_id,
    stage_of,
)
from certify.recipes.importers.fsdp2_arguments import arguments, convert
from certify.recipes.importers.megatron import REPO, cluster_of, env_of
from certify.recipes.importers.options import is_option
from certify.recipes.importers.text import inside, read_source
from certify.recipes.importers.values import UNKNOWN, Origin, Word
from certify.recipes.importers.yaml_text import Document, read_yaml
from certify.recipes.schema import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

    from certify.recipes.importers.launch import Launch


@dataclass(frozen=True)
class Given:
    """A value with where it was given; unknown when the script does not tell it."""

    value: Any
    origin: Origin


def _flat(document: Document, imported: Imported) -> dict[str, Given]:
    """``section.name`` -> value; what upstream drops silently becomes a problem."""
    given: dict[str, Given] = {}
    for section, content in document.values.items():
        if not isinstance(content, dict):
            imported.problems.append(
                Problem("F05", f"{section} is no section", document.origins[section])
            )
            continue
        for key, value in content.items():
            if value is not None:
                given[f"{section}.{key}"] = Given(value, document.origins[f"{section}.{key}"])
    for name, origin in document.repeated:
        imported.problems.append(Problem("F17", f"{name} is given twice", origin))
    return given


def _command_line(words: tuple[Word, ...]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not is_option(word.text):
            continue
        name, equals, attached = word.text[2:].partition("=")
        values = [attached] if equals else []
        while i < len(words) and not is_option(words[i].text):
            values.append(words[i].text)
            i += 1
        value: Any = values[0] if len(values) == 1 else values or "True"
        given[name] = Given(value, word.origin)
    return given


def _check(name: str, given: Given, imported: Imported) -> Any:
    """The converted value, None for one that upstream refuses or drops (a problem is noted)."""
    argument = arguments().get(name)
    shown = f"{name}={given.value}".replace(UNKNOWN, "?")[:200]
    if argument is None:
        imported.problems.append(Problem("F05", shown, given.origin))
        return None
    if UNKNOWN in str(given.value):
        return None
    try:
        return convert(argument, given.value)
    except LookupError:
        found = f"{shown}, known: {', '.join(argument.choices)}"
        imported.problems.append(Problem("F06", found, given.origin))
    except (ValueError, TypeError, OverflowError, RecursionError):
        imported.problems.append(Problem("F16", f"{shown}, type {argument.type}", given.origin))
    return None


def _place(raw: dict[str, Any], name: str, value: Any) -> None:
    short = name.partition(".")[2]
    for key in arguments()[name].keys:
        if key == "optimisations":
            if value:
                raw["optimisations"].append(short)
        elif key == "optimisation_values":
            raw.setdefault(key, {})[short] = value
        elif key.startswith("moe."):
            if value:
                put(raw, key, value)
        else:
            put(raw, key, value)


def _derive(raw: dict[str, Any]) -> None:
    world = get(raw, "cluster.world_size")
    ep, ep_fsdp = (get(raw, f"parallel.{key}") or 1 for key in ("ep", "ep_fsdp_size"))
    put(raw, "parallel.derived.dp", 1)
    if world and world % (ep * ep_fsdp) == 0:
        put(raw, "parallel.derived.edp", world // (ep * ep_fsdp))
    micro, accumulation = get(raw, "batch.micro"), get(raw, "batch.grad_accumulation") or 1
    fsdp, cp = get(raw, "parallel.fsdp_size"), get(raw, "parallel.cp") or 1
    if micro:
        put(raw, "batch.per_device", micro)
    if micro and fsdp and fsdp % cp == 0:
        whole = micro * accumulation * (fsdp // cp)
        put(raw, "batch.global", whole)
        if get(raw, "training.seq_length"):
            put(raw, "batch.tokens_per_step", whole * raw["training"]["seq_length"])
    if "moe" in raw and get(raw, "parallel.dispatcher"):
        put(raw, "moe.dispatcher", raw["parallel"]["dispatcher"])


def _build(imported: Imported, given: dict[str, Given], path: str) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "schema": SCHEMA,
        "id": script_id(path),
        "kind": "script",
        "name": path.rsplit("/", 1)[-1],
        "backend": "fsdp2",
        "entry": "train_fsdp2.py",
        "optimisations": [],
    }
    for section in ("cluster", "parallel", "batch", "training", "model"):
        raw[section] = {}
    for name, one in given.items():
        value = _check(name, one, imported)
        if value is not None:
            _place(raw, name, value)
            for key in arguments()[name].keys:
                imported.origins[key] = one.origin
            imported.origins[name] = one.origin
    raw["optimisations"].sort()
    raw["stage"] = stage_of(path, raw["entry"])
    if get(raw, "training.stage") == "sft" and raw["stage"] == "pretrain":
        raw["stage"] = "tune"
    raw["product"] = product_of(path)
    raw["source"] = {"repo": REPO, "path": path}
    put(raw, "ckpt.format", "dcp")
    return raw


def _finish(imported: Imported, raw: dict[str, Any]) -> None:
    if raw["product"] is None:
        raw["product_hint"] = product_hint(raw["cluster"].get("npus_per_node"))
    _derive(raw)
    imported.raw = {key: value for key, value in raw.items() if value is not None}


def _items(text: str) -> list[str]:
    """Items of a list on the command line: ``a,b`` or ``[a, b]``."""
    return [item.strip() for item in text.strip("[] ").split(",") if item.strip()]


def import_document(
    imported: Imported, text: str, overrides: tuple[str, ...] = ()
) -> dict[str, Given]:
    """Fill ``imported`` from a YAML and overrides (``section.name=value``, dashes allowed).

    Returns what was given, by ``section.name``, with the line of each.
    """
    given = _flat(read_yaml(text, imported.path), imported)
    origin = Origin("<command line>", 1)
    for word in overrides:
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            raise UsageError(
                f"override {word!r} has no value",
                where="--overrides",
                expected="section.name=value",
            )
        known = arguments().get(name)
        several = known is not None and known.type.startswith("list")
        given[name] = Given(_items(value) if several else value, origin)
    if not any(name in arguments() for name in given):
        raise UsageError(
            "no argument of the FSDP2 backend is in it",
            where=imported.path,
            expected="sections model, data, parallel, training, optimization",
        )
    _finish(imported, _build(imported, given, imported.path))
    return given


def import_launch(imported: Imported, launch: Launch, path: str, root: Path | None) -> None:
    """Fill ``imported`` from a script that runs train_fsdp2.py with a YAML and overrides."""
    imported.launch = launch
    words = launch.arguments
    at = next((i for i, w in enumerate(words) if w.text.endswith((".yaml", ".yml"))), None)
    given: dict[str, Given] = {}
    yaml_path = yaml_missing = None
    if at is not None:
        named = words[at]
        words = words[:at] + words[at + 1 :]
        found = inside(root, named.text) if root is not None and named.known else None
        yaml_path = named.text
        if found is None:
            yaml_missing = named.text
            imported.problems.append(Problem("F15", named.text, named.origin))
            # The one of the script's own name may be what is meant.
            yaml_path = path.removesuffix(".sh") + ".yaml"
            found = inside(root, yaml_path) if root is not None else None
        if found is not None:
            given = _flat(read_yaml(read_source(found), yaml_path), imported)
        else:
            yaml_path = None
    overriding = _command_line(words)
    for name, one in overriding.items():
        before = given.get(name)
        if before is not None and str(before.value) != str(one.value):
            found_text = f"{name}: YAML {before.value}, command line {one.value}"
            imported.problems.append(Problem("F08", found_text[:200], one.origin))
    given.update(overriding)
    raw = _build(imported, given, path)
    raw["cluster"] = cluster_of(imported, launch)
    raw["entry"] = launch.meant or launch.name
    raw["env"] = env_of(imported)
    if yaml_path:
        raw["source"]["companion_yaml"] = yaml_path
    if yaml_missing:
        raw["source"]["yaml_missing"] = yaml_missing
    _finish(imported, raw)
