"""Stock transformers models, built on the meta device and given storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from certify.errors import UsageError
from runner import own
from runner.buffers import built_twice, rebuild
from runner.compat import attention_of, choose_experts_implementation

if TYPE_CHECKING:
    from torch import nn

    from certify.runspec import ModelSpec


def _first_sentence(error: Exception) -> str:
    # transformers goes on to list every model type that it knows.
    return str(error).partition(". ")[0]


def build(spec: ModelSpec, hf_config: dict[str, Any]) -> nn.Module:
    """The stock causal-LM class of ``hf_config["model_type"]`` on the meta device.

    Raises UsageError when this transformers has no such family.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM

    arguments = {k: v for k, v in hf_config.items() if k != "model_type"}
    model_type = str(hf_config.get("model_type"))
    own.register(model_type)
    try:
        config = AutoConfig.for_model(model_type, **arguments)
        model_class = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        choose_experts_implementation(config, model_class)

        def on_meta() -> nn.Module:
            with torch.device("meta"):
                model: nn.Module = AutoModelForCausalLM.from_config(
                    config,
                    attn_implementation=attention_of(model_class, spec.attention),
                    dtype=getattr(torch, spec.dtype),
                )
            return model

        model = built_twice(on_meta)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"transformers cannot build {model_type!r}: {_first_sentence(error)}",
            where="model.hf_config",
            expected="the configuration of a causal language model that this version knows",
            hint="certify check-env --for RECIPE names the version it needs",
        ) from None
    return model


def tied_parameters(model: nn.Module) -> dict[str, str]:
    """Name -> the first name of the same parameter, for parameters that have several names."""
    first: dict[int, str] = {}
    found = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            found[name] = first[id(parameter)]
    return found


def persistent_buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    """Name -> live buffer, for buffers that belong to a checkpoint (a router's choice bias)."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return {n: value for n, value in model.state_dict().items() if n not in parameters}


def materialise(model: Any, device: torch.device) -> None:
    """Give a model on the meta device storage, and its non-persistent buffers their values.

    Parameters and persistent buffers are left unset: the checkpoint holds them. Non-persistent
    buffers (rotary frequencies) are in no checkpoint; their module is built again to get them.
    Raises UsageError for a module that cannot be built from its configuration alone.
    """
    tied = tied_parameters(model)
    model.to_empty(device=device)
    for name, first in tied.items():
        # to_empty gives each name a parameter of its own.
        owner, _, key = name.rpartition(".")
        model.get_submodule(owner).register_parameter(key, model.get_parameter(first))
    for name, module in model.named_modules():
        rebuild(name, module)
    model.train()
