"""A run within a SentenceTransformer: training, saving, other modules behind it."""

import numpy as np
import pytest
import torch
from corpora import RandomParser

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError

SENTENCES = ["The bird sings.", "A bird is singing.", "The dead tree fell.", "It sings of the tree.", "A black bird"]


@pytest.fixture(scope="session")
def toolkit():
    return pytest.importorskip("sentence_transformers", reason="needs structviews[sentence-transformers]")


@pytest.fixture(scope="session")
def module_class(toolkit):
    from structviews.adapters.sentence_transformers import StructViewsModule

    return StructViewsModule


@pytest.fixture
def make(toolkit, module_class, run):
    """A model of the run."""

    def make(**options):
        module = module_class(run, parser=RandomParser(), **options)
        return toolkit.SentenceTransformer(modules=[module], device="cpu")

    return make


def test_vectors_are_those_of_the_embedder(make, embedder):
    model = make(similarity=True)
    vectors = model.encode(SENTENCES, batch_size=2)
    np.testing.assert_allclose(vectors, embedder.for_similarity().encode(SENTENCES), atol=1e-5)
    assert model.get_embedding_dimension() == vectors.shape[1]
    np.testing.assert_allclose(model.encode(SENTENCES[0]), vectors[0], atol=1e-5)


def test_the_trainer_changes_the_run_and_what_is_saved(toolkit, make, embedder, run, tmp_path):
    for name in ("accelerate", "datasets"):
        pytest.importorskip(name, reason="needs sentence-transformers[train]")
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    model = make()
    pairs = Dataset.from_dict({"a": SENTENCES, "b": SENTENCES[::-1], "score": [0.0, 1.0, 0.5, 1.0, 0.0]})
    settings = {"max_steps": 3, "learning_rate": 0.01, "use_cpu": True, "report_to": "none", "save_strategy": "no"}
    arguments = toolkit.SentenceTransformerTrainingArguments(output_dir=str(tmp_path / "states"), **settings)
    loss = CosineSimilarityLoss(model)
    toolkit.SentenceTransformerTrainer(model=model, args=arguments, train_dataset=pairs, loss=loss).train()
    trained = model.encode(SENTENCES)
    assert np.abs(trained - embedder.encode(SENTENCES)).max() > 1e-3
    np.testing.assert_array_equal(Embedder.load(run, RandomParser()).encode(SENTENCES), embedder.encode(SENTENCES))
    model.save(str(tmp_path / "saved"))
    again = Embedder.load(tmp_path / "saved" / "0_StructViewsModule", RandomParser())
    np.testing.assert_allclose(again.encode(SENTENCES), trained, atol=1e-5)


@pytest.mark.parametrize("similarity", [False, True])
def test_a_saved_model_is_loaded_again_without_its_run(toolkit, module_class, make, similarity, tmp_path):
    model = make(similarity=similarity)
    model.save(str(tmp_path / "saved"))
    files = [path for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".md", ".toml", ".safetensors"}
    (tmp_path / "saved").rename(tmp_path / "moved")
    given = [sentence.split() for sentence in SENTENCES]
    expected = model[0].encoder(given).detach()
    loaded = toolkit.SentenceTransformer(str(tmp_path / "moved"), trust_remote_code=True, local_files_only=True)
    for each in (loaded[0], module_class.load(str(tmp_path / "moved"), "0_StructViewsModule")):
        assert each.similarity == similarity
        each.encoder.embedder.preparer._parser = RandomParser()
        torch.testing.assert_close(each.encoder(given).detach(), expected, rtol=0, atol=0)
    loaded.save(str(tmp_path / "moved"))
    assert Embedder.load(tmp_path / "moved" / "0_StructViewsModule").dim == 16


def test_no_code_of_a_saved_folder_is_run(toolkit, make, tmp_path):
    """Also where the toolkit is told to trust it: the module is the installed package's."""
    folder = tmp_path / "saved"
    make().save(str(folder))
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w').close()"
    package = folder / "structviews" / "adapters"
    package.mkdir(parents=True)
    for place in (folder, folder / "0_StructViewsModule", package, package.parent):
        for name in ("structviews.py", "sentence_transformers.py", "adapters.py", "__init__.py"):
            (place / name).write_text(trap)
    with pytest.raises(ValueError, match="trust_remote_code"):
        toolkit.SentenceTransformer(str(folder), local_files_only=True)
    toolkit.SentenceTransformer(str(folder), trust_remote_code=True, local_files_only=True)
    assert not (tmp_path / "sprung").exists()


def test_a_run_from_the_hub_reads_no_other_files(module_class, make, tmp_path):
    """Parsers' models may be pickles, so a run of somebody else's must not say where they are."""
    revision = "0" * 40
    repository = tmp_path / "models--me--birds"  # as the Hub's cache has it
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(revision)
    saved = repository / "snapshots" / revision
    make().save(str(saved))
    place = {"subfolder": "0_StructViewsModule", "local_files_only": True}
    assert module_class.load("me/birds", cache_folder=str(tmp_path), **place).encoder.dim == 16
    config = saved / "0_StructViewsModule/config.toml"
    config.write_text(config.read_text().replace('models = ""', 'models = "../../models"'))
    assert module_class.load(str(saved), **place).encoder.dim == 16
    with pytest.raises(InputError, match=r"config\.toml: refers to a local folder of parser models: ask its owner"):
        module_class.load("me/birds", cache_folder=str(tmp_path), **place)
