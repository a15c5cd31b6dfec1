"""`python -m tracebraid` is the command `tracebraid`."""

from tracebraid.cli.main import run

if __name__ == "__main__":
    run()
