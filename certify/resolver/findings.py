"""What a check answers: findings by rule, what is missing, and the verdict. Words come later."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field

    from certify.resolver.model import Reason, Resolution
else:
    from certify.light import dataclass, field

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)

REFERENCE = "reference"
COMPATIBLE = "compatible"
UNVERIFIED = "unverified"
INCOMPATIBLE = "incompatible"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, doubtful or worth knowing.

    rule: id (a row of matrices/rules.tsv); severity: error | warning | info; component:
    what has to change; text: key of the message catalogue; values: what its sentences name;
    source: document, table and date, or the place of the sighting; reasons: the chain of claims.
    """

    rule: str
    severity: str
    component: str
    text: str
    values: dict[str, str] = field(default_factory=dict)
    source: str = ""
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Missing:
    """Something the check could not see. component: what; text: key of the catalogue (its
    sentence says why it matters); command: what to run and paste."""

    component: str
    text: str
    command: str


@dataclass(frozen=True)
class Verdict:
    """verdict: one of the five words; findings: errors first; versions: what was judged;
    resolution: the smallest change, None when nothing has to change or none was sought."""

    verdict: str
    findings: tuple[Finding, ...] = ()
    missing: tuple[Missing, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    resolution: Resolution | None = None
