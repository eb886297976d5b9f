"""From `Numbers` (see `certify.plan.facts`) to an `Architecture`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from certify.plan import weights
from certify.plan.architecture import Layer, Mlp, Moe, Weight
from certify.plan.stock import habits_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.plan.architecture import Architecture, Mixer

# What a missing number is called in a message.
WORDS = {
    "layers": "number of layers",
    "hidden": "hidden size",
    "vocab": "vocabulary size",
    "heads": "attention heads",
    "tied": "whether embeddings are tied",
    "topk": "experts per token",
}
# Megatron-LM, training/arguments.py: ffn_hidden_size defaults to this multiple of hidden_size.
_DEFAULT_FFN = 4


def missing(numbers: Mapping[str, Any]) -> list[str]:
    """Names of the numbers without which no formula can be evaluated."""
    needed = ["layers", "hidden", "vocab", "tied"]
    if "mamba" not in numbers:
        needed.append("heads")
    found = [WORDS[key] for key in needed if numbers.get(key) is None]
    moe = numbers.get("moe")
    if moe is not None:
        found += [WORDS["topk"]] if moe.get("topk") is None else []
    return found


def architecture(numbers: Mapping[str, Any]) -> Architecture:
    """The model of complete numbers."""
    notes = []
    n = dict(numbers)
    n.setdefault("kv_heads", n.get("heads"))
    if n.get("ffn") is None:
        n["ffn"] = _DEFAULT_FFN * n["hidden"]
        if "mamba" not in n:
            notes.append(f"the width of the MLP is not stated: {_DEFAULT_FFN} x hidden assumed")
    if n.get("moe") and n["moe"].get("ffn") is None:
        n["moe"] = {**n["moe"], "ffn": n["ffn"]}
    if n.get("head_dim") is None and n.get("heads"):
        n["head_dim"] = n["hidden"] // n["heads"]
    if {"mamba", "delta"} & set(n):
        notes.append("FLOPs of recurrences are not in the formula, their activations approximate")
    layers = tuple(_layer(n, index) for index in range(n["layers"]))
    mtp = tuple(_prediction_layer(n, layers[-1]) for _ in range(n.get("mtp") or 0))
    found = weights.assemble(n["hidden"], n["vocab"], layers, n["tied"], mtp, tuple(notes))
    return replace(found, capped=bool(n.get("capped")))


def _layer(n: Mapping[str, Any], index: int) -> Layer:
    if n.get("model_type") == "longcat_flash" or (n.get("moe") or {}).get("zero"):
        return _shortcut_layer(n)
    if "mamba" in n:
        return _mamba_layer(n, index)
    mixer, found = _mixer(n, index)
    moe = _moe(n, index)
    mlps: tuple[Mlp, ...] = ()
    if moe is None:
        mlps = (Mlp(n["ffn"], n["gated"]),)
        found += weights.dense(n["hidden"], mlps[0], "mlp", "dense", bool(n.get("mlp_bias")))
    else:
        found += _expert_weights(n, moe)
    count = 4 if n.get("post_norm") else 2
    found += weights.norms(n["hidden"], count, bool(n.get("norm_bias")))
    habits = habits_of(n.get("model_type"))
    if habits.one_projection:
        mixer = replace(mixer, beside_v=mixer.q + mixer.k)
    return Layer((mixer,), mlps, moe, count, tuple(found), n.get("dropouts") or 0, habits)


def _mixer(n: Mapping[str, Any], index: int) -> tuple[Mixer, list[Weight]]:
    if "latent" in n:
        latent = {key: value or 0 for key, value in n["latent"].items()}
        latent.setdefault("q_rank", None)
        return weights.latent_attention(
            n["hidden"], weights.LatentSizes(heads=n["heads"], **latent)
        )
    kind = _kind(n, index)
    if kind == "linear_attention":
        d = n["delta"]
        sizes = weights.DeltaSizes(
            d["num_key_heads"],
            d["num_value_heads"],
            d["key_head_dim"],
            d["value_head_dim"],
            d["conv_kernel_dim"],
        )
        return weights.delta_attention(n["hidden"], sizes)
    return weights.attention(
        n["hidden"],
        weights.AttentionSizes(
            n["heads"],
            n["kv_heads"],
            n["head_dim"],
            bool(n.get("qkv_bias")),
            bool(n.get("out_bias")),
            n.get("qk_norm") or "",
            gate="delta" in n,
            sinks=n.get("model_type") == "gpt_oss",
            window=n.get("window") if kind == "sliding_attention" else None,
        ),
    )


def _kind(n: Mapping[str, Any], index: int) -> str:
    """As transformers names layer types."""
    types = n.get("layer_types")
    if types:
        return str(types[index])
    if "full_attention_interval" in n:
        full = (index + 1) % n["full_attention_interval"] == 0
        return "full_attention" if full else "linear_attention"
    if n.get("model_type") == "gpt_oss":  # alternating, as GptOssConfig sets them
        return "full_attention" if index % 2 else "sliding_attention"
    return "full_attention"


def _moe(n: Mapping[str, Any], index: int) -> Moe | None:
    """The experts of a layer, None where it has a dense MLP."""
    moe = n.get("moe")
    if moe is None:
        return None
    types = moe.get("mlp_layer_types")
    is_dense = (
        (types and index < len(types) and types[index] == "dense")
        or index < (moe.get("first_dense") or 0)
        or index in (moe.get("dense_layers") or ())
        or (index + 1) % (moe.get("period") or 1) != 0
    )
    if is_dense:
        return None
    shared = Mlp(moe["shared"], n["gated"]) if moe.get("shared") else None
    return Moe(moe["experts"], moe["topk"], Mlp(moe["ffn"], n["gated"]), shared,
               moe.get("zero") or 0, bool(moe.get("gate")))  # fmt: skip


def _expert_weights(n: Mapping[str, Any], moe: Moe) -> list[Weight]:
    options = n["moe"]
    return weights.experts(
        n["hidden"],
        moe,
        bias=bool(options.get("bias")),
        router_bias=bool(options.get("router_bias")),
        gate=bool(options.get("gate")),
    )


def _shortcut_layer(n: Mapping[str, Any]) -> Layer:
    """LongCat-Flash (arXiv 2509.01322): two attentions and two dense MLPs beside the experts."""
    first, found = _mixer(n, 0)
    second, more = _mixer(n, 0)
    mlp, moe = Mlp(n["ffn"], n["gated"]), _moe({**n, "moe": {**n["moe"], "first_dense": 0}}, 0)
    assert moe is not None
    found = found + more + _expert_weights(n, moe)
    for index in range(2):
        found += weights.dense(n["hidden"], mlp, f"mlps.{index}", "dense")
    found += weights.norms(n["hidden"], 4)
    habits = habits_of(n.get("model_type"))
    return Layer((first, second), (mlp, mlp), moe, 4, tuple(found), habits=habits)


def _mamba_layer(n: Mapping[str, Any], index: int) -> Layer:
    """Mamba2, or one of the three kinds of its hybrid: shares of attention and MLP layers, in
    Megatron-LM's order of counting (the order along the depth does not matter here)."""
    m, depth = n["mamba"], n["layers"]
    attention = round(depth * m.get("hybrid_attention_ratio", 0.0))
    mlps = round(depth * m.get("hybrid_mlp_ratio", 0.0))
    norm = weights.norms(n["hidden"], 1)
    if index < attention:
        mixer, found = _mixer(n, index)
        return Layer((mixer,), (), None, 1, tuple(found + norm))
    if index < attention + mlps:
        mlp = Mlp(n["ffn"], n["gated"])
        found = weights.dense(n["hidden"], mlp, "mlp", "dense")
        return Layer((), (mlp,), None, 1, tuple(found + norm))
    inner = m["expand"] * n["hidden"]
    sizes = weights.MambaSizes(inner, m["groups"], m["state_dim"], m["head_dim"], m["d_conv"])
    mixer, found = weights.mamba(n["hidden"], sizes)
    return Layer((mixer,), (), None, 1, tuple(found + norm))


def _prediction_layer(n: Mapping[str, Any], last: Layer) -> Layer:
    """Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): a layer as the last
    one after a projection of two normed streams."""
    hidden = n["hidden"]
    extra = [
        Weight("eh_proj.weight", (hidden, 2 * hidden), "attention", 0, counts=True),
        *weights.norms(hidden, 3),
    ]
    return Layer(last.mixers, last.mlps, last.moe, last.norms + 3, (*last.weights, *extra))
