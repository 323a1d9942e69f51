"""Objectives with settings by name."""

from structviews.objectives import OBJECTIVES, objective_by_name


def create_objective(name, inputs, **settings):
    return objective_by_name.create(name, inputs, OBJECTIVES[name].Config(**settings))
