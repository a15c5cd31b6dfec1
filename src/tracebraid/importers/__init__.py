"""Files to `ExecutionTrace` and `Timeline`: a folder per format, and one for the bytes that the JSON formats share.

A file goes `json_stream.source` (bytes) -> `json_stream.chunks` (header and runs of whole objects) -> the format's
`decode` (typed objects, then columns; `json_stream.recover` where a chunk is damaged) -> `frames` (polars) -> the
format's `reader`. `chunk_decoding` decodes the chunks of a large file, of either kind, in several processes,
or reads those of a Kineto trace with the native scanner (`kineto.scan`).
`discovery` finds the files of a job.
"""
