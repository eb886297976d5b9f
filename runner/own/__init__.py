"""Model classes of our own, for families that transformers has no causal language model of.

One file a family: a configuration class, a model class with the interface of transformers, and
the difference between published names and its own. `OWN` maps a model type to that file; what is
registered there is found by transformers' Auto classes like every other family.
"""

from __future__ import annotations

from importlib import import_module

# model_type -> module with register().
OWN = {"step3p5": "runner.own.step3p5"}


def register(model_type: str) -> None:
    """Make an own class known to transformers. Nothing happens for a stock family.

    Raises UsageError when this transformers is too old for it.
    """
    if model_type in OWN:
        import_module(OWN[model_type]).register()
