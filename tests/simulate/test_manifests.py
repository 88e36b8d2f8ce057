"""Manifests at depth `core`: Jobs and CronJobs create pods, and what has no effect is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.simulate.compare import compare_tables
from mooring.simulate.plan import Plan, compile_plan
from mooring.simulate.pod_log import Outcome
from mooring.simulate.running import run_once
from mooring.simulate.scenario import parse_scenario

SCENARIO = """
apiVersion: mooring/v1alpha1
kind: Simulation
spec:
  until: 1d
  cluster: [{manifests: objects.yaml}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 20}, allocatable: {cpu: 4, memory: 8Gi, pods: 20}}
"""
CONTAINER = "{name: c, image: busybox, resources: {requests: {cpu: 1}}}"
TEMPLATE = f"""
      metadata: {{annotations: {{mooring/run-time: 5m}}}}
      spec: {{restartPolicy: Never, containers: [{CONTAINER}]}}
"""
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: build}}
spec:
  FIELDS
  template:{TEMPLATE}
"""
CRON_JOB = f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: report}}
spec:
  schedule: "0 * * * *"
  FIELDS
  jobTemplate:
   spec:
    template:{TEMPLATE}
"""
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: pod, annotations: {{ANNOTATIONS}}}}
spec: {{restartPolicy: Never, containers: [{CONTAINER}]}}
"""


def job(fields: str = "completions: 3\n  parallelism: 2") -> str:
    return JOB.replace("FIELDS", fields)


def cron_job(fields: str = "suspend: false") -> str:
    return CRON_JOB.replace("FIELDS", fields)


def plan_of(folder: Path, *manifests: str, scenario: str = SCENARIO, node: str = NODE) -> Plan:
    (folder / "objects.yaml").write_text("\n---\n".join([node, *manifests]))
    return compile_plan(parse_scenario(scenario, str(folder / "scenario.yaml")))


def lives(plan: Plan) -> list[tuple[str, float, float]]:
    """Name, binding and end of each pod."""
    pods = run_once(plan, plan.policies[0], 0).pods
    return list(zip(pods.name, pods.bound.tolist(), pods.ended.tolist(), strict=True))


def test_a_job_replaces_finished_pods_until_it_is_complete(tmp_path: Path) -> None:
    assert lives(plan_of(tmp_path, job())) == [
        ("build-0", 0.0, 300.0),
        ("build-1", 0.0, 300.0),
        ("build-2", 301.0, 601.0),
    ]


def test_runs_in_which_a_job_creates_pods_at_other_times_are_compared(tmp_path: Path) -> None:
    tables = []
    for cpu in (4, 1):
        plan = plan_of(tmp_path, job(), node=NODE.replace("cpu: 4", f"cpu: {cpu}"))
        tables.append(run_once(plan, plan.policies[0], 0))
    comparison = compare_tables(*tables)
    assert (comparison.pods, comparison.same_time, comparison.later) == (3, 1, 2)
    assert comparison.wait_difference == (0 + 300 + 299) / 3


def test_an_indexed_job_runs_every_index_once(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, job("completions: 3\n  parallelism: 2\n  completionMode: Indexed"))
    assert [name for name, _, _ in lives(plan)] == ["build-0-0", "build-1-1", "build-2-2"]


def test_a_job_that_fails_is_retried_up_to_its_limit(tmp_path: Path) -> None:
    failing = job("backoffLimit: 1").replace("5m", '5m, mooring/exit-code: "1"')
    assert [(bound, ended) for _, bound, ended in lives(plan_of(tmp_path, failing))] == [(0, 300), (310, 610)]


def test_a_job_ends_at_its_deadline(tmp_path: Path) -> None:
    scenario = SCENARIO.replace("1d", "drained")
    plan = plan_of(tmp_path, job("activeDeadlineSeconds: 100"), scenario=scenario)
    tables = run_once(plan, plan.policies[0], 0)
    assert (tables.pods.ended.tolist(), tables.pods.outcome.tolist()) == ([100], [Outcome.DELETED])
    plan = plan_of(tmp_path, job("activeDeadlineSeconds: 5000"), scenario=scenario)
    assert run_once(plan, plan.policies[0], 0).end == 300


def test_a_cron_job_starts_jobs_by_its_schedule(tmp_path: Path) -> None:
    pods = lives(plan_of(tmp_path, cron_job()))
    assert [bound for _, bound, _ in pods] == [3600.0 * hour for hour in range(1, 24)]
    assert pods[0] == ("report-31557660-0", 3600.0, 3900.0)
    zone = "timeZone: Europe/Vienna\n  startingDeadlineSeconds: 60"
    plan = plan_of(tmp_path, cron_job(zone).replace("0 * * * *", "0 9 * * *"))
    assert [bound for _, bound, _ in lives(plan)] == [8 * 3600]
    assert lives(plan_of(tmp_path, cron_job("suspend: true"), job())) == lives(plan_of(tmp_path, job()))


def test_a_start_that_an_earlier_job_prevents_follows_it(tmp_path: Path) -> None:
    long = cron_job("concurrencyPolicy: Forbid").replace("5m", "90m")
    # A Job is known to be complete a second after its last pod.
    assert [bound for _, bound, _ in lives(plan_of(tmp_path, long))][:3] == [3600, 9001, 14402]
    replaced = cron_job("concurrencyPolicy: Replace").replace("5m", "90m")
    assert [ended for _, _, ended in lives(plan_of(tmp_path, replaced))][:3] == [7200, 10800, 14400]


def test_jobs_come_change_and_go_by_events(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(job("parallelism: 3"))
    (tmp_path / "fewer.yaml").write_text(job("parallelism: 1"))
    events = "[{at: 10s, apply: job.yaml}, {at: 20s, apply: fewer.yaml}, {at: 30s, delete: job.yaml}]"
    plan = plan_of(tmp_path, scenario=f"{SCENARIO}  events: {events}\n")
    assert [(bound, ended) for _, bound, ended in lives(plan)] == [(10, 30), (10, 20), (10, 20)]


@pytest.mark.parametrize(
    ("annotations", "command", "end"),
    [("mooring/run-time: 40s", "", 40), ("", "command: [sleep, '25'],", 25), ("", "", 1)],
)
def test_pods_end_as_they_do_in_a_cluster(tmp_path: Path, annotations: str, command: str, end: float) -> None:
    pod = POD.replace("ANNOTATIONS", annotations).replace("name: c,", f"name: c, {command}")
    assert lives(plan_of(tmp_path, pod)) == [("pod", 0, end)]
    workload = "workload: [{manifests: pod.yaml}]"
    (tmp_path / "pod.yaml").write_text(pod)
    assert lives(plan_of(tmp_path, scenario=f"{SCENARIO}  {workload}")) == [("pod", 0, end)]


CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {seconds: "70"}
"""


def test_commands_read_their_configuration(tmp_path: Path) -> None:
    source = "valueFrom: {configMapKeyRef: {name: config, key: seconds}}"
    command = f"command: [sh, -c, sleep $N], env: [{{name: N, {source}}}]"
    pod = POD.replace("ANNOTATIONS", "").replace("name: c,", f"name: c, {command},")
    assert lives(plan_of(tmp_path, pod, CONFIG)) == [("pod", 0, 70)]
    (warning,) = plan_of(tmp_path, pod).warnings
    assert 'Pod default/pod: configmap "config" not found: what depends on it is not known' in str(warning)


def test_run_times_by_index_are_reported(tmp_path: Path) -> None:
    indexed = job("completionMode: Indexed\n  completions: 3").replace("{mooring/run-time: 5m}", "{}")
    plan = plan_of(
        tmp_path, indexed.replace("name: c,", "name: c, command: [sh, -c, sleep 1$JOB_COMPLETION_INDEX],")
    )
    assert "Job default/build: run times differ by index" in str(plan.warnings[0])


def test_a_pod_that_was_on_a_node_before_stays_unless_its_end_is_known(tmp_path: Path) -> None:
    pod = POD.replace("ANNOTATIONS", "").replace("spec: {", "spec: {nodeName: node-1, ")
    plan = plan_of(tmp_path, pod)
    assert run_once(plan, plan.policies[0], 0).pods.outcome.tolist() == [Outcome.RUNNING]


def test_a_job_counts_the_pods_that_are_there(tmp_path: Path) -> None:
    owner = "ownerReferences: [{apiVersion: batch/v1, kind: Job, name: build, uid: u, controller: true}]"
    pod = POD.replace("annotations: {ANNOTATIONS}", f"annotations: {{mooring/run-time: 60s}}, {owner}")
    plan = plan_of(tmp_path, job("completions: 2"), pod.replace("spec: {", "spec: {nodeName: node-1, "))
    assert lives(plan) == [("pod", 0, 60), ("build-0", 61, 361)]


HPA = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
"""


def test_what_has_no_effect_is_reported(tmp_path: Path) -> None:
    always = POD.replace("ANNOTATIONS", "mooring/run-time: 5s").replace("restartPolicy: Never, ", "")
    fields = "completionMode: Indexed\n  completions: 1\n  successPolicy: {rules: [{succeededCount: 1}]}"
    crashing = cron_job().replace("Never", "OnFailure").replace("5m", '5m, mooring/exit-code: "1"')
    plan = plan_of(tmp_path, HPA, always, job(fields), crashing)
    file = tmp_path / "objects.yaml"
    cluster = "\n  hint: set depth: cluster"
    assert list(map(str, plan.warnings)) == [
        f"{file}: Job default/build: successPolicy is ignored at depth core{cluster}",
        f"{file}: CronJob default/report: containers fail and are restarted for ever; "
        f"backoffLimit has no effect at depth core{cluster}",
        f"{file}: HorizontalPodAutoscaler shop/web: has no effect at depth core{cluster}",
        f"{file}: Pod default/pod: annotation mooring/run-time: containers are restarted, so pods do not "
        "end\n  hint: set restartPolicy: Never",
    ]
    assert not plan_of(tmp_path, HPA, job(), scenario=f"{SCENARIO}  depth: cluster").warnings


DEPLOYMENT = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{CONTAINER}]}}
"""


def test_pods_of_a_deployment_are_added_but_not_removed_by_events(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(DEPLOYMENT.replace("replicas: 2", "replicas: 3"))
    scenario = f"{SCENARIO}  events: [{{at: 10s, apply: more.yaml}}]"
    plan = plan_of(tmp_path, DEPLOYMENT, scenario=scenario)
    assert [bound for _, bound, _ in lives(plan)] == [0, 0, 10]
    assert not plan.warnings
    (tmp_path / "more.yaml").write_text(DEPLOYMENT.replace("busybox", "busybox:2"))
    (warning,) = plan_of(tmp_path, DEPLOYMENT, scenario=scenario).warnings
    assert "Deployment default/web: was changed, but depth core" in str(warning)


def test_pods_that_lose_their_node_are_replaced(tmp_path: Path) -> None:
    events = "[{at: 10s, nodes: {fail: {names: [node-1], for: 20s}}}]"
    plan = plan_of(tmp_path, DEPLOYMENT, POD.replace("ANNOTATIONS", "mooring/run-time: 1h"),
                   scenario=f"{SCENARIO}  events: {events}")  # fmt: skip
    replacements = [name for name, _, _ in lives(plan) if name.endswith("~1")]
    assert len(replacements) == 2
    assert all(name.startswith("web-") for name in replacements), "the pod without a controller is gone"


def test_a_template_says_what_of_it_has_no_effect(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(job() + "---" + cron_job())
    scenario = f"{SCENARIO}  workload: [{{generate: {{template: job.yaml}}}}]"
    completions, cron = plan_of(tmp_path, scenario=scenario).warnings
    assert "job.yaml: Job default/build: only as many pods arrive as run in parallel" in str(completions)
    assert "job.yaml: CronJob default/report: has no effect in a template" in str(cron)


def test_a_cron_job_of_an_event_needs_an_end_too(tmp_path: Path) -> None:
    (tmp_path / "cron.yaml").write_text(cron_job())
    events = "  events: [{at: 90m, apply: cron.yaml}, {at: 250m, delete: cron.yaml}]"
    with pytest.raises(ConfigError, match="creates Jobs without end"):
        plan_of(tmp_path, scenario=SCENARIO.replace("1d", "drained") + events)
    plan = plan_of(tmp_path, scenario=SCENARIO + events)
    assert [bound / 3600 for _, bound, _ in lives(plan)] == [2, 3, 4]


def test_a_pod_with_one_attempt_is_not_retried_by_its_job(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        job("completions: 6\n  parallelism: 6"),
        scenario=SCENARIO + "  unschedulable: reject",
    )
    pods = run_once(plan, plan.policies[0], 0).pods
    assert sorted(pods.outcome.tolist()) == [Outcome.FINISHED] * 4 + [Outcome.REJECTED] * 2


@pytest.mark.parametrize(
    ("manifest", "until", "problem"),
    [
        (cron_job(), "drained", "spec.until: CronJob default/report creates Jobs without end"),
        (cron_job().replace("0 *", "61 *"), "1d", "CronJob default/report: spec.schedule: unparseable"),
        (cron_job("timeZone: Mars/Base"), "1d", "CronJob default/report: spec.schedule: invalid timeZone"),
        (cron_job().replace("cpu: 1", "cpu: lots"), "1d", "CronJob default/report: spec.jobTemplate: Job"),
        (
            job().replace("name: c,", "name: c, command: sleep 5,"),
            "1d",
            "Job default/build: Expected `array`",
        ),
        (job("parallelism: 200000"), "1d", "Job default/build: needs more than 150,000 pods"),
        (job().replace("5m", "soon"), "1d", 'Job default/build: annotation mooring/run-time: found "soon"'),
    ],
)
def test_errors_name_the_object(tmp_path: Path, manifest: str, until: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        plan_of(tmp_path, manifest, scenario=SCENARIO.replace("1d", until))
    assert problem in str(raised.value)
