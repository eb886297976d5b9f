"""Rules of names and of the published list: what a script is called against what it says."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from certify.recipes.lint.context import Context, Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.recipes.rows import Row

_SEQUENCE = re.compile(r"_(\d+)k(?=[_.])", re.IGNORECASE)
_DEVICES = re.compile(r"_(\d+)(?:p|die)(?=[_.])", re.IGNORECASE)
_SIZE = re.compile(r"(?<![\dA])(\d+(?:\.\d+)?)([BT])(\d?)")
_NPUS = {"A2": (8,), "A3": (16,)}
# Share by which the estimate may differ from a size that is rounded for its name.
_TOLERANCE = 0.12


def file_name(c: Context) -> Iterator[Hit]:
    """N01, N02, N03: sequence, devices and product in the name."""
    name = c.script_name
    seq, world = c.get("training.seq_length"), c.get("cluster.world_size")
    stated = _SEQUENCE.search(name)
    if stated and seq and int(stated.group(1)) * 1024 != seq:
        found = f"name {int(stated.group(1)) * 1024}, script {seq}"
        yield Hit("N01", found, "training.seq_length")
    devices = _DEVICES.search(name)
    if devices and world and int(devices.group(1)) != world:
        yield Hit("N02", f"name {devices.group(1)}, script {world}", "cluster.world_size")
    product, npus = c.get("product"), c.get("cluster.npus_per_node")
    if npus and product in _NPUS and npus not in _NPUS[product]:
        yield Hit("N03", f"{product} in the name, {npus} NPUs a node", "cluster.npus_per_node")
    elif npus == 16 and product is None:
        yield Hit("N03", "16 NPUs a node, no product in the name", "cluster.npus_per_node")


def differences(c: Context) -> Iterator[Hit]:
    """N04 to N08, N10: what differs between list and script, as recorded in the recipe."""
    for one in c.raw.get("differences", ()):
        found = f"published {one['published']}, script {one['script']}"
        yield Hit(one["rule"], found, "differences")


@lru_cache(maxsize=1)
def _rows_by_script() -> dict[str, Row]:
    """Path of a published row's script -> the row."""
    from certify.recipes.load import load_recipe, load_support_list

    return {load_recipe(row.id).source.path: row for row in load_support_list()}


def against_the_list(c: Context) -> Iterator[Hit]:
    """N04 to N06 for a script that was read now: the published row whose script it is."""
    row = _rows_by_script().get(c.raw["source"]["path"]) if c.imported is not None else None
    if row is None:
        return
    nodes, npus = c.get("cluster.nodes"), c.get("cluster.npus_per_node")
    if nodes and npus and (nodes, npus) != (row.nodes, row.npus_per_node):
        found = f"published {row.cluster}, script {nodes}x{npus}"
        yield Hit("N04", found, "cluster.npus_per_node")
    seq = c.get("training.seq_length")
    if seq and seq != row.seq_length:
        yield Hit("N05", f"published {row.seq}, script {seq}", "training.seq_length")
    if c.raw["backend"] != row.backend:
        yield Hit("N06", f"published {row.backend_published}, script {c.raw['backend']}")


def _attention(c: Context) -> int | None:
    """Weights of one attention block: projections of query, key, value and output."""
    hidden, heads = c.get("model.hidden"), c.get("model.heads")
    mla = c.get("mla")
    if mla and mla.get("kv_lora_rank") and mla.get("v_head_dim"):
        nope, rope = mla.get("qk_nope_head_dim", 0), mla.get("qk_rope_head_dim", 0)
        value, q_rank, kv_rank = mla["v_head_dim"], mla.get("q_lora_rank"), mla["kv_lora_rank"]
        width = heads * (nope + rope)
        query = (hidden + width) * q_rank if q_rank else hidden * width
        key_value = hidden * (kv_rank + rope) + kv_rank * heads * (nope + value)
        return int(query + key_value + heads * value * hidden)
    head = c.get("model.head_dim") or c.get("model.head_dim_derived")
    if not head:
        return None
    groups = c.get("model.kv_heads") or heads
    return int(hidden * head * (2 * heads + 2 * groups))


def _layers(c: Context) -> int:
    left_out = c.get("parallel.noop_layers")
    count = c.number("model.layers", 0)
    return count - (len(left_out.split(",")) if left_out else 0)


def estimate(c: Context) -> float | None:
    """Parameters of a transformer from what a script states; None where it states too little.

    Counts embeddings, attention, feed-forward and experts; leaves out biases, norms and
    multi-token prediction, and does not know state-space layers.
    """
    hidden, ffn = c.get("model.hidden"), c.get("model.ffn")
    vocab = c.get("model.vocab_padded") or c.get("model.vocab")
    if not (hidden and vocab and c.get("model.heads") and _layers(c)) or c.get("ssm"):
        return None
    attention = _attention(c)
    if attention is None or not (ffn or c.moe):
        return None
    matrices = 3 if c.get("model.activation") in ("swiglu", "geglu") else 2
    dense = matrices * hidden * ffn if ffn else 0
    total = vocab * hidden * (1 if c.get("model.tie_embeddings") else 2)
    layers = _layers(c)
    if not c.moe:
        return float(total + layers * (attention + dense))
    width = c.get("moe.ffn_hidden") or ffn
    if not width:
        return None
    shared = c.get("moe.shared_expert_ffn") or c.number("moe.shared_experts", 0) * width
    sparse = 3 * hidden * (c.number("moe.experts") * width + shared) + hidden * c.number(
        "moe.experts"
    )
    first = max(0, c.number("moe.first_k_dense", 0))
    return float(total + layers * attention + first * dense + (layers - first) * sparse)


def _published(size: str | None) -> float | None:
    """Billions in a size as published (``7B1`` is 7.1), None for ``8x7B`` and names."""
    found = _SIZE.search(size or "")
    if not found or re.search(r"\d+x", size or ""):
        return None
    number = float(found.group(1) + (f".{found.group(3)}" if found.group(3) else ""))
    return number * (1000 if found.group(2) == "T" else 1)


def parameters(c: Context) -> Iterator[Hit]:
    """N09: parameters by the script against the published size."""
    counted, published = estimate(c), _published(c.get("size"))
    if counted is None or published is None:
        return
    ratio = counted / 1e9 / published
    if abs(ratio - 1) > _TOLERANCE:
        found = f"estimate {counted / 1e9:.1f}B, published {c.get('size')} (ratio {ratio:.2f})"
        yield Hit("N09", found, "model.layers")


CHECKS = (file_name, differences, against_the_list, parameters)
