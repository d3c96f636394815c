"""``python -m ptxgraft``: the command line.

Invariant: the same as the ``ptxgraft`` command.
"""

from ptxgraft.cli import main

if __name__ == "__main__":
    main()
