"""Finding, creating and continuing campaigns, with the phases replaced by nothing."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from certify.campaign import session as session_module
from certify.campaign.progress import Progress
from certify.campaign.request import Request, load_scale
from certify.campaign.session import Session
from certify.campaign.state import read_state, write_state
from certify.errors import InfrastructureError, UsageError
from certify.recipes.load import load_model, load_recipe
from certify.recipes.scale import scale_down
from certify.store import open_store

pytest.importorskip("sqlalchemy")


@pytest.fixture
def request_() -> Request:
    recipe = dict(load_recipe("qwen3-235b-a22b-4k-fsdp2").raw)
    public = dict(load_model("qwen3-235b-a22b").config)
    scale = load_scale("tiny")
    return Request(
        recipe_id="qwen3-235b-a22b-4k-fsdp2",
        backend="fsdp2",
        stage="pretrain",
        scale_name="tiny",
        device="cpu",
        recipe=recipe,
        public=public,
        scale=scale,
        scaled=scale_down(recipe, public, scale),
        data_path=None,
        tokenizer_path=None,
        phases=("prepare", "candidate"),
        fault=None,
        versions={"torch": "1"},
        command=("certify", "run", "qwen3-235b"),
    )


class FakeDriver:
    """Stands for the phases: interrupts, fails or ends as told, and remembers what it was given."""

    behave: Any = None
    seen: list[str] = []  # noqa: RUF012

    def __init__(self, request: Request, layout: Any, state: Any, store: Any, *_: Any) -> None:
        self.layout, self.state, self.store = layout, state, store

    def run(self) -> None:
        type(self).seen.append(self.state.id)
        if self.behave is not None:
            status = "interrupted" if self.behave is KeyboardInterrupt else "failed"
            state = self.state.with_phase("prepare", status=status)
            write_state(dataclasses.replace(state, status=status), self.layout.state)
            if status == "interrupted":
                self.store.mark_interrupted(self.state.id)
            else:
                self.store.fail_campaign(self.state.id, "broken")
            raise self.behave
        write_state(dataclasses.replace(self.state, status="completed"), self.layout.state)
        self.store.close_campaign(self.state.id)


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDriver.behave, FakeDriver.seen = None, []
    monkeypatch.setattr(session_module, "Driver", FakeDriver)
    monkeypatch.setattr(session_module, "write_recipe", lambda driver: None)


def make(request: Request, home: Path, out: Path | None = None, fresh: bool = False) -> Session:
    return Session(request, home, out, fresh, Progress(quiet=True))


def test_all_runs_are_reserved_before_anything_is_launched(
    request_: Request, tmp_path: Path
) -> None:
    made = make(request_, tmp_path)
    made.run()
    assert made.layout is not None
    identity = read_state(made.layout.state).id
    with open_store(home=tmp_path) as store:
        assert {r.phase for r in store.runs(identity)} == {"prepare", "candidate"}
        assert store.get_campaign(identity).status == "completed"


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, InfrastructureError("x")])
def test_the_same_request_continues_what_was_stopped(
    request_: Request, tmp_path: Path, stopped: Any
) -> None:
    FakeDriver.behave = stopped
    with pytest.raises((KeyboardInterrupt, InfrastructureError)):
        make(request_, tmp_path).run()
    FakeDriver.behave = None
    make(request_, tmp_path).run()
    assert len(set(FakeDriver.seen)) == 1
    make(request_, tmp_path).run()  # and a finished one is not continued
    assert len(set(FakeDriver.seen)) == 2


def test_another_request_and_fresh_start_anew(request_: Request, tmp_path: Path) -> None:
    FakeDriver.behave = KeyboardInterrupt
    other = dataclasses.replace(request_, versions={"torch": "2"})
    for wanted, fresh in ((request_, False), (other, False), (request_, True)):
        with pytest.raises(KeyboardInterrupt):
            make(wanted, tmp_path, fresh=fresh).run()
    assert len(set(FakeDriver.seen)) == 3


def test_out_is_continued_only_by_its_own_request(request_: Request, tmp_path: Path) -> None:
    FakeDriver.behave = KeyboardInterrupt
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        make(request_, tmp_path, out).run()
    other = dataclasses.replace(request_, versions={"torch": "2"})
    with pytest.raises(UsageError, match="the folder holds a campaign"):
        make(other, tmp_path, out).run()
    FakeDriver.behave = None
    make(request_, tmp_path, out).run()
    assert len(set(FakeDriver.seen)) == 1
    with pytest.raises(UsageError, match="a finished campaign"):
        make(request_, tmp_path, out).run()


def test_of_several_calls_on_one_folder_one_wins_and_no_row_is_orphaned(
    request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, errors = threading.Event(), []

    class Slow(FakeDriver):
        def run(self) -> None:
            gate.wait(10)
            super().run()

    monkeypatch.setattr(session_module, "Driver", Slow)
    with open_store(home=tmp_path):
        pass  # the schema is there before the race begins

    def call() -> None:
        try:
            make(request_, tmp_path, tmp_path / "out").run()
        except (InfrastructureError, UsageError) as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(errors) < 2:
        if not any(t.is_alive() for t in threads):
            break
    gate.set()
    for thread in threads:
        thread.join()
    assert len(errors) == 2
    with open_store(home=tmp_path) as store:
        assert [c.status for c in store.campaigns()] == ["completed"]


def test_a_damaged_preparation_is_made_again(request_: Request, tmp_path: Path) -> None:
    FakeDriver.behave = KeyboardInterrupt
    first = make(request_, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    assert first.layout is not None
    prepared = first.layout.prepared
    prepared.mkdir()
    (prepared / "samples.npy").write_bytes(b"x")
    import hashlib

    files = {"samples.npy": hashlib.sha256(b"x").hexdigest()}
    (prepared / "prepared.json").write_text(json.dumps({"files": files}))
    state = read_state(first.layout.state).with_phase("prepare", status="completed")
    write_state(state, first.layout.state)
    from certify.campaign.work import prepared_is_whole

    assert prepared_is_whole(first.layout)
    (prepared / "samples.npy").write_bytes(b"y")
    assert not prepared_is_whole(first.layout)
    seen: list[str] = []

    class Look(FakeDriver):
        def run(self) -> None:
            seen.append(self.state.phase("prepare").status)
            super().run()

    session_module.Driver = Look  # type: ignore[misc]
    Look.behave = None
    make(request_, tmp_path).run()
    assert seen == ["pending"]
