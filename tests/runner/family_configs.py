"""One small configuration for each model family: a public one, scaled down as a campaign does."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from certify.campaign.request import load_scale
from certify.recipes.load import load_model, model_keys
from certify.recipes.scale import SCALABLE, scale_model

VOCABULARY = 96


@cache
def public() -> dict[str, dict[str, Any]]:
    """model_type -> the first of our public configurations of it."""
    found: dict[str, dict[str, Any]] = {}
    for key in model_keys():
        config = dict(load_model(key).config)
        if config.get("model_type") in SCALABLE:
            found.setdefault(config["model_type"], config)
    return found


def tiny(model_type: str) -> dict[str, Any]:
    """The configuration of scale tiny, complete."""
    scaled, _ = scale_model(public()[model_type], load_scale("tiny")["model"])
    special = {"pad_token_id": None, "bos_token_id": 0, "eos_token_id": 0}
    return {**scaled, "vocab_size": VOCABULARY, **special}


def stock(model_type: str, seed: int = 0, **changes: Any) -> Any:
    """A stock model with random float32 weights. Skips where transformers lacks the family."""
    known(model_type)
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = {**tiny(model_type), **changes}
    body = {key: entry for key, entry in config.items() if key != "model_type"}
    torch.manual_seed(seed)
    known_config = AutoConfig.for_model(model_type, **body)
    return AutoModelForCausalLM.from_config(known_config, dtype=torch.float32)


def known(model_type: str) -> None:
    """Skips the test where this transformers has no such family."""
    from transformers import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {model_type}")


def sampled(*quick: str) -> list[Any]:
    """Every family as a test parameter; all but the quick ones are slow."""
    return [
        model_type if model_type in quick else pytest.param(model_type, marks=pytest.mark.slow)
        for model_type in public()
    ]
