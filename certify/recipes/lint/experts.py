"""Rules of mixture-of-experts options (Megatron-style scripts) and of fixed routing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.recipes.lint.context import Context, Hit

if TYPE_CHECKING:
    from collections.abc import Iterator


def routing(c: Context) -> Iterator[Hit]:
    """M01 to M04: the router."""
    experts, topk = c.number("moe.experts"), c.number("moe.topk")
    if topk > experts:
        yield Hit("M01", f"top-{topk} of {experts}", "moe.topk")
    groups, of = c.get("moe.router.num_groups"), c.get("moe.router.group_topk")
    if groups and of and (experts % groups or of > groups or topk > of * experts // groups):
        found = f"{experts} experts, {groups} groups, {of} taken, top-{topk}"
        yield Hit("M02", found, "moe.router.num_groups")
    coefficient = c.get("moe.aux_coeff")
    if coefficient and c.get("moe.router.load_balancing") == "none":
        yield Hit("M03", f"coefficient {coefficient}, load balancing none", "moe.aux_coeff")
    if c.get("moe.router.expert_bias") and c.get("moe.router.score") in (None, "softmax"):
        found = f"score {c.get('moe.router.score') or 'not stated'}"
        yield Hit("M04", found, "moe.router.expert_bias")


def overlap(c: Context) -> Iterator[Hit]:
    """M05, M06, M08: overlapped communication and its conditions."""
    dispatcher, grouped = c.get("moe.dispatcher"), c.get("moe.grouped_gemm")
    extend, tp = c.get("parallel.moe_tp_extend_ep"), c.number("parallel.tp")
    permute = c.has("moe-permutation-async-comm")
    if c.has("moe-alltoall-overlap-comm"):
        at = "moe.dispatcher"
        if dispatcher not in ("alltoall", "alltoall_seq"):
            yield Hit("M05", f"dispatcher {dispatcher}", at)
        if c.number("parallel.ep") == 1:
            yield Hit("M05", "EP 1", at)
        if not grouped:
            yield Hit("M05", "no grouped GEMM", at)
        if dispatcher == "alltoall" and extend:
            yield Hit("M05", "dispatcher alltoall with moe-tp-extend-ep", at)
        if dispatcher == "alltoall_seq" and not permute:
            yield Hit("M05", "dispatcher alltoall_seq without moe-permutation-async-comm", at)
        if dispatcher == "alltoall_seq" and tp > 1 and not extend:
            yield Hit("M05", f"dispatcher alltoall_seq, TP {tp}, no moe-tp-extend-ep", at)
    if extend and not (permute and grouped):
        found = f"grouped GEMM {bool(grouped)}, async permute {permute}"
        yield Hit("M06", found, "parallel.moe_tp_extend_ep")
    if c.has("moe-fb-overlap"):
        yield from _forward_backward(c, dispatcher)


def _forward_backward(c: Context, dispatcher: str | None) -> Iterator[Hit]:
    if dispatcher in ("allgather", "alltoall_seq"):
        yield Hit("M08", f"dispatcher {dispatcher}", "moe.dispatcher")
    pp = c.number("parallel.pp")
    virtual = c.get("parallel.layers_per_virtual_stage") is not None
    if pp > 1 and not virtual and c.get("parallel.schedule") != "dualpipev":
        yield Hit("M08", f"PP {pp} without virtual stages or dualpipev", "parallel.pp")
    etp = c.get("parallel.etp") or c.number("parallel.tp")
    if etp != 1 or c.number("parallel.ep") == 1:
        yield Hit("M08", f"ETP {etp}, EP {c.number('parallel.ep')}", "parallel.ep")


def widths(c: Context) -> Iterator[Hit]:
    """M07, M09: widths of experts."""
    if c.get("moe.shared_experts") and c.get("moe.shared_expert_ffn"):
        yield Hit("M07", f"{c.get('moe.shared_experts')} shared experts", "moe.shared_experts")
    if c.get("moe.ffn_hidden") is None:
        yield Hit("M09", f"ffn {c.get('model.ffn')}", "moe.experts")


def fusion(c: Context) -> Iterator[Hit]:
    """M10, M11, M12."""
    fused = c.has("gemm-gradient-accumulation-fusion")
    if fused and not c.get("moe.grouped_gemm"):
        yield Hit("M10", "no grouped GEMM", "moe.grouped_gemm")
    if fused and c.has("no-gradient-accumulation-fusion"):
        yield Hit("M11", "both given", "moe.grouped_gemm")


def fixed(c: Context) -> Iterator[Hit]:
    """M12: routing that is fixed where the loss is to mean something."""
    if c.get("moe.fixed_routing") and c.raw["kind"] != "performance":
        yield Hit("M12", f"kind {c.raw['kind']}", "moe.fixed_routing")


CHECKS = (routing, overlap, widths, fusion)
