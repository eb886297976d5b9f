"""The schema of a recipe file: sections, keys and types. An unknown key is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "certify.recipe/1"
KINDS = ("row", "variant", "performance", "accuracy", "script")
BACKENDS = ("legacy", "mcore", "fsdp2", "mindspore")
STAGES = ("pretrain", "tune", "lora", "dpo")

_NUMBER = (int, float)
_STRINGS = "list of strings"
# Sections whose keys are names of the script's world (environment variables, option names).
_OPEN = {
    "env": (str, int, float),
    "optimisation_values": (str, int, float),
    # Options that no other key holds, by name: a recipe loses nothing that its script passes.
    "other_options": (str, int, float, bool),
}
# Settings that a variant adds to the model's public configuration.
_VARIANT_KEYS = frozenset({"name", "settings"})

_INT, _STR, _BOOL, _FLOAT = (int,), (str,), (bool,), _NUMBER


def _all(kind: Any, names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), kind)


_TOP: dict[str, Any] = {
    **_all(_STR, "schema id kind row name size model_key backend stage entry product product_hint"),
    "optimisations": _STRINGS,
}
_REQUIRED = ("schema", "id", "kind", "name", "backend", "stage")
_REQUIRED_SECTIONS = ("source", "cluster", "parallel", "batch", "training")

_SECTIONS: dict[str, dict[str, Any]] = {
    "source": _all(
        _STR, "repo path commit branch last_change_commit last_change companion_yaml yaml_missing"
    ),
    "variants": _all(_STRINGS, "pretrain tune lora dpo"),
    "cluster": _all(_INT, "nodes npus_per_node world_size"),
    "parallel": {
        **_all(
            _INT,
            "tp pp vpp layers_per_virtual_stage ep etp cp ulysses_degree_in_cp fsdp_size"
            " ep_fsdp_size prefetch_forward prefetch_backward",
        ),
        **_all(
            _STR,
            "cp_algo num_layer_list noop_layers schedule dispatcher param_dtype reduce_dtype"
            " shard_placement_fn efsdp_shard_placement_fn",
        ),
        **_all(
            _BOOL, "sequence_parallel moe_tp_extend_ep distributed_optimizer reshard_after_forward"
        ),
        **_all(_STRINGS, "fsdp_modules ignored_modules ep_modules ep_fsdp_modules hook_modules"),
    },
    "parallel.recompute": {
        **_all(_STR, "granularity method"),
        **_all(_INT, "num_layers activation_function_num_layers"),
        **_all(_BOOL, "activation_function norm per_pp_rank enabled"),
        "modules": _STRINGS,
    },
    "parallel.derived": _all(_INT, "dp expert_dp edp"),
    "batch": _all(_INT, "micro global grad_accumulation per_device tokens_per_step"),
    "training": {
        **_all(
            _INT,
            "seq_length steps warmup_iters lr_decay_iters seed save_interval eval_interval"
            " eval_iters log_interval",
        ),
        **_all(
            _FLOAT,
            "epochs lr min_lr warmup_fraction weight_decay beta1 beta2 eps clip_grad init_std"
            " initial_loss_scale attention_dropout hidden_dropout router_aux_loss_coef"
            " mtp_loss_scaling",
        ),
        **_all(_STR, "schedule optimizer dtype stage aux_loss_formula"),
        **_all(_BOOL, "log_throughput disable_shuffling dataloader_drop_last"),
    },
    "model": {
        **_all(
            _INT,
            "layers hidden ffn heads kv_heads head_dim head_dim_derived vocab vocab_padded"
            " max_position_embeddings sliding_window mtp_layers",
        ),
        **_all(
            _FLOAT,
            "rope_base rotary_percent norm_eps mtp_loss_scaling logit_softcap"
            " query_pre_attn_scalar",
        ),
        **_all(_STR, "spec model_id position_embedding norm activation config_file"),
        **_all(
            _BOOL,
            "mcore_models post_norm qk_norm tie_embeddings qkv_bias dense_bias linear_bias"
            " train_from_scratch meta_device_init trust_remote_code",
        ),
    },
    "model.rope_scaling": {
        "type": _STR,
        **_all(
            _FLOAT,
            "factor original_max_position low_freq high_freq beta_fast beta_slow mscale"
            " mscale_all_dim",
        ),
    },
    "moe": {
        **_all(
            _INT,
            "experts topk ffn_hidden shared_experts shared_expert_ffn first_k_dense layer_freq"
            " zero_experts",
        ),
        **_all(_FLOAT, "aux_coeff device_aux_coeff comm_aux_coeff capacity_factor"),
        **_all(_BOOL, "shared_expert_gate grouped_gemm norm_topk_prob pad_to_capacity"),
        "dispatcher": _STR,
        "fixed_routing": _BOOL,
    },
    "moe.router": {
        **_all(_STR, "load_balancing score dtype"),
        **_all(_BOOL, "expert_bias pre_softmax seq_aux"),
        **_all(_INT, "num_groups group_topk"),
        "scaling_factor": _FLOAT,
    },
    "mla": _all(_INT, "q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim"),
    "dsa": {
        "indexer": _BOOL,
        **_all(_INT, "heads head_dim topk topk_freq"),
        "loss_coeff": _FLOAT,
    },
    "ssm": {
        **_all(
            _INT,
            "state_dim groups chunk d_conv expand head_dim linear_key_heads linear_value_heads"
            " linear_key_head_dim linear_value_head_dim full_attention_interval",
        ),
        **_all(_FLOAT, "hybrid_attention_ratio hybrid_mlp_ratio"),
    },
    "data": {
        **_all(_STR, "handler split tokenizer_type prompt_type manager template"),
        **_all(
            _BOOL,
            "instruction pairwise pack no_shared_storage packing neat_packing"
            " reset_attention_mask append_eod",
        ),
        **_all(_INT, "workers max_samples"),
        "val_size": _FLOAT,
    },
    "ckpt": {
        **_all(_STR, "format hf_model_type"),
        **_all(
            _BOOL,
            "online_hf_convert load_optim save_optim save_hf_weights save_only_model save_async",
        ),
        "save_steps": _INT,
        **_all(_STRINGS, "hf_model_types_in_convert_scripts convert_scripts"),
    },
    "scale": _all(_STR, "name full") | _all(_INT, "devices"),
}
# Arrays of tables. script_findings: what lint found in the script at its commit.
_TABLES: dict[str, dict[str, Any]] = {
    "differences": _all(_STR, "field published script rule note"),
    "notes": _all(_STR, "about text source"),
    "script_findings": {**_all(_STR, "rule found"), "line": _INT},
}


def _is(value: Any, kind: Any) -> bool:
    if kind == _STRINGS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return bool in kind
    return isinstance(value, kind)


def _expected(kind: Any) -> str:
    return kind if isinstance(kind, str) else " or ".join(cls.__name__ for cls in kind)


def _bad(where: str, key: str, expected: str, value: Any = None) -> UsageError:
    found = "missing key" if value is None else f"wrong value {value!r} of key"
    return UsageError(f"{found} {key!r}", where=where, expected=expected)


def _unknown(where: str, key: str, known: Mapping[str, Any]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(key.rsplit(".", 1)[-1], known, n=3)
    hint = f"did you mean: {', '.join(near)}?" if near else None
    return UsageError(
        f"unknown key {key!r}", where=where, expected="a key of certify.recipe/1", hint=hint
    )


def _check_table(table: Any, known: Mapping[str, Any], prefix: str, where: str) -> None:
    if not isinstance(table, dict):
        raise _bad(where, prefix.rstrip("."), "a table", table)
    for key, value in table.items():
        path = prefix + key
        if isinstance(value, dict):
            if path not in _SECTIONS:
                raise _unknown(where, path, _SECTIONS)
            _check_table(value, _SECTIONS[path], path + ".", where)
        elif key not in known:
            raise _unknown(where, path, known)
        elif not _is(value, known[key]):
            raise _bad(where, path, _expected(known[key]), value)


def _check_choices(raw: Mapping[str, Any], where: str) -> None:
    choices = {"schema": (SCHEMA,), "kind": KINDS, "backend": BACKENDS, "stage": STAGES}
    for key, allowed in choices.items():
        if raw[key] not in allowed:
            raise _bad(where, key, f"one of {', '.join(allowed)}", raw[key])


def check_recipe(raw: Mapping[str, Any], where: str) -> None:
    """Raise UsageError naming ``where`` and the key that breaks the schema."""
    for key in (*_REQUIRED, *_REQUIRED_SECTIONS):
        if key not in raw:
            raise _bad(where, key, "to be stated")
    for key, value in raw.items():
        if key in _OPEN:
            for name, item in value.items():
                if not isinstance(item, _OPEN[key]):
                    raise _bad(where, f"{key}.{name}", "a string or a number", item)
        elif key in _TABLES:
            for item in value:
                _check_table(item, _TABLES[key], f"{key}.", where)
        elif key == "config_variants":
            for item in value:
                if set(item) != _VARIANT_KEYS:
                    raise _bad(where, key, "tables with name and settings", item)
        elif key in _SECTIONS:
            _check_table(value, _SECTIONS[key], f"{key}.", where)
        elif key not in _TOP:
            raise _unknown(where, key, {**_TOP, **_SECTIONS})
        elif not _is(value, _TOP[key]):
            raise _bad(where, key, _expected(_TOP[key]), value)
    _check_choices(raw, where)
    for key in ("repo", "path"):
        if key not in raw["source"]:
            raise _bad(where, f"source.{key}", "to be stated")


def kind_of(key: str) -> Any:
    """The type that the schema gives a dotted key. Raises KeyError for an unknown one."""
    section, _, name = key.rpartition(".")
    return _SECTIONS[section][name] if section else _TOP[name]
