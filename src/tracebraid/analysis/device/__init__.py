"""Device events as several questions ask for them: by launch, by graph, by stream."""
