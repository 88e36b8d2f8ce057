"""The containers of all nodes, as clients run commands in them and attach to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.executing import execute, find_container, open_container_shell
from mooring.sandbox.kubelet.guests import Guest
from mooring.sandbox.programs.executing import ContainerRun, NotRunningError
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.program import Outcome, run_line


class GuestContainers:
    """See `programs.executing.Containers`. `guests` are the pods by uid; `enqueue` is called with the key of
    a pod whose containers are to be evaluated again."""

    def __init__(
        self, guests: Mapping[str, Guest], clock: Callable[[], float], enqueue: Callable[[str], None]
    ) -> None:
        self._guests = guests
        self._clock = clock
        self._enqueue = enqueue

    def is_running(self, uid: str, container: str) -> bool:
        guest = self._guests.get(uid)
        if guest is None or guest.life is None or not guest.machine.takes_pods:
            return False
        return guest.life.find_running(container) is not None

    def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: str | None, *, is_dry: bool
    ) -> Outcome | None:
        life = self._find_life(uid, container)
        outcome, files = execute(life, container, command, self._clock(), stdin, is_dry=is_dry)
        if is_dry:
            files.forget()
        else:
            self.notice_writes(life, files)
        return outcome

    def open_shell(self, uid: str, container: str) -> Callable[[str], Outcome | None]:
        shell = open_container_shell(self._find_life(uid, container), container)

        def run(line: str) -> Outcome | None:
            life = self._find_life(uid, container)
            try:
                return run_line(shell, line, self._clock())
            finally:
                self.notice_writes(life, shell.files)

        return run

    def follow(self, uid: str, container: str) -> ContainerRun:
        one = find_container(self._find_life(uid, container), container)
        return ContainerRun(one.started, one.outcome)

    def enter(self, uid: str, container: str, text: str | None) -> None:
        life = self._find_life(uid, container)
        life.evaluation.enter(find_container(life, container), text, self._clock())
        self._enqueue(life.pod.key)

    def end(self, uid: str, container: str, exit_code: int) -> None:
        with suppress(NotRunningError):
            life = self._find_life(uid, container)
            life.end(find_container(life, container), exit_code, self._clock())
            self._enqueue(life.pod.key)

    def _find_life(self, uid: str, container: str) -> PodLife:
        guest = self._guests.get(uid)
        if guest is None or guest.life is None or not self.is_running(uid, container):
            raise NotRunningError(container)
        return guest.life

    def notice_writes(self, life: PodLife, files: Files) -> None:
        """Evaluate containers again that may see what was written."""
        if life.notice_writes(files):
            self._enqueue(life.pod.key)
