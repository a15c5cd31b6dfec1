"""What lies beside traces in the folder of a capture, for a store: `check` asks it."""

from __future__ import annotations

from functools import partial

from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Kind
from tracebraid.filesystem.paths import parent_of
from tracebraid.importers.discovery.capture_folder import manifests_of, size_beside, windows_of
from tracebraid.model.job import Job
from tracebraid.store.findings import stored_findings
from tracebraid.store.layout import FORMAT_VERSION
from tracebraid.store.manifest import CaptureFacts
from tracebraid.validation.manifest import leftover_findings, manifest_findings

__all__ = ["capture_facts"]


def capture_facts(job: Job) -> CaptureFacts | None:
    """What lies beside the traces of a job; None for a job of one file.

    Raises:
        InputError: the folder cannot be listed.
    """
    files = file_system_of(job.path)
    if files.kind(job.path) is not Kind.FOLDER:
        return None
    inside = tuple(files.entries(job.path))
    manifests, findings = manifests_of(job.path)
    for file, content in manifests:
        findings += manifest_findings(content, file, partial(size_beside, file))
    of_traces = {parent_of(of_rank.kineto) for of_rank in job.files if of_rank.kineto is not None}
    windows = [(name, path) for name, path in windows_of(job.path, inside) if path in of_traces]
    name, folder = windows[0] if windows else ("", job.path)
    names = [entry.name for entry in files.entries(folder)]
    return CaptureFacts(
        format=FORMAT_VERSION,
        folder=folder,
        window=name,
        manifests=tuple(manifests),
        findings=stored_findings(findings),
        leftovers=stored_findings(leftover_findings(folder, names)),
    )
