"""first-update: the direction of the first step, class by class."""

from __future__ import annotations

from typing import Any

import pytest

from tests.criteria.gates import Row, expect

GATE = "first-update"


def to(cls: str | None = None, **values: Any) -> Any:
    return lambda c: c.compared(GATE, cls, **values)


ROWS: list[Row] = [
    (to(), "PASS", "points the same way in 6 classes"),
    (to("norm", cosine=0.999), "PASS", "norm differs most"),
    # Norm weights that are decayed: the update of a weight of 1 gains a tenth of its size.
    (to("norm", cosine=0.99504), "FAIL", "norm: cosine of the first update 0.99504"),
    (to("norm", cosine=float("nan")), "FAIL", "nan"),
    (to("router", cosine=None), "INCONCLUSIVE", "router: a side did not change at all"),
    (to(n_without_initial=1), "FAIL", "no initial value"),
    (lambda c: c.drop_run("compare"), "INCONCLUSIVE", "no comparison of the first update"),
]


@pytest.mark.parametrize("row", ROWS)
def test_table(row: Row) -> None:
    expect(GATE, row)
