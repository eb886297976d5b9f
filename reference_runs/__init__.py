"""References: what the loss should have been, and how that is known.

Two kinds, both independent of the code that is certified.

The Megatron-LM reference is live: `runner.backends.mcore` trains Megatron-Core's own GPTModel
with its own loss, schedule, optimizer and learning-rate schedule, on one rank, from the same
initial weights on the same batches. ``certify run`` starts it as ``python -m runner SPEC.json``
with ``role`` reference and ``backend`` mcore; its run folder is the trajectory. On a CPU that
takes the patches listed in `runner.backends.mcore.cpu`; they are named in its Environment record.

`reference_runs.oracle` is the yardstick of rounding: the published mathematics in float64. A
forward pass is compared with it, so that "as near as the reference" has a number.
"""
