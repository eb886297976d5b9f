"""What a check of a checkpoint folder found."""

from __future__ import annotations

from dataclasses import dataclass, field

# What each rule is about; the ids are an interface (--json).
RULES = {
    "W01": "shards and the files present do not agree",
    "W02": "a name leads out of the folder, or is not a plain file",
    "W03": "a shard is damaged or truncated",
    "W04": "index and shards do not agree on where a tensor lies",
    "W05": "tensors missing for this configuration",
    "W06": "tensors that this configuration does not have",
    "W07": "a shape that contradicts the configuration",
    "W08": "a number type that contradicts the configuration",
    "W09": "the configuration cannot be used",
    "W10": "tokenizer files missing or unreadable",
    "W11": "the tokenizer has more tokens than the embedding has rows",
    "W12": "a file differs from its published digest",
    "W13": "the configuration is not that of the recipe's model",
    "W14": "the index is unreadable or contradicts itself",
}
ERROR, NOTE = "error", "note"
_NAMED = 3
_LONGEST = 240


@dataclass(frozen=True)
class Finding:
    """One finding. rule: a key of `RULES`; severity: ``error``, or ``note`` which fails nothing;
    where: file, key or tensor; hint: one thing to do, empty where there is none."""

    rule: str
    severity: str
    where: str
    found: str
    expected: str = ""
    hint: str = ""


@dataclass
class Findings:
    """Collects findings in the order of the checks."""

    items: list[Finding] = field(default_factory=list)

    def error(self, rule: str, where: str, found: str, expected: str = "", hint: str = "") -> None:
        self.items.append(Finding(rule, ERROR, where, found, expected, hint))

    def note(self, rule: str, where: str, found: str, expected: str = "") -> None:
        self.items.append(Finding(rule, NOTE, where, found, expected))

    @property
    def errors(self) -> int:
        """How many findings fail the check."""
        return sum(one.severity == ERROR for one in self.items)


def named(names: list[str]) -> str:
    """The first few of many names."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(shown, names[:_NAMED])) + more


def shown(text: str) -> str:
    """A name from a file as it may be printed: no control characters, not endless."""
    safe = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text[:_LONGEST])
    return safe + ("..." if len(text) > _LONGEST else "")
