"""Files to `ExecutionTrace` and `Timeline`.

A file goes `source` (bytes) -> `pieces` (header and runs of whole objects) -> `event` or `et_decode` (typed
objects; `salvage` where a piece is damaged) -> columns -> `frames` (polars), in `kineto` and `execution_trace`.
`parallel` and `worker` decode the pieces of a large file in several processes. `discover` finds files of a job.
"""
