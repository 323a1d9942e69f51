"""Adapters that let other toolkits use a run as an encoder, one module per toolkit."""
