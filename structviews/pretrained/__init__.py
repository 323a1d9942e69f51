"""Pretrained encoders of Hugging Face: their pieces aligned with words, loading them, and their states."""
