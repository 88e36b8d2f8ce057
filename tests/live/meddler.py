"""A man in the middle: forwards requests to a real API server, and changes the answers as told."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.live.control_plane import ControlPlane

Meddle = Callable[[str, bytes], Iterable[bytes]]


class Meddler:
    """Plain HTTP to whoever asks, as the administrator to the server. `meddle(path, data)` gives what to
    answer in the place of a line of a watch, or of a whole other answer."""

    def __init__(self, plane: ControlPlane, meddle: Meddle) -> None:
        self.meddle = meddle
        meddler = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                meddler._forward(plane, self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.server = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._open: set[http.client.HTTPSConnection] = set()

    def __enter__(self) -> Meddler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in list(self._open):
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)  # ends the thread that waits for the next line

    def _forward(self, plane: ControlPlane, handler: BaseHTTPRequestHandler) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=context)
        headers = {"Authorization": f"Bearer {plane.token}"}
        for name in ("Content-Type", "Accept"):
            if name in handler.headers:
                headers[name] = handler.headers[name]
        self._open.add(connection)
        try:
            body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            connection.request(handler.command, handler.path, body or None, headers)
            answer = connection.getresponse()
            watch = "watch=true" in handler.path and answer.status == 200
            self._stream(handler, answer) if watch else self._answer(handler, answer)
        except OSError:  # one of the two hung up
            handler.close_connection = True
        finally:
            self._open.discard(connection)
            connection.close()

    def _answer(self, handler: BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
        data = b"".join(self.meddle(handler.path, answer.read()))
        handler.send_response(answer.status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _stream(self, handler: BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while line := answer.readline():
            for part in self.meddle(handler.path, line):
                handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        handler.wfile.write(b"0\r\n\r\n")
