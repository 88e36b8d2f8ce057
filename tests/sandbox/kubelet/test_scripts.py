"""Annotations that say how pods behave."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.objects import Pod
from mooring.sandbox.kubelet.scripts import Script, read_script
from tests.sandbox.kubelet.kit import pod


def script(**run: str) -> tuple[Script, list[str]]:
    annotations = {name.replace("_", "-"): value for name, value in run.items()}
    return read_script(msgspec.convert(pod(run=annotations), Pod))


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({}, Script()),
        ({"start_delay": "1m30s"}, Script(start_delay=90.0)),
        ({"run_time": "250ms"}, Script(run_time=0.25, annotated=True)),
        ({"run_time": "0s", "exit_code": "7"}, Script(run_time=0.0, exit_code=7, annotated=True)),
        ({"exit_code": "255"}, Script(run_time=1.0, exit_code=255, annotated=True)),
        ({"stop_time": "1h"}, Script(stop_time=3600.0)),
    ],
)
def test_annotations_say_how_a_pod_behaves(run: dict[str, str], expected: Script) -> None:
    assert script(**run) == (expected, [])


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({"start_delay": "5"}, 'annotation mooring/start-delay is ignored: found "5", expected a duration'),
        ({"run_time": "-1s"}, 'annotation mooring/run-time is ignored: found "-1s", expected a duration'),
        ({"exit_code": "256"}, 'annotation mooring/exit-code is ignored: found "256", expected a number'),
        ({"stop_time": ""}, 'annotation mooring/stop-time is ignored: found "", expected a duration'),
    ],
)
def test_what_makes_no_sense_is_told_and_ignored(run: dict[str, str], told: str) -> None:
    found, problems = script(**run)
    assert found == Script()
    assert [problem.startswith(told) for problem in problems] == [True]


@given(st.dictionaries(st.sampled_from(["start_delay", "run_time", "exit_code", "stop_time"]), st.text()))
def test_any_text_is_either_understood_or_told(run: dict[str, str]) -> None:
    found, problems = script(**run)
    assert found.start_delay >= 0
    assert 0 <= found.exit_code <= 255
    assert len(problems) <= len(run)
