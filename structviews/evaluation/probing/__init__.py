"""Probing tasks from a parsed corpus: which properties of a sentence its vector encodes.

``parses`` holds many parsed sentences as flat columns, ``labels`` computes their labels, ``changes`` makes the altered
sentences, ``sampling`` balances the classes, ``probing_tasks`` defines the tasks, ``making`` writes them to files, and
``probe`` fits the demo's own probes.
"""
