"""Batches from a parsed corpus: level schedules of trees, word ids, epoch order."""
