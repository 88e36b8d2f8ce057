"""CronJobs: as kube-controller-manager has them, and what its recording does not show."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from mooring.api.kinds import JOBS
from mooring.sandbox.controllers.cron_job import SCHEDULED_AT, CronJobController
from mooring.sandbox.controllers.job import JobController, OrphanedJobPods
from tests.sandbox.controllers.cron_scenes import cron_job, play_scene
from tests.sandbox.controllers.kit import Embedded, play

DATA = Path(__file__).parent / "data"
ALL = (CronJobController, JobController, OrphanedJobPods)


def test_as_kube_controller_manager() -> None:
    recorded = json.loads((DATA / "cron_policies.json").read_text())
    assert play(partial(play_scene, "cron_policies"), *ALL) == recorded


async def starts(stage: Embedded) -> list[str]:
    """When Jobs were to start, as their annotations say."""
    return sorted(job["metadata"]["annotations"][SCHEDULED_AT] for job in await stage.all("jobs"))


def test_jobs_start_when_the_clock_strikes_in_their_zone() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(cron_job("a", schedule="30 6 * * *", timeZone="Europe/Berlin"))
        await stage.advance(2 * 86400)
        assert await starts(stage) == ["2030-01-01T06:30:00+01:00", "2030-01-02T06:30:00+01:00"]
        jobs = await stage.all("jobs")
        created = sorted(job["metadata"]["creationTimestamp"] for job in jobs)
        assert created == ["2030-01-01T05:30:00Z", "2030-01-02T05:30:00Z"]

    play(scene, CronJobController)


def test_a_new_schedule_holds_from_now_on() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(cron_job("a", schedule="0 0 1 6 *"))
        await stage.advance(90)
        await stage.patch("cronjobs", "a", {"spec": {"schedule": "*/5 * * * *"}})
        await stage.advance(60)
        assert await starts(stage) == []
        await stage.advance(180)
        assert await starts(stage) == ["2030-01-01T00:05:00Z"]

    play(scene, CronJobController)


def test_what_was_missed_while_suspended_is_made_up_for_once_and_only_if_not_too_late() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(cron_job("late", schedule="0 * * * *", suspend=True))
        await stage.create(cron_job("strict", schedule="0 * * * *", suspend=True, startingDeadlineSeconds=60))
        await stage.advance(3 * 3600 + 600)
        for name in ("late", "strict"):
            await stage.patch("cronjobs", name, {"spec": {"suspend": False}})
        await stage.rest()
        assert [job["metadata"]["name"].partition("-")[0] for job in await stage.all("jobs")] == ["late"]
        assert await starts(stage) == ["2030-01-01T03:00:00Z"]

    play(scene, CronJobController)


def test_a_job_that_somebody_deleted_is_no_longer_active() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.create(cron_job("a"))
        await stage.advance(61)
        (job,) = await stage.all("jobs")
        await stage.cluster.delete(
            JOBS,
            job["metadata"]["name"],
            stage.namespace,
            propagation_policy="Background",
        )
        await stage.rest()
        assert (await stage.get("cronjobs", "a"))["status"].get("active", []) == []
        assert "MissingJob" in [event.reason for event in await stage.events()]

    play(scene, CronJobController)
