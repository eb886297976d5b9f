"""From command-line words to facts: the request of a campaign."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign.configured import from_configuration
from certify.campaign.described import described
from certify.campaign.faults import find_fault
from certify.campaign.phases import choose, requested_gates
from certify.campaign.reference_side import (
    MCORE_FAMILIES,
    PLAIN_CLAIM,
    mcore_builds,
    one_class,
    reference_backend,
)
from certify.campaign.request import Request, choose_scale, load_scale, training_versions
from certify.campaign.stacks import read_stack
from certify.criteria.load import load_criteria, required_gates
from certify.errors import UsageError
from certify.recipes.configuration import is_configuration
from certify.recipes.folder import is_folder, read_config, recipe_of, upstream_class
from certify.recipes.load import load_model, load_recipe
from certify.recipes.names import resolve_name
from certify.recipes.retired import legacy_error
from certify.recipes.rows import load_support_list
from certify.recipes.scale import scale_down
from certify.recipes.scale.families import is_moe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from certify.campaign.stacks import Stack
    from certify.recipes.rows import Row
    from certify.recipes.scale import ScaledRecipe


_ENVIRONMENTS = {"--from-env": "from_env", "--to-env": "to_env"}


def _require_built(row: Row, public: Mapping[str, Any]) -> None:
    if row.backend == "fsdp2" or mcore_builds(public):
        return
    kind = public.get("model_type")
    raise UsageError(
        f"{row.id} trains the model type {kind!r} with Megatron-Core, which this version cannot"
        " run",
        where="certify run",
        expected=f"a model type among {', '.join(MCORE_FAMILIES)}, or a row of the backend fsdp2",
        hint=_fsdp2_hint(row),
    )


def _fsdp2_hint(row: Row) -> str:
    siblings = [
        other
        for other in load_support_list()
        if other.model_key == row.model_key and other.backend == "fsdp2"
    ]
    if siblings:
        return f"certify run {row.model_key} --backend fsdp2"
    return "certify recipes list --backend fsdp2"


def _existing(option: str, path: str | None) -> str | None:
    if path is None:
        return None
    if not Path(path).exists():
        raise UsageError("no such file or folder", where=f"{option} {path}")
    return str(Path(path).absolute())


def _from_row(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """(recipe, public configuration, notes) of a published row."""
    match = resolve_name(args.recipe, args.backend)
    if match.row.backend == "legacy":
        raise legacy_error(match.row, date.today())
    public = dict(load_model(match.row.model_key).config)
    _require_built(match.row, public)
    recipe = dict(load_recipe(match.row.id).raw)
    return recipe, public, [match.said] if match.said else []


def _from_folder(
    folder: Path, backend: str | None
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The same of a Hugging Face model folder."""
    if backend not in (None, "fsdp2"):
        raise UsageError(
            f"a model folder with the backend {backend}",
            where=f"--backend {backend}",
            expected="fsdp2: a folder is trained by the class that its config.json names",
        )
    if not folder.is_dir():
        raise UsageError("no such folder", where=str(folder), expected="a recipe or a model folder")
    config = read_config(folder)
    recipe, cost = recipe_of(folder, config, described(config, str(folder / "config.json")))
    blocks = ", ".join(recipe["parallel"]["fsdp_modules"])
    experts = ", ".join(recipe["parallel"].get("ep_modules", ())) or "none"
    notes = [
        f"recipe made from {folder / 'config.json'}: blocks {blocks}; experts {experts}; "
        f"template {recipe['data']['template'] or 'none'}",
        cost.said(),
    ]
    return recipe, config, notes


def _fault(
    name: str | None, scaled: ScaledRecipe, stage: str, sides: Mapping[str, str]
) -> tuple[str, str] | None:
    if not name:
        return None
    config = scaled.hf_config
    has = {
        "tied": bool(config.get("tie_word_embeddings")),
        "router-bias": scaled.training.get("router_bias_update_rate", 0) > 0,
        "aux-loss": scaled.training.get("aux_loss_coef", 0) > 0,
        "mask": stage == "sft",
        "accumulation": _accumulates(scaled),
    }
    divided = scaled.parallel.get("tp_size", 1) > 1
    return find_fault(
        name, sides, is_moe(config), divided, {key for key, is_so in has.items() if is_so}
    )


def _accumulates(scaled: ScaledRecipe) -> bool:
    training, parallel = scaled.training, scaled.parallel
    ranks = parallel.get("fsdp_size", 1) * parallel.get("replicate_size", 1)
    return bool(training["global_batch"] > training["micro_batch"] * ranks)


def _phases(
    names: str | None, scale: str, stage: str, backend: str, config: Mapping[str, Any]
) -> tuple[str, ...]:
    """Raises UsageError for a phase that this backend or this model does not have."""
    required = required_gates(load_criteria(), scale, stage) if backend == "fsdp2" else ()
    phases = choose(names.split(",") if names else None, required)
    if backend != "fsdp2" and (gates := requested_gates(phases)):
        raise UsageError(
            f"the phase {gates[0]} with the backend {backend}",
            where="--phases",
            expected="the backend fsdp2, whose checkpoints any layout can load",
        )
    if "cross-backend" in phases and not mcore_builds(config):
        raise UsageError(
            f"the phase cross-backend with the model type {config.get('model_type')!r}",
            where="--phases",
            expected=f"a model type among {', '.join(MCORE_FAMILIES)}",
        )
    return phases


def _injections(count: int | None) -> int | None:
    if count is not None and count < 1:
        raise UsageError(f"{count} injections", where="--injections", expected="1 or more")
    return count


def _stacks(args: argparse.Namespace, phases: Sequence[str]) -> tuple[Stack, Stack] | None:
    """The two stacks of the upgrade phase, which needs both, and which alone uses them."""
    given = {option: getattr(args, name, None) for option, name in _ENVIRONMENTS.items()}
    if "upgrade" not in phases:
        if unused := [option for option, path in given.items() if path]:
            raise UsageError(
                "only the phase upgrade uses it", where=unused[0], hint="--phases upgrade"
            )
        return None
    if lacking := [option for option, path in given.items() if not path]:
        raise UsageError(
            f"the phase upgrade without {lacking[0]}",
            where="--phases",
            expected="two stacks: --from-env ENV --to-env ENV",
        )
    before, after = (read_stack(option, str(path)) for option, path in given.items())
    return before, after


def resolve_request(args: argparse.Namespace, words: Sequence[str]) -> tuple[Request, list[str]]:
    """The request, and notes on choices that were made for the user.

    words: the command line as typed, without the program's name. Everything that can be wrong with
    the request is found here, before anything is written, but for the content of ``--data`` and
    ``--tokenizer``, which the preparation reads. Raises UsageError or CannotJudgeError.
    """
    scale_name, why = choose_scale(args.scale)
    folder = Path(args.recipe)
    configured = None
    overrides = tuple(getattr(args, "overrides", ()))
    if is_configuration(args.recipe):
        configured = from_configuration(args, overrides)
        recipe, public, notes = configured.recipe, configured.public, list(configured.notes)
    elif overrides:
        raise UsageError(
            f"{overrides[0]!r} overrides nothing",
            where="certify run",
            expected="a YAML before it: overrides are over its values",
        )
    elif is_folder(args.recipe, folder):
        recipe, public, notes = _from_folder(folder, args.backend)
    else:
        recipe, public, notes = _from_row(args)
    notes.append(f"scale {scale_name}: {why}")
    scale = load_scale(scale_name)
    scaled = scale_down(recipe, public, scale)
    backend = str(recipe["backend"])
    formula = scaled.training["aux_loss_formula"]
    reference = reference_backend(scaled.hf_config, backend, formula)
    if one_class(backend, reference):
        notes.append(PLAIN_CLAIM)
    if upstream := upstream_class(recipe, public):
        notes.append(upstream)
    data_path, tokenizer_path = (
        _existing(f"--{name}", getattr(args, name)) for name in ("data", "tokenizer")
    )
    datasets = configured.datasets if configured else None
    stage = configured.stage if configured else args.stage
    own = datasets.paths if datasets and data_path is None else ()
    phases = _phases(args.phases, scale_name, stage, backend, scaled.hf_config)
    request = Request(
        recipe_id=recipe["id"],
        backend=backend,
        stage=stage,
        scale_name=scale_name,
        device=scale["device"],
        recipe=recipe,
        public=public,
        scale=scale,
        scaled=scaled,
        data_path=data_path or (own[0] if own else None),
        tokenizer_path=tokenizer_path or (configured.tokenizer if configured else None),
        phases=phases,
        fault=_fault(args.inject, scaled, stage, {"candidate": backend, "reference": reference}),
        versions=training_versions(),
        command=("certify", *words),
        further_data_paths=own[1:],
        max_documents=datasets.max_samples if datasets and own else None,
        injections=_injections(args.injections),
        stacks=_stacks(args, phases),
    )
    return request, notes
