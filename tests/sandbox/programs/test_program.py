"""What command lines are taken to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import ObjectMeta
from mooring.sandbox.programs.files import Files, Mount
from mooring.sandbox.programs.images import UNKNOWN_IMAGE, find_image
from mooring.sandbox.programs.program import Outcome, run_program
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import (
    ContainerSpec,
    EnvVar,
    EnvVarSource,
    ExitCodes,
    FieldRef,
    KeyRef,
    RestartRule,
)
from mooring.sandbox.programs.volume import Volume

METADATA = ObjectMeta(name="web-0", namespace="shop", annotations={"index": "3"})
SOURCES = Sources(METADATA)


def run(*command: str, env: dict[str, str] | None = None, files: Files | None = None) -> Outcome | None:
    variables = [EnvVar(name, value) for name, value in (env or {}).items()]
    spec = ContainerSpec(image="busybox", command=list(command), env=variables)
    return run_program(spec, SOURCES, files or Files())


def script(text: str, **env: str) -> tuple[float | None, int, str] | None:
    outcome = run("sh", "-c", text, env=env)
    if outcome is None:
        return None
    return outcome.run_time, outcome.exit_code, "".join(part for _, part in outcome.output)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["sleep", "90"], (90.0, 0)),
        (["/bin/sleep", "1m", "0.5"], (60.5, 0)),
        (["sleep", "infinity"], (None, 0)),
        (["tail", "-f", "/dev/null"], (None, 0)),
        (["true"], (0.0, 0)),
        (["/bin/false"], (0.0, 1)),
        (["sh", "-c", "sleep 5", "/crash/missing"], (5.0, 0)),
        (["/bin/sh", "-c", "exec sleep 7"], (7.0, 0)),
        (["sleep", "$(TIME)"], (12.0, 0)),
    ],
)
def test_commands_take_their_time_and_end_with_their_code(
    command: list[str], expected: tuple[float | None, int]
) -> None:
    outcome = run(*command, env={"TIME": "12"})
    assert outcome is not None
    assert (outcome.run_time, outcome.exit_code) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exit 3", (0.0, 3, "")),
        ("trap exit TERM; sleep 3; echo done", (3.0, 0, "done\n")),
        ("trap : TERM INT; sleep infinity & wait", (None, 0, "")),
        ("sleep 10 & exit 1", (0.0, 1, "")),
        ("sleep 1 & echo a; wait", (1.0, 0, "a\n")),
        ("{ sleep 2; echo b; exit 3; } & sleep 1; echo a; wait; echo $?", (2.0, 0, "a\nb\n0\n")),
        ("X=b; { X=c; sleep 2; } & echo $X; wait && echo $X", (2.0, 0, "b\nb\n")),
        ("sleep infinity & sleep 3; exit 4", (3.0, 4, "")),
        ("while true; do sleep 1 & wait; exit 2; done", (1.0, 2, "")),
        ("exit 256", (0.0, 0, "")),
        ("false; echo $?", (0.0, 0, "1\n")),
        ("true; false", (0.0, 1, "")),
        ("echo a && false || echo b", (0.0, 0, "a\nb\n")),
        ("false && echo a; exit 4", (0.0, 4, "")),
        ("echo \"a  b\" 'c $X' $X", (0.0, 0, "a  b c $X x y\n")),
        ("echo one; sleep 2; echo two; exit 1", (2.0, 1, "one\ntwo\n")),
        ("if [ $I -ne 0 ]; then exit 1; else exit 2; fi", (0.0, 1, "")),
        ("if false\nthen exit 1\nelif true\nthen exit 5\nfi", (0.0, 5, "")),
        ("exit $(expr $I % 2)", (0.0, 1, "")),
        ("for i in $(seq 3); do echo $((i * 2)); done", (0.0, 0, "2\n4\n6\n")),
        ("echo $((2 * (1 + 2))) $(((7 - 4) % 2))", (0.0, 0, "6 1\n")),
        ("n=0; until [ $n -ge 2 ]; do n=$((n+1)); sleep 1; done; exit $n", (2.0, 2, "")),
        ("echo lost >/dev/null 2>&1; printf 'a%s\\n' b # comment", (0.0, 0, "ab\n")),
        ("{ echo a; echo b; } ", (0.0, 0, "a\nb\n")),
        ("[[ -r /data/x ]] || touch /data/x; [ -e /data/x ] && echo there", (0.0, 0, "there\n")),
    ],
)
def test_scripts(text: str, expected: tuple[float | None, int, str]) -> None:
    assert script(text, X="x y", I="7") == expected


@pytest.mark.parametrize(
    "text",
    [
        "python app.py", "echo a | sed x", "sleep 1 & wait $!",
        "trap 'echo a' EXIT",
        "cat /etc/passwd", "echo *.txt", "exit $RANDOM",
        "if true; then echo", 'echo "open', "f() { f; }; f; g() echo",
        "echo $(python x)", "set -u; echo $x", "set -o vi", "set -- a", "set", "return 3", "echo $0", "(true",
        "case a in b",
        "x=aaaaaaaaaa; for i in $(seq 20); do x=$x$x; done",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_not_guessed(text: str) -> None:
    assert script(text) is None


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("f() {\n sleep 5; exit 7\n}\ntrap f SIGTERM\nwhile true; do sleep 1; done", (5.0, 7)),
        ("trap 'exit 0' INT TERM; sleep infinity", (0.0, 0)),
        ("trap 'echo no' TERM; sleep infinity", None),
        ("trap '' TERM; sleep infinity", None),
        ("trap 'exit 0' TERM; trap - TERM; sleep infinity", None),
        ("sleep infinity", None),
    ],
)
def test_signals_are_handled(text: str, stop: tuple[float, int] | None) -> None:
    outcome = run("sh", "-c", text)
    assert outcome is not None
    assert (outcome.run_time, outcome.stop) == (None, stop)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo $(echo a; exit 2); echo $?", (0, "a\n0\n")),
        ("x=$(exit 3); echo $?; x=4; echo $?", (0, "3\n0\n")),
        ("x=1; y=$(x=2; cd /tmp; echo $x); echo $x $y; pwd", (0, "1 2\n/\n")),
        ("(exit 3); echo $?", (0, "3\n")),
        ("x=1; (x=2; cd /tmp; sleep 1; exit 4) || echo $x $?; pwd", (0, "1 4\n/\n")),
        ("sh -c 'x=1; exit 2'; echo $?$x", (0, "2\n")),
        ("true | exit 3; echo $?", (0, "3\n")),
        ("! false && echo a; ! true | true || echo b", (0, "a\nb\n")),
        ("if ! [ -f /tmp/a ]; then echo none; fi", (0, "none\n")),
        ("f() { return 3; }; f; echo $?; f && echo no", (3, "3\n")),
        ('f() { echo "$1-$2" $#; }; f "a b" c; f', (0, "a b-c 2\n- 0\n")),
        ('f() { for each in "$@"; do echo $each; done; return; }; f "a b" c; echo $?', (0, "a b\nc\n0\n")),
        ("f() { (return 3) || echo $?; if return 4; then echo no; fi; }; set -e; f; echo no", (4, "3\n")),
    ],
)  # fmt: skip
def test_subshells_and_functions(text: str, expected: tuple[int, str]) -> None:
    assert script(text) == (1.0 if "sleep" in text else 0.0, *expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set -e; false; echo no", (1, "")),
        ("set -ex; (exit 3); echo no", (3, "+ exit 3\n")),
        ("set -e; false || true; false && true; ! true; echo yes", (0, "yes\n")),
        ("set -e; if false; then :; fi; until true; do :; done; while false; do :; done; echo a", (0, "a\n")),
        ("set -e; f() { false; echo on; }; f || true; f", (1, "on\n")),
        ("set -e; { false; echo on; } || true; { false; echo on; }", (1, "on\n")),
        ("set -e; true && false", (1, "")),
        ("set -e; x=$(false); echo no", (1, "")),
        ("set -e; echo $(false; echo no) yes", (0, "yes\n")),
        ("set -e; set +e; false; echo yes", (0, "yes\n")),
        ("set -o errexit; true | false; echo no", (1, "")),
        ("set -e; false | true; echo yes; set -euo pipefail; false | true; echo no", (1, "yes\n")),
        ("set -e; sh -c 'false; echo on'; sh -ec 'false; echo no'; echo no", (1, "on\n")),
        ("set -e; false & wait; echo yes", (0, "yes\n")),
    ],
)  # fmt: skip
def test_scripts_that_end_at_the_first_failure(text: str, expected: tuple[int, str]) -> None:
    assert script(text) == (0.0, *expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("case a in b) echo b;; a|c) echo a; false;; *) echo no;; esac; echo $?", "a\n1\n"),
        ("false; case a in b) echo b; esac; echo $?", "0\n"),
        ('x=web-12; case "$x" in\n  db-*) echo db ;;\n  web-[0-9]?) echo web\n  ;;\nesac', "web\n"),
        ("case '*' in '*') echo star;; esac; case ab in '*') echo no;; (a*) echo yes; esac", "star\nyes\n"),
        ("set -u; case ${x:-none} in none) echo unset;; esac", "unset\n"),
    ],
)
def test_cases(text: str, expected: str) -> None:
    assert script(text) == (0.0, 0, expected)


def test_arguments_of_a_shell() -> None:
    outcome = run("sh", "-c", 'echo "$0:$1" $# ${2:-none}', "name", "a b")
    assert outcome is not None
    assert outcome.output == ((0.0, "name:a b 1 none\n"),)


def test_functions() -> None:
    assert script("f() { echo hi; false; }; f || f") == (0.0, 1, "hi\nhi\n")


def test_loops_without_an_end_run_on_and_print_meanwhile() -> None:
    outcome = run("sh", "-c", "while true; do echo tick; sleep 1; done")
    assert outcome is not None
    assert outcome.run_time is None
    assert outcome.output[:2] == ((0.0, "tick\n"), (1.0, "tick\n"))


def test_files_of_a_volume_outlive_a_container_but_not_its_termination_message() -> None:
    volume = Volume()
    text = "if [ -f /data/seen ]; then echo done >/dev/termination-log; else touch /data/seen; exit 1; fi"
    first, second = (run("sh", "-c", text, files=Files([Mount("/data", volume)])) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.exit_code, first.message) == (1, "")
    assert (second.exit_code, second.message) == (0, "done\n")


def test_the_log_is_the_message_of_a_failure_where_the_policy_says_so() -> None:
    spec = ContainerSpec(
        command=["sh", "-c", "echo why; exit 1"], termination_message_policy="FallbackToLogsOnError"
    )
    outcome = run_program(spec, SOURCES, Files())
    assert outcome is not None
    assert outcome.message == "why\n"


def test_fields_of_the_pod_are_variables() -> None:
    env = [
        EnvVar("NAME", value_from=EnvVarSource(field_ref=FieldRef("metadata.name"))),
        EnvVar("INDEX", value_from=EnvVarSource(field_ref=FieldRef("metadata.annotations['index']"))),
        EnvVar("NODE", value_from=EnvVarSource(field_ref=FieldRef("spec.nodeName"))),
    ]
    spec = ContainerSpec(command=["sh", "-c", "echo $NAME $INDEX"], env=env)
    outcome = run_program(spec, SOURCES, Files())
    assert outcome is not None
    assert outcome.output == ((0.0, "web-0 3\n"),)
    spec.command = ["sh", "-c", "echo $NODE"]
    assert run_program(spec, SOURCES, Files()) is None


@pytest.mark.parametrize(
    ("image", "args", "runs_on"),
    [
        ("registry.k8s.io/pause:3.10", [], True),
        ("nginx", [], True),
        ("example.com:5000/team/nginx:1.27@sha256:00", [], True),
        ("registry.k8s.io/e2e-test-images/agnhost:2.59", ["pause"], True),
        ("registry.k8s.io/e2e-test-images/agnhost:2.59", ["sleep", "1"], False),
        ("example.com/app", [], False),
    ],
)
def test_images_of_servers_run_on(image: str, args: list[str], runs_on: bool) -> None:
    outcome = run_program(ContainerSpec(image=image, args=args), SOURCES, Files())
    assert (outcome is not None and outcome.run_time is None) is runs_on


@given(st.text(alphabet="abf i=$(){}[];&|<>\"'`\\\n#01x-*!echosliptrudn", max_size=60))
def test_any_text_is_run_or_not_understood(text: str) -> None:
    run("sh", "-c", text)


def test_the_date_passes_with_the_script() -> None:
    script = 'i=0; while true; do echo "$i: $(date)"; i=$((i+1)); sleep 1; done'
    spec = ContainerSpec(command=["sh", "-c", script])
    outcome = run_program(spec, SOURCES, Files(), 1_000_000_000.0)
    assert outcome is not None
    assert outcome.run_time is None
    assert [text for _, text in outcome.output[:2]] == [
        "0: Sun Sep  9 01:46:40 UTC 2001\n",
        "1: Sun Sep  9 01:46:41 UTC 2001\n",
    ]
    spec = ContainerSpec(command=["date", "-u", "+%s %F"])
    outcome = run_program(spec, SOURCES, Files(), 1_000_000_000.0)
    assert outcome is not None
    assert outcome.output == ((0.0, "1000000000 2001-09-09\n"),)
    assert run_program(ContainerSpec(command=["date", "-d", "tomorrow"]), SOURCES, Files(), 1.0) is None


def test_a_command_with_an_unknown_value_is_not_known() -> None:
    """The value of a Secret is not printed as its reference."""
    secret = EnvVar(name="LEVEL", value_from=EnvVarSource(secret_key_ref=KeyRef(name="s", key="k")))
    dependent = EnvVar(name="TEXT", value="level $(LEVEL)")
    env = [secret, dependent]
    for word in ("$(LEVEL)", "$(TEXT)"):
        assert run_program(ContainerSpec(command=["echo", word], env=env), SOURCES, Files()) is None
    outcome = run_program(ContainerSpec(command=["echo", "$(OTHER)"], env=env), SOURCES, Files())
    assert outcome is not None
    assert outcome.output == ((0.0, "$(OTHER)\n"),)


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        (None, 0, False), (None, 7, True), (None, 42, False), ("Always", 0, True), ("Never", 42, True),
        ("Never", 7, False),
    ],
)  # fmt: skip
def test_containers_have_restart_rules_of_their_own(policy: str | None, code: int, expected: bool) -> None:
    action = "Restart" if policy else "None"
    rule = RestartRule(action=action, exit_codes=ExitCodes(operator="In", values=[42]))
    spec = ContainerSpec(restart_policy=policy, restart_policy_rules=[rule])
    assert spec.is_restarted(code, "OnFailure") is expected


def test_containers_call_themselves_by_the_host_name_of_their_pod() -> None:
    files = Files([Mount("/etc", Volume())])
    files.write("/etc/hosts", "127.0.0.1\tlocalhost\n10.0.0.1\tdb.sub.shop.svc.cluster.local\tdb\n", 0.0)
    spec = ContainerSpec(image="busybox", command=["sh", "-c", "echo $HOSTNAME; hostname; hostname -f"])
    outcome = run_program(spec, SOURCES._replace(hostname="db"), files)
    assert outcome is not None
    assert "".join(text for _, text in outcome.output) == "db\ndb\ndb.sub.shop.svc.cluster.local\n"


def test_only_images_of_kubernetes_tests_have_their_users() -> None:
    assert find_image("registry.k8s.io/e2e-test-images/nonroot:1.4").user == 1234
    assert find_image("registry.example/team/nonroot:1.4") is UNKNOWN_IMAGE
    assert find_image("registry.example/team/busybox@sha256:1") is find_image("busybox")
