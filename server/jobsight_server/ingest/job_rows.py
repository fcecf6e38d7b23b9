"""The rows of a batch's jobs, as their cgroups were read."""

from __future__ import annotations

from jobsight_server.ingest.wire import Batch, BatchJob
from jobsight_server.job_ids import job_key
from jobsight_server.storage.samples import JobColumns, dump_columns

INSERT = (
    "INSERT INTO job_samples (node_id, job_id, first_time, last_time, samples, peak_bytes, readings) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)

JobRow = tuple[int, str, float, float, int, int | None, str]


def job_rows(node_id: int, batch: Batch) -> list[JobRow]:
    """A row for each job of ``batch``, for ``INSERT``."""
    return [
        (
            node_id,
            job_key(job.job),
            batch.time[job.index[0]],
            batch.time[job.index[-1]],
            len(job.index),
            job.peak_bytes,
            dump_columns(_columns(batch, job)),
        )
        for job in batch.jobs
    ]


def _columns(batch: Batch, job: BatchJob) -> JobColumns:
    used = [
        None if anon is None or shmem is None else anon + shmem
        for anon, shmem in zip(job.anon_bytes, job.shmem_bytes, strict=True)
    ]
    return JobColumns([batch.time[index] for index in job.index], job.cpu_s, used, job.file_bytes)
