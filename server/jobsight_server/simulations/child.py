"""``jobsight simulate`` as a child of the background role, with which it ends; gives way to whatever answers."""

from __future__ import annotations

import os
import sys

from jobsight_server.cli import main
from jobsight_server.serve.lifeline import end_with_parent

if __name__ == "__main__":
    end_with_parent()
    os.nice(10)
    sys.exit(main(["simulate", *sys.argv[1:]]))
