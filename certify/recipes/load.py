"""Load recipes and model configurations from ``matrices``.

A recipe is one TOML file of facts read from a published script; a key that is absent was not
stated there. Nothing here knows a default of Megatron or of MindSpeed-LLM: who needs one says so.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from certify.errors import UsageError
from certify.recipes.models import ModelConfig, load_model, model_keys
from certify.recipes.names import RowMatch, near_matches, resolve_name
from certify.recipes.poc import find_script
from certify.recipes.rows import Branch, Row, branch_of, load_branches, load_support_list
from certify.recipes.schema import check_recipe
from certify.recipes.variants import find_variant
from matrices import files

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Branch",
    "ModelConfig",
    "Recipe",
    "Row",
    "RowMatch",
    "branch_of",
    "load_branches",
    "load_model",
    "load_recipe",
    "load_support_list",
    "model_keys",
    "near_matches",
    "recipe_from_dict",
    "resolve_name",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Where the facts were read: ``repo:path`` at ``commit`` of ``branch``.

    last_change_commit, last_change: the script's last change there (short commit, ISO date).
    """

    repo: str
    path: str
    commit: str | None = None
    branch: str | None = None
    last_change_commit: str | None = None
    last_change: str | None = None
    companion_yaml: str | None = None


@dataclass(frozen=True)
class Cluster:
    """The cluster that the script states (the published one is in `Recipe.row`)."""

    nodes: int | None = None
    npus_per_node: int | None = None
    world_size: int | None = None


@dataclass(frozen=True)
class Parallel:
    """Sizes of the parallel dimensions, ranks each; None where the script does not state one.

    vpp is the number of virtual stages a rank; layers_per_virtual_stage what scripts state.
    """

    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    layers_per_virtual_stage: int | None = None
    cp: int | None = None
    cp_algo: str | None = None
    ep: int | None = None
    etp: int | None = None
    fsdp_size: int | None = None
    ep_fsdp_size: int | None = None
    sequence_parallel: bool | None = None
    distributed_optimizer: bool | None = None
    moe_tp_extend_ep: bool | None = None
    num_layer_list: str | None = None
    noop_layers: str | None = None
    schedule: str | None = None
    dispatcher: str | None = None
    fsdp_modules: tuple[str, ...] | None = None
    ignored_modules: tuple[str, ...] | None = None
    ep_modules: tuple[str, ...] | None = None
    ep_fsdp_modules: tuple[str, ...] | None = None
    param_dtype: str | None = None
    reduce_dtype: str | None = None
    recompute: Mapping[str, Any] = field(default_factory=dict)
    derived: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """Samples: micro a device and step, global a step. tokens_per_step: tokens."""

    micro: int | None = None
    global_: int | None = None
    grad_accumulation: int | None = None
    per_device: int | None = None
    tokens_per_step: int | None = None


@dataclass(frozen=True)
class Training:
    """Hyper-parameters as stated; lengths in tokens, intervals in steps."""

    seq_length: int | None = None
    steps: int | None = None
    epochs: float | None = None
    lr: float | None = None
    min_lr: float | None = None
    schedule: str | None = None
    warmup_fraction: float | None = None
    warmup_iters: int | None = None
    lr_decay_iters: int | None = None
    weight_decay: float | None = None
    beta1: float | None = None
    beta2: float | None = None
    eps: float | None = None
    clip_grad: float | None = None
    seed: int | None = None
    optimizer: str | None = None
    dtype: str | None = None
    init_std: float | None = None
    router_aux_loss_coef: float | None = None
    aux_loss_formula: str | None = None
    save_interval: int | None = None
    log_interval: int | None = None


@dataclass(frozen=True)
class Recipe:
    """One recipe. row: the published row it belongs to, None for an imported script.

    kind: ``row`` (the script of a published row), ``performance`` or ``accuracy`` (scripts under
    upstream's tests/poc), ``script`` (imported by the user). backend is the script's own;
    raw holds everything, with the section names of the file.
    """

    id: str
    kind: str
    name: str
    size: str | None
    backend: str
    stage: str
    entry: str | None
    product: str | None
    model_key: str | None
    source: Source
    cluster: Cluster
    parallel: Parallel
    batch: Batch
    training: Training
    row: Row | None
    raw: Mapping[str, Any]

    @property
    def differences(self) -> tuple[Mapping[str, Any], ...]:
        """Where list and script disagree: tables with field, published, script, rule."""
        return tuple(self.raw.get("differences", ()))

    @property
    def model(self) -> Mapping[str, Any]:
        """Architecture as far as the script states it."""
        section: Mapping[str, Any] = self.raw.get("model", {})
        return section

    @property
    def moe(self) -> Mapping[str, Any] | None:
        """Expert options of the script, None for a dense model or where none is stated."""
        return self.raw.get("moe")


def _pick(cls: type[T], section: Mapping[str, Any]) -> T:
    """The dataclass from the keys of a section that it knows; lists become tuples."""
    values = {}
    for entry in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = section.get(entry.name.rstrip("_"))
        if value is not None:
            values[entry.name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)


def recipe_from_dict(raw: Mapping[str, Any], where: str, row: Row | None = None) -> Recipe:
    """A recipe from a parsed file. Raises UsageError naming ``where`` and the key at fault."""
    check_recipe(raw, where)
    return Recipe(
        id=raw["id"],
        kind=raw["kind"],
        name=raw["name"],
        size=raw.get("size"),
        backend=raw["backend"],
        stage=raw["stage"],
        entry=raw.get("entry"),
        product=raw.get("product"),
        model_key=raw.get("model_key"),
        source=_pick(Source, raw["source"]),
        cluster=_pick(Cluster, raw["cluster"]),
        parallel=_pick(Parallel, raw["parallel"]),
        batch=_pick(Batch, raw["batch"]),
        training=_pick(Training, raw["training"]),
        row=row,
        raw=raw,
    )


def load_recipe(recipe_id: str) -> Recipe:
    """The recipe with this id: of a row, of a variant, or of a script under tests/poc.

    Use `resolve_name` for short names.
    Raises UsageError with near matches when there is none.
    """
    script = find_script(recipe_id) or find_variant(recipe_id)
    name = f"recipes/{script.path_id if script else recipe_id}.toml"
    try:
        raw = files.read_toml(name)
    except FileNotFoundError:
        near = near_matches(recipe_id)
        hint = f"did you mean: {', '.join(near)}?" if near else "certify recipes list"
        raise UsageError(f"no recipe {recipe_id!r}", where="matrices/recipes", hint=hint) from None
    row = next((row for row in load_support_list() if row.id == raw.get("row")), None)
    return recipe_from_dict(raw, f"matrices/{name}", row)
