"""The benchmarks of ``scripts/bench.py``, one a file: its ``flags``, what to ``measure``, and ``tables`` of it."""
