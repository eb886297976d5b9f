"""From a name, a backend and options to a setting and a layout: the edge that reads data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.criteria.load import load_criteria
from certify.errors import UsageError
from certify.plan.devices import Device, device_of
from certify.plan.facts import architecture_of
from certify.plan.make import Setting
from certify.plan.of_recipe import cluster_of, layout_of
from certify.plan.timing import Speeds
from certify.recipes.load import load_model, load_recipe, model_keys
from certify.recipes.names import resolve_name
from certify.recipes.poc import find_script
from certify.recipes.variants import find_variant

if TYPE_CHECKING:
    from certify.plan.layout import Layout
    from certify.recipes.load import ModelConfig, Recipe


@dataclass(frozen=True)
class Options:
    """What a user may state. mfu: share; peak, within, across: FLOP/s and bytes/s."""

    nodes: int | None = None
    npus_per_node: int | None = None
    chip: str | None = None
    vocab: int | None = None
    mfu: float | None = None
    peak_flops: float | None = None
    within: float | None = None
    across: float | None = None


@dataclass(frozen=True)
class Question:
    """What is to be planned. notes: what was chosen or assumed, in sentences."""

    recipe: Recipe
    backend: str
    config: ModelConfig | None
    setting: Setting
    layout: Layout
    notes: tuple[str, ...]


def find_recipe(name: str, backend: str | None) -> tuple[Recipe, str, list[str]]:
    """The recipe, the backend to plan, and what was chosen.

    A model that has no row for the backend is planned from another row of it.
    """
    script = find_script(name) or find_variant(name)
    if script is not None:
        recipe = load_recipe(script.id)
        return recipe, backend or recipe.backend, []
    try:
        match = resolve_name(name, backend)
    except UsageError:
        if backend is None:
            raise
        match = resolve_name(name)
        recipe = load_recipe(match.row.id)
        if recipe.backend == backend:
            raise
        return recipe, backend, [f"no published row of this model uses {backend}: from {recipe.id}"]
    recipe = load_recipe(match.row.id)
    return recipe, backend or recipe.backend, [match.said] if match.said else []


def config_of(recipe: Recipe) -> ModelConfig | None:
    """The model's public configuration, None where it is not in our data."""
    if recipe.model_key in model_keys():
        return load_model(str(recipe.model_key))
    return None


def usable_share() -> float:
    """The share of a device's memory that a run may reserve (criteria, gate memory)."""
    rows = (t for t in load_criteria().thresholds if t.gate == "memory" and t.name == "reserved")
    return float(str(next(rows).value))


def _speeds(options: Options, device: Device, notes: list[str]) -> Speeds | None:
    if options.mfu is None:
        return None
    values = {
        "--peak TFLOPS": options.peak_flops or device.peak_flops,
        "--bandwidth WITHIN,ACROSS": options.within or device.within,
        "--bandwidth WITHIN,ACROSS ": options.across or device.across,
    }
    missing = sorted({key.strip() for key, value in values.items() if value is None})
    if missing:
        notes.append(
            f"no time bound: no source states the speeds of {device.chip};"
            f" give {', '.join(missing)}"
        )
        return None
    peak, within, across = (float(v) for v in values.values() if v is not None)
    return Speeds(options.mfu, peak, within, across)


def question(name: str, backend: str | None, options: Options) -> Question:
    """Read everything that a plan needs. Raises UsageError, or CannotJudgeError for a fact that
    no source states."""
    recipe, chosen, notes = find_recipe(name, backend)
    return question_of(recipe, chosen, options, notes)


def question_of(
    recipe: Recipe, backend: str, options: Options, notes: list[str] | None = None
) -> Question:
    """As `question`, for a recipe that is loaded."""
    said = list(notes or ())
    config = config_of(recipe)
    kind = "fsdp2" if backend == "fsdp2" else "mcore"
    model = architecture_of(recipe, config, kind, options.vocab)
    cluster = cluster_of(recipe, options.nodes, options.npus_per_node)
    layout, assumed = layout_of(recipe, kind, cluster)
    if recipe.stage in ("lora", "dpo"):
        said.append(f"planned as full training: what {recipe.stage} changes is not modelled")
    row = recipe.row
    own = recipe.kind == "row"
    if row is not None and own and options.nodes is None and row.world_size != cluster.world_size:
        said.append(f"the list says {row.cluster}, the script {cluster.nodes} nodes of "
                    f"{cluster.npus_per_node}: planned as the script")  # fmt: skip
    device = device_of(options.chip)
    said += [*assumed, *model.notes]
    speeds = _speeds(options, device, said)
    env = recipe.raw.get("env", {})
    buffsize = env.get("HCCL_BUFFSIZE")
    setting = Setting(model, cluster, device, usable_share(), speeds, buffsize)
    return Question(recipe, backend, config, setting, layout, tuple(said))
