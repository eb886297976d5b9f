"""Which class a parameter belongs to, by its published name."""

from __future__ import annotations

import re

# The first pattern that is found in the name decides, so that narrower ones stand first.
_TABLE = (
    ("norm", r"norm"),
    ("head", r"(^|\.)(lm_head|output_layer|embed_out)\."),
    ("embedding", r"(^|\.)(embed_tokens|word_embeddings|wte|wpe|tok_embeddings)\."),
    ("shared-expert", r"\.shared_expert"),
    ("expert", r"\.experts\."),
    ("router", r"\.(gate|router)\.|\.wg\.|e_score_correction_bias"),
    ("attention", r"\.(self_attn|self_attention|attn|attention|linear_attn|mixer)\."),
    ("dense-mlp", r"\.(mlp|feed_forward|ffn)\."),
)
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _TABLE)

CLASSES = (*(name for name, _ in _TABLE), "other")


def parameter_class(name: str) -> str:
    """One of CLASSES; ``other`` for a name that no pattern knows."""
    for cls, pattern in _PATTERNS:
        if pattern.search(name):
            return cls
    return "other"
