"""``structviews parse``, ``parser``, ``inspect``, ``corpus`` and ``verify``."""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from structviews.cli import options
from structviews.cli.console import console, errors, inform, resuming, say, suggest, typeable, write
from structviews.cli.setting_flags import NO_FLAGS, chosen_flags, with_flags
from structviews.errors import InputError
from structviews.runtime.terminal import Bar
from structviews.runtime.wording import counted
from structviews.words.word_settings import Words

if TYPE_CHECKING:
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.parsing.drawing import Chosen

app = Typer()
corpus_app = Typer(help="Merge, describe and export parsed corpora; store states.", no_args_is_help=True)
app.add_typer(corpus_app, name="corpus")
parser_app = Typer(help="Train a parser; download other libraries' models.", no_args_is_help=True)
app.add_typer(parser_app, name="parser")

NO_CORPUS = "make one with `structviews parse`, or give a sentence with --text"
TextFormat = StrEnum("TextFormat", ["lines", "prose"])
Compression = StrEnum("Compression", ["zstd"])
ParseEngine = StrEnum("ParseEngine", ["local", "ray"])
TreeKind = StrEnum("TreeKind", ["constituency", "dependency"])

Parser = Annotated[
    str,
    Option(
        help="Parser: builtin, stanza, benepar, spacy:PIPELINE, trivial:SHAPE, treebank, or a folder of your own. "
        "DEP+CONST combines two, and DEP+heads makes constituents from dependencies."
    ),
]

Workers = Annotated[
    int | None,
    Option(help="Number of processes; does not affect the result.", show_default="1; on a cluster as many as fit"),
]


@app.command("parse")
def parse_text(
    source: Annotated[
        list[str] | None,
        Argument(
            help="Text file (.txt, .txt.zst, .gz; - for standard input). With --parser treebank: a .conllu file, "
            "a file of bracketed trees, or both."
        ),
    ] = None,
    out: Annotated[Path | None, options.out_option("Folder to write.", "SOURCE.parsed")] = None,
    senteval: options.Senteval = None,
    probing: options.Probing = None,
    tasks: options.Tasks = "",
    parser: Parser = "builtin",
    lang: options.Language = "en",
    models: options.Models = None,
    device: options.Device = "",
    confidence: Annotated[
        bool, Option("--confidence", help="Also keep how sure the parser is of each tree (built-in network only).")
    ] = False,
    strict: Annotated[
        bool, Option("--strict", help="Stop at a sentence that cannot be parsed, instead of skipping it.")
    ] = False,
    format: Annotated[
        TextFormat | None, Option(help="One sentence per line, or running text.", show_default="guessed and reported")
    ] = None,
    tokenised: options.Tokenised = False,
    workers: Workers = None,
    engine: Annotated[
        ParseEngine, Option(help="What runs the processes: local, or ray (needs structviews\\[ray]).")
    ] = ParseEngine.local,
    address: Annotated[
        str | None,
        Option(
            help="Ray cluster: HOST:6379, or auto on one of its machines.", show_default="start Ray on this machine"
        ),
    ] = None,
    max_tokens: Annotated[
        int | None, Option(help="Skip longer sentences.", show_default="120; no limit for tasks")
    ] = None,
    compress: Annotated[
        Compression | None,
        Option(help="Compress: half the size on disk, slightly slower to read.", show_default="not compressed"),
    ] = None,
) -> None:
    """Parse a text into dependency and constituency trees.

    Writes a folder with both trees of every sentence. Blank lines end a document; in running text, two do. With
    --senteval or --probing, the distinct sentences of evaluation tasks are parsed, for eval --parsed. If parsing is
    stopped, run the same command again to resume.

    Example: structviews parse corpus.txt --workers 4

    Example: structviews parse corpus.txt --engine ray --address head:6379
    """
    from structviews.parsing.parser import Options
    from structviews.parsing.sources import MOST_TOKENS, output_name

    how = {"workers": workers, "engine": engine.value, "address": address, "compression": compress and compress.value}
    settings: dict[str, Any] = {"parser": parser, "strict": strict}
    settings["options"] = Options(lang, models, device, confidence=confidence)
    if not (senteval or probing):
        if not source:
            raise InputError("nothing to parse: name a text, or give --senteval or --probing")
        out = out or Path(output_name(source[0]))
        limit = 120 if max_tokens is None else max_tokens
        corpus = parse_into(out, source, how, layout=format, tokenised=tokenised, max_tokens=limit, **settings)
        views = ["dep"] * corpus.has_dependencies + ["const"] * corpus.has_constituents
        views += ["seq"] * (2 - len(views))
        suggest("Next, train on it:", f"structviews train --views {','.join(views)} --corpus {typeable(out)}")
        return
    if source or format or tokenised or parser.startswith("treebank"):
        raise InputError(
            "--senteval and --probing parse the tasks' own tokens: "
            "give no text, --format, --tokenised or --parser treebank"
        )
    limit = MOST_TOKENS if max_tokens is None else max_tokens
    parse_tasks(senteval, probing, tasks, out, how, max_tokens=limit, **settings)


def parse_tasks(
    senteval: Path | None, probing: Path | None, tasks: str, out: Path | None, how: Mapping[str, Any], **settings: Any
) -> None:
    """Parse the distinct sentences of evaluation tasks, and say how to score with their trees."""
    from tempfile import TemporaryDirectory

    from structviews.encoding.sentence_vectors import write_sentences
    from structviews.parsing.sources import output_name

    flags = {"--senteval": senteval, "--probing": probing}
    folders = {flag: folder for flag, folder in flags.items() if folder}
    with TemporaryDirectory(prefix="structviews-") as temporary:
        text = Path(temporary) / "sentences.txt"
        write_sentences(text, options.sentences_of_tasks(senteval, probing, tasks))
        out = out or Path(output_name(str(next(iter(folders.values())).resolve())))
        parse_into(out, [str(text)], how, layout=TextFormat.lines, tokenised=True, **settings)
    where = " ".join(f"{flag} {typeable(folder)}" for flag, folder in folders.items())
    suggest("Next, score a run with these trees:", f"structviews eval RUN {where} --parsed {typeable(out)}")


def parse_into(out: Path, source: list[str], how: Mapping[str, Any], **settings: Any) -> "ParsedCorpus":
    """Parse a text with the settings of ``open_source``, as ``parse_corpus`` is told ``how``; print a summary."""
    from structviews.parsing.pipeline import parse_corpus, summary
    from structviews.parsing.sources import open_source

    with resuming():
        corpus, already = parse_corpus(open_source(source, **settings), out, console=errors, **how)
    counts = f"{counted(len(corpus), 'sentence')} in {counted(corpus.manifest['documents'], 'document')}"
    kinds = {"dependency": corpus.has_dependencies, "constituency": corpus.has_constituents}
    lacking = "".join(f", no {kind} trees" for kind, has in kinds.items() if not has)
    say(f"{out}{' already exists' if already else ''}: {counts}, {summary(corpus)}{lacking}")
    return corpus


@app.command("perturb")
def perturb_corpus(
    corpus: options.Corpus,
    out: Annotated[Path | None, options.out_option("Folder to write.", "CORPUS-perturbed.parsed")] = None,
    rules: Annotated[
        str, Option(help="Comma-separated rules, such as passive,negated.", show_default="all that train")
    ] = "",
    seed: options.Seed = 1,
    parser: Annotated[str, Option(help="Parser; see parse --parser.", show_default="the corpus's")] = "",
    device: options.Device = "",
    workers: Workers = None,
) -> None:
    """Alter a corpus's sentences, to train on them.

    Rules over the trees make sentences that keep or change the meaning, and the corpus's parser parses them into a
    parsed corpus. Training takes them as further positives and hard negatives of their source sentences. If it is
    stopped, run the same command again to resume.

    Example: structviews perturb corpus.parsed --rules passive,swapped-arguments
    """
    from structviews.evaluation.perturbing.perturbed_source import PerturbedSource, counts_by_rule, training_rules
    from structviews.parsing.pipeline import parse_corpus, summary

    out = out or Path(f"{corpus.resolve().name.removesuffix('.parsed')}-perturbed.parsed")
    with resuming():
        opened = options.opened(corpus)
        source = PerturbedSource(opened, training_rules(options.names_in(rules)), seed, parser, device)
        made, already = parse_corpus(source, out, workers=workers, console=errors)
    of = f"{counted(len(made), 'sentence')} made of {made.manifest['documents']:,} of {len(opened):,}"
    by_rule = ", ".join(f"{count:,} {name}" for name, count in counts_by_rule(made).items() if count)
    say(f"{out}{' already exists' if already else ''}: {of}: {by_rule}; {summary(made)}")
    flags = f"--corpus {typeable(corpus)} --perturbed {typeable(out)}"
    suggest("Next, train on both:", f"structviews train --views dep,const {flags}")


@parser_app.command("download")
def download_models(
    library: Annotated[str, Argument(help="stanza, benepar or spacy.")],
    model: Annotated[
        str,
        Argument(
            help="A stanza package, a benepar model or a spaCy pipeline.", show_default="the language's; none for spaCy"
        ),
    ] = "",
    lang: Annotated[str, Option(help="Language of the models.")] = "en",
    models: Annotated[
        Path | None, Option(help="Folder for the models, for parse --models.", show_default="the library's")
    ] = None,
) -> None:
    """Download a library's models with its own downloader.

    Example: structviews parser download stanza --lang en
    """
    from structviews.parsing.download import download
    from structviews.parsing.parser import Options

    download(library, model, Options(language=lang, models=models))
    say("downloaded")


@parser_app.command("train")
def train_a_parser(
    treebanks: Annotated[
        list[Path],
        Argument(help="CoNLL-U files, files of bracketed trees, or both, with names that differ only in the suffix."),
    ],
    out: Annotated[Path, options.out_option("Folder to write, for --parser.")],
    dev: Annotated[list[Path], Option(help="Development part, one file per --dev.")],
    words: Annotated[
        Path | None, Option(help="Word vectors of 128 dimensions to begin with.", show_default="random vectors")
    ] = None,
    silver: Annotated[
        list[Path] | None, Option(help="Corpus that another parser parsed, to learn from first.", show_default="none")
    ] = None,
    epochs: Annotated[
        int, Option(min=0, help="Passes over the treebanks.", show_default="20; more if they are small")
    ] = 0,
    lang: Annotated[str, Option(help="Language of the treebanks.")] = "en",
    licence: Annotated[str, Option(help="Licence of the treebanks, for the parser's card.")] = "",
    seed: options.Seed = 1,
    device: options.Device = "",
) -> None:
    """Train a parser on treebanks.

    It predicts what they have: tags, dependencies, constituents. Of several treebanks, the first sets the conventions:
    the last third of the epochs reads it alone. If training is stopped, run the same command again to resume.

    Example: structviews parser train train.conllu --dev dev.conllu --lang af -o afrikaans
    """
    from structviews.runtime.device import using
    from structviews.training.parser_training import ParserJob, train_parser

    job = ParserJob(tuple(treebanks), tuple(dev), out, words, tuple(silver or ()), epochs, seed, lang, licence)
    with resuming(), using(device):
        train_parser(job, errors)
    say(f"{out}: trained")
    lang_flag = f" --lang {lang}" * (lang != "en")
    suggest("Next, parse a text with it:", f"structviews parse TEXT --parser {typeable(out)}{lang_flag}")


@app.command("inspect")
def inspect_corpus(
    corpus: Annotated[Path | None, Argument(help="A parsed corpus.", show_default=options.ONLY)] = None,
    sentence: Annotated[int | None, Option(help="Draw the trees of this sentence (counted from 0).")] = None,
    grep: Annotated[
        str | None, Option(metavar="TEXT", help="Draw the first ten sentences that contain this text.")
    ] = None,
    random: Annotated[
        int | None, Option(metavar="N", help="Draw N random sentences, with --grep from its matches.")
    ] = None,
    seed: options.Seed = 1,
    text: Annotated[str | None, Option(metavar="SENTENCE", help="Parse this sentence and draw its trees.")] = None,
    parser: Annotated[str, Option(help="Parser for --text; see parse --parser.")] = "builtin",
    lang: options.Language = "en",
    models: options.Models = None,
    tokenised: Annotated[
        bool, Option("--tokenised", help="--text is already tokenised (separated by white space).")
    ] = False,
    tree: Annotated[TreeKind | None, Option(help="Draw only this kind.", show_default="both")] = None,
    svg: Annotated[
        Path | None, Option(metavar="PATH", help="Write an .svg file, or a folder with one file per sentence.")
    ] = None,
) -> None:
    """Summarise a parsed corpus, or draw trees.

    The trees are those of its sentences, or of the one in --text. Constituency trees are drawn both as parsed and
    binarised.

    Example: structviews inspect corpus.parsed --sentence 4

    Example: structviews inspect corpus.parsed --grep "as well as" --random 3 --svg trees.svg

    Example: structviews inspect --text "A dog barks."
    """
    from structviews.parsing.drawing import Chosen, choose, kinds_of

    choosing = sentence, grep, random
    drawing = any(choice is not None for choice in choosing)
    if text is not None:
        if corpus or drawing:
            raise InputError("--text takes no corpus and no --sentence, --grep or --random: leave them out")
        from structviews.parsing.parser import Options
        from structviews.parsing.sources import parse_sentence

        parsed = parse_sentence(text, parser=parser, options=Options(lang, models), tokenised=tokenised)
        draw_trees([Chosen("sentence", "", parsed, kinds_of(parsed, tree, repr(text[:60])))], svg)
        return
    opened = options.opened(corpus or options.only_corpus(none=NO_CORPUS, several=options.NAME_ONE))
    if drawing:
        found, note = choose(opened, *choosing, seed=seed, tree=tree)
        draw_trees(found, svg)
        if note:
            inform(note)
    elif tree or svg:
        raise InputError("no sentence to draw: choose with --sentence, --grep or --random")
    else:
        from structviews.corpus.corpus_statistics import overview

        console.print(overview(opened), highlight=False)


def draw_trees(sentences: "list[Chosen]", svg: Path | None) -> None:
    """Draw sentences on stdout, or as SVG."""
    from rich.text import Text

    from structviews.parsing.drawing import LINES, draw
    from structviews.parsing.svg import write_svg

    if svg:
        say(*write_svg(svg, sentences))
        return
    for number, sentence in enumerate(sentences):
        drawn = Text("\n" * (number > 0) + draw(sentence, console.width))
        drawn.highlight_regex(LINES, "cyan")
        console.print(drawn, highlight=False, soft_wrap=True)


@corpus_app.command("merge")
def merge_corpora(corpora: Annotated[list[Path], Argument(help="Parsed corpora.")], out: options.NewFolder) -> None:
    """Concatenate corpora that were parsed with the same settings.

    Example: structviews corpus merge novels.parsed news.parsed -o all.parsed
    """
    from structviews.corpus.writer import merge

    with Bar(errors, "merging", "shards") as progress:
        merged = merge(list(map(options.opened, corpora)), out, progress)
    say(f"{out}: {counted(len(merged), 'sentence')} in {counted(merged.manifest['documents'], 'document')}")


@corpus_app.command("stats")
def describe_corpus(
    corpus: options.Corpus, as_json: Annotated[bool, Option("--json", help="Print everything as JSON.")] = False
) -> None:
    """Show sizes, frequencies and bytes per token.

    Example: structviews corpus stats corpus.parsed
    """
    from structviews.corpus import corpus_statistics

    opened = options.opened(corpus)
    if as_json:
        write(json.dumps(corpus_statistics.statistics_of(opened), indent=1, ensure_ascii=False) + "\n")
    else:
        console.print(corpus_statistics.overview(opened, with_bytes=True), highlight=False)


@corpus_app.command("export")
def export_corpus(
    corpus: options.Corpus,
    out: Annotated[Path | None, options.out_option("Path of the files to write, without extension.", "CORPUS")] = None,
) -> None:
    """Write CoNLL-U and bracketed trees.

    parse --parser treebank turns them back into the same corpus.

    Example: structviews corpus export corpus.parsed -o corpus
    """
    from structviews.parsing.export import export

    opened = options.opened(corpus)
    with Bar(errors, "exporting", "shards") as progress:
        written = export(opened, out or Path(corpus.resolve().name.removesuffix(".parsed")), progress)
    say(*written)


@corpus_app.command("states")
@with_flags(chosen_flags(Words, ["encoder", "word_pooling"]))
def store_encoder_states(
    corpus: options.Corpus,
    teacher: Annotated[
        str, Option(help="Instead, a sentence-transformers model whose vectors of all sentences are stored.")
    ] = "",
    device: options.Device = "",
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Store a frozen encoder's states of all words, or a teacher's vectors of all sentences.

    Training with the contextual channel reads the states, the objective teacher the vectors. They are kept beside the
    corpus, two bytes per value, and train finds them there. If it is stopped, run the same command again to resume.

    Example: structviews corpus states corpus.parsed --encoder roberta-base

    Example: structviews corpus states corpus.parsed --teacher sentence-transformers/all-MiniLM-L6-v2
    """
    from structviews.pretrained.sentence_models import Teacher
    from structviews.pretrained.states import FrozenEncoder
    from structviews.pretrained.stored_states import outdated, store_states
    from structviews.runtime.device import using
    from structviews.training.loop import read_by

    if teacher and flags:
        raise InputError(f"--teacher takes no --{min(flags).replace('_', '-')}: leave one of them out")
    words = Words(**{{"word_pooling": "pooling"}.get(name, name): value for name, value in flags.items()})

    def tell_size(n_words: int, size: int) -> None:
        inform(f"{corpus}: {counted(n_words, 'word')} to compute, which take {size / 1e9:,.2f} GB on disk")

    reader: Teacher | FrozenEncoder
    train = f"structviews train --views dep,const --corpus {typeable(corpus)}"
    with resuming(), using(device):
        if teacher:
            opened, reader = options.opened(corpus), Teacher.open(teacher)
            folder, read = read_by(reader, opened, errors), counted(len(opened), "sentence")
            following = "learn from this teacher", f"{train} --objective teacher --teacher {typeable(teacher)}"
        else:
            with Bar(errors, "reading sentences", "sentences") as progress:
                progress.stage("reading the corpus")
                opened = options.opened(corpus)
                progress.stage("finding the encoder")
                reader = FrozenEncoder.open(words.encoder, words.pooling)
                folder = store_states(opened, reader, tell_size, progress)
            read, pooling = counted(opened.manifest["tokens"], "word"), f" --word-pooling {words.pooling}"
            channel = f"--channels contextual --encoder {typeable(words.encoder)}" + pooling * ("word_pooling" in flags)
            following = "train on these words", f"{train} {channel}"
    say(f"{folder}: {read}, {counted(reader.dim, 'dimension')}")
    for old, size in outdated(opened).items():
        what = f"{size / 1e9:,.2f} GB of an earlier version of the corpus or of structviews"
        inform(f"{old}: {what}: delete it, as nothing reads it")
    suggest(f"Next, {following[0]}:", following[1])


@app.command("verify")
def verify_files(
    path: Annotated[
        Path,
        Argument(
            help="A corpus, a run, CORPUS.vectors, CORPUS.states, or a vector file that was read before.",
            parser=options.named_run,
        ),
    ],
) -> None:
    """Check the files of a corpus, a run or a cache for damage.

    Compares them with their digests, and checks all trees of a corpus. Prints one line per fault; exits with 1 if there
    are any.

    Example: structviews verify corpus.parsed

    Example: structviews verify runs/dep-const
    """
    from structviews.runs.file_checks import verify

    with Bar(errors, "verifying", "files") as progress:
        faults = list(verify(path, progress))
    say(*faults)
    if faults:
        raise Exit(1)
    say(f"{path}: no faults")
