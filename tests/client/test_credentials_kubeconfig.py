"""kubeconfig files: where they are looked for, how they are merged, what they may say and what not."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.client.credentials import Credentials, CredentialsError, load_credentials, load_user_credentials
from mooring.client.credentials.identity import PlainIdentity, Proof
from mooring.client.credentials.kubeconfig import Kubeconfig
from mooring.client.http.tunnel import Proxy
from tests.client.certificates import authority
from tests.client.kubeconfig_kit import config, headers_of, loaded, write


@pytest.fixture(autouse=True)
def nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own files and variables say nothing."""
    for name in (
        "KUBECONFIG",
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "NO_PROXY",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def headers(credentials: Credentials) -> dict[str, list[str]]:
    return asyncio.run(headers_of(credentials))


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


# ---- what they may say


def test_a_token(tmp_path: Path) -> None:
    credentials = loaded(tmp_path, {"token": "abc"})
    assert headers(credentials) == {"Authorization": ["Bearer abc"]}
    assert credentials.server == "https://10.0.0.1:6443"
    assert (credentials.route.host, credentials.route.port, credentials.path) == ("10.0.0.1", 6443, "")
    assert credentials.namespace == "default"


def test_a_user_name_and_password(tmp_path: Path) -> None:
    found = headers(loaded(tmp_path, {"username": "me", "password": "pass"}))
    assert found == {"Authorization": ["Basic " + encoded(b"me:pass")]}


def test_a_token_file_beside_the_kubeconfig(tmp_path: Path) -> None:
    write(tmp_path / "sub" / "token", "from-file\n")
    assert headers(loaded(tmp_path, {"tokenFile": "sub/token", "token": "older"})) == {
        "Authorization": ["Bearer from-file"]
    }


def test_certificates_as_files_and_as_data_come_to_the_same(tmp_path: Path) -> None:
    mine = authority().issue("me")
    for name, content in (("ca", authority().certificate), ("crt", mine.certificate), ("key", mine.key)):
        (tmp_path / name).write_bytes(content)
    user = {"client-certificate": "crt", "client-key": str(tmp_path / "key")}
    files = loaded(tmp_path, user, {"certificate-authority": "ca"})
    user = {"client-certificate-data": encoded(mine.certificate), "client-key-data": encoded(mine.key)}
    data = loaded(tmp_path, user, {"certificate-authority-data": encoded(authority().certificate)})
    for credentials in (files, data):
        asyncio.run(credentials.renew())
        assert credentials.tls is not None
        assert len(credentials.tls.get_ca_certs()) == 1
        assert credentials._made_of == (authority().certificate, mine.certificate, mine.key)
    assert files.fresh_until < data.fresh_until == float("inf")  # files rotate


def test_acting_as_somebody_else(tmp_path: Path) -> None:
    user = {
        "token": "abc",
        "as": "jane",
        "as-uid": "17",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"example.com/scope": ["a", "b"]},
    }
    assert headers(loaded(tmp_path, user)) == {
        "Authorization": ["Bearer abc"],
        "Impersonate-User": ["jane"],
        "Impersonate-Uid": ["17"],
        "Impersonate-Group": ["dev", "ops"],
        "Impersonate-Extra-example.com%2Fscope": ["a", "b"],
    }


def test_the_clusters_own_settings(tmp_path: Path) -> None:
    cluster = {
        "server": "https://gate.example/k8s/clusters/c-1/",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://me:p%20w@proxy.example:3128",
        "extensions": [{"name": "x", "extension": {"a": 1}}],
        "new-in-a-later-version": [1],
    }
    credentials = loaded(tmp_path, {}, cluster)
    route = credentials.route
    assert (route.host, route.port, credentials.path) == ("gate.example", 443, "/k8s/clusters/c-1")
    assert route.server_name == "kubernetes"
    assert route.proxy == Proxy("http", "proxy.example", 3128, "me", "p w")
    asyncio.run(credentials.renew())
    assert credentials.tls is not None
    assert not credentials.tls.check_hostname


def test_nothing_secret_is_said_over_plain_http(tmp_path: Path) -> None:
    assert headers(loaded(tmp_path, {"token": "abc"}, {"server": "http://10.0.0.1:8080"})) == {}


def test_json_is_yaml_and_nulls_are_absent(tmp_path: Path) -> None:
    tree = config({"token": "abc", "exec": None, "client-key-data": None}, preferences=None, extensions=None)
    assert headers(load_credentials(str(write(tmp_path / "c", json.dumps(tree))))) == {
        "Authorization": ["Bearer abc"]
    }


def test_nothing_secret_is_shown(tmp_path: Path) -> None:
    user = {"token": "hush", "exec": {"command": "x", "args": ["hush"], "apiVersion": "v1"}}
    path = write(tmp_path / "c", config(user))
    choice = Kubeconfig([path]).pick()
    credentials = load_credentials(str(path))
    asyncio.run(credentials.renew())
    things = (
        choice,
        choice.user,
        choice.user.exec,
        credentials,
        credentials.access,
        Proof("hush"),
        PlainIdentity(),
    )
    assert "hush" not in repr(things)


# ---- which file


def test_a_context_is_chosen_by_name_or_by_the_file(tmp_path: Path) -> None:
    tree = config({"token": "one"}, name="one")
    other = config({"token": "two"}, {"server": "https://two.example"}, name="two")
    for part in ("contexts", "clusters", "users"):
        tree[part] += other[part]
    tree["contexts"][1]["context"]["namespace"] = "team"
    path = str(write(tmp_path / "c", tree))
    assert load_credentials(path).server == "https://10.0.0.1:6443"
    two = load_credentials(path, context="two")
    assert (two.server, two.namespace) == ("https://two.example", "team")
    assert headers(two) == {"Authorization": ["Bearer two"]}


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = config({"tokenFile": "token"}, name="shared")
    first["current-context"] = ""
    second = config({"token": "lost"}, {"server": "https://lost.example"}, name="shared")
    second["users"].append({"name": "other", "user": {"tokenFile": "token"}})
    second["contexts"].append({"name": "other", "context": {"cluster": "shared", "user": "other"}})
    write(tmp_path / "a" / "token", "token-of-a")
    write(tmp_path / "b" / "token", "token-of-b")
    paths = [write(tmp_path / "a" / "c", first), tmp_path / "missing", write(tmp_path / "b" / "c", second)]
    monkeypatch.setenv("KUBECONFIG", ":".join(["", *map(str, paths), str(paths[0])]))
    shared = load_user_credentials()
    assert shared.server == "https://10.0.0.1:6443"  # the first file's cluster, the second's current-context
    assert headers(shared) == {"Authorization": ["Bearer token-of-a"]}
    other = load_user_credentials(context="other")
    assert headers(other) == {"Authorization": ["Bearer token-of-b"]}  # relative to its own file


def test_a_user_finds_the_file_given_then_the_variables_then_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def server(name: str) -> str:
        tree = config(cluster={"server": f"https://{name}.example"})
        return str(write(tmp_path / name / ".kube" / "config", tree))

    server("home")
    assert load_user_credentials().server == "https://home.example"
    monkeypatch.setenv("KUBECONFIG", server("variable"))
    assert load_user_credentials().server == "https://variable.example"
    assert load_user_credentials(server("flag")).server == "https://flag.example"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(CredentialsError, match=r"missing: kubeconfig not found\nhint: pass --kubeconfig"):
        load_user_credentials()


def test_a_component_takes_no_file_that_it_was_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "c", config())))
    with pytest.raises(CredentialsError, match="no API server configured, and not running in a pod"):
        load_credentials(None)


def test_master_overrides_the_server_and_the_name_of_its_certificate(tmp_path: Path) -> None:
    path = str(write(tmp_path / "c", config({"token": "abc"}, {"tls-server-name": "old.example"})))
    credentials = load_credentials(path, "https://new.example:1")
    assert (credentials.server, credentials.route.server_name) == ("https://new.example:1", "")
    assert headers(credentials) == {"Authorization": ["Bearer abc"]}
    alone = load_credentials(None, "127.0.0.1:8080")
    assert (alone.server, headers(alone)) == ("http://127.0.0.1:8080", {})


# ---- what they may not say


V1 = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        ("", "current-context: found nothing, expected one, but there is none"),
        ("a: [", "line 2, column 1: not YAML"),
        ("- 1", "not a single YAML object; expected a kubeconfig"),
        ("a: 1\n---\nb: 2", "not a single YAML object; expected a kubeconfig"),
        ({"kind": "Pod"}, 'kind: found "Pod", expected Config'),
        (config(name="it") | {"current-context": "x"}, 'current-context: found "x", expected one of "it"'),
        (config(contexts=[{"name": "it", "context": {"cluster": "it"}}]),
         'contexts["it"].context.user: found nothing, expected one of "it"'),
        (config(clusters=[]),
         'contexts["it"].context.cluster: found "it", expected one, but there is none'),
        (config(clusters=[{"name": "it"}, {"name": "it"}]), 'clusters: found two called "it", expected one'),
    ],
)  # fmt: skip
def test_a_file_that_is_no_kubeconfig_is_told(tmp_path: Path, tree: Any, complaint: str) -> None:
    assert_complains(tmp_path, tree, complaint)


@pytest.mark.parametrize(
    ("users", "complaint"),
    [
        ({"it": {"token": "hush"}}, "users: found an object, expected a list"),
        (["hush"], "users[0]: found text, expected an object"),
        ([{"user": {}}], "users[0].name: found nothing, expected a value"),
    ],
)
def test_users_that_are_none_are_told_without_secrets(tmp_path: Path, users: Any, complaint: str) -> None:
    assert_complains(tmp_path, config(users=users), complaint)


@pytest.mark.parametrize(
    ("user", "complaint"),
    [
        ({"token": 123456}, "users[0].user.token: found a number, expected a string"),
        ({"client-key-data": "hush!"}, "users[0].user.client-key-data: found text, expected base64"),
        ({"auth-provider": {"name": "oidc", "config": {"id-token": "hush"}}},
         'auth-provider: found "oidc", which is not supported; expected an exec plugin'),
        ({"token": "hush", "username": "me"}, "token: mutually exclusive with username"),
        ({"token": "hush hush"}, "token: found text with spaces or control characters, expected a token"),
        ({"token": "hüsh"}, "token: found bytes that are not ASCII, expected a token"),
        ({"client-certificate-data": encoded(b"x")}, "client-key: found nothing, expected the certificate's"),
        ({"client-key-data": encoded(b"x"), "client-key": "y"},
         "client-key: mutually exclusive with client-key-data"),
        ({"client-certificate-data": encoded(b"x"), "client-key-data": encoded(b"hush")},
         'users["it"].user.client-certificate: cannot load'),
        ({"client-certificate": "no", "client-key": "no"}, "no: client-certificate: cannot be read"),
        ({"token": "abc", "as-groups": ["dev"]}, "as: found nothing, expected the user to act as"),
        ({"tokenFile": "missing"}, "missing: tokenFile: cannot be read: No such file or directory"),
        ({"exec": {"command": "x", "apiVersion": f"{V1}alpha1"}},
         f'exec.apiVersion: found "{V1}alpha1", expected one of {V1}, {V1}beta1'),
        ({"exec": {"command": "x", "apiVersion": V1}},
         "exec.interactiveMode: found nothing, expected one of Never, IfAvailable, Always"),
        ({"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Maybe"}},
         'exec.interactiveMode: found "Maybe", expected one of'),
        ({"exec": {"apiVersion": V1}}, "users[0].user.exec.command: found nothing, expected a value"),
        ({"exec": {"command": "", "apiVersion": V1, "interactiveMode": "Never"}},
         "exec.command: found nothing, expected a program"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_user_is_told_without_secrets(
    tmp_path: Path, user: dict[str, Any], complaint: str
) -> None:
    assert_complains(tmp_path, config(user), complaint)


@pytest.mark.parametrize(
    ("cluster", "complaint"),
    [
        ({"certificate-authority": "no"}, "no: certificate-authority: cannot be read"),
        ({"certificate-authority-data": encoded(b"no")},
         'clusters["it"].cluster.certificate-authority-data: found no certificate, expected PEM'),
        ({"certificate-authority": "x", "insecure-skip-tls-verify": True},
         "insecure-skip-tls-verify: mutually exclusive with certificate-authority"),
        ({"insecure-skip-tls-verify": "yes"}, 'skip-tls-verify: found "yes", expected true or false'),
        ({"server": ""}, 'clusters["it"].cluster.server: found nothing, expected a URL'),
        ({"server": "ftp://x"}, 'cluster.server: found "ftp://x", expected a URL such as https://'),
        ({"server": "https://x:port"}, 'cluster.server: found "https://x:port" ('),
        ({"proxy-url": "ftp://me:hush@x"}, 'cluster.proxy-url: found scheme "ftp", expected a URL such as'),
        ({"proxy-url": "http://"}, "cluster.proxy-url: found no host, expected a URL such as"),
        ({"proxy-url": "http://x:hush"}, "cluster.proxy-url: found no URL, expected a URL such as"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_cluster_is_told(
    tmp_path: Path, cluster: dict[str, Any], complaint: str
) -> None:
    assert_complains(tmp_path, config(cluster=cluster), complaint)


def assert_complains(folder: Path, tree: Any, complaint: str) -> None:
    path = write(folder / "config", tree)
    with pytest.raises(CredentialsError) as caught:
        load_credentials(str(path))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(folder))  # the file that is to be looked at
    assert "hush" not in str(caught.value)


def test_a_master_that_is_no_url_is_told_by_its_flag(tmp_path: Path) -> None:
    path = str(write(tmp_path / "c", config()))
    for kubeconfig in (path, None):
        with pytest.raises(CredentialsError, match=r'^--master: found "https://:1", expected a URL'):
            load_credentials(kubeconfig, "https://:1")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        CredentialsError, match="missing: kubeconfig: cannot be read: No such file or directory"
    ):
        load_credentials(str(tmp_path / "missing"))
    with pytest.raises(CredentialsError, match="kubeconfig: cannot be read: Is a directory"):
        load_credentials(str(tmp_path))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(
        CredentialsError, match="bytes: found bytes that are not UTF-8, expected a kubeconfig"
    ):
        load_credentials(str(tmp_path / "bytes"))
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10 * 1024**2)
    with pytest.raises(CredentialsError, match="huge: kubeconfig: file exceeds"):
        load_credentials(str(tmp_path / "huge"))


def test_an_unknown_context_is_told(tmp_path: Path) -> None:
    path = str(write(tmp_path / "c", config()))
    with pytest.raises(CredentialsError, match='--context: found "nowhere", expected one of "it"'):
        load_credentials(path, context="nowhere")


def test_no_header_can_be_smuggled_in(tmp_path: Path) -> None:
    credentials = loaded(tmp_path, {"token": "abc", "as": "me\r\nX-Evil: 1"})
    with pytest.raises(CredentialsError, match="found a line break"):
        headers(credentials)
