"""Configurations in the shape of MindSpeed-LLM's quick start, with files of our own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRETRAIN = """\
model:
  model_name_or_path: ./weights/small/     # the folder with config.json
  trust_remote_code: False
  train_from_scratch: False

data:
  dataset:
    file_name: ./texts/stories.jsonl
  template: qwen3
  cutoff_len: 4096
  max_samples: 100000
  overwrite_cache: True
  preprocessing_num_workers: 1
  data_manager_type: mg

parallel:
  fsdp_size: 8
  fsdp_modules:
    - model.layers.{*}
    - model.embed_tokens
    - lm_head
  tp_size: 1
  recompute: True
  recompute_modules:
    - model.layers.{*}

training:
  stage: pt
  per_device_train_batch_size: 1
  gradient_accumulation_steps: 1
  dataloader_num_workers: 4
  seed: 42
  dataloader_drop_last: True
  output_dir: ./results
  optimizer: adamw
  lr: 1e-05
  max_steps: 2000
  save_steps: 500
  logging_steps: 1
"""
TUNE = """\
model:
  model_name_or_path: ./weights/small/
  trust_remote_code: False

data:
  dataset:
      file_name: "texts/instructions.json"
      formatting: "alpaca"
  template: qwen3
  cutoff_len: 4096
  max_samples: 100000

parallel:
  fsdp_size: 8
  fsdp_modules:
    - model.layers.{*}
    - model.embed_tokens
    - lm_head
  recompute: True
  recompute_modules:
    - model.layers.{*}

training:
  per_device_train_batch_size: 1
  disable_shuffling: 1
  seed: 42
  output_dir: ./results
  optimizer: adamw
  lr: 1e-05
  weight_decay: 0.01
  max_grad_norm: 1.0
  lr_scheduler_type: cosine
  warmup_ratio: 0.0
  min_lr: 1e-06
  max_steps: 2000
  save_steps: 500
  logging_steps: 1
"""
SMALL = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


def write(folder: Path, text: str = PRETRAIN) -> Path:
    """The YAML in a folder that holds what it names; run with that folder as the current one."""
    (folder / "weights" / "small").mkdir(parents=True, exist_ok=True)
    (folder / "weights" / "small" / "config.json").write_text(json.dumps(SMALL))
    texts = folder / "texts"
    texts.mkdir(exist_ok=True)
    (texts / "stories.jsonl").write_text('{"text": "one two three"}\n' * 4)
    record = {"instruction": "Say one.", "input": "", "output": "one"}
    (texts / "instructions.json").write_text(json.dumps([record] * 4))
    info = {
        "stories": {"file_name": "stories.jsonl", "columns": {"prompt": "text"}},
        "tasks": {"file_name": "instructions.json", "formatting": "alpaca"},
        "far": {"hf_hub_url": "somebody/something"},
    }
    (texts / "dataset_info.json").write_text(json.dumps(info))
    path = folder / "small_4k_fsdp2.yaml"
    path.write_text(text)
    return path
