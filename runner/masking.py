"""``python -m runner.masking MASKING.json``: leave labels of prepared samples out of the loss.

For the selftest: samples of pretraining with a mask as fine-tuning has it. Very different numbers
of labels are left, in some samples one only, so that a mean over the wrong tokens shows. The
preparation's own document then says what every global batch supervises.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from certify.records import batch_digest
from certify.runspec import DataSpec
from runner.command import run_file
from runner.data.batches import Batches

FILE = "mask.npy"


def _run(path: Path) -> None:
    task: dict[str, Any] = json.loads(path.read_text("utf-8"))
    folder = Path(task["prepared"])
    document = json.loads((folder / "prepared.json").read_text("utf-8"))
    shape = (document["n_samples"], task["seq_length"])
    draw = np.random.default_rng(task["seed"])
    # A prompt of its own length in every sample; of every fifth one label is left.
    prompts = draw.integers(0, shape[1] * 3 // 4, shape[0])
    prompts[::5] = shape[1] - 1
    mask = (np.arange(shape[1])[None] >= prompts[:, None]).astype(np.uint8)
    np.save(folder / FILE, mask)
    data = DataSpec(
        samples_file=str(folder / "samples.npy"),
        n_samples=shape[0],
        seq_length=shape[1],
        vocab_size=document["vocab_size"],
        shuffle_seed=task["shuffle_seed"],
        mask_file=str(folder / FILE),
    )
    batches = Batches(data, task["global_batch"])
    for index, said in enumerate(document["batches"]):
        batch = batches.read(index, 0, 1)
        said["supervised_tokens"] = batch.supervised_tokens
        said["mask_sha256"] = batch_digest(batch.mask_digests())
    (folder / "prepared.json").write_text(json.dumps(document), "utf-8")


def main(arguments: list[str]) -> int:
    """Mask one preparation; returns the exit code (`runner.command`)."""
    return run_file("runner.masking", arguments, _run, "MASKING.json")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
