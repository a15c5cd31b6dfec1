"""What lies beside traces in the folder of a capture, for a store: `check` asks it."""

from __future__ import annotations

from functools import partial

from tracebraid.api.traces import archive_of_load
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Kind
from tracebraid.filesystem.paths import KnownPath, parent_of
from tracebraid.importers.discovery.archive_findings import with_text_path
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
    archive = archive_of_load(job.load)
    folder_of_job = job.path if archive is None else KnownPath.of(job.path, archive)
    files = file_system_of(folder_of_job)
    if files.kind(folder_of_job) is not Kind.FOLDER:
        return None
    inside = tuple(files.entries(folder_of_job))
    manifests, findings = manifests_of(folder_of_job)
    for file, content in manifests:
        findings += manifest_findings(content, file, partial(size_beside, file))
    of_traces = {parent_of(of_rank.kineto) for of_rank in job.files if of_rank.kineto is not None}
    windows = [(name, path) for name, path in windows_of(folder_of_job, inside) if path in of_traces]
    name, folder = windows[0] if windows else ("", folder_of_job)
    names = [entry.name for entry in files.entries(folder)]
    return CaptureFacts(
        format=FORMAT_VERSION,
        folder=str(folder),
        window=name,
        manifests=tuple((str(file), content) for file, content in manifests),
        findings=stored_findings(map(with_text_path, findings)),
        leftovers=stored_findings(map(with_text_path, leftover_findings(folder, names))),
    )
