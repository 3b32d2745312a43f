"""What the transcript costs: a token in every case, keys, focus, resizing, opening, beside Textual's widget.

Run on a quiet machine, from the repository:
    python -m tests.benchmarks.transcript [--quick] [--json]
"""

from __future__ import annotations

import argparse

from app.tui import bench

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    raise SystemExit(bench.main(as_json=given.json, quick=given.quick))
