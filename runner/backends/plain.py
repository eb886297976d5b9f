"""The plain backend: one process, the stock class of transformers, and nothing spread anywhere.

The reference for models that no Megatron-Core mapping covers. Loss, schedule, optimizer, norm and
clipping are written out here, apart from the fsdp2 backend; the model class is the same on both
sides, so a fault inside that class cannot show, and a verdict against this reference says so.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from certify.errors import UsageError
from certify.records import State, Step, batch_digest, root_digest
from runner import environment, evidence, models, process_group, rng
from runner.callpoints import Fault
from runner.compat import stock_model
from runner.data.batches import Batches
from runner.device import Device
from runner.digests import digest_of
from runner.journal import journal
from runner.names import names_of
from runner.probe import run_probe
from runner.routing import RouterTap, sets_of

if TYPE_CHECKING:
    from certify.runspec import RunSpec, TrainingSpec
    from runner.journal import Journal
    from runner.names import Names
    from runner.routing import Routed


def run(spec: RunSpec) -> int:
    """Train one run to its last step. Returns 0.

    Raises CertifyError for what the user can correct.
    """
    with journal(spec) as book:
        if book.world_size != 1 or spec.checkpoint.resume_from or spec.fault:
            raise UsageError(
                "the plain backend trains on one process, from the start and without faults",
                where="backend plain",
                expected="world_size 1, no checkpoint to resume, no fault",
            )
        _require_formula(spec.training)
        device = Device(spec.device, 0)
        device.configure(spec.deterministic, spec.threads)
        joined = process_group.join(1, device, book)
        try:
            _train(spec, device, book)
        finally:
            if joined:
                dist.destroy_process_group()
    return 0


def _require_formula(training: TrainingSpec) -> None:
    if training.aux_loss_formula not in FORMULAS:
        raise UsageError(
            f"the plain backend has no auxiliary loss {training.aux_loss_formula!r}",
            where="training.aux_loss_formula",
            expected=" or ".join(FORMULAS),
        )
    if training.global_batch % training.micro_batch:
        raise UsageError(
            f"micro_batch = {training.micro_batch}",
            where="training.micro_batch",
            expected=f"a divisor of the global batch of {training.global_batch}",
        )


def rate_of(training: TrainingSpec, step: int) -> float:
    """Learning rate of step `step` (from 1): linear warm-up, then down to min_lr."""
    done, t = step - 1, training
    if t.warmup_steps and done <= t.warmup_steps:
        share = done / t.warmup_steps
        return (1 - share) * t.warmup_init_lr + share * t.lr
    if t.schedule == "constant":
        return t.lr
    first = t.decay_steps - t.wsd_decay_steps if t.schedule == "wsd" else t.warmup_steps
    share = min(max(done - first, 0) / (t.decay_steps - first), 1.0)
    left = 1 - share if t.schedule in ("linear", "wsd") else (1 + math.cos(math.pi * share)) / 2
    return t.min_lr + (t.lr - t.min_lr) * left


def auxiliary_loss(routed: list[Routed], tokens: int | None = None) -> torch.Tensor:
    """Sum over layers of E / (k T^2) sum_e n_e P_e, as `runner.loss` describes it.

    tokens: T where the sum is taken over consecutive groups of so many tokens, and their mean
    returned (``megatron-micro-batch``); None for all tokens in one.
    """
    total = torch.zeros(())
    for one in routed:
        probabilities = one.probabilities()
        size = tokens or len(probabilities)
        groups = list(zip(probabilities.split(size), one.ids.split(size), strict=True))
        for part, ids in groups:
            n_experts, k = part.shape[-1], ids.shape[-1]
            counts = torch.nn.functional.one_hot(ids, n_experts).sum(dim=(0, 1))
            balance = (counts.float() * part.sum(dim=0)).sum()
            total = total + balance * (n_experts / (k * size**2 * len(groups)))
    return total


FORMULAS = ("megatron", "megatron-micro-batch", "pooled")


def _balance(spec: RunSpec, routed: list[Routed]) -> torch.Tensor:
    formula = spec.training.aux_loss_formula
    if formula == "pooled":
        return pooled_loss(routed)
    by_micro_batch = formula == "megatron-micro-batch"
    tokens = spec.training.micro_batch * spec.data.seq_length
    return auxiliary_loss(routed, tokens if by_micro_batch else None)


def pooled_loss(routed: list[Routed]) -> torch.Tensor:
    """E / (L T)^2 sum_e n_e P_e with n_e and P_e over all L layers, as transformers has it."""
    probabilities = torch.cat([one.probabilities() for one in routed])
    chosen = torch.cat([one.ids for one in routed])
    rows, n_experts = probabilities.shape
    counts = torch.nn.functional.one_hot(chosen, n_experts).sum(dim=(0, 1)).float()
    return (counts * probabilities.sum(dim=0)).sum() * (n_experts / rows**2)


def _move_biases(biases: list[torch.Tensor | None], routed: list[Routed], rate: float) -> None:
    """An expert that fewer tokens than the average chose becomes more attractive by `rate`."""
    with torch.no_grad():
        for bias, one in zip(biases, routed, strict=False):
            if bias is None or not rate:
                continue
            chosen = torch.zeros(len(bias), dtype=torch.float64)
            chosen.scatter_add_(0, one.ids.flatten().cpu(), torch.ones(one.ids.numel()).double())
            for expert, count in enumerate(chosen.tolist()):
                fair = one.ids.numel() / len(bias)
                bias[expert] += rate * ((fair > count) - (fair < count))


def _optimizer(model: Any, names: Names, training: TrainingSpec) -> Any:
    decayed: list[torch.nn.Parameter] = []
    spared: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        dims = names.published_dims(name, parameter.dim())
        (decayed if dims >= 2 else spared).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=training.warmup_init_lr,
        betas=(training.beta1, training.beta2),
        eps=training.eps,
    )


def _published(names: Names, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {
        published: part.detach().clone()
        for name, tensor in tensors.items()
        for published, part in names.to_published(name, tensor)
    }


def _state(model: Any, names: Names) -> dict[str, str]:
    tensors = {**dict(model.named_parameters()), **models.persistent_buffers(model)}
    parts = _published(names, tensors)
    return {"params": root_digest({name: digest_of(part) for name, part in parts.items()})}


def _train(spec: RunSpec, device: Device, book: Journal) -> None:
    write, training = book.writer.write, spec.training
    write(environment.environment(device))
    write(environment.topology({"world": dist.group.WORLD}))
    rng.seed_all(training.seed, 0)
    model = stock_model(spec.model.weights_dir, spec.model.attention, torch.float32)
    model = model.to(device.torch_device).train()
    names = names_of(model)
    optimizer = _optimizer(model, names, training)
    _describe(spec, model, optimizer, book)
    digests = _state(model, names)
    write(State("init", 0, digests))
    if spec.model.weights_digest and digests["params"] != spec.model.weights_digest:
        raise UsageError(
            f"the initial weights have digest {digests['params']}",
            where=spec.model.weights_dir,
            expected=f"{spec.model.weights_digest}, as the run spec says",
            hint="run the phase `prepare` again",
        )
    tap = RouterTap(model, Fault())
    wanted = spec.evidence
    if wanted.probe_file is not None:
        forward = (model, tap, wanted.probe_file, wanted.probe_rows)
        run_probe(*forward, device.torch_device, spec.run_dir)
    batches = Batches(spec.data, training.global_batch)
    routing = evidence.RoutingLog(tap.layers)
    for step in range(1, spec.last_step + 1):
        write(_step(spec, device, model, names, optimizer, batches, tap, routing, step))
        book.steps = step
    if wanted.routing:
        routing.write(spec.run_dir)
    write(State("end", spec.last_step, _state(model, names)))


def _step(
    spec: RunSpec,
    device: Device,
    model: Any,
    names: Names,
    optimizer: Any,
    batches: Batches,
    tap: RouterTap,
    routing: evidence.RoutingLog,
    step: int,
) -> Step:
    """One optimizer step on global batch step - 1, the whole of it in one pass."""
    began = time.perf_counter()
    training, wanted = spec.training, spec.evidence
    batch = batches.read(step - 1)
    where = device.torch_device
    inputs, labels = (
        torch.from_numpy(part.astype(np.int64)).to(where) for part in (batch.inputs, batch.labels)
    )
    mask = torch.from_numpy(batch.mask.copy()).to(where).flatten().bool()
    optimizer.zero_grad(set_to_none=True)
    rate = rate_of(training, step)
    for group in optimizer.param_groups:
        group["lr"] = rate
    with tap.recording() as routed:
        logits = model(input_ids=inputs, use_cache=False).logits
    kept = labels.flatten().masked_fill(~mask, -100)
    count = max(int(mask.sum()), 1)
    mean = cross_entropy(logits.float().flatten(0, 1), kept, reduction="sum") / count
    total, aux = mean, None
    if routed:
        aux = _balance(spec, routed)
        total = mean + training.aux_loss_coef * aux
    total.backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = {name: p.grad for name, p in model.named_parameters()}
    if step == 1 and wanted.gradients:
        found = _published(names, gradients)
        evidence.write_tensors(spec.run_dir, evidence.GRADIENTS, found)
    limit = training.clip_grad if training.clip_grad > 0 else math.inf
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit))
    optimizer.step()
    _move_biases(tap.biases, routed, training.router_bias_update_rate)
    rng.advance(device)
    device.synchronize()
    elapsed = time.perf_counter() - began
    if step == 1 and wanted.first_update:
        found = _published(names, dict(model.named_parameters()))
        evidence.write_tensors(spec.run_dir, evidence.PARAMETERS, found)
    loss = float(mean.detach().double())
    return Step(
        step=step,
        loss=loss,
        loss_hex=loss.hex(),
        grad_norm=norm,
        grad_norm_hex=norm.hex(),
        lr=rate,
        tokens=batch.inputs.size,
        supervised_tokens=batch.supervised_tokens,
        tokens_sha256=batch_digest(batch.token_digests()),
        mask_sha256=batch_digest(batch.mask_digests()),
        batch=batch.index,
        step_time_s=elapsed,
        peak_bytes=device.peak_bytes(),
        aux_loss=None if aux is None else float(aux.detach()),
        routing_sha256=_routing(spec, routed, routing, step),
    )


def _routing(
    spec: RunSpec, routed: list[Routed], routing: evidence.RoutingLog, step: int
) -> str | None:
    if not routed:
        return None
    ids, gap = (part.cpu().numpy() for part in sets_of(routed))
    if spec.evidence.routing:
        routing.append(step, ids, gap)
    return evidence.routing_digest(ids)


def _describe(spec: RunSpec, model: Any, optimizer: Any, book: Journal) -> None:
    """Whose code trains, with values read back from the live objects."""
    training, config = spec.training, model.config
    is_moe = bool(RouterTap(model, Fault()).layers)
    held = [*model.parameters(), *models.persistent_buffers(model).values()]
    group = optimizer.param_groups[0]
    decayed = [p for g in optimizer.param_groups if g["weight_decay"] > 0 for p in g["params"]]
    schedule = ("schedule", "lr", "min_lr", "warmup_init_lr", "warmup_steps", "decay_steps")
    described: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        (
            "model",
            model,
            {
                "num_parameters": sum(p.numel() for p in held),
                "num_layers": config.num_hidden_layers,
                "hidden_size": config.hidden_size,
                "vocab_size": config.vocab_size,
                "dtype": "float32",
                "attention": config._attn_implementation,
                "experts": getattr(config, "_experts_implementation", None),
                "rope": getattr(config, "rope_parameters", getattr(config, "rope_theta", None)),
                "aux_loss_coef": training.aux_loss_coef if is_moe else 0.0,
                "aux_loss_formula": training.aux_loss_formula if is_moe else None,
            },
        ),
        (
            "optimizer",
            optimizer,
            {
                "beta1": group["betas"][0],
                "beta2": group["betas"][1],
                "eps": group["eps"],
                "weight_decay": max(g["weight_decay"] for g in optimizer.param_groups),
                "clip_grad": training.clip_grad,
                "decayed_parameters": sum(p.numel() for p in decayed),
            },
        ),
        ("scheduler", rate_of, {key: getattr(training, key) for key in schedule}),
        ("loss", cross_entropy, {"mean_over": "supervised tokens of the global batch"}),
    )
    for part, subject, values in described:
        book.writer.write(environment.component(part, subject, values))
    owners = {
        type(model.get_submodule(name.rpartition(".")[0])) for name, _ in model.named_parameters()
    }
    book.writer.write(environment.modules(owners))
