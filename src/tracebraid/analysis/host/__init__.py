"""Host events as several questions ask for them: as trees, by thread and moment, by what encloses them."""
