"""Fits a gate over a run's views, and shows which view suits which sentence."""
