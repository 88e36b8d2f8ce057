"""Programs of hostile pods: whatever they do costs little, and none of it is an error of the node."""

from __future__ import annotations

import pytest

from mooring.api.meta import ObjectMeta
from mooring.sandbox.programs.environment import LONGEST, read_environment
from mooring.sandbox.programs.file import File
from mooring.sandbox.programs.files import Files, Mount
from mooring.sandbox.programs.probing import judge
from mooring.sandbox.programs.program import Outcome, run_program
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec, EnvVar, ExecAction, Probe
from mooring.sandbox.programs.volume import MOST_HISTORY, Volume
from mooring.sandbox.programs.work import Work
from tests.calls import count_calls

SOURCES = Sources(ObjectMeta(name="web"), services={})
START = 1_700_000_000.0
MOST_CALLS = 400_000  # of one run: far below what any of these would need


def run(command: list[str], files: Files | None = None, **env: str) -> Outcome | None:
    variables = [EnvVar(name, value) for name, value in env.items()]
    spec = ContainerSpec(image="busybox", command=command, env=variables)
    return run_program(spec, SOURCES, files or Files(), START)


BIG = "*".join(["999999999999999999"] * 300)
LOOP = "while true; do {}; done"


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", LOOP.format(f"if false; then echo {'x ' * 7900}; fi")],
        ["sh", "-c", LOOP.format(f"if false; then echo {'x ' * 7000}| cat; fi")],
        ["sh", "-c", LOOP.format(f"A=$(: {'x' * 15_000})")],
        ["sh", "-c", LOOP.format('sh -c "$SCRIPT"')],
        ["sh", "-c", f"echo {'$WORD ' * 5000} > /dev/null"],
        ["sh", "-c", "for i in $(seq 1 900); do touch /tmp/f$i; ls /tmp > /dev/null; done"],
        ["sh", "-c", "for i in $(seq 1 900); do touch /tmp/f$i; ls -l /tmp > /dev/null; done"],
        ["sh", "-c", "for i in $(seq 1 900); do echo $i > /tmp/f; cat /tmp/f > /dev/null; done"],
        ["touch", *(f"/tmp/{number}" for number in range(100_000))],
        ["echo", *["-n"] * 50_000],
        ["test", *["!"] * 50_000],
        ["mkdir", "-p", "/tmp" + "/a" * 20_000],
        ["sh", "-c", f"mkdir -p /tmp{'/a' * 200}; rm -r /tmp/a"],
        ["sh", "-c", f"cd /tmp; touch $(seq 500); find . {' -o '.join(['-name a'] * 1000)}"],
        ["sh", "-c", f"cd /tmp; touch $(seq 900); rm $(seq 900); rm -f {'/tmp ' * 2000}"],
        ["sh", "-c", f"P='{'*a' * 3000}'; for i in $(seq 900); do case b in $P$i) ;; esac; done"],
    ],
)
def test_no_program_is_much_work(command: list[str]) -> None:
    def start() -> None:
        run(command, SCRIPT="true; " * 2700, WORD="x" * 16_000)

    assert count_calls(start) < MOST_CALLS


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "sleep 999999999999d; date"],
        ["sh", "-c", f"echo $(({BIG}))"],
        ["expr", *BIG.replace("*", " * ").split()],
        ["sh", "-c", 'date "+$(cat /data/bytes)"; wc -c /data/bytes'],
    ],
)
def test_what_has_no_value_is_not_an_error(command: list[str]) -> None:
    volume = Volume()
    volume.write("bytes", File("\udcff%Y"), START)
    run(command, Files([Mount("/data", volume)]))


def test_bytes_that_are_not_text_are_replaced_in_logs_and_messages() -> None:
    volume = Volume()
    volume.write("bytes", File("a\udcff\n"), START)
    text = "cat /data/bytes; cat /data/bytes > /dev/termination-log; wc -c /data/bytes"
    outcome = run(["sh", "-c", text], Files([Mount("/data", volume)]))
    assert outcome is not None
    assert outcome.output == ((0.0, "a\ufffd\n"), (0.0, "3 /data/bytes\n"))
    assert outcome.message == "a\ufffd\n"


def test_a_folder_that_is_written_later_is_looked_for_once() -> None:
    files = Files()
    run(["sh", "-c", f"sleep 5; mkdir -p /tmp{'/a' * 25}"], files)
    assert count_calls(lambda: files.find("/tmp/a", START)) < 1000
    found = files.find("/tmp/a", START + 6)
    assert found is not None
    assert found.is_folder


def test_the_probes_of_a_container_share_their_work() -> None:
    files = Files()
    run(["sh", "-c", "for i in $(seq 1 60); do sleep 1; touch /tmp/f$i; done; sleep 100"], files)
    probe = Probe(exec=ExecAction(["sh", "-c", LOOP.format(f"A=$(: {'x' * 4000})")]))
    spec = ContainerSpec(image="busybox", startup_probe=probe, liveness_probe=probe, readiness_probe=probe)
    assert count_calls(lambda: judge(spec, SOURCES, files, START, Work())) < MOST_CALLS
    death = judge(spec, SOURCES, files, START, Work()).death
    assert death is not None
    assert "timed out" in death.failure


def test_a_probe_that_needs_much_work_keeps_what_it_found() -> None:
    files = Files()
    run(["sh", "-c", "for i in $(seq 1 60); do sleep 1; touch /tmp/f$i; done; sleep 100"], files)
    text = f"for i in $(seq 1 300); do : {'x ' * 20}; done; exit 1"
    spec = ContainerSpec(image="busybox", liveness_probe=Probe(exec=ExecAction(["sh", "-c", text])))
    death = judge(spec, SOURCES, files, START, Work()).death
    assert death is not None
    assert (death.at, death.failure) == (START + 20, "")


def test_a_threshold_is_not_counted_up_to() -> None:
    probe = Probe(exec=ExecAction(["false"]), failure_threshold=2**31 - 1, period_seconds=1)
    spec = ContainerSpec(image="busybox", liveness_probe=probe)
    death = judge(spec, SOURCES, Files(), START, Work()).death
    assert death is not None
    assert death.at == START + 2**31 - 2


def test_variables_do_not_multiply() -> None:
    doubling = [
        EnvVar("V0", "x" * 1000),
        *(EnvVar(f"V{n}", f"$(V{n - 1})$(V{n - 1})") for n in range(1, 60)),
    ]
    many = [EnvVar("V0", "x" * LONGEST), *(EnvVar(f"V{n}", "$(V0)") for n in range(1, 1000))]
    for env in (doubling, many):
        variables = read_environment(ContainerSpec(env=env), SOURCES)
        assert len(variables) > len(env)
        assert sum(len(value or "") for value in variables.values()) < 3_000_000
    assert run(["echo", "$(V0)" * 1000], V0="x" * 1000) is None


def test_the_history_of_files_is_bounded() -> None:
    volume = Volume()
    grow = "echo x > /data/f; " + "cat /data/f /data/f > /data/g; cat /data/g > /data/f; " * 17
    outcomes = [run(["sh", "-c", grow], Files([Mount("/data", volume)])) for _ in range(30)]
    assert outcomes[0] is not None
    assert outcomes[-1] is None
    assert volume._history <= MOST_HISTORY
    for number in range(30):
        volume.replace({"map": File("x" * 1_000_000), "key": File(str(number))}, START + number)
        volume.replace({"map": File("y" * 1_000_000)}, START + number)
    assert volume._history <= MOST_HISTORY + 2_100_000
    assert volume.find("map", START + 100) == File("y" * 1_000_000)


def test_config_maps_with_thousands_of_keys_are_mounted() -> None:
    volume = Volume()
    assert volume.replace({f"key-{number}": File("x") for number in range(5000)}, START)
    assert len(volume.list("", START)) == 5000


def test_a_long_log_is_not_counted_again_with_each_line_of_the_next_run() -> None:
    runs, long = Runs(), Outcome(None, output=tuple((0.0, "line\n") for _ in range(2000)))
    runs.keep("uid", "main", START, long)

    def log() -> None:
        for _ in range(100):
            runs.keep("uid", "main", START + 60, Outcome(None, output=((0.0, "line\n"),)))

    assert count_calls(log) < 5000
