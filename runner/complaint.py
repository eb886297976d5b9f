"""How a process of ours says on stderr why it stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certify.errors import CertifyError


def complain(error: CertifyError) -> None:
    """Print an error so that its ``error:`` begins a line of the log, whatever stands before it.

    Libraries leave prompts and progress bars without a final newline in the same log, and ranks
    share it: hence the newline in front, and everything in one write.
    """
    sys.stdout.flush()
    sys.stderr.write(f"\n{error}\n")
    sys.stderr.flush()
