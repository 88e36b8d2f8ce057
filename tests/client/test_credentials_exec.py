"""Exec plugins: what they are told, what they may answer, when they are run."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mooring.api.kinds import NODES
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials, CredentialsError
from tests.client.api_kit import run, status
from tests.client.certificates import authority, loopback
from tests.client.kubeconfig_kit import headers_of, loaded
from tests.client.loopback import Reply, Request, serving

V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"

PLUGIN = r"""#!/bin/sh
folder=$(dirname "$0")
printf '%s\t%s\t%s\n' "$*" "$MINE" "$KUBERNETES_EXEC_INFO" >> "$folder/runs"
run=$(wc -l < "$folder/runs")
while [ ! -e "$folder/answer$run" ]; do run=$((run - 1)); done
. "$folder/answer$run"
"""


class Plugin:
    """A plugin of its own folder: the first run does what the first answer says, and so on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin"
        self.path.write_text(PLUGIN)
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)
        self._answers = 0

    def says(self, version: str = V1, **found: Any) -> None:
        answer = {"apiVersion": version, "kind": "ExecCredential", "status": found}
        self.does(f"cat <<'END'\n{json.dumps(answer)}\nEND\n")

    def does(self, code: str) -> None:
        self._answers += 1
        (self.folder / f"answer{self._answers}").write_text(code)

    def runs(self) -> list[list[str]]:
        """Of each run: the arguments, the variable MINE, and what it was told."""
        runs = self.folder / "runs"
        return [line.split("\t") for line in runs.read_text().splitlines()] if runs.exists() else []

    def told(self) -> Any:
        """What it was told at first."""
        return json.loads(self.runs()[0][2])

    def loaded(self, cluster: dict[str, Any] | None = None, **options: Any) -> Credentials:
        plugin = {"apiVersion": V1, "command": str(self.path), "interactiveMode": "Never", **options}
        return loaded(self.folder, {"exec": plugin}, cluster)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def headers(credentials: Credentials) -> dict[str, list[str]]:
    return asyncio.run(headers_of(credentials))


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_the_token_that_a_plugin_prints_is_used(plugin: Plugin, version: str) -> None:
    plugin.says(version, token="abc", expirationTimestamp=None)
    credentials = plugin.loaded(apiVersion=version, args=["one", "two"], env=[{"name": "MINE", "value": "x"}])
    assert headers(credentials) == {"Authorization": ["Bearer abc"]}
    ((args, mine, _),) = plugin.runs()
    assert (args, mine) == ("one two", "x")
    assert plugin.told() == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


def test_a_plugin_may_be_told_about_the_cluster(plugin: Plugin) -> None:
    plugin.says(token="abc")
    (plugin.folder / "ca").write_bytes(authority().certificate)
    extensions = [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
    ]
    cluster = {"certificate-authority": "ca", "tls-server-name": "kubernetes", "extensions": extensions}
    headers(plugin.loaded(cluster, provideClusterInfo=True))
    assert plugin.told()["spec"]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": base64.b64encode(authority().certificate).decode(),
        "config": {"audience": "x"},
    }


def test_a_command_is_found_beside_the_kubeconfig_or_in_the_path(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.says(token="abc")
    assert headers(plugin.loaded(command="./plugin")) == {"Authorization": ["Bearer abc"]}
    monkeypatch.setenv("PATH", f"{plugin.folder}{os.pathsep}{os.environ['PATH']}")
    assert headers(plugin.loaded(command="plugin")) == {"Authorization": ["Bearer abc"]}


def test_a_token_in_the_kubeconfig_wins_over_a_plugin(plugin: Plugin) -> None:
    user = {"token": "plain", "exec": {"apiVersion": V1, "command": "nowhere", "interactiveMode": "Never"}}
    assert headers(loaded(plugin.folder, user)) == {"Authorization": ["Bearer plain"]}


def test_what_a_plugin_printed_holds_until_it_expires(plugin: Plugin) -> None:
    now = datetime.now(UTC)
    plugin.says(token="short", expirationTimestamp=(now + timedelta(seconds=-5)).isoformat())
    plugin.says(token="long", expirationTimestamp=(now + timedelta(hours=1)).isoformat())
    credentials = plugin.loaded()

    async def main() -> None:
        assert await headers_of(credentials) == {"Authorization": ["Bearer short"]}
        credentials.fresh_until -= 1.5  # as if that time had passed
        assert await headers_of(credentials) == {"Authorization": ["Bearer long"]}
        credentials.fresh_until -= 3000
        await credentials.renew()
        assert len(plugin.runs()) == 2
        credentials.fresh_until -= 700
        await credentials.renew()
        assert len(plugin.runs()) == 3

    asyncio.run(main())


def test_a_plugin_is_run_once_however_many_wait_for_it(plugin: Plugin) -> None:
    plugin.says(token="abc")
    credentials = plugin.loaded()

    async def main() -> None:
        await asyncio.gather(*(credentials.renew() for _ in range(5)))

    asyncio.run(main())
    assert len(plugin.runs()) == 1


def test_a_refused_token_makes_the_plugin_run_again(plugin: Plugin) -> None:
    plugin.says(token="old")
    plugin.says(token="new")

    async def answer(request: Request, reply: Reply) -> None:
        if request.headers["authorization"] == "Bearer new":
            await reply.json(200, {"metadata": {"name": "n1"}})
        else:
            await reply.json(401, status(401, "Unauthorized", "Unauthorized"))

    async def main() -> None:
        async with serving(answer, loopback().context()) as server:
            ca = base64.b64encode(authority().certificate).decode()
            api = ApiServer(plugin.loaded({"server": server.url, "certificate-authority-data": ca}))
            found = await asyncio.gather(*(api.get(NODES, "n1") for _ in range(3)))
            assert [node.name for node in found] == ["n1"] * 3
            assert len(plugin.runs()) == 2
            await api.close()

    run(main())


def test_a_certificate_that_a_plugin_prints_is_shown_to_the_server_and_replaced(plugin: Plugin) -> None:
    pairs = [authority().issue("me"), authority().issue("me again")]
    for pair in pairs:
        plugin.says(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())

    async def answer(request: Request, reply: Reply) -> None:
        if request.connection == 1 and len(server_requests) == 1:
            await reply.json(401, status(401, "Unauthorized", "Unauthorized"))
        else:
            await reply.json(200, {"metadata": {"name": "n1"}})

    server_requests: list[Request] = []

    async def main() -> None:
        context = loopback().context(client_authority=authority().certificate)
        async with serving(answer, context) as server:
            server.requests = server_requests
            ca = base64.b64encode(authority().certificate).decode()
            api = ApiServer(plugin.loaded({"server": server.url, "certificate-authority-data": ca}))
            await api.get(NODES, "n1")
            # the connection that was made with the old certificate is not used again
            assert [request.connection for request in server.requests] == [1, 2]
            await api.close()

    run(main())


# ---- what goes wrong


def test_a_command_that_is_not_there_is_told_with_the_hint(plugin: Plugin) -> None:
    hint = "run: \x1b[1mbrew install it\x1b[0m\nthen log in"
    with pytest.raises(CredentialsError) as caught:
        headers(plugin.loaded(command="no-such-plugin", installHint=hint))
    assert 'config: users["it"].user.exec: no-such-plugin: cannot be run: No such file' in str(caught.value)
    assert "brew install it" in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("echo log in first >&2; exit 1", "failed with exit code 1: log in first"),
        ("kill -9 $$", "failed with exit code -9"),
        ("echo hush", "printed no ExecCredential: "),
        (r"printf '\377'", "printed no ExecCredential: "),
        (r"head -c 100000 /dev/zero | tr '\0' '['", "printed no ExecCredential: "),
        ("cat /dev/zero", "printed more than 1048576 bytes"),
        ("""echo '{"status": {"token": 7}}'""", "printed no ExecCredential: Expected `str`"),
        ("echo '{}'", 'printed kind "" of apiVersion "", expected "ExecCredential" of "client'),
    ],
)
def test_a_plugin_that_misbehaves_is_told_without_what_it_printed(
    plugin: Plugin, code: str, complaint: str
) -> None:
    plugin.does(code)
    with pytest.raises(CredentialsError) as caught:
        headers(plugin.loaded())
    assert complaint in str(caught.value)
    assert str(plugin.path) in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("version", "found", "complaint"),
    [
        (V1BETA1, {"token": "abc"}, f'of apiVersion "{V1BETA1}", expected "ExecCredential" of "{V1}"'),
        (V1, {}, "printed neither a token nor a certificate"),
        (V1, {"token": "two words"}, "status.token: found text with spaces"),
        (V1, {"clientKeyData": "hush"}, "printed nothing for status.clientCertificateData, expected both"),
        (V1, {"clientCertificateData": "x"}, "printed nothing for status.clientKeyData, expected both"),
        (
            V1,
            {"clientCertificateData": "x", "clientKeyData": "hush"},
            "status.clientCertificateData: cannot load",
        ),
        (V1, {"token": "abc", "expirationTimestamp": "soon"}, "printed no ExecCredential: "),
    ],
)
def test_credentials_that_cannot_be_used_are_told(
    plugin: Plugin, version: str, found: dict[str, str], complaint: str
) -> None:
    plugin.says(version, **found)
    with pytest.raises(CredentialsError) as caught:
        headers(plugin.loaded())
    assert complaint in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_plugin_that_hangs_is_ended(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.credentials.program.TIME_LIMIT", 1.0)
    plugin.path.write_text("#!/bin/sh\necho $$ > $(dirname $0)/pid\nexec sleep 60\n")
    with pytest.raises(CredentialsError, match="did not exit within"):
        headers(plugin.loaded())
    pid = plugin.folder / "pid"
    if pid.exists() and pid.read_text():  # it may have been ended before it could say who it is
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def test_a_plugin_that_needs_a_terminal_is_not_run_without(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.says(token="abc")
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with pytest.raises(CredentialsError, match="needs a terminal"):
            headers(plugin.loaded(interactiveMode="Always"))
        assert plugin.runs() == []
        headers(plugin.loaded(interactiveMode="IfAvailable"))
    assert plugin.told()["spec"] == {"interactive": False}


def test_requests_tell_of_the_plugins_failure_and_heal_with_it(plugin: Plugin) -> None:
    plugin.does("echo not yet >&2; exit 1")
    plugin.says(token="abc")

    async def answer(request: Request, reply: Reply) -> None:
        await reply.json(404, status(404, "NotFound", "no such node"))

    async def main() -> None:
        async with serving(answer, loopback().context()) as server:
            api = ApiServer(plugin.loaded({"server": server.url, "insecure-skip-tls-verify": True}))
            with pytest.raises(Unreachable, match="failed with exit code 1: not yet") as caught:
                await api.get(NODES, "n1")
            assert not caught.value.sent
            with pytest.raises(ApiError, match="no such node"):
                await api.get(NODES, "n1")
            await api.close()

    run(main())
