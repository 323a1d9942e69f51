"""Objectives and channels with settings by name."""

from structviews.model import Channel
from structviews.objectives import OBJECTIVES
from structviews.runs.config import TrainConfig


def create_objective(name, inputs, **settings):
    return OBJECTIVES[name].create(name, inputs, OBJECTIVES[name].Config(**settings))


def create_channel(views, n_words, word_dim, dim, counts=None, **settings):
    config = TrainConfig.of(corpus="x.parsed", views=views, word_dim=word_dim, hidden=dim, **settings)
    return Channel(config, n_words, counts)
