"""Lint: every rule on a script that breaks it, and nothing on one that is clean."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from certify.cli.recipes_lint import sarif
from certify.recipes.lint import Finding, lint_path, lint_recipe
from certify.recipes.lint.rules import RULES
from certify.recipes.load import load_recipe, load_support_list
from tests.recipes import scripts
from tests.recipes.importers.test_import import FSDP2, MCORE

YAML = FSDP2.replace(".sh", ".yaml")
MOE = scripts.MEGATRON.replace("mkdir -p logs", scripts.MOE_ARGS + "mkdir -p logs").replace(
    "    $TRAIN_ARGS \\", "    $TRAIN_ARGS \\\n    $MOE_ARGS \\"
)


def lint(checkout: Path, path: str, text: str, name: str | None = None) -> list[Finding]:
    file = checkout / path
    if name is not None:
        file = file.with_name(name)
    file.write_text(text)
    return lint_path(file, checkout)[1]


def serious(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.rule, one.found) for one in findings if one.severity != "info"]


def test_clean_scripts_have_no_finding(checkout: Path) -> None:
    assert serious(lint_path(checkout / MCORE, checkout)[1]) == []
    assert serious(lint(checkout, MCORE, MOE)) == []
    assert serious(lint_path(checkout / FSDP2, checkout)[1]) == []


# rule -> (text replaced, replacement) in the clean dense script.
DENSE = {
    "S01": ("pretrain_gpt.py", "pretran_gpt.py"),
    "S02": ("$MODEL_ARGS \\", "$MODEL_ARGS \\ "),
    "S03": ("mkdir -p logs", 'EXTRA_ARGS="--bf16"\nmkdir -p logs'),
    "S04": ("$MODEL_ARGS \\", "$MODEL_ARGS $MOE_ARGS \\"),
    "S05": ("--seed 42 \\", "--seed 42 --seed 43 \\"),
    "S06": ("TP=2\n", "TP=4\nTP=2\n"),
    "S07": ("TP=2\n", "TP=2\nCP=2\n"),
    "S08": ("--bf16 \\", "--bf16 stray \\"),
    "S10": ("$MODEL_ARGS \\", "$MODEL_ARGS"),
    "S11": ("--seed 42 \\", "--seed \\"),
    "S12": ("--seed 42 \\", "--sead 42 \\"),
    "S13": ("\n", "\r\n"),
    "S14": ("set -o pipefail\n", ""),
    "S15": ("mkdir -p logs\n", ""),
    "S16": ("--train-iters 100", "--train-iters many"),
    "S17": ("TP=2\n", "TP=2\nMASTER_ADDR=<address>\n"),
    "S18": ("torchrun $DISTRIBUTED_ARGS", "torchrun"),
    "S19": ("TP=2\n", "TP=2\nsource examples/nothing.sh\n"),
    "S21": ("--train-iters 100", "--train-iters $1"),
    "S20": ("TP=2\n", "TP=2\nif then )\n"),
    "P01": ("TP=2", "TP=3"),
    "P02": ("--global-batch-size 16", "--global-batch-size 18"),
    "P03": ("--num-layers 8", "--num-layers 9"),
    "P04": ("--swiglu \\", "--swiglu --num-layers-per-virtual-pipeline-stage 3 \\"),
    "P05": ("--num-attention-heads 8", "--num-attention-heads 7 --kv-channels 64"),
    "P06": ("--num-query-groups 4", "--num-query-groups 1"),
    "P10": ("TP=2", "TP=1"),
    "P11": (
        "--swiglu \\",
        "--swiglu --context-parallel-size 4 --context-parallel-algo ulysses_cp_algo"
        " --num-attention-heads 4 \\",
    ),
    "P12": ("--hidden-size 512", "--hidden-size 500"),
    "P15": ("--swiglu \\", "--swiglu --num-layer-list 4,5 \\"),
    "P16": ("--swiglu \\", "--swiglu --num-layer-list 4,4 --noop-layers 7 \\"),
    "P17": ("--padded-vocab-size 32000", "--padded-vocab-size 32001"),
    "P18": ("--swiglu \\", "--swiglu --context-parallel-size 2 \\"),
    "P19": ("--swiglu \\", "--swiglu --context-parallel-size 4 --context-parallel-algo"
                           " hybrid_cp_algo \\"),
    "P20": ("--use-distributed-optimizer", "--reuse-fp32-param"),
    "P21": ("--swiglu \\", "--swiglu --recompute-num-layers 6 \\"),
    "P23": ("--swiglu \\", "--swiglu --num-layers-per-virtual-pipeline-stage 4 \\"),
    "P24": ("TP=2", "TP=0"),
    "T01": ("--min-lr 1.0e-5", "--min-lr 1.0e-3"),
    "T02": ("    --min-lr 1.0e-5 \\\n", ""),
    "T03": ("--seed 42 \\", "--seed 42 --lr-warmup-iters 5 \\"),
    "T04": ("--lr-warmup-fraction 0.01", "--lr-warmup-iters 100"),
    "T05": ("--max-position-embeddings ${SEQ}", "--max-position-embeddings 2048"),
    "T06": ("--seed 42 \\", "--seed 42 --initial-loss-scale 4096 \\"),
    "T07": ("--save-interval 50", "--save-interval 500"),
    "T08": ("    --seed 42 \\\n", ""),
    "T09": ("--seed 42 \\", "--seed 42 --lr-decay-iters 50 \\"),
    "T11": ("--clip-grad 1.0", "--clip-grad 5.0"),
    "T12": ("--seed 42 \\", "--seed 42 --eval-iters 10 --split 100,0,0 \\"),
    "T13": ("--global-batch-size 16", "--global-batch-size 4"),
    "T14": ("    --lr-decay-style cosine \\\n", ""),
    "T15": ("    --init-method-std 0.02 \\\n", ""),
    "T16": ("    --adam-beta2 0.95 \\\n", ""),
    "C01": ("--seed 42 \\", "--seed 42 --fp16 \\"),
    "C02": ("--seed 42 \\", "--seed 42 --overlap-param-gather \\"),
    "C03": ("--seed 42 \\", "--seed 42 --fp8-format e4m3 --transformer-impl local \\"),
    "E02": ("HCCL_CONNECT_TIMEOUT=1800", "HCCL_CONNECT_TIMEOUT=9000"),
    "E03": ("HCCL_CONNECT_TIMEOUT=1800", "HCCL_EVENT_TIMEOUT=1800"),
    "E04": ("HCCL_CONNECT_TIMEOUT=1800", "ASCEND_LAUNCH_BLOCKING=1"),
    "E05": ("CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS=2"),
    "E06": ("HCCL_CONNECT_TIMEOUT=1800", "NPU_ASD_ENABLE=0"),
    "N01": ("SEQ=4096", "SEQ=8192"),
    "N03": ("NPUS_PER_NODE=8", "NPUS_PER_NODE=16"),
}  # fmt: skip


@pytest.mark.parametrize("rule", DENSE)
def test_rule_on_a_dense_script(checkout: Path, rule: str) -> None:
    old, new = DENSE[rule]
    assert old in scripts.MEGATRON
    findings = lint(checkout, MCORE, scripts.MEGATRON.replace(old, new))
    assert rule in {one.rule for one in findings}
    assert all(one.line > 0 and one.file for one in findings)


def test_what_only_a_run_could_tell_is_no_error(checkout: Path) -> None:
    text = scripts.MEGATRON.replace("$MODEL_ARGS \\", '$MODEL_ARGS "$@" \\')
    text = text.replace("--train-iters 100", "--train-iters $1")
    assert text.count("$@") == text.count("$1") == 1
    assert not [one for one in lint(checkout, MCORE, text) if one.severity == "error"]


SPARSE = {
    "P07": ("--num-experts 8", "--num-experts 6"),
    "P08": ("--expert-tensor-parallel-size 1", "--expert-tensor-parallel-size 4"),
    "P09": ("    --pipeline-model-parallel-size ${PP} \\\n    --sequence-parallel",
            "    --pipeline-model-parallel-size ${PP}"),
    "P22": ("--expert-tensor-parallel-size 1", ""),
    "M01": ("--moe-router-topk 2", "--moe-router-topk 9"),
    "M02": ("--moe-router-topk 2", "--moe-router-topk 2 --moe-router-num-groups 3"
                                   " --moe-router-group-topk 1"),
    "M03": ("load-balancing-type aux_loss", "load-balancing-type none"),
    "M04": ("--moe-router-topk 2", "--moe-router-topk 2 --moe-router-enable-expert-bias"),
    "M05": ("--moe-router-topk 2", "--moe-router-topk 2 --moe-alltoall-overlap-comm"),
    "M06": ("--moe-router-topk 2", "--moe-router-topk 2 --moe-tp-extend-ep"),
    "M07": ("--moe-router-topk 2", "--moe-router-topk 2 --n-shared-experts 1"
                                   " --moe-shared-expert-intermediate-size 256"),
    "M08": ("--moe-router-topk 2", "--moe-router-topk 2 --moe-fb-overlap"),
    "M09": ("--moe-ffn-hidden-size 256", ""),
    "M10": ("--moe-grouped-gemm", "--gemm-gradient-accumulation-fusion"),
    "M11": ("--moe-grouped-gemm", "--moe-grouped-gemm --gemm-gradient-accumulation-fusion"
                                  " --no-gradient-accumulation-fusion"),
    "M12": ("--moe-grouped-gemm", "--moe-grouped-gemm --fix-router"),
}  # fmt: skip


@pytest.mark.parametrize("rule", SPARSE)
def test_rule_on_a_sparse_script(checkout: Path, rule: str) -> None:
    old, new = SPARSE[rule]
    assert old in MOE
    assert rule in {one.rule for one in lint(checkout, MCORE, MOE.replace(old, new))}


# rule -> (file, text replaced, replacement).
FSDP2_RULES = {
    "F01": (FSDP2, "--parallel.fsdp_size 16", "--parallel.fsdp_size 8"),
    "F02": (FSDP2, "--parallel.fsdp_size 16", "--parallel.fsdp_size 16 --parallel.tp_size 2"),
    "F03": (FSDP2, "--parallel.ep_size 4", "--parallel.ep_size 3"),
    "F04": (FSDP2, "--parallel.ep_fsdp_size 4", "--parallel.ep_fsdp_size 2"),
    "F05": (YAML, "reduce_dtype: bf16", "reduce_dtyp: bf16"),
    "F06": (YAML, "reduce_dtype: bf16", "reduce_dtype: fp64"),
    "F07": (FSDP2, "--parallel.fsdp_size 16", "--parallel.fsdp_size 16 --parallel.cp_size 3"),
    "F08": (FSDP2, "--parallel.fsdp_size 16", "--parallel.fsdp_size 16 --training.lr 1e-4"),
    "F09": (FSDP2, "--parallel.ep_size 4", "--parallel.ep_modules a"),
    "F10": (FSDP2, "--parallel.ep_size 4", "--parallel.ep_size 1"),
    "F11": (FSDP2, "--training.output_dir", "--optimization.use_triton_gdn True --training.x"),
    "F12": (FSDP2, "    --optimization.moe_grouped_gemm True \\\n", ""),
    "F13": (YAML, "num_train_epochs: 1000", "num_train_epochs: 1"),
    "F14": (YAML, "  log_throughput: True\n", ""),
    "F15": (FSDP2, "fsdp2_A3.yaml", "fsdp2.yaml"),
    "F16": (YAML, "max_steps: 2000", "max_steps: soon"),
    "F17": (YAML, "stage: pt", "stage: pt\n  stage: sft"),
    "F18": (YAML, "template: qwen3", "template: qwen3\n  reset_attention_mask: True"),
    "F19": (YAML, "template: qwen3", "template: qwen3\n  streaming: True\n  max_samples: 5"),
    "F20": (FSDP2, "--parallel.ep_size 4", "--parallel.ep_size 0"),
    "E01": ("examples/fsdp2/env_config.sh", "export TRAINING_BACKEND=mindspeed_fsdp\n", ""),
}


@pytest.mark.parametrize("rule", FSDP2_RULES)
def test_rule_on_an_fsdp2_script(checkout: Path, rule: str) -> None:
    path, old, new = FSDP2_RULES[rule]
    text = (checkout / path).read_text()
    assert old in text
    (checkout / path).write_text(text.replace(old, new))
    findings = lint_path(checkout / FSDP2, checkout)[1]
    assert rule in {one.rule for one in findings}


@pytest.mark.parametrize(("batch", "rule"), [(4, "P13"), (12, "P14")])
def test_an_interleaved_schedule_needs_micro_batches(checkout: Path, batch: int, rule: str) -> None:
    text = scripts.MEGATRON.replace("--global-batch-size 16", f"--global-batch-size {batch}")
    text = text.replace("--swiglu", "--swiglu --num-layers-per-virtual-pipeline-stage 2")
    assert rule in {one.rule for one in lint(checkout, MCORE, text)}


def test_rules_of_the_name(checkout: Path) -> None:
    found = lint(checkout, MCORE, scripts.MEGATRON, "pretrain_small_4k_32p_A2_ptd.sh")
    assert {one.rule for one in found if one.rule[0] == "N"} == {"N02"}
    found = lint(checkout, MCORE, scripts.MEGATRON, "tune_small_4k_full_ptd.sh")
    assert "T10" in {one.rule for one in found}
    text = scripts.MEGATRON.replace("logs/train_small", "logs/train_1b8")
    found = lint(checkout, MCORE, text, "pretrain_small_1point8b_ptd.sh")
    assert "S09" in {one.rule for one in found}
    text = scripts.MEGATRON.replace("logs/train_small", "logs/train_1.8b")
    found = lint(checkout, MCORE, text, "pretrain_small_1point8b_ptd.sh")
    assert "S09" not in {one.rule for one in found}


def test_every_rule_is_tested_or_of_the_published_list() -> None:
    tested = {*DENSE, *SPARSE, *FSDP2_RULES, "N02", "T10", "S09", "P13", "P14"}
    published = {"N04", "N05", "N06", "N07", "N08", "N09", "N10"}
    assert set(RULES) - tested == published


# What was found by hand in the scripts of the 143 rows (coverage of the list at c77308a14bfc).
BY_HAND = {
    "F09": 4, "F11": 1, "F12": 1, "F14": 8, "F15": 1, "M03": 5, "M04": 1, "M09": 7, "M11": 4,
    "N01": 1, "N03": 2, "N04": 15, "N05": 8, "N06": 1, "N07": 19, "N08": 8, "P10": 43, "P20": 1,
    "P21": 1, "P22": 2, "S03": 2, "S04": 10, "S09": 1, "T02": 2, "T06": 121, "T07": 17, "T08": 77,
    "T09": 9, "T12": 9, "T14": 3, "T15": 3, "T16": 4,
}  # fmt: skip
# Lint sees more than the hand did.
AT_LEAST = {"F13": 4, "N09": 6, "S07": 10}


def test_our_recipes_show_what_was_found_by_hand() -> None:
    counts = Counter(one.rule for row in load_support_list() for one in lint_recipe(row.id))
    assert {rule: counts[rule] for rule in BY_HAND} == BY_HAND
    for rule, count in AT_LEAST.items():
        assert counts[rule] >= count


def test_findings_recorded_from_the_script_say_where_it_stands() -> None:
    found = [one for one in lint_recipe("glm5p2-moe-744b-4k-mcore") if one.rule == "S03"]
    assert [(one.found, one.line, one.recorded) for one in found] == [
        ("MTP_ARGS never passed", 90, True),
        ("PIPELINE_ARGS never passed", 115, True),
    ]
    assert found[0].file == "examples/mcore/glm52/pretrain_glm52_744b_4k_A3_ptd.sh@c77308a14bfc"


def test_a_place_in_our_recipe_is_its_line() -> None:
    from matrices import files

    found = next(one for one in lint_recipe("grok-1-40b-8k-mcore") if one.rule == "T09")
    line = files.read_text("recipes/grok-1-40b-8k-mcore.toml").splitlines()[found.line - 1]
    assert line == "lr_decay_iters = 1280"


def test_sarif_names_rules_levels_and_places() -> None:
    document = sarif([Finding("P01", "world 7", "a.sh", 3), Finding("P10", "TP 1", "a.sh", 4)])
    run = document["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["P01", "P10"]
    assert [result["level"] for result in run["results"]] == ["error", "note"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a.sh"}, "region": {"startLine": 3}}


def test_a_script_read_now_is_compared_with_the_list(tmp_path: Path) -> None:
    """The path is that of a published row (1x8, 4k), so its cluster and length count."""
    path = tmp_path / load_recipe("qwen3-8b-4k-mcore").source.path
    path.parent.mkdir(parents=True)
    path.write_text(scripts.MEGATRON.replace("SEQ=4096", "SEQ=8192"))
    _, found = lint_path(path)
    listed = {one.rule: one.found for one in found if one.rule in ("N04", "N05", "N06")}
    assert listed == {
        "N04": "published 1x8, script 2x8",
        "N05": "published 4k, script 8192",
    }
    other = path.with_name("other.sh")
    other.write_text(path.read_text())
    _, found = lint_path(other)
    assert not {one.rule for one in found} & {"N04", "N05", "N06"}


def test_a_variant_is_linted_with_what_its_script_was_found_to_do() -> None:
    found = lint_recipe("tune-qwen3-235b-a22b-32k-lora-pack-a2")
    path = load_recipe("tune-qwen3-235b-a22b-32k-lora-pack-a2").source.path
    places = [(one.rule, one.line) for one in found if one.recorded]
    assert places == [("S14", 169), ("S15", 182)]
    assert {one.file for one in found if one.recorded} == {f"{path}@c77308a14bfc"}


def test_a_yaml_alone_is_held_to_its_own_fsdp_size(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("model:\n  model_id: qwen3_moe\nparallel:\n  fsdp_size: 8\n  ep_size: 7\n"
                    "training:\n  stage: pt\n")  # fmt: skip
    assert "F03" in {one.rule for one in lint_path(path, tmp_path)[1]}
    path.write_text(path.read_text().replace("ep_size: 7", "ep_size: 4"))
    assert "F03" not in {one.rule for one in lint_path(path, tmp_path)[1]}
