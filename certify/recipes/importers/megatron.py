"""A Megatron-style launch command as a recipe."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from certify.recipes.importers.base import (
    Imported,
    Problem,
    get,
    product_hint,
    product_of,
    put,
    scalar,
    script_id,
    stage_of,
)
from certify.recipes.importers.options import Option, Options, known_options, read_options
from certify.recipes.importers.values import UNKNOWN
from certify.recipes.schema import SCHEMA, kind_of
from matrices import files

if TYPE_CHECKING:
    from certify.recipes.importers.launch import Launch

REPO = "Ascend/MindSpeed-LLM"
# Paths of one site: no facts of a recipe.
_PATHS = frozenset(
    ("--data-path", "--load", "--save", "--tokenizer-name-or-path", "--tokenizer-model",
     "--vocab-file", "--merge-file", "--tensorboard-dir", "--lora-load", "--data-cache-path",
     "--profile-save-path", "--log-dir")
)  # fmt: skip
_ABSENT_MEANS = {
    "model.tie_embeddings": True,
    "model.linear_bias": True,
    "model.mcore_models": False,
    "ckpt.load_optim": True,
    "ckpt.save_optim": True,
}


@lru_cache(maxsize=1)
def _keys() -> dict[str, list[tuple[str, str]]]:
    """option -> recipe keys with the value a flag stands for."""
    keys: dict[str, list[tuple[str, str]]] = {}
    for row in files.read_tsv("mcore_keys.tsv"):
        keys.setdefault(row["option"], []).append((row["key"], row["value"]))
    return keys


def _constant(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


def typed(key: str, text: str) -> Any:
    """``text`` as the schema's type of ``key``. Raises ValueError when it is none."""
    kind = kind_of(key)
    if UNKNOWN in text:
        raise ValueError(text)
    if kind == (int,):
        return int(text)
    if isinstance(kind, tuple) and float in kind:
        number = float(text)
        return int(text) if text.lstrip("+-").isdigit() else number
    return text


def _apply(imported: Imported, raw: dict[str, Any], option: Option) -> None:
    if option.name not in _keys() and option.name not in _PATHS and UNKNOWN not in option.value:
        value = _number_or_text(option.value) if option.values else True
        raw.setdefault("other_options", {})[option.name[2:]] = value
    for key, constant in _keys().get(option.name, ()):
        if key == "optimisations":
            listed = raw.setdefault("optimisations", [])
            if option.name[2:] not in listed:
                listed.append(option.name[2:])
            continue
        if key == "optimisation_values":
            if UNKNOWN not in option.value:
                raw.setdefault(key, {})[option.name[2:]] = _number_or_text(option.value)
            continue
        try:
            value = _constant(constant) if constant else typed(key, option.value)
        except ValueError:
            if option.values:
                rule = "S21" if UNKNOWN in option.value else "S16"
                found = f"{option.name} {option.value.replace(UNKNOWN, '?')}"
                imported.problems.append(Problem(rule, found, option.origin))
            continue
        put(raw, key, value)
        imported.origins[key] = option.origin


def _number_or_text(text: str) -> Any:
    value = scalar(text)
    if isinstance(value, str):
        try:
            return float(text) if text[:1].isdigit() else text
        except ValueError:
            return text
    return value


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None


def cluster_of(imported: Imported, launch: Launch) -> dict[str, int]:
    """Nodes, NPUs a node and world size that the launcher is told, as far as known.

    Where it is told nothing, the script's own variables count and a problem is noted: such a
    script starts a single process.
    """
    options = launch.launcher_options
    npus = _whole(options.get("nproc_per_node") or options.get("local_worker_num"))
    nodes = _whole(options.get("nnodes"))
    world = _whole(options.get("worker_num"))
    if world and npus and nodes is None:
        nodes = world // npus
    if npus is None and nodes is None and imported.script is not None:
        stated = {one.name: _whole(one.value) for one in imported.script.assignments}
        npus, nodes = stated.get("NPUS_PER_NODE"), stated.get("NNODES")
        if npus and nodes:
            found = f"{launch.launcher} is not told of {nodes}x{npus} devices"
            imported.problems.append(Problem("S18", found, launch.command.origin))
    cluster = {"nodes": nodes, "npus_per_node": npus}
    cluster["world_size"] = nodes * npus if nodes and npus else None
    return {key: value for key, value in cluster.items() if value is not None}


def _derive(raw: dict[str, Any]) -> None:
    """Sizes that follow from the stated ones; nothing where a stated one is missing."""
    world = get(raw, "cluster.world_size")
    tp, pp, cp = (get(raw, f"parallel.{name}") or 1 for name in ("tp", "pp", "cp"))
    layers, per_stage = get(raw, "model.layers"), get(raw, "parallel.layers_per_virtual_stage")
    if layers and per_stage and layers % (pp * per_stage) == 0:
        put(raw, "parallel.vpp", layers // pp // per_stage)
    micro, whole = get(raw, "batch.micro"), get(raw, "batch.global")
    if world and world % (tp * pp * cp) == 0:
        dp = world // (tp * pp * cp)
        put(raw, "parallel.derived.dp", dp)
        if micro and whole and whole % (micro * dp) == 0:
            put(raw, "batch.grad_accumulation", whole // (micro * dp))
        ep = get(raw, "parallel.ep")
        # With moe-tp-extend-ep the experts are spread over the tensor-parallel ranks as well.
        etp = tp if get(raw, "parallel.moe_tp_extend_ep") else get(raw, "parallel.etp") or tp
        if get(raw, "moe.experts") and ep and world % (etp * ep * pp) == 0:
            put(raw, "parallel.derived.expert_dp", world // (etp * ep * pp))
    if micro:
        put(raw, "batch.per_device", micro)
    seq = get(raw, "training.seq_length")
    if whole and seq:
        put(raw, "batch.tokens_per_step", whole * seq)
    hidden, heads = get(raw, "model.hidden"), get(raw, "model.heads")
    stated = get(raw, "model.head_dim") or raw.get("mla")
    if hidden and heads and hidden % heads == 0 and not stated:
        put(raw, "model.head_dim_derived", hidden // heads)


def _backend(raw: dict[str, Any], path: str, launch: Launch) -> str:
    if launch.launcher == "msrun" or "/mindspore/" in f"/{path}":
        return "mindspore"
    return "mcore" if get(raw, "model.mcore_models") else "legacy"


def import_launch(imported: Imported, launch: Launch, path: str) -> None:
    """Fill ``imported.raw`` with the recipe of a Megatron-style launch."""
    options: Options = read_options(launch.arguments)
    imported.launch, imported.options = launch, options
    raw: dict[str, Any] = {"schema": SCHEMA, "id": script_id(path), "kind": "script"}
    raw["name"] = path.rsplit("/", 1)[-1]
    raw["optimisations"] = []
    for option in options.last().values():
        _apply(imported, raw, option)
    given = options.last()
    if get(raw, "model.position_embedding") is None and "--use-rotary-position-embeddings" in given:
        put(raw, "model.position_embedding", "rope")
    if "--group-query-attention" not in given and get(raw, "model.kv_heads") is not None:
        # Megatron looks at the number of query groups only with that flag.
        del raw["model"]["kv_heads"]
    for key, value in _ABSENT_MEANS.items():
        if get(raw, key) is None:
            put(raw, key, value)
    if get(raw, "moe.experts") is None:
        raw.pop("moe", None)
    elif get(raw, "parallel.dispatcher"):
        put(raw, "moe.dispatcher", raw["parallel"]["dispatcher"])
    if "--multi-latent-attention" not in given and get(raw, "mla.kv_lora_rank") is None:
        raw.pop("mla", None)
    raw["cluster"] = cluster_of(imported, launch)
    _finish(imported, raw, path, launch)


def _finish(imported: Imported, raw: dict[str, Any], path: str, launch: Launch) -> None:
    raw["entry"] = launch.meant or launch.name
    raw["backend"] = _backend(raw, path, launch)
    raw["stage"] = stage_of(path, raw["entry"])
    raw["product"] = product_of(path)
    if raw["product"] is None:
        raw["product_hint"] = product_hint(raw["cluster"].get("npus_per_node"))
    raw["source"] = {"repo": REPO, "path": path}
    for section in ("parallel", "batch", "training"):
        raw.setdefault(section, {})
    assert imported.script is not None
    raw["env"] = env_of(imported)
    _derive(raw)
    imported.raw = {key: value for key, value in raw.items() if value is not None}


def env_of(imported: Imported) -> dict[str, Any]:
    """Exported variables with a known value; paths that name other variables are left out."""
    assert imported.script is not None
    env = {}
    for name, assignment in imported.script.env().items():
        if UNKNOWN not in assignment.value and assignment.value:
            env[name] = scalar(assignment.value)
            imported.origins[f"env.{name}"] = assignment.origin
    if imported.launch is not None:
        for name, value in imported.launch.command.env.items():
            env[name] = scalar(value)
            imported.origins[f"env.{name}"] = imported.launch.command.origin
    return env


def unknown_options(options: Options) -> list[Option]:
    """Options that none of upstream's parsers defines: argparse ends with an error."""
    known = known_options()
    return [option for option in options.given if option.name not in known]
