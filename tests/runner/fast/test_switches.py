"""What the switches resolve to, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from certify.errors import UsageError
from certify.runspec import SpeedSpec
from runner.fast.switches import Switches, resolve
from tests.runner.tiny import HF_CONFIG, Prepared

pytestmark = pytest.mark.torch


def spec(**changes: Any) -> Any:
    base = Prepared(Path("nowhere"), HF_CONFIG, "").spec("x", ranks=1, ep=1)
    training = dataclasses.replace(base.training, global_batch=4, micro_batch=4)
    parallel = dataclasses.replace(base.parallel, param_dtype="bfloat16")
    return dataclasses.replace(base, **{"training": training, "parallel": parallel, **changes})


def test_auto_is_everything_on_cuda_and_nothing_elsewhere() -> None:
    assert resolve(spec(device="cuda", deterministic=False)) == Switches(*[True] * 5)
    assert resolve(spec(device="cuda", deterministic=True)) == Switches()
    for device in ("cpu", "npu"):
        assert resolve(spec(device=device, deterministic=False)) == Switches()


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Switches)])
def test_each_part_can_be_turned_off_and_on_alone(name: str) -> None:
    everything = Switches(*[True] * 5)
    cuda = spec(device="cuda", deterministic=False, speed=SpeedSpec(**{name: "off"}))
    assert resolve(cuda) == dataclasses.replace(everything, **{name: False})
    alone = resolve(spec(speed=SpeedSpec(**{name: "on"})))
    assert alone == dataclasses.replace(Switches(), **{name: True})


def test_what_cannot_hold_is_off_by_itself_and_an_error_when_asked_for() -> None:
    several = dataclasses.replace(spec().training, global_batch=8)
    divided = dataclasses.replace(spec().parallel, ep_size=2)
    plain = dataclasses.replace(spec().parallel, param_dtype="float32")
    for name, change in (
        ("master_weights", {"training": several}),
        ("master_weights", {"parallel": plain}),
        ("compile_blocks", {"parallel": divided}),
    ):
        cuda = {"device": "cuda", "deterministic": False, **change}
        assert not getattr(resolve(spec(**cuda)), name)
        with pytest.raises(UsageError) as caught:
            resolve(spec(**cuda, speed=SpeedSpec(**{name: "on"})))
        assert f"speed.{name}" in str(caught.value.where)


@pytest.mark.parametrize("speed", [SpeedSpec(chunked_loss="yes"), SpeedSpec(chunk_tokens=0)])
def test_bad_values_are_named(speed: SpeedSpec) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(spec(speed=speed))
    assert "speed." in str(caught.value.where)
