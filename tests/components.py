"""Objectives with settings by name."""

from structviews.objectives import OBJECTIVES


def create_objective(name, inputs, **settings):
    return OBJECTIVES[name].create(name, inputs, OBJECTIVES[name].Config(**settings))
