"""A job's timeline to Perfetto's protobuf and to Chrome JSON."""
