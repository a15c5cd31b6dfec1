"""A folder of modules that nobody asked for: each leaves a marker where it is imported."""

from __future__ import annotations

from pathlib import Path

NAMES = [
    *("tracebraid", "numpy", "msgspec", "json", "polars", "torch", "sitecustomize", "usercustomize", "ninja"),
    *(
        "main",
        "runpy",
        "importlib",
        "pickle",
        "typing",
        "subprocess",
        "os",
        "isal",
        "setuptools",
        "distutils",
    ),
]


def make_hostile_folder(folder: Path) -> Path:
    folder.mkdir()
    for name in NAMES:
        marker = folder / f"{name}.ran"
        (folder / f"{name}.py").write_text(
            f"open({str(marker)!r}, 'w').close()\nraise SystemExit('hostile')\n"
        )
    return folder


def ran(folder: Path) -> list[str]:
    """The modules that ran."""
    return sorted(path.stem for path in folder.glob("*.ran"))
