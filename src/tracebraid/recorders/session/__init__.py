"""`Capture`: both recorders over the windows of a loop, and the manifest of what came of it."""
