"""Python runs this at its start in every process that `tracebraid capture` starts.

It has the module `torch_import` wait for torch, removes itself, and imports the `sitecustomize` that it hides under its
name. Any Python may run it: it is valid and silent from Python 2.7 on, and imports nothing that is not loaded.
"""

import os
import sys

if __name__ == "sitecustomize":
    try:
        # A note for the launcher: this Python runs the injected file.
        _old = sys.version_info < (3, 10)
        _note = "%d.%s" % (os.getpid(), "failed" if _old else "python")
        with open(os.path.join(os.environ["TRACEBRAID_NOTES"], _note), "wb") as _file:
            if _old:
                _words = "Python %d.%d is too old for tracebraid, which needs 3.10" % sys.version_info[:2]
                _file.write(_words.encode("ascii"))
    except Exception:  # noqa: BLE001 - There is no launcher, or its folder cannot be reached.
        _note = ""
    if sys.version_info >= (3, 10) and "TRACEBRAID_CAPTURE" in os.environ:
        try:
            _path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "torch_import.py")
            with open(_path, "rb") as _file:
                _code = compile(_file.read(), _path, "exec")
            _names = {"__name__": "_tracebraid_torch_import"}
            exec(_code, _names)
            _names["watch"](os.environ["TRACEBRAID_CAPTURE"])  # type: ignore[operator]
        except Exception as _error:  # noqa: BLE001 - A fault of ours must not stop the program.
            if sys.stderr is not None:
                sys.stderr.write("tracebraid: this process is not captured: %r\n" % (_error,))

    # Restore the state without injection: the module path, the module of this name, and what importing it raises.
    _ours = sys.modules.pop("sitecustomize")  # Python 2 clears a module without references.
    sys.path[:] = [_entry for _entry in sys.path if _entry != os.path.dirname(__file__)]
    __import__("sitecustomize")
