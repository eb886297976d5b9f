# mypy: disable-error-code="misc,untyped-decorator"
"""Step-3.5 as published: a mixture of experts behind head-gated attention with a window.

Configuration: StepFun's Step-3.5-Flash (config.json). What differs from a Llama-like decoder:

* three of four layers attend within a window and have more query heads than the others;
* every head's output is multiplied with sigmoid(g x), one scalar g x for each head;
* queries and keys are normalised for each head; norms scale with 1 + weight;
* each layer has its own rotary base, and turns a share of the head;
* the first layers are dense; in the others the scores are sigmoids, a bias takes part in the
  choice only, the chosen scores are made to add up to one and multiplied with a factor, and one
  shared expert sees every token; both may be clamped (swiglu limits).

The layers for multi-token prediction are left out: training does not use them here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from certify.errors import UsageError

WINDOWED = "sliding_attention"
_LOADED = "_is_hf_initialized"


class Step3p5Config(PretrainedConfig):
    """The published keys. Lists hold one entry for each layer; entries after the last layer
    belong to multi-token prediction."""

    model_type = "step3p5"

    def __init__(
        self,
        vocab_size: int = 128896,
        hidden_size: int = 4096,
        intermediate_size: int = 11264,
        num_hidden_layers: int = 45,
        num_attention_heads: int = 64,
        num_attention_groups: int = 8,
        head_dim: int = 128,
        rms_norm_eps: float = 1e-5,
        moe_intermediate_size: int = 1280,
        moe_num_experts: int = 288,
        moe_top_k: int = 8,
        share_expert_dim: int = 1280,
        moe_layers_enum: list[int] | str | None = None,
        moe_router_scaling_factor: float = 3.0,
        norm_expert_weight: bool = True,
        use_head_wise_attn_gate: bool = True,
        sliding_window: int = 512,
        layer_types: list[str] | None = None,
        rope_theta: list[float] | float = 10000.0,
        partial_rotary_factors: list[float] | None = None,
        attention_other_setting: dict[str, Any] | None = None,
        swiglu_limits: list[float] | None = None,
        swiglu_limits_shared: list[float] | None = None,
        initializer_range: float = 0.02,
        max_position_embeddings: int = 262144,
        tie_word_embeddings: bool = False,
        **others: Any,
    ) -> None:
        depth = num_hidden_layers
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.intermediate_size, self.num_hidden_layers = intermediate_size, depth
        self.num_attention_heads, self.head_dim = num_attention_heads, head_dim
        self.num_attention_groups = self.num_key_value_heads = num_attention_groups
        self.rms_norm_eps, self.initializer_range = rms_norm_eps, initializer_range
        self.moe_intermediate_size, self.share_expert_dim = moe_intermediate_size, share_expert_dim
        self.moe_num_experts, self.moe_top_k = moe_num_experts, moe_top_k
        self.num_experts_per_tok = moe_top_k
        self.moe_router_scaling_factor = moe_router_scaling_factor
        self.norm_expert_weight = norm_expert_weight
        self.use_head_wise_attn_gate = use_head_wise_attn_gate
        self.sliding_window, self.max_position_embeddings = sliding_window, max_position_embeddings
        if isinstance(moe_layers_enum, str):
            moe_layers_enum = [int(number) for number in moe_layers_enum.split(",") if number]
        experts = range(depth) if moe_layers_enum is None else moe_layers_enum
        self.moe_layers_enum = [number for number in experts if number < depth]
        self.layer_types = (layer_types or ["full_attention"] * depth)[:depth]
        bases = rope_theta if isinstance(rope_theta, list) else [rope_theta] * depth
        self.layer_rope_theta = bases[:depth]
        self.partial_rotary_factors = (partial_rotary_factors or [1.0] * depth)[:depth]
        self.attention_other_setting = attention_other_setting or {}
        self.swiglu_limits = (swiglu_limits or [0.0] * depth)[:depth]
        self.swiglu_limits_shared = (swiglu_limits_shared or [0.0] * depth)[:depth]
        super().__init__(tie_word_embeddings=tie_word_embeddings, **others)


class Norm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * (1 + weight), in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape as x."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * (1.0 + self.weight.float())).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention of one layer, each head gated."""

    def __init__(self, config: Step3p5Config, layer: int) -> None:
        super().__init__()
        windowed = config.layer_types[layer] == WINDOWED
        other = config.attention_other_setting if windowed else {}
        self.heads = int(other.get("num_attention_heads", config.num_attention_heads))
        self.groups = int(other.get("num_attention_groups", config.num_attention_groups))
        self.head_dim = int(other.get("head_dim", config.head_dim))
        self.window = config.sliding_window if windowed else None
        self.base = float(config.layer_rope_theta[layer])
        self.turning = int(self.head_dim * config.partial_rotary_factors[layer])
        hidden, width = config.hidden_size, self.head_dim
        self.q_proj = nn.Linear(hidden, self.heads * width, bias=False)
        self.k_proj = nn.Linear(hidden, self.groups * width, bias=False)
        self.v_proj = nn.Linear(hidden, self.groups * width, bias=False)
        self.o_proj = nn.Linear(self.heads * width, hidden, bias=False)
        self.g_proj: nn.Linear | None = None
        if config.use_head_wise_attn_gate:
            self.g_proj = nn.Linear(hidden, self.heads, bias=False)
        self.q_norm = Norm(width, config.rms_norm_eps)
        self.k_norm = Norm(width, config.rms_norm_eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, S, H], positions from 0."""
        batch, length, _ = x.shape
        split = (batch, length, -1, self.head_dim)
        q = self._turned(self.q_norm(self.q_proj(x).view(split)).transpose(1, 2))
        k = self._turned(self.k_norm(self.k_proj(x).view(split)).transpose(1, 2))
        v = self.v_proj(x).view(split).transpose(1, 2)
        times = self.heads // self.groups
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        mask = self._visible(length, x.device)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        mixed = mixed.transpose(1, 2)
        if self.g_proj is not None:
            mixed = mixed * self.g_proj(x).sigmoid().unsqueeze(-1)
        return self.o_proj(mixed.reshape(batch, length, -1))

    def _visible(self, length: int, device: torch.device) -> torch.Tensor:
        """[S, S]: which keys a query sees: up to its own, and not beyond the window."""
        at = torch.arange(length, device=device)
        distance = at[:, None] - at[None, :]
        seen = distance >= 0
        return seen if self.window is None else seen & (distance < self.window)

    def _turned(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary embedding of the first `turning` dimensions, in float32."""
        half = self.turning // 2
        steps = torch.arange(0, self.turning, 2, device=x.device, dtype=torch.float32)
        frequencies = 1.0 / (self.base ** (steps / self.turning))
        positions = torch.arange(x.shape[2], device=x.device, dtype=torch.float32)
        angles = torch.outer(positions, frequencies)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second, still = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        turned = (first * cos - second * sin, second * cos + first * sin, still)
        return torch.cat(turned, dim=-1)


def _gated(gate: torch.Tensor, up: torch.Tensor, limit: float) -> torch.Tensor:
    """silu(gate) * up; both clamped where there is a limit."""
    gate = functional.silu(gate)
    if limit:
        gate, up = gate.clamp(max=limit), up.clamp(min=-limit, max=limit)
    return gate * up


class FeedForward(nn.Module):
    """A dense block, or the shared expert."""

    def __init__(self, hidden: int, inner: int, limit: float) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., H]."""
        return self.down_proj(_gated(self.gate_proj(x), self.up_proj(x), self.limit))


class Experts(nn.Module):
    """All routed experts of a layer, published in three tensors [E, out, in]."""

    def __init__(self, config: Step3p5Config, limit: float) -> None:
        super().__init__()
        self.num_experts = config.moe_num_experts
        hidden, inner = config.hidden_size, config.moe_intermediate_size
        self.gate_proj = nn.Parameter(torch.empty(self.num_experts, inner, hidden))
        self.up_proj = nn.Parameter(torch.empty(self.num_experts, inner, hidden))
        self.down_proj = nn.Parameter(torch.empty(self.num_experts, hidden, inner))
        self.limit = limit

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        """hidden_states: [n, H]; top_k_index, top_k_weights: [n, k]."""
        result = torch.zeros_like(hidden_states)
        for expert in range(self.num_experts):
            token, place = (top_k_index == expert).nonzero(as_tuple=True)
            x = hidden_states[token]
            gate = functional.linear(x, self.gate_proj[expert])
            inner = _gated(gate, functional.linear(x, self.up_proj[expert]), self.limit)
            found = functional.linear(inner, self.down_proj[expert])
            weighted = found * top_k_weights[token, place, None]
            result = result.index_add(0, token, weighted.to(result.dtype))
        return result


class Router(nn.Module):
    """Scores in float32; returns (logits [n, E], weights [n, k], chosen [n, k])."""

    def __init__(self, config: Step3p5Config) -> None:
        super().__init__()
        self.k, self.factor = config.moe_top_k, config.moe_router_scaling_factor
        self.normalised = config.norm_expert_weight
        self.weight = nn.Parameter(torch.empty(config.moe_num_experts, config.hidden_size))
        self.register_buffer("e_score_correction_bias", torch.zeros(config.moe_num_experts))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x: [n, H]."""
        logits = functional.linear(x.float(), self.weight.float())
        scores = logits.sigmoid()
        chosen = (scores + self.e_score_correction_bias).topk(self.k, dim=-1).indices
        weights = scores.gather(1, chosen)
        if self.normalised:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, weights * self.factor, chosen


class Mixture(nn.Module):
    """Router and routed experts of a layer."""

    def __init__(self, config: Step3p5Config, limit: float) -> None:
        super().__init__()
        self.gate = Router(config)
        self.experts = Experts(config, limit)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [n, H]."""
        _, weights, chosen = self.gate(x)
        return self.experts(x, chosen, weights)


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, config: Step3p5Config, layer: int) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, layer)
        self.input_layernorm = Norm(hidden, eps)
        self.post_attention_layernorm = Norm(hidden, eps)
        self.mlp: Mixture | FeedForward
        self.share_expert: FeedForward | None = None
        if layer in config.moe_layers_enum:
            self.mlp = Mixture(config, config.swiglu_limits[layer] or 0.0)
            limit = config.swiglu_limits_shared[layer] or 0.0
            self.share_expert = FeedForward(hidden, config.share_expert_dim, limit)
        else:
            self.mlp = FeedForward(hidden, config.intermediate_size, 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, S, H]."""
        x = x + self.self_attn(self.input_layernorm(x))
        before = self.post_attention_layernorm(x)
        update = self.mlp(before.flatten(0, 1)).view_as(before)
        if self.share_expert is not None:
            update = update + self.share_expert(before)
        return x + update


class Decoder(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, config: Step3p5Config) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        layers = (Layer(config, number) for number in range(config.num_hidden_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """[B, S] -> [B, S, H]."""
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Step3p5ForCausalLM(PreTrainedModel):
    """The causal language model, with the interface of transformers that training needs."""

    config_class = Step3p5Config
    base_model_prefix = "model"
    _supports_sdpa = True
    _can_record_outputs = {"router_logits": Router}  # noqa: RUF012 (transformers reads it so)

    def __init__(self, config: Step3p5Config) -> None:
        super().__init__(config)
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The embedding."""
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        """The head."""
        return self.lm_head

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Matrices normal with initializer_range, norms at one (weight 0), biases 0.

        transformers also calls this for modules whose tensors it has just loaded, and marks these.
        """
        spread = self.config.initializer_range
        for name, parameter in module.named_parameters(recurse=False):
            if getattr(parameter, _LOADED, False):
                continue
            if isinstance(module, Norm):
                parameter.zero_()
            elif parameter.dim() >= 2:
                parameter.normal_(0.0, spread)
            else:
                raise ValueError(f"no rule draws {name} of {type(module).__name__}")
        bias = getattr(module, "e_score_correction_bias", None)
        if bias is not None and not getattr(bias, _LOADED, False):
            bias.zero_()

    def forward(self, input_ids: torch.Tensor, **ignored: Any) -> CausalLMOutputWithPast:
        """input_ids: [B, S]; positions from 0, causal, no cache."""
        return CausalLMOutputWithPast(logits=self.lm_head(self.model(input_ids)))


# Published name <-> ours, where they differ.
RENAMED = (
    (r"\.moe\.gate\.weight", ".mlp.gate.weight"),
    (r"\.moe\.router_bias", ".mlp.gate.e_score_correction_bias"),
    (r"\.moe\.gate_proj\.weight", ".mlp.experts.gate_proj"),
    (r"\.moe\.up_proj\.weight", ".mlp.experts.up_proj"),
    (r"\.moe\.down_proj\.weight", ".mlp.experts.down_proj"),
)


def register() -> None:
    """Make the family known to transformers. Raises UsageError for a version without tables of
    names, which cannot read the published checkpoint."""
    try:
        from transformers.conversion_mapping import register_checkpoint_conversion_mapping
        from transformers.core_model_loading import WeightRenaming
    except ImportError:
        raise UsageError(
            "this transformers has no conversion of published names",
            where="model_type step3p5 (runner.own.step3p5)",
            expected="transformers 5 or newer",
        ) from None
    AutoConfig.register("step3p5", Step3p5Config, exist_ok=True)
    AutoModelForCausalLM.register(Step3p5Config, Step3p5ForCausalLM, exist_ok=True)
    renamings = [WeightRenaming(published, ours) for published, ours in RENAMED]
    register_checkpoint_conversion_mapping("Step3p5ForCausalLM", renamings, overwrite=True)
