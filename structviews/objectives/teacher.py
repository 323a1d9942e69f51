"""Agreement with a pretrained encoder that does not learn: a teacher as one more view of the sentence.

Shapes: B sentences in the batch, D dimension of a view's vector, T of the teacher's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.batches.batch import Batch, WordIds
from structviews.errors import InputError
from structviews.kernels.cells import xavier
from structviews.objectives import OBJECTIVES
from structviews.objectives.objective import Context, Inputs, Objective
from structviews.objectives.pairwise import Pairwise, PairwiseConfig
from structviews.settings import Settings, setting
from structviews.views.view import Encoded, View, Words

# Leaves a sentence out of the distribution of its similarities.
MASKED = -1e9


@dataclass(frozen=True)
class TeacherConfig(Settings):
    """The settings of the objective ``teacher``."""

    teacher: str = setting(
        "",
        "Teacher: the folder of a sentence-transformers model, or its id on the Hugging Face Hub.",
        compare=False,
        metavar="TEACHER",
    )
    cosine_weight: float = setting(1.0, "Weight of the cosine distance from the teacher's vector.", least=0, most=1e6)
    similarity_weight: float = setting(
        1.0, "Weight of the divergence from the teacher's similarities within the batch.", least=0, most=1e6
    )
    similarity_temperature: float = setting(
        0.05, "Temperature of the softmax over these similarities.", above=0, most=1000
    )
    changed_similarity: float = setting(
        0.5, "Target similarity of a sentence and a perturbed form that changes its meaning.", least=-1, most=1
    )
    pairwise_weight: float = setting(
        0.0, "Weight of the objective pairwise between the views; 0 for none.", least=0, most=1e6
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cosine_weight and not self.similarity_weight:
            raise InputError(
                "cosine_weight = 0, similarity_weight = 0: nothing is learnt from the teacher: set one of them above 0"
            )


@OBJECTIVES.register("teacher")
class TeacherAgreement(Objective):
    """Views agree, each through a linear map, with a teacher's vectors of the same sentences.

    The frame is that of the multi-view papers, with a view that does not learn; the losses are those of knowledge
    distillation (Hinton et al. 2015) of vectors. With ``y_i`` the map of a sentence's vector and ``t_i`` the teacher's,
    both of length 1, they are the distance ``1 - y_i . t_i``, and the divergence of the student's distribution
    ``q_i(j) = softmax_j(y_i . y_j / temperature)`` over the other sentences of the batch from the teacher's ``p_i``,
    ``KL(p_i || q_i)`` (as the similarities of SEED, Fang et al. 2021, equation 4, but within the batch). Each is a mean
    over the sentences, then over the views and, of several, their mean: the sum of the maps divided by their number,
    which the run has as a further encoder, ``teacher``.

    Perturbed sentences take part, with the ``t`` of their source: one that keeps the meaning as a sentence by itself;
    one that does not is only one of the others ``j``, with ``t_i . t_j = changed_similarity`` for its source and that
    one's paraphrase.

    Beside them there may be the objective ``pairwise`` between the views themselves.
    """

    min_views: ClassVar[int] = 1
    Config = TeacherConfig
    extra_names: ClassVar[tuple[str, ...]] = ("teacher",)
    one_dim: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = True
    report: ClassVar[str] = "loss {loss:.3f} (chance {chance_loss:.3f}), cosine with the teacher {teacher_cosine:.3f}"
    needs = frozenset({"teacher"})

    def __init__(self, inputs: Inputs, config: TeacherConfig) -> None:
        super().__init__()
        self.config = config
        self.maps = nn.ModuleList(nn.Linear(dim, inputs.teacher_dim) for dim in inputs.dims)
        xavier(self.maps)
        self.pairwise: Pairwise | None = None
        if config.pairwise_weight:
            if len(inputs.dims) < 2 or len(set(inputs.dims)) > 1:
                raise InputError(
                    f"pairwise_weight = {config.pairwise_weight:g}: for two or more views of the same dimension, not "
                    f"for {','.join(inputs.views)}: choose other --views, or leave it out"
                )
            self.pairwise = Pairwise.create("pairwise", inputs, PairwiseConfig())

    @classmethod
    def reads_neighbours(cls, config: Settings) -> bool:
        return bool(getattr(config, "pairwise_weight", 0))

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        if context.teacher is None:
            raise ValueError("this objective needs the teacher's vectors in the context")
        mapped = [to_teacher(view) for to_teacher, view in zip(self.maps, views, strict=True)]
        if len(mapped) > 1:
            mapped.append(torch.stack(mapped).mean(dim=0))
        students = [F.normalize(each, dim=1) for each in mapped]
        teacher = F.normalize(context.teacher.to(views[0].dtype), dim=1)
        known = torch.ones(len(teacher), dtype=torch.bool, device=teacher.device)
        similarities = teacher @ teacher.T
        if context.source is not None and context.changed is not None:
            known = ~context.changed
            source = torch.where(context.source < 0, torch.arange(len(teacher), device=known.device), context.source)
            apart = (source[:, None] == source) & (known[:, None] != known)
            similarities.masked_fill_(apart, self.config.changed_similarity)
        share = known.to(teacher.dtype) / known.sum().clamp(min=1)
        cosines = torch.stack([(each * teacher).sum(dim=1) @ share for each in students])
        # KL(p_i || q_i), the mean over the sentences.
        wanted = self._log_softmax(similarities)
        entropy = (wanted.exp() * wanted).sum(dim=1)
        found = [self._log_softmax(each @ each.T) for each in students]
        divergences = torch.stack([share @ (entropy - (wanted.exp() * each).sum(dim=1)) for each in found])
        loss = self.config.cosine_weight * (1 - cosines.mean()) + self.config.similarity_weight * divergences.mean()
        # Of equal vectors, whose cosines are 0 and whose similarities are all the same.
        uniform = math.log(max(len(teacher) - 1, 1)) + share @ entropy
        metrics = {
            "loss": loss.detach(),
            "chance_loss": self.config.cosine_weight + self.config.similarity_weight * uniform,
            "teacher_cosine": cosines[-1].detach(),
            "teacher_divergence": divergences[-1].detach(),
            "anchors": known.sum(),
        }
        if self.pairwise:
            of_pairs, own = self.pairwise(views, context)
            loss = loss + self.config.pairwise_weight * of_pairs
            metrics["loss"] = loss.detach()
            metrics["chance_loss"] += self.config.pairwise_weight * own["chance_loss"]
            metrics |= {f"pairwise_{name}": own[name] for name in ("loss", "accuracy")}
        return loss, metrics

    def _log_softmax(self, similarities: Tensor) -> Tensor:
        """The log of each sentence's softmax ``(B, B)`` over its similarities ``(B, B)`` with the others."""
        return (similarities / self.config.similarity_temperature).fill_diagonal_(MASKED).log_softmax(dim=1)

    def extra_views(self, learners: Sequence[tuple[View, Words]], encoded: Mapping[View, Encoded]) -> dict[str, View]:
        return {"teacher": TaughtView(learners, self.maps, encoded)}


class TaughtView(View):
    """Views' vectors in the teacher's space: the mean of their ``maps``. Its only state is its vector.

    For ``learners`` and ``encoded`` see ``Objective.extra_views``.
    """

    def __init__(self, learners: Sequence[tuple[View, Words]], maps: nn.ModuleList, encoded: Mapping[View, Encoded]):
        super().__init__()
        # In lists, so that they are not registered as parts of this module.
        self._learners, self._maps, self._encoded = [*learners], [maps], encoded
        self.dim = cast("nn.Linear", maps[0]).out_features

    @property
    def structures(self) -> frozenset[str]:
        return frozenset().union(*(view.structures for view, _ in self._learners))

    @property
    def merges(self) -> bool:  # type: ignore[override]
        """Whether all of its views do, or read no trees."""
        return all(view.merges or view.structures == {"tokens"} for view, _ in self._learners)

    @property
    def reads_pieces(self) -> bool:  # type: ignore[override]
        """Whether one of its views does."""
        return any(view.reads_pieces for view, _ in self._learners)

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        (maps,) = self._maps
        encoded = [self._encoded.get(view) or view(own, batch, ids) for view, own in self._learners]
        mapped = [to_teacher(each.vector) for to_teacher, each in zip(maps, encoded, strict=True)]
        vector = torch.stack(mapped).mean(dim=0)
        if not states:
            return Encoded(vector)
        return Encoded(vector, vector, torch.arange(len(vector) + 1, device=vector.device))
