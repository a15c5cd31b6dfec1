"""A tar or zip archive as a folder: its members are listed once, and read where they lie.

`tar` and `zip_file` make the `index`; `spool` unpacks a compressed tar; `archive_files` is the file system.
"""
