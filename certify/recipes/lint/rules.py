"""Every lint rule: its severity, what it says, and where upstream states it.

error: refused at start, a wrong result, or a published fact contradicted; warning: suspicious;
info: without effect. Letters: S script, P parallel layout, F FSDP2 configuration, T training,
M experts, C options that go or do not go together, E environment, N names and published list.
Megatron line numbers are those of core_v0.12.1, MindSpeed's of 028de58ca629.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """severity (error, warning, info), title (one line), source (where upstream states it)."""

    severity: str
    title: str
    source: str = ""


_ARGUMENTS = "Megatron-LM megatron/training/arguments.py"
_CONFIG = "Megatron-LM megatron/core/transformer/transformer_config.py"
_FSDP2 = "MindSpeed-LLM mindspeed_llm/fsdp2"

RULES: dict[str, Rule] = {
    # -- script ------------------------------------------------------------------------------
    "S01": Rule("error", "the program that is started is no training entry of upstream"),
    "S02": Rule("error", "blanks after a backslash break the continued command"),
    "S03": Rule("warning", "a group of options is assigned but never passed"),
    "S04": Rule("warning", "a variable is used but never assigned: empty when the script runs"),
    "S05": Rule("warning", "an option is passed twice with different values: the last counts"),
    "S06": Rule("info", "a variable is assigned twice with different values"),
    "S07": Rule("warning", "a layout or batch variable is assigned but never used"),
    "S08": Rule("error", "a word that belongs to no option reaches the program"),
    "S09": Rule("warning", "the log is named after another model size than the script"),
    "S10": Rule("error", "options are run as a command: the continuation is broken"),
    "S11": Rule("error", "an option that needs a value has none"),
    "S12": Rule("error", "no parser of upstream knows the option: refused at start"),
    "S13": Rule("error", "Windows line ends: bash does not continue such lines"),
    "S14": Rule("warning", "`| tee` without `set -o pipefail`: a failed run exits 0"),
    "S15": Rule("warning", "the log folder is never made: tee cannot write the log"),
    "S16": Rule("error", "the value of an option is of another type"),
    "S17": Rule("warning", "a placeholder in angle brackets: bash takes it for a redirection"),
    "S18": Rule("error", "the launcher is not told the cluster: it starts a single process"),
    "S19": Rule("warning", "a sourced file is missing"),
    "S20": Rule("error", "bash cannot parse this part of the script"),
    "S21": Rule("info", "only running the script would tell the value of an option"),
    # -- layout ------------------------------------------------------------------------------
    "P01": Rule("error", "world size is not divisible by TP x PP x CP", f"{_ARGUMENTS}:315"),
    "P02": Rule(
        "error",
        "global batch is not divisible by micro batch x DP",
        "Megatron-LM megatron/core/num_microbatches_calculator.py:340",
    ),
    "P03": Rule("error", "layers are not divisible by PP", f"{_ARGUMENTS}:457"),
    "P04": Rule(
        "error", "layers of a stage do not divide into virtual stages", f"{_ARGUMENTS}:461"
    ),
    "P05": Rule("error", "attention heads are not divisible by TP", f"{_CONFIG}:560"),
    "P06": Rule("error", "query groups are not divisible by TP", f"{_CONFIG}:575"),
    "P07": Rule("error", "experts are not divisible by EP", f"{_ARGUMENTS}:852"),
    "P08": Rule(
        "error",
        "world size is not divisible by ETP x EP x PP",
        "Megatron-LM megatron/core/parallel_state.py:699",
    ),
    "P09": Rule("error", "experts with TP > 1 need sequence parallelism"),
    "P10": Rule("info", "sequence parallelism with TP = 1: switched off", f"{_ARGUMENTS}:761"),
    "P11": Rule(
        "error",
        "sequence or heads do not divide by context parallelism",
        "MindSpeed mindspeed/features_manager/context_parallel",
    ),
    "P12": Rule("error", "hidden size is not divisible by heads", f"{_ARGUMENTS}:680"),
    "P13": Rule("error", "fewer micro-batches than the pipeline schedule needs"),
    "P14": Rule("warning", "micro-batches are not a multiple of PP with an interleaved schedule"),
    "P15": Rule("error", "the list of layers per stage does not fit PP and layers"),
    "P16": Rule("warning", "a list of layers per stage with no-op layers: the list is ignored"),
    "P17": Rule("error", "padded vocabulary or feed-forward width is not divisible by TP"),
    "P18": Rule("warning", "context parallelism and its algorithm are not stated together"),
    "P19": Rule("error", "hybrid context parallelism without a fitting Ulysses degree"),
    "P20": Rule("warning", "an option of the distributed optimizer without it"),
    "P21": Rule("warning", "more layers to recompute than a rank holds", f"{_CONFIG}:703"),
    "P22": Rule("warning", "expert tensor parallelism unset: equal to TP", f"{_ARGUMENTS}:352"),
    "P23": Rule(
        "error",
        "one virtual stage a rank: refused",
        "MindSpeed mindspeed/features_manager/megatron_basic/megatron_basic.py:28",
    ),
    "P24": Rule("error", "a size of the layout or the batch below 1"),
    # -- FSDP2 -------------------------------------------------------------------------------
    "F01": Rule("error", "fsdp_size is not the world size", f"{_FSDP2}/distributed"),
    "F02": Rule("error", "tp_size above 1 cannot work: fsdp_size must be the world size"),
    "F03": Rule("error", "world size is not divisible by ep_size x ep_fsdp_size"),
    "F04": Rule("warning", "experts are replicated: ep_size x ep_fsdp_size below world size"),
    "F05": Rule("error", "unknown key: dropped without an error", f"{_FSDP2}/utils/arguments.py"),
    "F06": Rule("error", "the value is none of the choices", f"{_FSDP2}/utils/arguments.py"),
    "F07": Rule("error", "cp_size does not divide fsdp_size or the sequence"),
    "F08": Rule("warning", "the command line overrides another value of the YAML"),
    "F09": Rule("info", "expert modules are configured while ep_size is 1: no effect"),
    "F10": Rule("info", "ep_fsdp_size is not 1 while ep_size is 1"),
    "F11": Rule("warning", "an optimisation of another model family"),
    "F12": Rule("warning", "an expert model without grouped GEMM"),
    "F13": Rule("warning", "few epochs end the run before max_steps", f"{_FSDP2}/train"),
    "F14": Rule("warning", "throughput is not logged: no tokens/s and MFU in the log"),
    "F15": Rule("error", "the YAML named in the script does not exist"),
    "F16": Rule("error", "the value is of another type", f"{_FSDP2}/utils/arguments.py"),
    "F17": Rule("warning", "a key is given twice: the last counts"),
    "F18": Rule("error", "reset_attention_mask needs append_eod and a batch of 1"),
    "F19": Rule("error", "options of the data section that exclude each other"),
    "F20": Rule("error", "a parallel size below 1"),
    # -- training ----------------------------------------------------------------------------
    "T01": Rule("error", "min_lr above lr", f"{_ARGUMENTS}:702"),
    "T02": Rule("warning", "no min_lr with a decaying schedule: decays to 0"),
    "T03": Rule("error", "warm-up given as steps and as a fraction", f"{_ARGUMENTS}:634"),
    "T04": Rule("error", "warm-up does not end before training does"),
    "T05": Rule("error", "fewer positions than the sequence is long", f"{_ARGUMENTS}:696"),
    "T06": Rule("info", "a loss scale with bf16: no effect"),
    "T07": Rule("warning", "no checkpoint before the end: save interval above the steps"),
    "T08": Rule("info", "no seed: Megatron's 1234"),
    "T09": Rule("warning", "decay steps differ from training steps"),
    "T10": Rule("warning", "a fine-tuning script that sets no stage"),
    "T11": Rule("warning", "weight decay, clipping or beta2 outside the usual range"),
    "T12": Rule("warning", "validation steps without validation data"),
    "T13": Rule("info", "one micro-batch with pipeline stages: the largest bubble"),
    "T14": Rule("warning", "no schedule: Megatron's linear decay"),
    "T15": Rule("info", "no initial deviation: Megatron's 0.02"),
    "T16": Rule("warning", "no beta2: Megatron's 0.999"),
    # -- experts -----------------------------------------------------------------------------
    "M01": Rule("error", "more experts a token than experts"),
    "M02": Rule("error", "group-limited routing does not fit the experts"),
    "M03": Rule("warning", "an auxiliary loss without load balancing: no effect"),
    "M04": Rule("warning", "expert bias without a sigmoid score: plain Megatron refuses it",
                f"{_CONFIG}:956"),
    "M05": Rule("error", "moe-alltoall-overlap-comm without what it needs",
                "MindSpeed mindspeed/features_manager/moe/moe_alltoall_overlap.py"),
    "M06": Rule("error", "moe-tp-extend-ep without what it needs",
                "MindSpeed mindspeed/features_manager/moe/tp_extend_ep.py:24"),
    "M07": Rule("error", "shared experts given by number and by width"),
    "M08": Rule("error", "moe-fb-overlap without what it needs",
                "MindSpeed mindspeed/features_manager/moe/fb_overlap.py"),
    "M09": Rule("warning", "no width of the experts: that of dense layers"),
    "M10": Rule("error", "gemm-gradient-accumulation-fusion needs grouped GEMM",
                "MindSpeed mindspeed/features_manager/moe/gmm.py:19"),
    "M11": Rule("info", "gradient accumulation fused for experts, not for dense layers"),
    "M12": Rule("warning", "fixed routing: the loss means nothing"),
    # -- options together --------------------------------------------------------------------
    "C01": Rule("error", "two options that upstream refuses together"),
    "C02": Rule("error", "an option without another one that it requires"),
    "C03": Rule("error", "FP8 needs the transformer_engine implementation",
                "MindSpeed mindspeed/features_manager/megatron_basic/transformer_engine_basic.py"),
    # -- environment -------------------------------------------------------------------------
    "E01": Rule("error", "TRAINING_BACKEND is not mindspeed_fsdp: another backend would run",
                "MindSpeed-LLM train_fsdp2.py"),
    "E02": Rule("error", "a value that the variable does not take"),
    "E03": Rule("error", "settings that exclude each other"),
    "E04": Rule("warning", "a value that upstream advises against, or that has no effect"),
    "E05": Rule("error", "CUDA_DEVICE_MAX_CONNECTIONS must be 1 with TP or CP above 1",
                f"{_ARGUMENTS}:779"),
    "E06": Rule("info", "no effect from TorchNPU 7.1.0 on"),
    # -- names and published list ------------------------------------------------------------
    "N01": Rule("warning", "the file is named after another sequence length"),
    "N02": Rule("warning", "the file is named after another number of NPUs"),
    "N03": Rule("warning", "the product in the name does not go with the NPUs of a node"),
    "N04": Rule("error", "published cluster and script differ"),
    "N05": Rule("error", "published sequence length and script differ"),
    "N06": Rule("warning", "published backend and script differ"),
    "N07": Rule("warning", "the published link does not lead to the script"),
    "N08": Rule("warning", "a published row with fine-tuning scripts only"),
    "N09": Rule("warning", "parameters and published size differ by more than 12%"),
    "N10": Rule("info", "maintained to master, but read from a release branch"),
}  # fmt: skip
