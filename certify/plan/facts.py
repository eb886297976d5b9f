"""From a recipe and a model's public configuration to an `Architecture`, or what is missing.

Both sources are brought to one set of names (`Numbers`). For a Megatron script the script's own
numbers hold, because they are what is trained; what it leaves out comes from the configuration.
An FSDP2 recipe names a published model: its configuration holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.errors import CannotJudgeError
from certify.plan import build
from certify.recipes.scale.families import EXPERTS, TOP_K

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.plan.architecture import Architecture
    from certify.recipes.load import ModelConfig, Recipe

Numbers = dict[str, Any]

# How configurations call the number of shared experts of a routed one's width.
_SHARED_COPIES = (
    "n_shared_experts",
    "num_shared_experts",
    "num_shared_expert",
    "moe_num_shared_experts",
)

# Model types whose query, key and value projections have a bias whatever the configuration says.
_QKV_BIAS = ("qwen", "qwen2", "qwen2_moe", "chatglm")
# Which kind of per-head norm before the attention, by model type.
_QK_NORM = {
    "qwen3": "head",
    "qwen3_moe": "head",
    "qwen3_next": "head",
    "qwen3_5_text": "head",
    "qwen3_5_moe_text": "head",
    "minimax_m2": "full",
}
# Model types with a norm before and after each block.
_POST_NORM = ("gemma2", "glm4")
# Model types whose shared expert has a gate of its own.
_SHARED_GATE = ("qwen2_moe", "qwen3_next", "qwen3_5_moe_text")
# Model types whose router has a bias that an optimizer holds; elsewhere it is a buffer.
_ROUTER_BIAS = ("gpt_oss",)
# Residual dropout where the configuration is silent, by model type (transformers 5.24).
_RESIDUAL_DROPOUT = {"seed_oss": 0.1}
# Model types with one input projection in the feed-forward instead of a gated pair.
_UNGATED = ("bloom", "plm")
# Model types with a bias on every matrix and norm, and a feed-forward four times as wide.
_GPT_LIKE = ("bloom",)
# Only the input projections of these have the bias that attention_bias speaks of.
_INPUT_BIAS_ONLY = ("glm", "glm4_moe", "seed_oss", *_QKV_BIAS)
# Blocks that no formula here covers, by model type.
NOT_COVERED = {
    "deepseek_v4": "the compressed attention and hyper-connections of DeepSeek-V4",
    "step3p5": "the sliding layers of Step-3.5, which have more heads than the others",
    "mamba3": "the mixer of Mamba3 (no configuration is published)",
}


def _present(**values: Any) -> Numbers:
    return {key: value for key, value in values.items() if value is not None}


def _first(config: Mapping[str, Any], *keys: str) -> Any:
    return next((config[key] for key in keys if config.get(key) is not None), None)


def of_config(config: Mapping[str, Any]) -> Numbers:
    """The numbers of a transformers configuration (the keys of its ``config.json``)."""
    kind = config["model_type"]
    plain = kind in _GPT_LIKE
    bias = config.get("attention_bias") or config.get("add_qkv_bias") or kind in _QKV_BIAS or plain
    numbers = _present(
        model_type=kind,
        layers=_first(config, "num_hidden_layers", "num_layers"),
        hidden=config.get("hidden_size"),
        vocab=_first(config, "vocab_size", "padded_vocab_size"),
        heads=config.get("num_attention_heads"),
        kv_heads=_first(config, "num_key_value_heads", "multi_query_group_num"),
        head_dim=config.get("head_dim"),
        ffn=_ffn_of_config(config, kind),
        tied=config.get("tie_word_embeddings"),
        qkv_bias=bias,
        out_bias=bool(bias and kind not in _INPUT_BIAS_ONLY),
        mlp_bias=config.get("mlp_bias") or plain,
        norm_bias=plain,
        qk_norm=_QK_NORM.get(kind) or ("head" if config.get("use_qk_norm") else ""),
        window=config.get("sliding_window"),
        layer_types=config.get("layer_types"),
        gated=kind not in _UNGATED,
        post_norm=kind in _POST_NORM or None,
        capped=bool(config.get("final_logit_softcapping")) or None,
        # After the attention and after the feed-forward.
        dropouts=2 if config.get("residual_dropout", _RESIDUAL_DROPOUT.get(kind)) else None,
    )
    if config.get("kv_lora_rank"):
        numbers["latent"] = _latent_of_config(config)
    if _first(config, *EXPERTS):
        numbers["moe"] = _moe_of_config(config, kind)
    if config.get("linear_num_value_heads"):
        numbers["delta"] = {
            key: config[f"linear_{key}"]
            for key in (
                "num_key_heads",
                "num_value_heads",
                "key_head_dim",
                "value_head_dim",
                "conv_kernel_dim",
            )
        }
    return numbers


def _ffn_of_config(config: Mapping[str, Any], kind: str) -> int | None:
    """Width of one projection of the dense feed-forward."""
    stated: int | None = _first(config, "intermediate_size", "ffn_hidden_size")
    if kind == "qwen" and stated:
        return int(stated) // 2  # Qwen (1) states gate and up together
    if stated is None and kind in _GPT_LIKE and config.get("hidden_size"):
        return 4 * int(config["hidden_size"])
    return stated


def _latent_of_config(config: Mapping[str, Any]) -> Numbers:
    return _present(
        q_rank=config.get("q_lora_rank"),
        kv_rank=config["kv_lora_rank"],
        nope=config["qk_nope_head_dim"],
        rope=config["qk_rope_head_dim"],
        value=config["v_head_dim"],
        index_heads=config.get("index_n_heads"),
        index_dim=config.get("index_head_dim"),
    )


def _moe_of_config(config: Mapping[str, Any], kind: str) -> Numbers:
    ffn = _first(config, "moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    shared = config.get("shared_expert_intermediate_size")
    copies = _first(config, *_SHARED_COPIES)
    if copies:
        shared = copies * ffn
    return _present(
        experts=_first(config, *EXPERTS),
        topk=_first(config, *TOP_K),
        ffn=ffn,
        shared=shared,
        gate=kind in _SHARED_GATE,
        zero=config.get("zero_expert_num"),
        first_dense=_first(config, "first_k_dense_replace", "moe_layer_start_index"),
        period=_first(config, "decoder_sparse_step", "moe_layer_interval"),
        dense_layers=config.get("mlp_only_layers"),
        mlp_layer_types=config.get("mlp_layer_types"),
        bias=kind == "gpt_oss",
        router_bias=kind in _ROUTER_BIAS,
    )


def of_script(recipe: Recipe) -> Numbers:
    """The numbers that a Megatron script states. Layers that do nothing are left out."""
    model = recipe.model
    activation = model.get("activation")
    noop = [n for n in (recipe.parallel.noop_layers or "").split(",") if n]
    linear_bias = bool(model.get("linear_bias"))
    numbers = _present(
        layers=model["layers"] - len(noop) if "layers" in model else None,
        hidden=model.get("hidden"),
        vocab=_script_vocab(recipe),
        heads=model.get("heads"),
        kv_heads=model.get("kv_heads"),
        head_dim=model.get("head_dim") or model.get("head_dim_derived"),
        ffn=model.get("ffn"),
        tied=model.get("tie_embeddings"),
        qkv_bias=bool(model.get("qkv_bias")) or linear_bias,
        out_bias=bool(model.get("dense_bias")) or linear_bias,
        mlp_bias=linear_bias,
        qk_norm="head" if model.get("qk_norm") else "",
        window=model.get("sliding_window"),
        gated=bool(activation and "glu" in activation) or "gemma" in recipe.id,
        post_norm=model.get("post_norm"),
        mtp=model.get("mtp_layers"),
        norm_bias=model.get("norm") == "LayerNorm",
    )
    if "mla" in recipe.raw:
        numbers["latent"] = _latent_of_script(recipe.raw["mla"], recipe.raw.get("dsa", {}))
        numbers.pop("head_dim", None)
    if recipe.moe and recipe.moe.get("experts"):
        numbers["moe"] = _moe_of_script(recipe.moe, model.get("ffn"))
    numbers |= _recurrent_of_script(recipe.raw.get("ssm", {}))
    return numbers


def _script_vocab(recipe: Recipe) -> int | None:
    """Rows of the embedding: as padded by the script, or padded as Megatron does."""
    padded, vocab = recipe.model.get("vocab_padded"), recipe.model.get("vocab")
    if padded or not vocab:
        return padded
    # Megatron-LM training/tokenizer: a multiple of divisible_by x tensor parallel ranks.
    unit = recipe.raw.get("other_options", {}).get("make-vocab-size-divisible-by", 128)
    unit *= recipe.parallel.tp or 1
    return int(-(-vocab // unit) * unit)


def _latent_of_script(mla: Mapping[str, Any], dsa: Mapping[str, Any]) -> Numbers:
    return _present(
        q_rank=mla.get("q_lora_rank"),
        kv_rank=mla["kv_lora_rank"],
        nope=mla["qk_nope_head_dim"],
        rope=mla["qk_rope_head_dim"],
        value=mla["v_head_dim"],
        index_heads=dsa.get("heads"),
        index_dim=dsa.get("head_dim"),
    )


def _moe_of_script(moe: Mapping[str, Any], ffn: int | None) -> Numbers:
    each = moe.get("ffn_hidden") or ffn
    shared = moe.get("shared_expert_ffn")
    if moe.get("shared_experts") and each:
        shared = moe["shared_experts"] * each
    return _present(
        experts=moe["experts"],
        topk=moe.get("topk"),
        ffn=each,
        shared=shared,
        gate=bool(moe.get("shared_expert_gate")),
        zero=moe.get("zero_experts"),
        first_dense=max(0, moe.get("first_k_dense", 0)),
        period=max(1, moe.get("layer_freq", 1)),
    )


def _recurrent_of_script(ssm: Mapping[str, Any]) -> Numbers:
    if "linear_value_heads" in ssm:
        return {
            "delta": {
                "num_key_heads": ssm["linear_key_heads"],
                "num_value_heads": ssm["linear_value_heads"],
                "key_head_dim": ssm["linear_key_head_dim"],
                "value_head_dim": ssm["linear_value_head_dim"],
                "conv_kernel_dim": ssm["d_conv"],
            },
            "full_attention_interval": ssm["full_attention_interval"],
        }
    return {"mamba": dict(ssm)} if ssm else {}


def numbers_of(recipe: Recipe, config: ModelConfig | None, backend: str) -> Numbers:
    """All numbers known, the source that holds first (see the module).

    Tables (``moe``, ``latent``) are merged key by key.
    """
    published = of_config(config.config) if config is not None else {}
    scripted = of_script(recipe) if "layers" in recipe.model else {}
    first, second = (published, scripted) if backend == "fsdp2" and published else (
        scripted,
        published,
    )  # fmt: skip
    merged = {**second, **first}
    for key in ("moe", "latent"):
        if key in first and key in second:
            merged[key] = {**second[key], **first[key]}
    if scripted and not published:
        merged.setdefault("model_type", recipe.model.get("model_id") or "")
    return merged


def architecture_of(
    recipe: Recipe, config: ModelConfig | None, backend: str, vocab: int | None = None
) -> Architecture:
    """The model that a recipe trains. vocab: given by the user where no source states it.

    Raises CannotJudgeError that lists the facts that no source states.
    """
    numbers = numbers_of(recipe, config, backend)
    if vocab is not None:
        numbers["vocab"] = vocab
    kind = str(numbers.get("model_type") or recipe.model.get("model_id") or "")
    if kind in NOT_COVERED:
        raise CannotJudgeError(
            f"no formula covers {NOT_COVERED[kind]}",
            where=f"matrices/recipes/{recipe.id}.toml",
            expected="a model of known blocks",
        )
    missing = build.missing(numbers)
    if missing:
        raise CannotJudgeError(
            f"not stated by the script or a public configuration: {', '.join(missing)}",
            where=f"matrices/recipes/{recipe.id}.toml and matrices/models",
            expected=f"matrices/models/{recipe.model_key or recipe.id}.toml with its source",
            hint="--vocab ROWS" if missing == [build.WORDS["vocab"]] else None,
        )
    return build.architecture(numbers)
