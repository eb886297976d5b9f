"""Writes campaigns into a store until it is done or killed: ``writer.py DATABASE NAME COUNT``.

Prints the id of each campaign once it is stored with its three runs, so that whoever kills this
process knows what must be found.
"""

from __future__ import annotations

import os
import sys

from certify.store import open_store
from tests.store.conftest import new_campaign


def main(database: str, name: str, count: int) -> None:
    with open_store(database) as store:
        print("ready", flush=True)
        for number in range(count):
            campaign_id = f"{name}-{number}"
            store.create_campaign(new_campaign(campaign_id, key=name))
            store.reserve_runs(
                campaign_id, [(f"{campaign_id}-{i}", f"phase-{i}", "candidate") for i in range(3)]
            )
            store.start_run(f"{campaign_id}-0", os.getpid())
            print(campaign_id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
