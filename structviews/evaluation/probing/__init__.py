"""Probing tasks from a parsed corpus: which properties of a sentence its vector encodes.

``labels`` computes labels of many parsed sentences, ``changes`` makes the altered sentences, ``sampling`` balances the
classes, ``probing_tasks`` defines the tasks, and ``making`` writes them to files.
"""
