"""Evaluation: task readers, protocols, solvers, results and tables.

``tasks`` reads SentEval's folders, ``protocols`` says which classifiers are fitted on which examples
and how they are scored, ``solvers`` fits them, ``suite`` runs them for an encoder, ``results`` keeps ``results.json``,
``tables`` prints them.
"""
