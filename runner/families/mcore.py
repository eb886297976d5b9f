"""One family through Megatron-Core and through its stock class: the same logits and gradients?

One process, float32, on a CPU. The weights are drawn by nobody's initialisation: no tensor is all
ones or zeros, so that none can be left out unnoticed.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from certify.errors import CertifyError
from certify.runspec import DataSpec, ModelSpec, ParallelSpec, RunSpec, TrainingSpec
from runner.command import run_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

SAMPLES, LENGTH, SEED = 2, 24, 11


@dataclasses.dataclass(frozen=True)
class Outcome:
    """bitwise: published tensors -> Megatron's -> published gives the same bits; runs: whether
    a model was built; logits: largest difference relative to the largest logit; gradients: largest
    relative Frobenius difference of a tensor's gradient of the mean cross-entropy."""

    bitwise: bool
    runs: bool
    logits: float | None = None
    gradients: float | None = None


def stock(config: dict[str, Any]) -> Any:
    """The stock model with drawn weights and buffers, in float32."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from runner.compat import attention_of

    body = {key: value for key, value in config.items() if key != "model_type"}
    known = AutoConfig.for_model(config["model_type"], **body)
    kind = AutoModelForCausalLM._model_mapping[type(known)]
    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_config(
        known, dtype=torch.float32, attn_implementation=attention_of(kind, "sdpa")
    )
    saved = set(model.state_dict())
    with torch.no_grad():
        for name, held in (*model.named_parameters(), *model.named_buffers()):
            if name not in saved:
                continue
            draw = torch.randn_like(held, dtype=torch.float32)
            held.copy_(1 + 0.2 * draw if "norm" in name else 0.1 * draw)
    return model.eval()


def spec_of(config: dict[str, Any], weights: str = "") -> RunSpec:
    """A run spec of one rank; only what describes the model is ever read."""
    training = TrainingSpec(
        steps=1,
        global_batch=SAMPLES,
        micro_batch=SAMPLES,
        lr=1e-3,
        min_lr=1e-4,
        warmup_init_lr=1e-5,
        warmup_steps=1,
        decay_steps=4,
        schedule="cosine",
        weight_decay=0.1,
        beta1=0.9,
        beta2=0.95,
        eps=1e-8,
        clip_grad=1.0,
        seed=SEED,
    )
    return RunSpec(
        run_id="trial",
        campaign_id="trial",
        recipe_id="trial",
        role="candidate",
        backend="mcore",
        run_dir="",
        world_size=1,
        model=ModelSpec(config, weights, ""),
        data=DataSpec("", SAMPLES, LENGTH, int(config["vocab_size"]), SEED),
        parallel=ParallelSpec(),
        training=training,
    )


def published(model: Any, gradients: bool) -> dict[str, Tensor]:
    """Published name -> tensor, or its gradient, of a stock model."""
    from runner.names import names_of

    names = names_of(model)
    tied = set(getattr(model, "_tied_weights_keys", None) or {}) if _tied(model) else set()
    found: dict[str, Tensor] = {}
    sources: Iterator[tuple[str, Tensor | None]] = iter(model.state_dict().items())
    if gradients:
        sources = ((name, held.grad) for name, held in model.named_parameters())
    for name, tensor in sources:
        if tensor is not None and name not in tied:
            found.update(names.to_published(name, tensor.detach()))
    return found


def _tied(model: Any) -> bool:
    return bool(getattr(model.config, "tie_word_embeddings", False))


def check(config: dict[str, Any], wrong: dict[str, Any] | None = None) -> Outcome:
    """The outcome of one configuration; Megatron's parallel state must be there if it runs.

    wrong: values of the configuration that only Megatron's side gets, to see what they do.
    Raises CertifyError for one that this backend does not map.
    """
    from runner.backends.mcore import families
    from runner.backends.mcore.mapping import WeightMap

    names = WeightMap(config)
    model = stock(config)
    tensors = published(model, gradients=False)
    inside = dict(names.to_mcore(tensors))
    back = names.to_hf(inside)
    bitwise = set(back) == set(tensors) and all(
        torch.equal(back[name], tensor) for name, tensor in tensors.items()
    )
    if not families.family(config).runs:
        return Outcome(bitwise, False)
    return _compare({**config, **(wrong or {})}, model, names, tensors, bitwise)


def _compare(
    config: dict[str, Any], model: Any, names: Any, tensors: dict[str, Tensor], bitwise: bool
) -> Outcome:
    from runner.backends.mcore import model as models
    from runner.backends.mcore import placement, weights

    (built,) = models.build(spec_of(config))
    places = placement.places([built], names)
    weights.load(places, tensors, names)
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(0, int(config["vocab_size"]), (SAMPLES, LENGTH + 1), generator=generator)
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    where = torch.arange(LENGTH).expand_as(inputs)
    expected = model(input_ids=inputs, use_cache=False).logits.float()
    built.eval()
    logits = built(inputs, where, None).float()
    difference = float((logits - expected).abs().max() / expected.abs().max())
    for output in (expected, logits):
        torch.nn.functional.cross_entropy(output.flatten(0, 1), labels.flatten()).backward()
    held = {place.name: place for place in places if not place.is_buffer}
    mine = names.to_hf(
        {n: _gradient(place.parameter) for n, place in held.items() if not place.is_copy}
    )
    theirs = published(model, gradients=True)
    worst = max(_distance(mine[name], gradient) for name, gradient in theirs.items())
    return Outcome(bitwise, True, difference, worst)


def _gradient(parameter: Any) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _distance(mine: Tensor, theirs: Tensor) -> float:
    return float((mine - theirs).norm() / theirs.norm().clamp_min(1e-12))


def check_all(
    configs: dict[str, dict[str, Any]], wrong: dict[str, dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Name -> the fields of an `Outcome`, or ``why`` this backend does not map the configuration.

    Megatron is imported once, in this process, which must have no process group.
    """
    import torch.distributed as dist

    from runner.backends.mcore import cpu, versions

    versions.require_supported()
    cpu.apply()
    from runner.backends.mcore import parallel
    from runner.device import Device

    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = dist.FileStore(str(Path(folder) / "store"), 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            parallel.start(spec_of({"vocab_size": 1}), Device("cpu", 0))
            for name, config in configs.items():
                try:
                    outcome = check(config, (wrong or {}).get(name))
                    found[name] = dataclasses.asdict(outcome)
                except CertifyError as error:
                    found[name] = {"why": error.what}
            parallel.stop()
        finally:
            dist.destroy_process_group()
    return found


def main(path: Path) -> int:
    """Try the ``configs`` of a JSON file (and ``wrong``), results to stdout as JSON."""
    body = json.loads(path.read_text("utf-8"))
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    print(json.dumps(check_all(body["configs"], body.get("wrong"))))
    return 0


if __name__ == "__main__":
    sys.exit(run_file("runner.families.mcore", sys.argv[1:], main))
