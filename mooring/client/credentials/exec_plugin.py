"""Exec plugins: a program that prints credentials (client.authentication.k8s.io/v1 and v1beta1)."""

from __future__ import annotations

import base64
import math
import os
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from mooring.api.decode import strip_nulls
from mooring.client.api_errors import CredentialsError
from mooring.client.credentials.identity import Proof, token_of
from mooring.client.credentials.kubeconfig import Choice, Exec
from mooring.client.credentials.program import LARGEST_OUTPUT, TIME_LIMIT, run_program
from mooring.client.credentials.trust import Trust

_SHORTEST_HOLD = 1.0  # credentials that are past already do not make every request run the plugin


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    def __repr__(self) -> str:
        return "_Status(…)"


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecIdentity:
    """Runs the plugin whenever proof is asked for; who asks keeps it until it expires or is refused."""

    def __init__(self, plugin: Exec, choice: Choice, trust: Trust, server: str) -> None:
        self._plugin = plugin
        self._choice = choice
        self._trust = trust
        self._server = server
        self._where = f"{choice.user_field('exec')}: {plugin.command}"
        path = choice.user_path.parent / plugin.command
        self._command = str(path.absolute()) if os.sep in plugin.command else plugin.command

    async def prove(self) -> Proof:
        interactive = self._interactive()
        output = await self._run(interactive)
        try:
            tree = strip_nulls(msgspec.json.decode(output))
            credential = msgspec.convert(tree, _ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CredentialsError(f"{self._where}: printed no ExecCredential: {error}") from None
        return self._proof(credential)

    def _interactive(self) -> bool:
        """Whether the plugin may talk to the person at the terminal."""
        mode = self._plugin.interactive_mode or "IfAvailable"
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not terminal:
            raise CredentialsError(
                f"{self._where}: needs a terminal (interactiveMode Always), but there is none"
            )
        return mode != "Never" and terminal

    async def _run(self, interactive: bool) -> bytes:
        environ = {**os.environ, **{each.name: each.value for each in self._plugin.env}}
        environ["KUBERNETES_EXEC_INFO"] = self._info(interactive)
        try:
            printed = await run_program(self._command, self._plugin.args, environ, interactive)
        except TimeoutError:
            raise CredentialsError(f"{self._where}: did not exit within {TIME_LIMIT:.0f} s") from None
        except OSError as error:
            raise CredentialsError(f"{self._where}: cannot be run: {error.strerror}{self._hint()}") from None
        except OverflowError:
            raise CredentialsError(f"{self._where}: printed more than {LARGEST_OUTPUT} bytes") from None
        if printed.code:
            said = " ".join(printed.errors[-500:].decode(errors="replace").split())
            failed = f"{self._where}: failed with exit code {printed.code}"
            raise CredentialsError(f"{failed}: {said}" if said else failed)
        return printed.output

    def _info(self, interactive: bool) -> str:
        """Input of the plugin, as passed in its environment variable."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            cluster = self._choice.cluster
            info: dict[str, Any] = {
                "server": self._server,
                "tls-server-name": cluster.tls_server_name,
                "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
                "certificate-authority-data": base64.b64encode(self._trust.read()).decode("ascii"),
                "proxy-url": cluster.proxy_url,
                "disable-compression": cluster.disable_compression,
                "config": cluster.exec_config(),
            }
            spec["cluster"] = {name: value for name, value in info.items() if value}
        credential = {"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}
        return msgspec.json.encode(credential).decode()

    def _hint(self) -> str:
        """The kubeconfig's advice on how to install the plugin, without what could upset a terminal."""
        hint = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in self._plugin.install_hint)
        return f"\n{hint}" if hint else ""

    def _proof(self, credential: _ExecCredential) -> Proof:
        expected = self._plugin.api_version
        if credential.kind != "ExecCredential" or credential.api_version != expected:
            raise CredentialsError(
                f'{self._where}: printed kind "{credential.kind}" of apiVersion "{credential.api_version}", '
                f'expected "ExecCredential" of "{expected}"'
            )
        status = credential.status or _Status()
        certificate, key = status.client_certificate_data.encode(), status.client_key_data.encode()
        if bool(certificate) != bool(key):
            missing = "clientKeyData" if certificate else "clientCertificateData"
            raise CredentialsError(
                f"{self._where}: printed nothing for status.{missing}, expected both or neither"
            )
        if not status.token and not certificate:
            raise CredentialsError(f"{self._where}: printed neither a token nor a certificate")
        token = token_of(status.token.encode(), f"{self._where}: status.token") if status.token else ""
        field = f"{self._where}: status.clientCertificateData"
        return Proof(f"Bearer {token}" if token else "", certificate, key, _holds_for(status), field)


def _holds_for(status: _Status) -> float:
    expiry = status.expiration_timestamp
    if expiry is None:
        return math.inf
    aware = expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)
    return max(_SHORTEST_HOLD, (aware - datetime.now(UTC)).total_seconds())
