"""Error types, named by what the caller must do, and the exit codes of the command line.

Every error a user can meet says what was found, where, what was expected and one thing to do.
Nothing else may leave the command line as a failure: anything that is not a `CertifyError`
is a defect of ours and ends with exit code 70.
"""

from __future__ import annotations

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_USAGE = 2
EXIT_CANNOT_JUDGE = 3
EXIT_INFRASTRUCTURE = 4
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130

EXIT_CODES = {
    EXIT_PASS: "pass (reference, compatible)",
    EXIT_FAIL: "fail (incompatible)",
    EXIT_USAGE: "usage: the command line or an input file is wrong",
    EXIT_CANNOT_JUDGE: "cannot judge (inconclusive, unverified, unknown)",
    EXIT_INFRASTRUCTURE: "infrastructure: a launch failed, no database, a full disk",
    EXIT_INTERNAL: "internal error of certify",
    EXIT_INTERRUPTED: "interrupted",
}


class CertifyError(Exception):
    """A failure explained to the user.

    what: what was found, one sentence without a final full stop.
    where: file, line, key or option at fault.
    expected: what would have been right.
    hint: one command to run or one change to make.
    """

    exit_code = EXIT_INTERNAL

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        """The message as printed on stderr: facts first, the hint after a blank line."""
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)

    def as_json(self) -> dict[str, str | int | None]:
        """The same facts for ``--json``: keys what, where, expected, hint, exit_code."""
        return {
            "what": self.what,
            "where": self.where,
            "expected": self.expected,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


class UsageError(CertifyError):
    """The command line or an input file is wrong: correct it and call again (exit 2)."""

    exit_code = EXIT_USAGE


class CannotJudgeError(CertifyError):
    """The evidence does not carry a verdict: supply what is missing (exit 3)."""

    exit_code = EXIT_CANNOT_JUDGE


class InfrastructureError(CertifyError):
    """Something around us failed: launch, database, disk, network (exit 4)."""

    exit_code = EXIT_INFRASTRUCTURE
