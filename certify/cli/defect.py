"""What is printed when certify itself breaks: no traceback on the screen, but none lost either."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback

from certify.errors import EXIT_INTERNAL


def report_defect(error: Exception, command: str, as_json: bool) -> None:
    """Write the traceback to a temporary file and name it; with ``as_json`` also on stdout."""
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="certify-defect-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        where = file.name
    except OSError:
        where = "the temporary folder is not writable"
    what = f"internal error in certify: {type(error).__name__}: {error}"
    if as_json:
        document = {
            "schema": f"certify.{command}/1",
            "error": {
                "what": what,
                "where": where,
                "expected": None,
                "hint": "CERTIFY_DEBUG=1 shows the traceback",
                "exit_code": EXIT_INTERNAL,
            },
        }
        print(json.dumps(document, ensure_ascii=False))
    print(
        f"error: {what}\n  where: {where}\n\nhint: CERTIFY_DEBUG=1 shows the traceback",
        file=sys.stderr,
    )
