"""Every story comes out right, through the installed command; one that does not is not told as if it had."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from mooring.cli.demo import STORIES, demo
from mooring.demo.stage import Stage
from tests.cli.command import mooring


def told(*story: str) -> str:
    done = mooring("demo", *story)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("story", [story for story in STORIES if story != "tour"])
def test_it_comes_out_right(story: str) -> None:
    assert "✓" in told(story)


def test_a_story_that_goes_wrong_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "pass_time", lambda stage, seconds: None)
    done = CliRunner().invoke(demo, ["delay"])
    assert done.exit_code == 1
    assert "check failed: right after it, it is bound" in done.output


def test_the_tour_explains_a_pod_that_is_placed_and_one_that_is_pending() -> None:
    tour = told()  # which is what is told where no story is named
    assert "7 running, 4 succeeded" in tour
    assert "Scores of " in tour
    assert "default/db-1 is pending" in tour
    assert "with disk=ssd: " in tour
