"""A process that `tracebraid capture` started does what it would do without us; most of them with a torch of ours."""

from __future__ import annotations

import ast
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

import pytest

from tests.integration.running import run_command
from tracebraid.recorders import launcher
from tracebraid.recorders.launcher.launch import child_environment
from tracebraid.recorders.session.settings import Settings

SEES = """
import sys
def show(name):
    try:
        module = __import__(name)
        print(name, getattr(module, "answer", None), module.__file__, type(module.__loader__), module.__spec__.loader)
    except BaseException as error:
        print(name, type(error), error)
"""
PATHS = (
    "print(sys.path, sorted(name for name in sys.modules if 'customize' in name or 'tracebraid' in name))\n"
)


class Injected(NamedTuple):
    """How a program ends with us."""

    stdout: str
    stderr: str
    returncode: int


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder


def stub(folder: Path, text: str) -> None:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(text)


def run_both(code: str, theirs: Path, *options: str, python: str = sys.executable) -> Injected:
    """Run a program with us and without; but for lines of ours on standard error, it must do the same."""
    given = {"PYTHONPATH": str(theirs), "PYTHONDONTWRITEBYTECODE": "1"}
    injected = child_environment(Settings(str(theirs.parent / "traces")))
    folder = injected["PYTHONPATH"].split(os.pathsep)[0]
    ours = {
        **given,
        "PYTHONPATH": f"{folder}{os.pathsep}{theirs}",
        "TRACEBRAID_CAPTURE": injected["TRACEBRAID_CAPTURE"],
    }
    (with_us, without) = (
        run_command(python, *options, "-c", code, stdin=b"", **environment) for environment in (ours, given)
    )
    said = [line for line in with_us.stderr.splitlines() if line.startswith("tracebraid: ")]
    others = [line for line in with_us.stderr.splitlines() if not line.startswith("tracebraid: ")]
    assert with_us.returncode == without.returncode
    assert without_addresses(with_us.stdout) == without_addresses(without.stdout), with_us.stderr
    # A traceback has our frame in it.
    assert others[-1:] == without.stderr.splitlines()[-1:]
    return Injected(with_us.stdout, "\n".join(said), with_us.returncode)


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)


# --- customisations ---------------------------------------------------------------------------------

CUSTOMISED = {
    "none": "",
    "theirs": "answer = 42\n",
    "prints": "print('customised')\nanswer = 42\n",
    "raises": "answer = 42\nraise RuntimeError('boom')\n",
    "lacks": "import not_installed_at_all\n",
    "exits": "raise SystemExit(3)\n",
    "broken": "def (:\n",
}


def pythons() -> list[str]:
    """The interpreters that are here, old ones too."""
    names = ["python2.7", *(f"python3.{minor}" for minor in range(4, 16))]
    found = [sys.executable]
    for name in names:
        program = shutil.which(name)
        if program and subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
            found.append(program)
    return found


@pytest.mark.full
@pytest.mark.parametrize("kind", CUSTOMISED)
@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
def test_customisations_are_as_without_us(theirs: Path, kind: str, name: str) -> None:
    if kind != "none":
        (theirs / f"{name}.py").write_text(CUSTOMISED[kind])
    code = f"{SEES}{PATHS}show('sitecustomize')\nshow('usercustomize')\n{PATHS}"
    assert run_both(code, theirs).stderr == ""


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "prints", "lacks"])
def test_every_python_starts_as_without_us(theirs: Path, kind: str) -> None:
    (theirs / "sitecustomize.py").write_text(CUSTOMISED[kind])
    code = "import sys, sitecustomize\nprint(sys.path, sitecustomize.__file__, sorted(sys.modules))\n"
    for python in pythons():
        assert run_both(code, theirs, python=python).stderr == ""


@pytest.mark.full
@pytest.mark.parametrize("option", ["-S", "-I", "-E"])
def test_a_python_that_takes_no_customisation_is_not_captured(theirs: Path, option: str) -> None:
    stub(theirs, "answer = 1\n")
    code = f"{SEES}import sys; sys.path.insert(0, {str(theirs)!r})\nshow('torch')\n"
    assert run_both(code, theirs, option).stderr == ""


SHOWS = """
import json, os, sys, threading, warnings
ours = {"TRACEBRAID_CAPTURE", "TRACEBRAID_NOTES", "PYTHONPATH"}
print(sys.path, sys.flags, sorted(sys.modules), threading.active_count(), sys.argv, sys.excepthook, sys.path_hooks)
print(warnings.filters, sys.getrecursionlimit(), sys.gettrace(), sys.stdin.read(), json.dumps(sorted(
    (name, value) for name, value in os.environ.items() if name not in ours)))
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        ("-bb",),
        ("-W", "error"),
        ("-X", "dev"),
        ("-OO",),
        ("-s",),
        *([("-P",)] if sys.version_info >= (3, 11) else []),
    ],
    ids=" ".join,
)
def test_nothing_of_the_process_is_different_before_torch_is_imported(
    theirs: Path, options: tuple[str, ...]
) -> None:
    assert run_both(SHOWS, theirs, *options).stderr == ""


ENVIRONMENTS: dict[str, dict[str, str]] = {
    **{f"path {path!r}": {"PYTHONPATH": path} for path in ("", ":", "a::b", ":a", "a:", ".")},
    "home": {"PYTHONHOME": sys.base_prefix},
    "start-up": {"PYTHONSTARTUP": "a/sitecustomize.py"},
    "safe path": {"PYTHONSAFEPATH": "1", "PYTHONPATH": "a"},
    "no folder of the user": {"PYTHONNOUSERSITE": "1"},
    "folder of the user": {"PYTHONUSERBASE": "a"},
    "development": {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error"},
}


@pytest.mark.full
@pytest.mark.parametrize("variables", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_variables_of_python_mean_what_they_mean_without_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "sitecustomize.py").write_text("print('theirs')\n")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert_as_without_us(tmp_path, sys.executable, "-c", SHOWS)


OF_A_CHILD = "import sys; print(sys.path, sorted(sys.modules), sys.prefix)"
CHILDREN = {
    "exec": "os.execv(sys.executable, child)",
    "exec without an environment": "os.execve(sys.executable, child, {})",
    "spawn": "sys.exit(os.spawnv(os.P_WAIT, sys.executable, child))",
    "subprocess without an environment": "sys.exit(subprocess.run(child, env={}).returncode)",
    "env -i": "sys.exit(subprocess.run(['env', '-i', *child]).returncode)",
    "shell": "os.system('echo $0; exit 3'); sys.exit(os.system(shlex.join(child)) >> 8)",
    "no Python": "print(subprocess.run(['ls', '/'], capture_output=True)); subprocess.run('kill -9 $$', shell=True)",
    "processes": (
        "context = multiprocessing.get_context(sys.argv[1])\n"
        "with concurrent.futures.ProcessPoolExecutor(1, context) as pool:\n"
        "    print(pool.submit(eval, '__import__(\"sys\").path').result())\n"
        "    print(pool.submit(sorted, pool.submit(eval, 'set(__import__(\"sys\").modules)').result()).result())\n"
    ),
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        *((kind, "") for kind in CHILDREN if kind != "processes"),
        *(("processes", method) for method in multiprocessing.get_all_start_methods()),
    ],
)
def test_children_are_what_they_are_without_us(tmp_path: Path, kind: str, argument: str) -> None:
    imports = "import concurrent.futures, multiprocessing, os, shlex, subprocess, sys\n"
    program = tmp_path / "program.py"
    child = f"child = [sys.executable, '-c', {OF_A_CHILD!r}]\n"
    program.write_text(f"{imports}if __name__ == '__main__':\n" + indent(child + CHILDREN[kind], "    "))
    assert_as_without_us(tmp_path, sys.executable, str(program), argument)


@pytest.mark.full
def test_an_environment_in_an_environment_has_its_own_modules(tmp_path: Path) -> None:
    for python, name in ((sys.executable, "outer"), (tmp_path / "outer" / "bin" / "python", "inner")):
        subprocess.run([python, "-m", "venv", "--without-pip", tmp_path / name], check=True)
    inner = tmp_path / "inner" / "bin" / "python"
    assert_as_without_us(tmp_path, str(inner), "-c", OF_A_CHILD)
    assert_as_without_us(tmp_path, str(inner), "-c", "import torch")


def assert_as_without_us(folder: Path, *command: str) -> None:
    """A command does, says and ends as it would without us."""
    with_us = child_environment(Settings(str(folder / "traces")), folder)
    ends = []
    for environment in (dict(os.environ), with_us):
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder
        )
        ends.append((done.returncode, without_addresses(done.stdout), without_addresses(done.stderr)))
    assert ends[0] == ends[1]


@pytest.mark.full
def test_children_get_the_variables_that_the_documents_name_and_no_other(tmp_path: Path) -> None:
    code = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; print(sorted(os.environ))'])"
    injected = child_environment(Settings(str(tmp_path)), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code], env=injected, capture_output=True, text=True, check=True
    )
    names = {"TRACEBRAID_CAPTURE", "TRACEBRAID_NOTES", "PYTHONPATH"}
    assert set(ast.literal_eval(done.stdout)) - set(os.environ) <= names
    told = (Path(__file__).parents[2] / "docs" / "capture.md").read_text()
    assert all(f"`{name}`" in told for name in names)
    changed = {name for name in os.environ if injected[name] != os.environ[name]}
    assert changed <= names


def test_old_pythons_can_read_the_injected_file() -> None:
    """Where none is installed: no syntax that Python 3.4 lacks, nor an annotation, and only ASCII, for 2.7."""
    injected = Path(launcher.__file__).parent / "inject" / "sitecustomize.py"
    tree = ast.parse(injected.read_bytes().decode("ascii"), feature_version=(3, 4))
    newer = (ast.AnnAssign, ast.JoinedStr, ast.NamedExpr, ast.Nonlocal, ast.AsyncFunctionDef, ast.Starred)
    assert [node for node in ast.walk(tree) if isinstance(node, newer)] == []


# --- torch ------------------------------------------------------------------------------------------

STUBS = {
    "empty": "",
    "odd": "def __getattr__(name): raise SystemExit(name)\n",
    "fails": "raise RuntimeError('boom')\n",
    "lacks": "import not_installed_at_all\n",
    "exits": "raise SystemExit(3)\n",
    "replaced": "import sys, types\nsys.modules['torch'] = types.SimpleNamespace(answer=1, __file__='', __loader__=0, "
    "__spec__=types.SimpleNamespace(loader=0))\n",
    "no spec": "__spec__ = None\n",
}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", STUBS)
def test_importing_torch_does_what_it_does_without_us(theirs: Path, kind: str) -> None:
    stub(theirs, STUBS[kind])
    done = run_both(f"{SEES}show('torch')\nshow('torch')\nprint('ran')\n", theirs)
    assert done.stdout.endswith("ran\n")
    assert done.stderr.count("\n") == 0
    assert bool(done.stderr) == (kind not in ("fails", "lacks", "exits"))


@pytest.mark.full
@pytest.mark.parametrize("kind", STUBS)
def test_an_error_that_the_program_does_not_catch_is_as_without_us(theirs: Path, kind: str) -> None:
    stub(theirs, STUBS[kind])
    run_both("import torch; print('ran')", theirs)


@pytest.mark.full
def test_a_program_without_torch_gets_the_error_that_it_gets_without_us(theirs: Path) -> None:
    code = f"{SEES}sys.path[:] = [{str(theirs)!r}]\nshow('torch')\n"
    assert run_both(code, theirs).stderr == ""


@pytest.mark.full
def test_torch_that_fails_at_first_is_imported_the_second_time(theirs: Path) -> None:
    stub(
        theirs,
        "import sys\nif not hasattr(sys, 'tried'):\n    sys.tried = 1\n    raise OSError('no')\nanswer = 1\n",
    )
    done = run_both(f"{SEES}show('torch')\nshow('torch')\n", theirs)
    assert done.stderr.startswith("tracebraid: this process is not captured")


@pytest.mark.full
def test_a_folder_named_torch_is_no_torch(theirs: Path) -> None:
    (theirs / "torch").mkdir()
    code = f"import sys; sys.path[:] = [entry for entry in sys.path if 'site-packages' not in entry]\n{SEES}"
    run_both(f"{code}import torch; print(torch.__path__)", theirs)


@pytest.mark.full
def test_torch_is_imported_anew_as_without_us(theirs: Path) -> None:
    stub(theirs, "print('executed')\n")
    done = run_both("import torch, importlib; importlib.reload(torch); print(torch.__spec__)", theirs)
    assert done.stderr.count("not captured") == 1


@pytest.mark.full
def test_a_program_may_look_for_torch_before_it_imports_it(theirs: Path) -> None:
    stub(theirs, "answer = 1\n")
    code = (
        "import importlib.machinery, importlib.util as util\n"
        "for _ in range(3):\n"
        "    spec = util.find_spec('torch')\n"
        "    print(spec.origin, isinstance(spec.loader, importlib.machinery.SourceFileLoader), spec.loader.path)\n"
        "    print(spec.loader.get_source('torch'))\n"
        "lazy = util.LazyLoader(spec.loader)\n"
        "module = util.module_from_spec(spec); lazy.exec_module(module); print(module.answer)\n"
    )
    run_both(code + SEES + "show('torch')", theirs)


@pytest.mark.full
def test_a_torch_that_is_put_there_by_hand_is_left_alone(theirs: Path) -> None:
    code = (
        "import sys, types, importlib.util\n"
        "sys.modules['torch'] = types.ModuleType('torch')\n"
        "import torch\n"
        "try: importlib.util.find_spec('torch')\n"
        "except ValueError as error: print(error)\n"
    )
    assert run_both(code, theirs).stderr == ""


FINDERS = {
    "shared": "def exec_module(self, module): module.answer = module.__name__",
    "slots": "__slots__ = ()\n    def exec_module(self, module): module.answer = 3",
    "raises": "def exec_module(self, module): raise KeyError(1)",
}


@pytest.mark.full
@pytest.mark.parametrize("kind", FINDERS)
def test_a_loader_of_the_programs_own_loads_as_without_us(theirs: Path, kind: str) -> None:
    code = (
        f"{SEES}from importlib.machinery import ModuleSpec\nimport importlib.util\n"
        "class Own:\n"
        f"    {FINDERS[kind]}\n"
        "    def create_module(self, spec): return None\n"
        "    def __repr__(self): return 'own'\n"
        "    def find_spec(self, name, path, target):\n"
        "        return ModuleSpec(name, self, origin='x') if name in ('torch', 'other') else None\n"
        "sys.meta_path.append(Own()) if len(sys.argv) > 1 else sys.meta_path.insert(1, Own())\n"
        "importlib.util.find_spec('torch')\n"
        "for name in ('other', 'torch'):\n"
        "    try: module = __import__(name); print(module.answer, module.__loader__, module.__spec__.loader)\n"
        "    except KeyError as error: print(repr(error))\n"
    )
    run_both(code, theirs)


@pytest.mark.full
def test_a_finder_that_raises_raises(theirs: Path) -> None:
    code = (
        f"{SEES}class Own:\n"
        "    def find_spec(self, name, path, target):\n"
        "        if name == 'torch': raise LookupError('not today')\n"
        "sys.meta_path.insert(1, Own())\nshow('torch')\n"
    )
    assert "not today" in run_both(code, theirs).stdout


@pytest.mark.full
def test_threads_that_import_torch_at_once_have_it_whole(theirs: Path) -> None:
    stub(theirs, "import time\nprint('executed')\ntime.sleep(0.2)\nanswer = 1\n")
    code = (
        "import threading\nseen = []\nbarrier = threading.Barrier(8)\n"
        "def load():\n    barrier.wait()\n    import torch\n    seen.append(torch.answer)\n"
        "threads = [threading.Thread(target=load) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(seen)\n"
    )
    done = run_both(code, theirs)
    assert done.stdout == "executed\n[1, 1, 1, 1, 1, 1, 1, 1]\n"
    assert done.stderr.count("not captured") == 1


@pytest.mark.full
@pytest.mark.parametrize("text", ["raise SystemExit(4)", "print('their script')", "def (:"])
def test_a_script_that_has_our_name_does_not_run_for_that(theirs: Path, text: str) -> None:
    stub(theirs, "")
    (theirs / "tracebraid.py").write_text(text + "\n")
    done = run_both("import torch; print('ran')", theirs)
    assert done.stdout == "ran\n"
    assert str(theirs / "tracebraid.py") in done.stderr


@pytest.mark.full
def test_a_closed_standard_error_stops_nothing(theirs: Path) -> None:
    stub(theirs, "")
    run_both("import sys; sys.stderr.close(); import torch; print('ran')", theirs)
    run_both("import sys; sys.stderr = None; import torch; print('ran')", theirs)
