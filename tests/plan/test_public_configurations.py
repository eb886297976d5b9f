"""The numbers of public configurations alone, against the published sizes of the models."""

from __future__ import annotations

import pytest

from certify.plan import build
from certify.plan.facts import of_config
from certify.recipes.load import load_model

# Published totals, in parameters: model cards and papers.
TOTALS = {
    "bloom-7b1": 7_069_016_064,
    "bloom-176b": 176_247_271_424,
    "qwen-7b": 7_721_324_544,
    "qwen-72b": 72_287_920_128,
    "chatglm3-6b": 6_243_584_000,
    "baichuan2-7b": 7.51e9,
    "baichuan2-13b": 13.9e9,
    "llama-65b": 65.3e9,
    "yi-34b": 34.4e9,
    "glm4-9b": 9.4e9,
    "seed-oss-36b": 36.2e9,
    "plm-1p8b": 1.83e9,
    "gemma2-9b": 9.24e9,
    "hunyuan-389b": 389e9,
    "ling-mini-2p0-16b": 16.26e9,
    "ring-1t": 1000e9,
    "qwen2-57b-a14b": 57.4e9,
    "deepseek-v2-lite-16b": 15.7e9,
    "deepseek-v2-236b": 235.7e9,
    "llama3p1-405b": 405.9e9,
    "magistral-24b": 23.6e9,
}


@pytest.mark.parametrize(("key", "total"), TOTALS.items())
def test_the_parameters_are_those_of_the_model(key: str, total: float) -> None:
    found = build.architecture(of_config(load_model(key).config)).parameters
    assert found == pytest.approx(total, rel=0.004)


def test_a_feed_forward_that_is_stated_as_a_pair_is_halved() -> None:
    """Qwen (1) states 22016 for gate and up together; its own script states 11008."""
    assert load_model("qwen-7b").config["intermediate_size"] == 22016
    assert of_config(load_model("qwen-7b").config)["ffn"] == 11008
    assert of_config(load_model("bloom-7b1").config)["ffn"] == 4 * 4096
