"""Scripts in upstream's manner, written for these tests."""

from __future__ import annotations

MEGATRON = """#!/bin/bash
set -o pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1
export HCCL_CONNECT_TIMEOUT=1800

NPUS_PER_NODE=8
NNODES=2
WORLD_SIZE=$(($NPUS_PER_NODE*$NNODES))
DATA_PATH="your data path"

TP=2
PP=2
SEQ=4096
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \\
    --nnodes ${NNODES} \\
    --node_rank 0
"
MODEL_ARGS="
    --use-mcore-models \\
    --num-layers 8 \\
    --hidden-size 512 \\
    --ffn-hidden-size 1024 \\
    --num-attention-heads 8 \\
    --group-query-attention \\
    --num-query-groups 4 \\
    --padded-vocab-size 32000 \\
    --max-position-embeddings ${SEQ} \\
    --position-embedding-type rope \\
    --normalization RMSNorm \\
    --swiglu \\
    --tensor-model-parallel-size ${TP} \\
    --pipeline-model-parallel-size ${PP} \\
    --sequence-parallel
"
TRAIN_ARGS="
    --micro-batch-size 1 \\
    --global-batch-size 16 \\
    --seq-length ${SEQ} \\
    --train-iters 100 \\
    --lr 1.0e-4 \\
    --min-lr 1.0e-5 \\
    --lr-decay-style cosine \\
    --lr-warmup-fraction 0.01 \\
    --weight-decay 0.1 \\
    --adam-beta1 0.9 \\
    --adam-beta2 0.95 \\
    --clip-grad 1.0 \\
    --init-method-std 0.02 \\
    --seed 42 \\
    --save-interval 50 \\
    --bf16 \\
    --use-distributed-optimizer
"
mkdir -p logs
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \\
    $MODEL_ARGS \\
    $TRAIN_ARGS \\
    --data-path $DATA_PATH \\
    | tee logs/train_small.log
"""

MOE_ARGS = """
MOE_ARGS="
    --num-experts 8 \\
    --moe-router-topk 2 \\
    --moe-ffn-hidden-size 256 \\
    --moe-grouped-gemm \\
    --moe-router-load-balancing-type aux_loss \\
    --moe-aux-loss-coeff 0.001 \\
    --moe-token-dispatcher-type alltoall_seq \\
    --expert-model-parallel-size 4 \\
    --expert-tensor-parallel-size 1
"
"""

FSDP2_ENV = """export TRAINING_BACKEND=mindspeed_fsdp
export HCCL_CONNECT_TIMEOUT=1800
"""

FSDP2 = """#!/bin/bash
set -o pipefail
source examples/fsdp2/env_config.sh
NPUS_PER_NODE=16
NNODES=1
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \\
    --nnodes $NNODES
"
mkdir -p logs
torchrun $DISTRIBUTED_ARGS train_fsdp2.py examples/fsdp2/small/pretrain_small_4k_fsdp2_A3.yaml \\
    --model.model_name_or_path ./weights/ \\
    --data.dataset '{"file_name": "./train.parquet"}' \\
    --parallel.fsdp_size 16 \\
    --parallel.ep_size 4 \\
    --parallel.ep_fsdp_size 4 \\
    --training.per_device_train_batch_size 2 \\
    --training.output_dir ./output \\
    --optimization.moe_grouped_gemm True \\
    | tee logs/train_small.log
"""

FSDP2_YAML = """model:
  model_id: qwen3_moe
  trust_remote_code: True
data:
  template: qwen3
  cutoff_len: 4096
parallel:
  ep_dispatcher: eager
  reduce_dtype: bf16
  fsdp_modules:
    - model.layers.{*}
    - lm_head
training:
  stage: pt
  lr: 1e-05
  num_train_epochs: 1000
  max_steps: 2000
  log_throughput: True
  save_steps: 500
"""
