"""SentEval's protocol with its default classifier, which most published SentEval scores come from (Conneau and Kiela,
2018; ``usepytorch`` True, no hidden layer). All else is that of ``senteval``.
"""

from dataclasses import replace

from structviews.evaluation.senteval.adam_classifier import AdamClassifier
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.senteval_protocol import SENTEVAL

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)

SENTEVAL_TORCH = replace(
    SENTEVAL,
    name="senteval-torch",
    classifier=AdamClassifier(SENTEVAL.seed),
    # SentEval's code shortens the training of SNLI (senteval/snli.py).
    own_classifiers={"SNLI": AdamClassifier(SENTEVAL.seed, epochs=1, last=15)},
    grids={name: (1e-9,) if name == "SNLI" else PENALTIES for name in SENTEVAL.grids},
)
PROTOCOLS.add(SENTEVAL_TORCH.name, SENTEVAL_TORCH)
