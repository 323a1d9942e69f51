"""Parts of ``small_encoder.py``: texts as pieces, training, and the model card."""
