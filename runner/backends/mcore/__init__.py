"""The mcore backend: Megatron-Core's own model, loss, schedule and optimizer.

On one rank it is the Megatron-LM reference. It shares data and records with the other backends
and nothing else, so that no fault of ours can be on both sides and cancel out.
"""

from runner.backends.mcore.run import run

__all__ = ["run"]
