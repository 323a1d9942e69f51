"""The studies of ``scripts/study.py``: a study is its plan and its prose, the rest is shared."""
