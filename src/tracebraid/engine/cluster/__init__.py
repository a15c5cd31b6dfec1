"""Work over ranks on a Ray cluster: a task for each rank."""
