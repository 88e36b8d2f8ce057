"""python -m benchmarks.http_client: what does a POST to an API server cost this process, against aiohttp?

A server in a process of its own answers every request with the Status that a binding is answered with; the
clients keep a number of requests under way over TLS. Prints CPU microseconds per request of the client's
process, once on asyncio's own event loop and once on uvloop, with ratios. Needs the extras bench and fast.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import ipaddress
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp
import msgspec
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mooring.api.kinds import PODS
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials
from mooring.client.credentials.trust import Trust

ANSWER_BODY = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
ANSWER = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 7d1f1c5c-3f0e-4e1c-9d8c-0f6a2f8f3c11\r\n"
    b"Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 3c2b5b0e-6a0e-4a53-9d6a-1f2b3c4d5e6f\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 9f8e7d6c-5b4a-4c3d-8e2f-1a0b9c8d7e6f\r\n"
    b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER_BODY), ANSWER_BODY)
)
Post = Callable[[int], Awaitable[object]]


def binding(number: int) -> dict[str, object]:
    metadata = {
        "name": f"pod-{number}",
        "namespace": "default",
        "uid": "391e6717-daa5-4418-a475-b81429069468",
    }
    target = {"kind": "Node", "name": f"node-{number}"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


class Answering(asyncio.Protocol):
    """Requests of this benchmark end with two braces; no more parsing than that."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}}"):
            self.transport.write(ANSWER)


def serve(folder: Path, port: Connection) -> None:
    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, ssl=context)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def make_certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "benchmark")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(pem + secret)
    (folder / "ca.pem").write_bytes(pem)
    return folder / "ca.pem"


async def measure(post: Post, requests: int, at_once: int) -> float:
    """CPU microseconds of this process per request."""
    numbers = iter(range(requests))

    async def work() -> None:
        for number in numbers:
            await post(number)

    await asyncio.gather(*(post(number) for number in range(at_once)))  # connections are open now
    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return (time.process_time() - began) / requests * 1e6


async def with_mooring(server: str, ca: Path, requests: int, at_once: int) -> float:
    api = ApiServer(Credentials(server, trust=Trust(ca.read_bytes())), qps=-1)
    try:
        return await measure(
            lambda number: api.post(PODS, f"pod-{number}", "binding", binding(number), "default"),
            requests,
            at_once,
        )
    finally:
        await api.close()


async def with_aiohttp(server: str, ca: Path, requests: int, at_once: int) -> float:
    context = ssl.create_default_context(cafile=str(ca))
    headers = {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=context, limit=at_once)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def post(number: int) -> None:
            url = f"{server}/api/v1/namespaces/default/pods/pod-{number}/binding"
            async with session.post(url, data=msgspec.json.encode(binding(number))) as answer:
                await answer.read()

        return await measure(post, requests, at_once)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--at-once", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        ca = make_certificate(Path(name))
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=serve, args=(Path(name), theirs), daemon=True)
        process.start()
        server = f"https://127.0.0.1:{ours.recv()}"
        for name_of_loop, make_loop in (
            ("asyncio", asyncio.new_event_loop),
            ("uvloop", uvloop.new_event_loop),
        ):
            costs = []
            for client in (with_mooring, with_aiohttp):
                with asyncio.Runner(loop_factory=make_loop) as runner:
                    costs.append(runner.run(client(server, ca, options.requests, options.at_once)))
            print(
                f"on {name_of_loop:7}: mooring {costs[0]:4.0f}, aiohttp {costs[1]:4.0f} CPU µs per POST "
                f"({costs[1] / costs[0]:.1f} times)"
            )
        process.terminate()
        process.join()


if __name__ == "__main__":
    main()
