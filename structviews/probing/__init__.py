"""Probing tasks from a parsed corpus: what a sentence vector knows of its sentence.

``parses`` holds many parsed sentences as flat columns, ``labels`` says what is asked of each, ``changes`` makes the
sentences that are not as they were, ``sampling`` balances the classes, ``tasks`` lists the tasks, ``make`` writes them.
"""
