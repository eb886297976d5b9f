"""The same training written plainly with stock transformers and torch: what the runs must equal."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from runner.data.batches import Batches
from tests.runner.mcore import tiny

if TYPE_CHECKING:
    from certify.runspec import RunSpec, TrainingSpec


@dataclass
class Trajectory:
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    aux: list[float] = field(default_factory=list)
    routes: list[list[torch.Tensor]] = field(default_factory=list)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)


def rate(t: TrainingSpec, step: int) -> float:
    """Warm-up from the initial rate, then cosine to the minimum; step from 1."""
    n = step - 1
    if n <= t.warmup_steps:
        return t.warmup_init_lr + (t.lr - t.warmup_init_lr) * n / t.warmup_steps
    if n > t.decay_steps:
        return t.min_lr
    progress = (n - t.warmup_steps) / (t.decay_steps - t.warmup_steps)
    return t.min_lr + (t.lr - t.min_lr) * 0.5 * (math.cos(math.pi * progress) + 1.0)


def aux_losses(router_logits: Any, k: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Sum over layers of E / (k T^2) sum_e n_e P_e, and the chosen experts of each layer."""
    total, routes = torch.zeros(()), []
    for logits in router_logits:
        p = logits.softmax(-1)
        tokens, experts = p.shape
        chosen = p.topk(k, dim=-1).indices
        count = torch.nn.functional.one_hot(chosen, experts).sum((0, 1))
        total = total + experts / (k * tokens**2) * (count * p.sum(0)).sum()
        routes.append(chosen.sort(dim=-1).values)
    return total, routes


def published(model: Any, folder: Path, use_gradients: bool) -> dict[str, torch.Tensor]:
    """Parameters or gradients under published names, by transformers' own saving."""
    kept = copy.deepcopy(model)
    if use_gradients:
        for target, source in zip(kept.parameters(), model.parameters(), strict=True):
            target.data = source.grad.clone()
    kept.save_pretrained(str(folder))
    return load_file(folder / "model.safetensors")


def train(spec: RunSpec, folder: Path) -> Trajectory:
    torch.set_num_threads(1)
    t, hf = spec.training, spec.model.hf_config
    model = tiny.stock_model(hf, Path(spec.model.weights_dir)).train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": t.weight_decay}, {"params": plain, "weight_decay": 0}],
        betas=(t.beta1, t.beta2),
        eps=t.eps,
    )
    batches, out = Batches(spec.data, t.global_batch), Trajectory()
    moe = hf["model_type"] == "qwen3_moe"
    for step in range(1, spec.last_step + 1):
        batch = batches.read(step - 1)
        inputs, labels = (torch.from_numpy(a.astype("int64")) for a in (batch.inputs, batch.labels))
        mask = torch.from_numpy(batch.mask.astype("float32")).flatten()
        found = model(inputs, **({"output_router_logits": True} if moe else {}))
        each = torch.nn.functional.cross_entropy(
            found.logits.flatten(0, 1), labels.flatten(), reduction="none"
        )
        loss = total = (each * mask).sum() / mask.sum()
        if moe:
            aux, routes = aux_losses(found.router_logits, hf["num_experts_per_tok"])
            total = loss + t.aux_loss_coef * aux
            out.aux.append(aux.item())
            out.routes.append(routes)
        optimizer.zero_grad()
        total.backward()
        if step == 1:
            out.gradients = published(model, folder / "gradients", True)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), t.clip_grad)
        for group in optimizer.param_groups:
            group["lr"] = rate(t, step)
        optimizer.step()
        if step == 1:
            out.parameters = published(model, folder / "parameters", False)
        out.losses.append(loss.item())
        out.norms.append(norm.item())
    return out
