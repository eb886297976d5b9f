"""An independent single-process training loop: a stock model, one global batch at a time.

Nothing of the runner is used but the evidence's names for tensors: the formulas are written
out again, so that agreement means something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

if TYPE_CHECKING:
    from certify.runspec import RunSpec


@dataclass
class Trajectory:
    """Per step: loss, aux, grad norm, learning rate, expert choices [layers, tokens, k]."""

    loss: list[float] = field(default_factory=list)
    aux: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    chosen: list[np.ndarray] = field(default_factory=list)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)


def per_expert(named: Any) -> dict[str, torch.Tensor]:
    """Fused expert tensors taken apart by hand, the others as they are."""
    found = {}
    for name, tensor in named:
        if name.endswith("experts.gate_up_proj"):
            half = tensor.shape[1] // 2
            for e in range(tensor.shape[0]):
                stem = f"{name.removesuffix('.gate_up_proj')}.{e}"
                found[f"{stem}.gate_proj.weight"] = tensor[e, :half].detach().clone()
                found[f"{stem}.up_proj.weight"] = tensor[e, half:].detach().clone()
        elif name.endswith("experts.down_proj"):
            for e in range(tensor.shape[0]):
                stem = f"{name.removesuffix('.down_proj')}.{e}"
                found[f"{stem}.down_proj.weight"] = tensor[e].detach().clone()
        else:
            found[name] = tensor.detach().clone()
    return found


def load(spec: RunSpec) -> Any:
    """The stock model with the weights of the spec."""
    config = {k: v for k, v in spec.model.hf_config.items() if k != "model_type"}
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(spec.model.hf_config["model_type"], **config),
        attn_implementation="eager",
    )
    tensors = load_file(f"{spec.model.weights_dir}/model.safetensors")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            stem = name.rpartition(".")[0]
            for e in range(parameter.shape[0]) if name.endswith("experts.gate_up_proj") else ():
                gate = tensors[f"{stem}.{e}.gate_proj.weight"]
                parameter[e] = torch.cat([gate, tensors[f"{stem}.{e}.up_proj.weight"]])
            for e in range(parameter.shape[0]) if name.endswith("experts.down_proj") else ():
                parameter[e] = tensors[f"{stem}.{e}.down_proj.weight"]
            if ".experts." not in name:
                parameter.copy_(tensors[name])
    return model


def learning_rate(spec: RunSpec, step: int) -> float:
    """Warm-up from warmup_init_lr to lr over warmup_steps, then half a cosine to min_lr."""
    t, n = spec.training, step - 1
    if n <= t.warmup_steps:
        return t.warmup_init_lr + (t.lr - t.warmup_init_lr) * n / t.warmup_steps
    angle = math.pi * (n - t.warmup_steps) / (t.decay_steps - t.warmup_steps)
    return t.min_lr + (t.lr - t.min_lr) * (1 + math.cos(angle)) / 2


def auxiliary(logits: tuple[torch.Tensor, ...], k: int, formula: str) -> torch.Tensor:
    """megatron: token by token and layer by layer; pooled: as transformers' own function."""
    if formula == "pooled":
        from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

        pooled: torch.Tensor = load_balancing_loss_func(logits, logits[0].shape[-1], k)
        return pooled
    total = torch.zeros(())
    for layer in logits:
        probabilities = layer.softmax(-1)
        tokens, experts = layer.shape
        chosen = torch.zeros_like(layer).scatter(1, probabilities.topk(k).indices, 1.0)
        fraction = chosen.sum(0) / (tokens * k)
        total = total + experts * (fraction * probabilities.mean(0)).sum()
    return total


def train(spec: RunSpec, steps: int) -> Trajectory:
    """Train `steps` steps on the samples of the spec, whole batches at once."""
    from runner.data.sampler import Sampler

    torch.manual_seed(0)
    model, out, t = load(spec), Trajectory(), spec.training
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
        betas=(t.beta1, t.beta2),
        eps=t.eps,
        weight_decay=t.weight_decay,
    )
    samples, mask = np.load(spec.data.samples_file), np.load(str(spec.data.mask_file))
    sampler = Sampler(spec.data.n_samples, t.global_batch, spec.data.shuffle_seed)
    moe = spec.model.hf_config["model_type"] == "qwen3_moe"
    for step in range(1, steps + 1):
        chosen = sampler.batch(step - 1)
        tokens = torch.from_numpy(samples[chosen]).long()
        weights = torch.from_numpy(mask[chosen]).float()
        result = model(input_ids=tokens[:, :-1], output_router_logits=moe, use_cache=False)
        nll = -result.logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
        loss = (nll * weights).sum() / weights.sum()
        total = loss
        if moe:
            k = spec.model.hf_config["num_experts_per_tok"]
            aux = auxiliary(result.router_logits, k, t.aux_loss_formula)
            total = loss + t.aux_loss_coef * aux
            out.aux.append(aux.item())
            top = [layer.topk(k).indices.sort(-1).values for layer in result.router_logits]
            out.chosen.append(torch.stack(top).numpy())
        optimizer.zero_grad()
        total.backward()
        if step == 1:
            out.gradients = per_expert((n, p.grad) for n, p in model.named_parameters())
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), t.clip_grad)
        rate = learning_rate(spec, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        if step == 1:
            out.parameters = per_expert(model.named_parameters())
        out.loss.append(loss.item())
        out.grad_norm.append(norm.item())
        out.lr.append(rate)
    return out
