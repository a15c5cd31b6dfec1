"""Present a tar or zip archive as a folder: members are listed once, and read in place.

`tar` and `zip_file` list its `member_files`; `spool` unpacks a compressed tar; `archive_files` is the file system.
"""
