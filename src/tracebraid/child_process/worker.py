"""The protocol between this process and a Python child that works for it, the same for every kind of work.

- A message is bytes behind their length in eight bytes. Pickles among them pass between two processes of one user; no
  content of a file is ever unpickled.
- The child reads messages from its standard input, and replies on a pipe that nothing else writes to. The caller's
  `__main__` does not run in it.
- It leads a session of its own: Ctrl-C reaches this process alone, which ends the child.
- It ends when its standard input does, even in the middle of work: its parent has closed it, or was killed.
"""

from __future__ import annotations

import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from tracebraid import clock
from tracebraid.child_process.start import start_child
from tracebraid.ctrl_c import take_back

_LENGTH_BYTES = 8
_GRACE_S = 0.5
"""Time for a child to end and remove its unfinished files before it is killed."""
_POLL_S = 0.01
_SIGNALS_EVERY_S = 0.1
"""Between two looks at signals while a child works."""


class Worker:
    """A running child, as its parent has it."""

    def __init__(self, popen: subprocess.Popen[bytes], replies: IO[bytes]) -> None:
        assert popen.stdin is not None, "it is started with a pipe"
        self._popen, self._messages, self._replies = popen, popen.stdin, replies

    @classmethod
    def start(cls, function: str, *arguments: str, threads: int | None = None, quiet: bool = False) -> Worker:
        """Start a child that calls a function with what `Parent` takes, and arguments.

        An OSError says that no process can be started. `threads` limits those of polars; `quiet` drops what the
        child and its libraries print.
        """
        if not sys.executable:
            raise OSError(0, "this Python does not know its own path")
        replies, write_end = os.pipe()
        try:
            popen = start_child(
                *(function, str(write_end), working_folder(), *arguments),
                pass_fds=(write_end,),
                quiet=quiet,
                environment={} if threads is None else {"POLARS_MAX_THREADS": str(threads)},
            )
        except OSError:
            os.close(replies)
            raise
        finally:
            os.close(write_end)
        # Unbuffered: a message that lies in a buffer would not wake who waits for the pipe.
        return cls(popen, os.fdopen(replies, "rb", buffering=0))

    def fileno(self) -> int:
        """The pipe of its replies, for a selector."""
        return self._replies.fileno()

    def is_alive(self) -> bool:
        """Return whether the child runs."""
        return self._popen.poll() is None

    def send(self, message: bytes) -> None:
        """Send a message; an OSError says that the child is gone."""
        _send(self._messages, message)

    def receive(self, timeout_s: float | None = None) -> bytes | None:
        """Wait for the next reply; None if the child is gone."""
        readable([self], timeout_s)
        return _receive(self._replies)

    def close(self, grace_s: float = 0.0) -> int:
        """End the child, killed after a while, and return its exit code: below 0 the number of a signal."""
        if grace_s <= 0:
            self._popen.kill()
        for pipe in (self._messages, self._replies):
            with suppress(OSError):
                pipe.close()
        try:
            return self._popen.wait(grace_s or None)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()

    def ended(self) -> int:
        """The exit code of a child that has closed its pipes, or ended."""
        return self.close(_GRACE_S)

    def kill(self) -> None:
        """Kill the child; who waits for its reply hears that it is gone."""
        self._popen.kill()

    def terminate(self) -> None:
        """Have the child clean up and end."""
        self._popen.terminate()


def close_all(idle: Sequence[Worker], busy: Sequence[Worker]) -> None:
    """End children at once; those that work are asked to clean up first, then killed."""
    for worker in busy:
        worker.terminate()
    deadline_s = clock.now_s() + _GRACE_S
    while any(worker.is_alive() for worker in busy) and clock.now_s() < deadline_s:
        clock.pause(_POLL_S)
    for worker in (*idle, *busy):
        worker.close()


def readable(workers: Sequence[Worker], timeout_s: float | None = None) -> list[Worker]:
    """Wait until some children have replied or are gone, and return them; Ctrl-C is raised meanwhile."""
    deadline_s = None if timeout_s is None else clock.now_s() + timeout_s
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker, selectors.EVENT_READ, worker)
        while not (ready := selector.select(_SIGNALS_EVERY_S)):
            take_back()
            if deadline_s is not None and clock.now_s() > deadline_s:
                raise TimeoutError(f"no reply within {timeout_s} s")
    return [key.data for key, _ in ready]


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def working_folder() -> str:
    """The working folder, which relative paths depend on; "" where it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109 - as text, as it is sent
    except OSError:
        return ""


def enter(folder: str) -> None:
    """Go to the parent's folder. Nothing is imported from there: the module path has no relative entries."""
    with suppress(OSError):
        os.chdir(folder)


class Parent:
    """The other end of a `Worker`, in the child: messages come in, and replies go out, from any thread.

    Args:
        replies_fd: the pipe for replies.
        folder: the parent's working folder.
        cleans_up: whether handlers that remove unfinished files run when the child is ended.
    """

    def __init__(self, replies_fd: str, folder: str, *, cleans_up: bool = False) -> None:
        self._cleans_up = cleans_up
        self._messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_ending = False
        incoming, self._replies = _own_pipes(int(replies_fd))
        if cleans_up:
            signal.signal(signal.SIGTERM, self._end)
        enter(folder)
        threading.Thread(target=self._read, args=(incoming,), daemon=True).start()

    def receive(self) -> bytes:
        """Wait for the next message; the process ends where there is none."""
        return self._messages.get()

    def reply(self, message: bytes) -> None:
        """Send, or end if the parent was killed."""
        with self._lock:
            try:
                _send(self._replies, message)
            except BrokenPipeError:
                # What is still buffered goes nowhere: the last flush of the file says nothing.
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, self._replies.fileno(), inheritable=False)
                os.close(nothing)
                self._is_ending = True
                raise SystemExit(1) from None

    def _end(self, _signal: int, _frame: object) -> None:
        # Raised a second time, it would be printed: by handlers of the exit that runs already.
        if not self._is_ending:
            self._is_ending = True
            raise SystemExit(1)

    def _read(self, incoming: IO[bytes]) -> None:
        while (message := _receive(incoming)) is not None:
            self._messages.put(message)
        if self._cleans_up:
            os.kill(os.getpid(), signal.SIGTERM)
            clock.pause(_GRACE_S)
        os._exit(1)


def _own_pipes(replies_fd: int) -> tuple[IO[bytes], IO[bytes]]:
    """Open the two pipes, inaccessible to the work's own input and output, and to processes that it starts."""
    os.set_inheritable(replies_fd, False)
    incoming = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Standard output is dropped: startup files may print. What the work prints is for people.
    sys.stdout = sys.stderr
    return incoming, os.fdopen(replies_fd, "wb")


def limit_memory(limit_bytes: int) -> None:
    """Limit this process's memory, unless a stricter limit holds, and write no core dump."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_bytes = resource.getrlimit(resource.RLIMIT_DATA)
    if most_bytes in (resource.RLIM_INFINITY, max(most_bytes, limit_bytes)):
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, most_bytes))


def limit_files(limit_bytes: int) -> None:
    """Limit the size of each file that this process writes; a write beyond it is an error, as on a full disk."""
    try:
        import resource
    except ImportError:
        return
    _, most_bytes = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most_bytes == resource.RLIM_INFINITY or limit_bytes < most_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, most_bytes))


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None if the writer is gone, also within a message."""
    length = _whole(stream, _LENGTH_BYTES)
    return None if length is None else _whole(stream, int.from_bytes(length, "little"))


def _whole(stream: IO[bytes], size: int) -> bytes | None:
    """Read an exact number of bytes; a pipe delivers them in parts."""
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count: int | None = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            return None
        filled += count
    return bytes(data)
