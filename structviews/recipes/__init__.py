"""Recipes: one TOML file for each row of the papers' tables, and what makes such a row from a text."""
