"""Someone only opens the page of ``structviews serve``: what they see, asked from Python.

A server with the bundled model starts on a free port of this machine. The program asks its endpoints what the page
asks, prints what the page shows, and stops the server.

    python examples/open_the_page.py "She saw the man with the telescope." "With a telescope she saw the man."
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

CORPUS = Path(__file__).parents[1] / "data/corpus.txt"
SENTENCES = ["He walked slowly up the hill to the old house.", "They drove along the river to the city."]
LINES = 300  # of the corpus are searched, so that the program does not take long


def ask(address: str, path: str, **body):
    """What an endpoint answers."""
    data = json.dumps(body).encode() if body else None
    with urlopen(Request(address + path, data, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def visit(address: str, first: str, second: str) -> None:
    """Print what the page shows of two sentences."""
    served = ask(address, "/runs")
    (run,), corpus = served["runs"], served["corpus"]
    print(f"{run['name']}: a sentence has {run['dim']:,} dimensions, from the views {', '.join(run['views'])}")
    (pair,) = ask(address, "/similarity", pairs=[[first, second]])["similarities"]
    for view, cosine in pair["views"].items():
        print(f"  {view:6} {cosine:6.3f}  closer than {pair['closer_than']['views'][view]:.0%} of random pairs")
    print(f"  joined {pair['joined']:6.3f}  closer than {pair['closer_than']['joined']:.0%} of random pairs")
    asked = [first, second]
    neighbours = ask(address, "/neighbours", sentences=asked, k=3)["neighbours"]
    trees = ask(address, "/trees", sentences=asked)["trees"]
    for sentence, near, tree in zip(asked, neighbours, trees, strict=True):
        print(f"\n{sentence}\nnearest of {corpus['sentences']} sentences:")
        for each in near:
            print(f"  {each['cosine']:.2f}  {each['text']}")
        print("words and their heads:")
        for word, head, relation in zip(tree["tokens"], tree["heads"], tree["relations"], strict=True):
            print(f"  {word:10} {relation:10} {tree['tokens'][head - 1] if head else '-'}")


def main() -> None:
    """Start a server, visit it, and stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", nargs="*", default=SENTENCES, help="two sentences to compare")
    parser.add_argument("--out", type=Path, help="folder for the corpus and its vectors; by default a temporary one")
    arguments = parser.parse_args()
    first, second = arguments.sentences
    out = arguments.out or Path(tempfile.mkdtemp(prefix="structviews-"))
    out.mkdir(parents=True, exist_ok=True)
    corpus = out / "corpus.txt"
    corpus.write_text("\n".join(CORPUS.read_text("utf-8").splitlines()[:LINES]), "utf-8")
    command = [sys.executable, "-m", "structviews", "serve", "default", "--corpus", corpus, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip()  # printed once it listens
            if not address:
                raise SystemExit("the server did not start")
            visit(address, first, second)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
