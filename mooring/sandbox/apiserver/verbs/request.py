"""Requests and answers, without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.resource import Resource, Subresource
from mooring.sandbox.apiserver.context.write import Operation, Write
from mooring.sandbox.apiserver.fields.managers import manager_name
from mooring.sandbox.apiserver.kinds.codec import Codec
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.options import write_options
from mooring.sandbox.apiserver.verbs.reading import Listing
from mooring.sandbox.apiserver.verbs.watching import ConvertedWatching, Watching
from mooring.sandbox.network.messages import Query, Reply
from mooring.sandbox.programs.conversations import Conversation
from mooring.sandbox.programs.executing import ContainerRun
from mooring.sandbox.programs.program import Outcome

_NO_PARAMS: Mapping[str, list[str]] = {}
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(slots=True)
class Request:
    """A request. `verb` is one of get, list, watch, create, update, patch, delete, deletecollection."""

    api: Api
    verb: str
    resource: Resource
    namespace: str
    name: str
    user: User
    subresource: Subresource | None = None
    params: Mapping[str, list[str]] = field(default_factory=lambda: _NO_PARAMS)
    body: bytes = b""
    content_type: str = ""
    user_agent: str = ""
    tracked: bool = True
    """Whether the write is recorded in managedFields. In-process clients may do without."""
    options: WriteOptions | None = None
    """Options of the write instead of `params`, parsed once by in-process clients."""
    patch: Tree | None = None
    """A decoded merge patch, instead of `body`."""
    warnings: list[str] = field(default_factory=list)
    """Warnings of the write, for the answer if it fails."""
    path: str = ""
    """What follows the subresource `proxy`."""
    proxied: Query | None = None
    """The request that the subresource `proxy` forwards; its target is "" without a slash."""

    @property
    def codec(self) -> Codec:
        """The codec of objects in the body."""
        return self.subresource.codec if self.subresource is not None else self.resource.codec

    def write(self, operation: Operation, options: WriteOptions | None = None) -> Write:
        """Return this request as a write. Raises ApiError for invalid options."""
        name = self.subresource.name if self.subresource is not None else ""
        if options is None:
            options = self.options or write_options(self.params, _OPTIONS[operation])
        if not options.field_manager:
            options = options.with_manager(manager_name(self.user_agent))
        write = Write(
            self.api, self.resource, self.namespace, self.name, self.user, options, operation, name, self.verb
        )
        if not self.tracked:
            write.ownership = "keep"
        self.warnings.clear()  # of an attempt that did not get to its end
        write.warnings = self.warnings
        return write


@dataclass(slots=True)
class ObjectAnswer:
    """A stored object."""

    record: Record
    resource: Resource
    code: int = 200
    warnings: list[str] = field(default_factory=list)


class TreeAnswer(NamedTuple):
    """An object that is not stored: a Status, a Scale, a review."""

    tree: Tree
    code: int = 200
    warnings: list[str] = []


class ListAnswer(NamedTuple):
    listing: Listing
    resource: Resource


class WatchAnswer(NamedTuple):
    watching: Watching | ConvertedWatching
    resource: Resource


class TextAnswer(NamedTuple):
    text: str


class ReplyAnswer(NamedTuple):
    """What a container answers to a request."""

    reply: Reply


class TextStreamAnswer(NamedTuple):
    """Text that comes in the course of time. Empty ones show that there is nothing yet."""

    texts: AsyncIterator[str]


class Streams(NamedTuple):
    """The streams of a command that the client asks for."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


class CommandAnswer(NamedTuple):
    """A command in a container, and the streams that the client asks for.

    `run` takes its input, or None if that is not there yet, and whether nothing is to be written. It returns
    None where it is not known what the command does, and raises ApiError. `open_shell` returns what runs the
    lines of a terminal. `unknown` is the answer to a command that is not known.
    """

    run: Callable[[str | None, bool], Outcome | None]
    open_shell: Callable[[], Callable[[str], Outcome | None]]
    is_running: Callable[[], bool]
    unknown: ApiError
    command: list[str]
    streams: Streams


class AttachAnswer(NamedTuple):
    """A container that a client attaches to. `shell` runs lines where its program is an interactive shell.

    `follow` returns how its run goes; `enter` gives it input, or None at the end; `end` has it end with an
    exit code. All raise NotRunningError. `is_closed_by_client` is whether its input ends with the client's.
    """

    shell: CommandAnswer
    follow: Callable[[], ContainerRun]
    enter: Callable[[str | None], None]
    end: Callable[[int], None]
    is_shell: bool
    is_closed_by_client: bool


class ForwardError(Exception):
    """A port of a pod cannot be reached."""


class PortsAnswer(NamedTuple):
    """The ports of a pod, for a client that has them forwarded.

    `ports` are those that the request names. `open` connects to one; it raises ForwardError.
    """

    ports: list[int]
    open: Callable[[int], Conversation]
    is_running: Callable[[], bool]


Answer = (
    ObjectAnswer
    | TreeAnswer
    | ListAnswer
    | WatchAnswer
    | TextAnswer
    | TextStreamAnswer
    | ReplyAnswer
    | CommandAnswer
    | AttachAnswer
    | PortsAnswer
)
