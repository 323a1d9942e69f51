import pytest

from structviews.objectives import OBJECTIVES
from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import Parsed, load_config, load_run, save_config
from structviews.settings import settings_of
from structviews.views import VIEWS

NEEDED = {"corpus": "x.parsed", "views": ["dep", "const"]}
# Every setting, away from its default, by table of the file.
DATA = {"corpus": 'a "quoted" \\ Käfer \N{BIRD}\t.parsed', "out": "runs/x y", "init_from": "runs/ä", "held_out": 0.25}
DATA |= {"perturbed": "y.parsed", "min_confidence": 0.5}
VIEWS_OF = {"views": ("seq", "seq", "bow"), "hidden": 7, "initialisation": "he", "gate_bias": -1.5, "cut_off": 30}
OBJECTIVE = {"context": 2, "self_score": "zero", "mask_duplicates": True, "critic": "bilinear"}
WORDS = {"word_dim": 9, "word_init": 0.25, "vocabulary": 11}
FIXED = {"channels": ("fixed", "trained"), "vectors": "glove.txt", "unknown_words": "random"}
OPTIMISATION = {"batch_size": 13, "accumulate": 2, "gather_negatives": True, "dense_adam": True, "epochs": 17}
OPTIMISATION |= {"clip_by": "tensor", "batch_order": "corpus", "across_documents": True}
STEPS = {"steps": 19, "lr": 1e-05, "clip": 2, "seed": 0, "precision": "fp32", "tree_backend": "naive"}
LOGGING = {"validate_every": 3, "log_every": 4, "checkpoint_minutes": 0.001, "tensorboard": True}
EVALUATION = {"eval_every": 21, "eval_task": "SICK14", "eval_data": "senteval", "eval_parsed": "sick.parsed"}
VECTORS = {"pooling": "mean", "remove_component": True, "normalise": True, "join": "average"}
SIMILARITY = {"similarity_pooling": "pooled", "similarity_join": "concatenation"}
VIEW_WEIGHTS = {"view_weights": [1, 0.5, 0], "similarity_view_weights": (0.0, 1e-6, 2)}
OTHERS = DATA | VIEWS_OF | OBJECTIVE | WORDS | FIXED | OPTIMISATION | STEPS | LOGGING | EVALUATION | VECTORS
OTHERS |= SIMILARITY | VIEW_WEIGHTS
# Settings that only some objectives have.
OF_OBJECTIVES = [
    {"objective": "consensus", "agreement": "skip", "include_self": False, "temperature": 0.5},
    {"objective": "consensus", "learn_temperature": False, "power_iterations": 0, "over_contexts": "sum", "window": 4},
    {"objective": "generative", "noise_words": 4, "parseval": 0.5, "draw": "batch"},
    {"objective": "pairwise", "other_contexts": "left-out"},
    {"objective": "simcse", "views": ("transformer",), "encoder": "x/y", "temperature": 0.1, "head": False},
    {"objective": "teacher", "teacher": "x/y", "cosine_weight": 0.5, "similarity_weight": 2.0, "pairwise_weight": 0.1},
    {"objective": "teacher", "similarity_temperature": 0.1, "changed_similarity": -0.2},
    {"objective": "skip-thought", "conditioning": "start", "output_layers": 2},
    {"objective": "quick-thoughts", "loss": "margin", "negatives": "nearest", "contrasts": 7, "margin": 0.5},
]
OF_VIEWS = [
    {"views": ("seq", "seq-uni"), "cell": "lstm"},
    {"views": ("seq",), "reset_gate": "before"},
    {"views": ("seq", "sif"), "unit_words": True},
    {"views": ("transformer", "dep"), "encoder": "x/y", "sentence_pooling": "first", "encoder_lr": 1e-4},
    {"views": ("transformer", "dep"), "encoder": "x/y", "top_layers": 2, "recompute": True},
]
CONTEXTUAL = {"channels": ["contextual"], "encoder": "x/y"}
OF_CHANNELS = [{"channels": ("contextual", "trained"), "encoder": "x/y:1..2", "word_pooling": "first"}]


def test_a_configuration_comes_back_from_toml(tmp_path):
    everything = {each.flat for _, each in TrainConfig.settings()}
    everything |= {each.flat for name in OBJECTIVES for each in settings_of(OBJECTIVES[name].Config)}
    everything |= {each.flat for name in VIEWS for each in settings_of(VIEWS[name].Config)}
    assert everything == OTHERS.keys() | {name for some in (*OF_OBJECTIVES, *OF_VIEWS, *OF_CHANNELS) for name in some}
    parsed = Parsed(
        "f00d",
        {"name": "x", "version": "1.0", "settings": {"beam": 3, "fast": True, "scale": 1e-07, "names": ["ü", "b"]}},
        {"name": "wörter", "a key.with dots": "", "none": {}},
    )
    for settings in ({}, OTHERS, *OF_OBJECTIVES, *OF_VIEWS, *OF_CHANNELS):
        written = TrainConfig.of(**NEEDED | settings)
        save_config(tmp_path, written, parsed)
        assert load_run(tmp_path) == (written, parsed)
        assert load_config(tmp_path / "config.toml") == (written, parsed)
        assert not written.difference(load_run(tmp_path)[0])
        # What is left out of comparisons is written too.
        assert load_run(tmp_path)[0].flat() == written.flat()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hiden": 3}, r"here\.toml: unknown setting 'hiden': the settings are corpus, out, "),
        ({"hidden": "3"}, r"hidden = '3' is not of type whole number"),
        ({"views": "dep"}, "views = 'dep' is not of type list of texts"),
        ({"views": [["dep"]]}, r"views = \(\['dep'\],\) is not of type"),
        ({"objective": ["pairwise"]}, r"objective = \['pairwise'\] is not of type text"),
        ({"views": ["dep", "deep"]}, "unknown view 'deep' .did you mean dep..: choose one of average, avg, bow, "),
        ({"objective": "consensus", "self_score": "zero"}, "'zero': the objective 'consensus' has no such .* pairwise"),
        ({"self_score": "positive"}, "unknown self_score 'positive': choose one of masked, zero"),
        ({"channels": ["fixed", "trained"]}, "channels = fixed,trained: .* needs word vectors: give a file with --vec"),
        ({"vectors": "x.vec"}, "vectors = x.vec: only the channel 'fixed' reads them: add --channels fixed"),
        ({"word_pooling": "first"}, "word_pooling = first: only the channel 'contextual' reads it: leave it out"),
        ({"channels": ["contextual"]}, "channels = contextual: .* needs a pretrained encoder: give a folder"),
        (CONTEXTUAL | {"objective": "generative"}, "objective = generative: predicts words .* choose another"),
        (CONTEXTUAL | {"views": ["sif", "dep"]}, "views = sif,dep: 'sif' weights words by their frequency"),
        ({"batch_size": 1}, "batch_size = 1: give a number at least 2"),
        ({"seed": 10**400}, "seed = 10+: give a number at least 0 and at most 4,294,967,295"),
        ({"lr": 10**400}, "lr = 10+ is not of type number"),
        ({"eval_every": 9}, "eval_every = 9: give the folder of SentEval's tasks with --eval-data"),
        ({"cut_off": 30}, "cut_off = 30: the view 'dep' reads trees, which cannot be cut: leave it out, or train only"),
        ({"cell": "lstm"}, "cell = 'lstm': only for the view seq or seq-uni: leave it out, or add the view"),
        ({"unknown_words": "random"}, "unknown_words = random: only the channel 'fixed' has such words: leave it out"),
        ({"held_out": float("nan")}, "held_out = nan: give a number at least 0"),
        ({"views": None}, r"here\.toml: the setting 'views' is missing"),
    ],
)
def test_settings_that_do_not_do(settings, message, one_line):
    written = {name: value for name, value in (NEEDED | settings).items() if value is not None}
    with one_line(message):
        TrainConfig.of("here.toml", **written)


VIEWS_TABLE = b'[data]\ncorpus = "x"\n[views]\nnames = ["dep", "seq"]\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[data]\ncorpus = "x"\n[views]\nnames = []', r"\[views\]: no views: name some"),
        (b"\xff", r"not TOML \(.*\): give a config"),
        (VIEWS_TABLE + b'[objective]\nname = ["pairwise"]', r".*not of type"),
        (b'views = ["dep", "seq"]', r"views = .*: write \[views\]"),
        (b"parsed = 3\n" + VIEWS_TABLE, ""),
        (VIEWS_TABLE + b"[parsed.parser]\nlanguage = 3", r"\[parsed\]: Expected `str`, got `int` - at .*: remove"),
        (None, "no such file"),
    ],
)
def test_files_that_are_no_configuration(tmp_path, content, message, one_line):
    path = tmp_path / "c.toml"
    if content:
        path.write_bytes(content)
    with one_line(rf"c\.toml: {message}"):
        load_config(path)
