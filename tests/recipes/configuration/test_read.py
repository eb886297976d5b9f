"""A configuration is accepted as it is, or refused with the line at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.errors import UsageError
from certify.recipes.configuration import is_configuration, notes_of, read_configuration
from certify.recipes.configuration.read import defaults
from certify.recipes.configuration.recipe import stage_of_configuration
from certify.recipes.configuration.standing import (
    SECRET,
    recorded,
    refuse_unsupported,
    standings,
)
from certify.recipes.importers.fsdp2_arguments import arguments, convert
from tests.recipes.configuration.quick_start import PRETRAIN, TUNE, write

if TYPE_CHECKING:
    from pathlib import Path


def line_of(text: str, start: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if line.strip().startswith(start))


def refused(path: Path, *overrides: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        refuse_unsupported(read_configuration(path, overrides))
    return caught.value


@pytest.mark.parametrize(("text", "stage"), [(PRETRAIN, "pretrain"), (TUNE, "sft")])
def test_the_quick_start_is_accepted_as_it_is(tmp_path: Path, text: str, stage: str) -> None:
    found = read_configuration(write(tmp_path, text))
    refuse_unsupported(found)
    assert stage_of_configuration(found) == stage
    assert found.value("training.lr") == 1e-5
    assert found.value("training.adam_beta2") == 0.95  # the backend's own default
    assert found.value("parallel.fsdp_modules")[0] == "model.layers.{*}"
    assert found.value("training.disable_shuffling") is (stage == "sft")


def test_overrides_win_in_both_forms(tmp_path: Path) -> None:
    path = write(tmp_path)
    words = ("training.lr=2e-5", "--training.seed=7", "parallel.fsdp_modules=[model.h.{*}, head]")
    found = read_configuration(path, words)
    assert (found.value("training.lr"), found.value("training.seed")) == (2e-5, 7)
    assert found.value("parallel.fsdp_modules") == ["model.h.{*}", "head"]
    assert found.place("training.lr").startswith("<command line>")
    assert found.place("training.optimizer").endswith(f":{line_of(PRETRAIN, 'optimizer')}")


@pytest.mark.parametrize(
    ("old", "new", "message", "expected"),
    [
        (
            "  lr: 1e-05",
            "  learning_rate: 1e-05",
            "unknown key 'training.learning_rate'",
            "'training",
        ),
        ("  cutoff_len: 4096", "  cutof_len: 4096", "'data.cutof_len'", "'data.cutoff_len'"),
        ("  stage: pt", "  use_flash_attn: True", "unknown key", "'optimization.use_flash_attn'?"),
        ("training:", "trainning:", "unknown key 'trainning.stage'", "section 'training'"),
        ("  optimizer: adamw", "  optimizer: adam", "none of the choices", None),
        ("  fsdp_size: 8", "  fsdp_size: eight", "of another type", None),
        ("  seed: 42", "  seed: 42\n  seed: 43", "training.seed is given twice", None),
        ("  tp_size: 1", "  tp_size: 2", "tp_size above 1", None),
        ("  fsdp_size: 8", "  fsdp_size: 0", "below 1", None),
        ("  lr: 1e-05", "  lr: 0", "training.lr 0", "above 0"),
        ("  lr: 1e-05", "  lr: 1e-07", "training.min_lr 1e-06", "at most lr"),
        ("  max_steps: 2000", "  warmup_ratio: 1.5", "training.warmup_ratio 1.5", "from 0 to 1"),
        ("  template: qwen3", "  streaming: True", "data.max_samples 100000", "not both"),
        ("  template: qwen3", "  val_size: 0.1\n  eval_dataset: a", "val_size", "not both"),
        ("  template: qwen3", "  interleave_probs: '1'", "concat", "mix_strategy interleave"),
        (
            "  template: qwen3",
            "  reset_attention_mask: True",
            "append_eod False",
            "append_eod True",
        ),
        ("  template: qwen3", "  neat_packing: 3", "of another type", None),
        ("  stage: pt", "  resume_from_checkpoint: x", "cannot be followed", "None"),
        ("  trust_remote_code: False", "  quant_recipe_name: mxfp8", "cannot be followed", "None"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, message: str, expected: str | None
) -> None:
    text = PRETRAIN.replace(old, new)
    assert text != PRETRAIN
    path = write(tmp_path, text)
    error = refused(path)
    assert message in error.what
    assert expected is None or expected in str(error.expected)
    assert error.where is not None
    file, _, line = error.where.rpartition(":")
    assert file == str(path)
    at = text.splitlines()[int(line) - 1]
    # The line shown is one that was changed, or the other one of a pair.
    assert at.strip() in (
        *(n.strip() for n in new.splitlines()),
        "max_samples: 100000",
        "stage: pt",
    )


@pytest.mark.parametrize(
    ("section", "name", "message"),
    [
        ("optimization", "use_ascend_mhc: True", "deepseek_v4"),
        ("optimization", "use_sparse_flash_attn: yes", "deepseek_v4 or glm5x"),
        ("optimization", "use_triton_gdn: 1\n  use_flash_gdn: 1", "not both"),
        ("optimization", "fix_router: True", "False, the backend's default"),
        ("inference", "max_new_tokens: 3", "sections model, data"),
    ],
)
def test_options_of_other_models_and_programs(
    tmp_path: Path, section: str, name: str, message: str
) -> None:
    path = write(tmp_path, f"{PRETRAIN}\n{section}:\n  {name}\n")
    assert message in str(refused(path).expected)


def test_a_tab_is_one_clear_error(tmp_path: Path) -> None:
    text = PRETRAIN.replace("  stage: pt", "\tstage: pt")
    error = refused(write(tmp_path, text))
    assert error.what == "a tab indents the line"
    assert str(error.where).endswith(f":{line_of(text, 'stage: pt')}")
    later = PRETRAIN.replace("    file_name:", "  \t  file_name:")
    assert "a tab indents the line" in refused(write(tmp_path, later)).what


def test_words_that_override_nothing(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert "overrides nothing" in refused(path, "lr=3").what
    assert "unknown key 'training.lrr'" in refused(path, "training.lrr=3").what
    assert refused(path, "model.model_name_or_path=").expected is not None
    assert is_configuration("a/b.YAML")
    assert not is_configuration("qwen3-8b")


def test_every_argument_has_a_standing_and_a_default_of_its_type() -> None:
    assert set(standings()) == set(arguments())
    words = {"used", "scaled", "neutral", "npu", "tuning", "absent", "fixed", "foreign"}
    assert {one.standing for one in standings().values()} == words
    for name, default in defaults().items():
        if default is not None:
            assert convert(arguments()[name], default) == default, name


def test_what_is_not_in_force_is_said_with_its_line(tmp_path: Path) -> None:
    text = PRETRAIN + "optimization:\n  use_flash_attn: True\n  use_fused_rmsnorm: False\n"
    found = read_configuration(write(tmp_path, text))
    notes = notes_of(found, "cpu", "pretrain")
    flash = [n for n in notes if "NPU only" in n]
    assert flash == [
        "not in force on cpu (NPU only): optimization.use_flash_attn "
        f"(line {line_of(text, 'use_flash_attn')})"
    ]
    assert any("data.template" in n and "fine-tuning" in n for n in notes)
    assert any("training.max_steps" in n and "scale" in n for n in notes)
    assert not any("NPU only" in n for n in notes_of(found, "npu", "pretrain"))
    assert not any("data.template" in n for n in notes_of(found, "cpu", "sft"))


def test_secrets_are_neither_shown_nor_recorded(tmp_path: Path) -> None:
    text = PRETRAIN.replace("  train_from", "  hf_hub_token: s3cret\n  train_from")
    found = read_configuration(write(tmp_path, text))
    assert SECRET[0] in found.values
    assert "s3cret" not in str(recorded(found)) + str(notes_of(found, "cpu", "pretrain"))
    assert recorded(found)["training.lr"]["value"] == 1e-5
