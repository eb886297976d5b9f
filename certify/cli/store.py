"""Look after the database of results.

  certify store info             where it is, its schema, how many campaigns it holds
  certify store info --json      the same for machines, with the interrupted campaigns
  certify store upgrade          create it or bring its schema up to date

The store is an SQLite file in the home folder (--home, CERTIFY_HOME), or what CERTIFY_DATABASE
names: a path, or a URL such as postgresql://user:password@host/name.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_PASS
from certify.home import database_location
from certify.store import require_store

if TYPE_CHECKING:
    import argparse

    from certify.store.database import Database

SCHEMA = "certify.store/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``certify store``."""
    parser.add_argument("action", choices=["info", "upgrade"])
    parser.add_argument("--home", metavar="DIR", help="folder that holds the state of certify")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Returns 0; failures of the database are errors with exit code 4."""
    require_store()
    from certify.store.database import Database

    database = Database(database_location(args.home))
    try:
        document = _upgrade(database) if args.action == "upgrade" else _info(database)
    finally:
        database.close()
    if args.json:
        print(json.dumps(document, ensure_ascii=False))
    else:
        print("\n".join(_lines(document)))
    return EXIT_PASS


def _upgrade(database: Database) -> dict[str, Any]:
    from certify.store.migrate import upgrade

    before, after = upgrade(database)
    return {
        "schema": SCHEMA,
        "action": "upgrade",
        "database": database.where,
        "revision_before": before,
        "revision": after,
    }


def _info(database: Database) -> dict[str, Any]:
    """What `info` shows. Neither creates a database nor changes one."""
    from certify.store.campaigns import Store
    from certify.store.migrate import HEAD, current_revision

    document: dict[str, Any] = {
        "schema": SCHEMA,
        "action": "info",
        "database": database.where,
        "filesystem": database.filesystem or None,
        "exists": database.path is None or database.path.exists(),
        "revision": None,
        "revision_expected": HEAD,
        "rows": {},
        "interrupted": [],
    }
    if document["exists"]:
        document["revision"] = database.read(lambda s: current_revision(s.connection()))
    if document["revision"] == HEAD:
        store = Store(database)
        document["rows"] = store.counts()
        document["interrupted"] = [
            dataclasses.asdict(campaign) for campaign in store.campaigns(status="interrupted")
        ]
    return document


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [f"database    {document['database']}"]
    if document["action"] == "upgrade":
        before = document["revision_before"]
        if before == document["revision"]:
            return [*lines, f"schema      {before}, already up to date"]
        return [*lines, f"schema      {before or 'none'} -> {document['revision']}"]
    if document["filesystem"]:
        lines.append(f"filesystem  {document['filesystem']}")
    if not document["exists"]:
        return [*lines, "", "hint: it does not exist yet; certify run creates it"]
    lines.append(f"schema      {document['revision'] or 'none'}")
    if document["revision"] != document["revision_expected"]:
        wanted = document["revision_expected"]
        return [*lines, "", f"hint: certify store upgrade brings the schema to {wanted}"]
    lines += [f"{name:<23} {number:>6}" for name, number in document["rows"].items()]
    for campaign in document["interrupted"]:
        lines.append(f"interrupted: {campaign['id']} in {campaign['folder']}")
    return lines
