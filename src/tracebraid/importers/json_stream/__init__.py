"""Read the bytes of a JSON trace: unpack, cut into chunks of complete objects, recover damage."""
