"""Compile the native library into the wheel, where a C++ compiler is at hand; a wheel without it is for any machine."""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "src/tracebraid/native"
PORTABLE = ["-static-libgcc", "-static-libstdc++", "-s"]
"""A wheel runs on machines that have another C++ library, or none; symbols of a debugger would be nine tenths of it."""


class NativeLibrary(BuildHookInterface[Any]):
    """Adds the library to a wheel. One in development has its own in the cache, as its sources change."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile it, and name the machine in the wheel's tag."""
        if self.target_name != "wheel" or version == "editable":
            return
        sources = Path(self.root, FOLDER)
        told = runpy.run_path(str(sources / "__init__.py"))
        self.folder = tempfile.TemporaryDirectory()
        library = Path(self.folder.name, told["LIBRARY"])
        command = [*shlex.split(os.environ.get("CXX") or "c++"), *told["FLAGS"], *PORTABLE]
        try:
            paths = [str(sources / source) for source in told["SOURCES"]]
            subprocess.run([*command, "-o", str(library), *paths], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(
                f"The wheel has no native library, which is compiled on first use: {error}"
            )
            return
        build_data["force_include"][str(library)] = f"tracebraid/native/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which is in the wheel."""
        if hasattr(self, "folder"):
            self.folder.cleanup()
