"""How much memory may still be taken."""

from __future__ import annotations

from pathlib import Path

from tracebraid.engine.automatic import available_bytes, cores

GB = 1 << 30


def file(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def machine(root: Path) -> None:
    file(root, "proc/meminfo", f"MemTotal: {16 * GB // 1024} kB\nMemAvailable:   {8 * GB // 1024} kB\n")


def test_this_machine_has_some() -> None:
    assert 1 << 20 < available_bytes() < 1 << 50
    assert cores() >= 1


def test_the_machine_s_free_memory_is_the_limit_without_a_group(tmp_path: Path) -> None:
    machine(tmp_path)
    assert available_bytes(tmp_path) == 8 * GB


def test_nothing_known_is_no_limit(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) == 1 << 60


def test_the_group_of_a_container_is_the_limit(tmp_path: Path) -> None:
    machine(tmp_path)
    file(tmp_path, "proc/self/cgroup", "0::/\n")
    file(tmp_path, "sys/fs/cgroup/memory.max", f"{4 * GB}\n")
    file(tmp_path, "sys/fs/cgroup/memory.current", f"{3 * GB}\n")
    file(tmp_path, "sys/fs/cgroup/memory.stat", f"anon {GB}\ninactive_file {2 * GB}\n")
    assert available_bytes(tmp_path) == 3 * GB


def test_a_group_around_this_one_counts_too(tmp_path: Path) -> None:
    machine(tmp_path)
    file(tmp_path, "proc/self/cgroup", "0::/user/job\n")
    file(tmp_path, "sys/fs/cgroup/user/job/memory.max", "max\n")
    file(tmp_path, "sys/fs/cgroup/user/job/memory.current", "0\n")
    file(tmp_path, "sys/fs/cgroup/user/memory.max", f"{2 * GB}\n")
    file(tmp_path, "sys/fs/cgroup/user/memory.current", f"{GB}\n")
    assert available_bytes(tmp_path) == GB


def test_version_1_of_groups(tmp_path: Path) -> None:
    machine(tmp_path)
    file(tmp_path, "proc/self/cgroup", "9:cpu,cpuacct:/x\n5:memory:/job\n")
    file(tmp_path, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{GB}\n")
    file(tmp_path, "sys/fs/cgroup/memory/job/memory.usage_in_bytes", f"{GB // 2}\n")
    file(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    file(tmp_path, "sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n")
    assert available_bytes(tmp_path) == GB // 2


def test_a_group_beyond_its_limit_leaves_nothing(tmp_path: Path) -> None:
    machine(tmp_path)
    file(tmp_path, "sys/fs/cgroup/memory.max", f"{GB}\n")
    file(tmp_path, "sys/fs/cgroup/memory.current", f"{2 * GB}\n")
    assert available_bytes(tmp_path) == 0
