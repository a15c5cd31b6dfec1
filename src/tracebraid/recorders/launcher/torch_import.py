"""Has the first use of torch watched for in this process when its `import torch` has ended.

The injected `sitecustomize` runs this file at the start of each Python, by its path: it imports nothing that is not
loaded then, not even `__future__`, hence the quoted annotations. A program may find torch's spec before it imports
it, import it on several threads, or retry a failed import: it must see the same as without Tracebraid.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def watch(settings: str) -> None:
    """Wait for the import of torch."""
    sys.meta_path.insert(0, _Finder(settings))


class _Finder:
    """Finds torch as the finders after it do, with a loader that has its first use watched for."""

    def __init__(self, settings: str) -> None:
        self._settings = settings

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "torch" or target is not None:
            # With a target it is imported again.
            return None
        spec = self._find_after(name, path)
        try:
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec, self)
        except Exception as error:  # noqa: BLE001 - A spec of another kind is used unchanged.
            _not_captured(error)
        return spec

    def watch_once(self) -> None:
        """Watch for the first use of torch, unless another import of torch did."""
        try:
            if not any(finder is self for finder in sys.meta_path):
                return
            sys.meta_path.remove(self)
            _refuse_other_tracebraid()
            from tracebraid.recorders.guard import Guard
        # SystemExit: a module that shadows one of ours may be a script.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            _not_captured(error)
            return
        with Guard(_not_captured):
            from tracebraid.recorders.launcher.first_use import watch

            watch(self._settings, _not_captured)

    def _find_after(self, name: str, path: "Any") -> "Any":
        """Find a module with the finders after this one, in order."""
        is_after = False
        for finder in list(sys.meta_path):
            if is_after:
                if not hasattr(finder, "find_spec"):
                    # A legacy finder, which Python 3.12 no longer supports: left to Python.
                    return None
                spec = finder.find_spec(name, path, None)
                if spec is not None:
                    return spec
            is_after = is_after or finder is self
        return None


class _Loader:
    """Delegates to torch's own loader until the module is executed, then restores that loader in the spec."""

    def __init__(self, spec: "Any", finder: "_Finder") -> None:
        if not hasattr(spec.loader, "exec_module"):
            raise ImportError(f"torch has a legacy import loader ({type(spec.loader).__name__})")
        self._of_torch = (spec, spec.loader, finder)

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._of_torch[1], name)

    @property  # type: ignore[misc]
    def __class__(self) -> "Any":
        return self._of_torch[1].__class__

    def exec_module(self, module: "ModuleType") -> None:
        """Execute torch; what that raises is the program's."""
        spec, loader, finder = self._of_torch
        try:
            for owner, name in ((spec, "loader"), (module.__spec__, "loader"), (module, "__loader__")):
                if getattr(owner, name, None) is self:
                    setattr(owner, name, loader)
        except Exception as error:  # noqa: BLE001 - This loader stays, and delegates to the original.
            _not_captured(error)
        loader.exec_module(module)
        if "torch" in sys.modules:
            # Otherwise the program executes a module object of its own, and importing torch would execute another.
            finder.watch_once()


def _refuse_other_tracebraid() -> None:
    """Reject a module of the program that shadows this package: importing it would run it."""
    from importlib.util import find_spec

    spec = find_spec("tracebraid")
    if spec is None:
        raise ImportError(f"tracebraid is not installed for {sys.executable}")
    if spec.submodule_search_locations is None:
        raise ImportError(f"{spec.origin} has the name of tracebraid, and hides it")


def _not_captured(error: BaseException) -> None:
    words = " ".join(str(error).split()) or type(error).__name__
    if type(error).__module__ == "builtins" and not isinstance(error, ImportError):
        words = f"{type(error).__name__}: {words}"
    _leave_note(words)
    try:
        sys.stderr.write(f"tracebraid: this process is not captured: {words}\n")
    except (AttributeError, OSError, ValueError):
        # There is no standard error, or it is closed.
        return


def _leave_note(words: str) -> None:
    """Leave the reason for the launcher: `notes.py`, which cannot be imported here."""
    try:
        path = f"{os.environ['TRACEBRAID_NOTES']}/{os.getpid()}.failed"
        with open(path, "wb") as note:  # noqa: PTH123 - pathlib may not be loaded.
            note.write(words.encode("utf-8", "replace"))
    except (KeyError, OSError, ValueError):
        return
