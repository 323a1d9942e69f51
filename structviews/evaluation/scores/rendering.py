"""Score tables for the terminal and in Markdown, CSV, LaTeX and HTML."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

from rich.text import Text

from structviews.evaluation.scores.figures import BEST, MISSING, TIE, Cell
from structviews.evaluation.scores.tables import Row, ScoreTable
from structviews.runtime.terminal import Table as RichTable
from structviews.runtime.wording import as_text, counted

PUBLISHED = "published"
MARKS = "bold: best of the runs; underlined: within the 95 % interval of the best"
# Most task columns side by side on a page.
ABREAST = 10
# Tables with more rows than this need small print to fit a page.
LONG = 40


def as_rich(table: ScoreTable, width: int) -> list[RichTable]:
    """The table for a terminal of ``width`` characters, split by tasks into several if too wide.

    The notes are not included.
    """
    rows = [table.header, *(row.texts for row in (*table.runs, *table.published))]
    widths = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], width // 3)  # long run names may wrap
    parts: list[list[int]] = [[]]
    for column in range(table.n_fixed, len(table.header)):
        if parts[-1] and sum(widths[i] for i in (*range(table.n_fixed), *parts[-1], column)) + 1 > width:
            parts.append([])
        parts[-1].append(column)
    return [_rich_part(table, [*range(table.n_fixed), *part]) for part in parts]


def _rich_part(table: ScoreTable, columns: list[int]) -> RichTable:
    rich = RichTable()
    for i in columns:
        rich.add_column(table.header[i], justify="left" if i < 2 else "right", no_wrap=i > 0)
    for row in table.runs:
        rich.add_row(*(Text(row.texts[i]) for i in columns))
    if table.published:
        rich.add_section()
        rich.add_row(Text(PUBLISHED, style="italic"))
    for row in table.published:
        rich.add_row(*(Text(row.texts[i]) for i in columns), style="dim")
    return rich


def as_markdown(table: ScoreTable) -> str:
    """The table and its notes in Markdown."""
    rule = ["---" if i < 2 else "--:" for i in range(len(table.header))]
    rows = [[*map(as_text, table.header)], rule, *map(_markdown_row, table.runs)]
    if table.published:
        rows += [[f"**{PUBLISHED}**", *[""] * (len(rule) - 1)], *map(_markdown_row, table.published)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"- {as_text(note)}" for note in (*table.legend, *table.notes))]) + "\n"


def _markdown_row(row: Row) -> list[str]:
    return [*map(as_text, row.labels), *row.texts[len(row.labels) :]]


def as_csv(table: ScoreTable) -> str:
    """The table as CSV, without notes; if there are published rows, a first column ``source`` marks them."""
    rows = [table.header, *table.rows]
    if table.published:
        rows = [["source", *table.header], *(["run", *row] for row in table.rows)]
        rows += [[PUBLISHED, *row.texts] for row in table.published]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def as_latex(table: ScoreTable) -> str:
    """LaTeX floats with booktabs rules; tasks that do not fit side by side go into further floats."""
    parts = side_by_side(table)
    caption = ". ".join(_latex(note[:1].upper() + note[1:]) for note in marked_legend(table))
    lines = ["% needs \\usepackage{booktabs}", *(f"% {line}" for note in table.notes for line in note.splitlines())]
    for i, part in enumerate(parts):
        lines += ["\\begin{table*}", "\\centering\\setlength{\\tabcolsep}{4pt}", *_latex_part(table, part)]
        lines += [f"\\caption{{{caption if i == 0 else 'Further tasks, as above'}.}}", "\\end{table*}"]
    return "\n".join(lines) + "\n"


def side_by_side(table: ScoreTable) -> list[range]:
    """Indices of the tasks, in parts of at most ``ABREAST`` that fit a page."""
    tasks = range(len(table.header) - table.n_fixed)
    n_parts = max(1, -(-len(tasks) // ABREAST))
    return [tasks[i * len(tasks) // n_parts : (i + 1) * len(tasks) // n_parts] for i in range(n_parts)]


def _latex_part(table: ScoreTable, tasks: Sequence[int]) -> list[str]:
    def line(row: Row) -> str:
        cells = [_written(row.cells[i], _latex, {BEST: "\\textbf{{{}}}", TIE: "\\underline{{{}}}"}) for i in tasks]
        return " & ".join([*map(_latex, row.labels), *cells]) + " \\\\"

    n = table.n_fixed
    published = [row for row in table.published if any(row.cells[i].figures for i in tasks)]
    header = [_latex(name) for name in (*table.header[:n], *(table.header[n + i] for i in tasks))]
    lines = [
        "\\scriptsize" if len(table.runs) + len(published) > LONG else "\\small",
        f"\\begin{{tabular}}{{@{{}}ll{'r' * (n - 2 + len(tasks))}@{{}}}}",
        "\\toprule",
        " & ".join(header) + " \\\\",
        "\\midrule",
        *map(line, table.runs),
    ]
    if published:
        lines += ["\\midrule", f"\\multicolumn{{{len(header)}}}{{@{{}}l}}{{\\emph{{{PUBLISHED}}}}} \\\\"]
        lines += ["\\addlinespace", *map(line, published)]
    return [*lines, "\\bottomrule", "\\end{tabular}"]


_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "±": "$\\pm$",
    "×": "$\\times$",
    "†": "\\textsuperscript{\\dag}",
    "‡": "\\textsuperscript{\\ddag}",
}


def _latex(text: str) -> str:
    if text == MISSING:
        return "--"
    return re.sub(r" x 100\b", " $\\\\times$ 100", "".join(_LATEX.get(c, c) for c in text))


def as_html(table: ScoreTable) -> str:
    """A self-contained HTML page."""
    notes = "\n".join(f"<li>{escape(note)}</li>" for note in (*marked_legend(table), *table.notes))
    tasks = range(len(table.header) - table.n_fixed)
    title = f"Scores of {counted(len(table.runs), 'run')} on {counted(len(tasks), 'task')}"
    return _PAGE.format(title=title, table=html_table(table, tasks), notes=notes)


def html_table(table: ScoreTable, tasks: Sequence[int]) -> str:
    """An HTML table of some tasks, given by index; published rows have their own section."""
    n = table.n_fixed
    published = [row for row in table.published if any(row.cells[i].figures for i in tasks)]
    header = [*table.header[:n], *(table.header[n + i] for i in tasks)]
    names = "".join(f"<th scope='col'{_left(i)}>{escape(name)}</th>" for i, name in enumerate(header))
    lines = ["<table>", f"<thead><tr>{names}</tr></thead>", "<tbody>"]
    lines += [_html_row(row, tasks) for row in table.runs]
    if published:
        lines += ["</tbody>", "<tbody class='published'>"]
        if table.runs:
            lines += [f"<tr><th class='section' colspan='{len(header)}'>{PUBLISHED}</th></tr>"]
        lines += [_html_row(row, tasks) for row in published]
    return "\n".join([*lines, "</tbody>", "</table>"])


def marked_legend(table: ScoreTable) -> list[str]:
    """The legend, including that of the marks."""
    return [*table.legend, *([MARKS] if has_marks(table) else [])]


def _html_row(row: Row, tasks: Sequence[int]) -> str:
    name, *others = map(escape, row.labels)
    labels = [f"<td{_left(i)}>{label}</td>" for i, label in enumerate(others, 1)]
    cells = [_html_cell(row.cells[i]) for i in tasks]
    return f"<tr><th scope='row'{_left(0)}><span>{name}</span></th>{''.join([*labels, *cells])}</tr>"


def _html_cell(cell: Cell) -> str:
    """The scores in one line, and below them, in small print, the intervals that are shown."""
    numbers, intervals = [], []
    for figure in cell.figures:
        number, bracket, interval = figure.text.partition(" [")
        numbers.append(replace(figure, text=number))
        intervals += [bracket.strip() + interval] if bracket else []
    text = _written(replace(cell, figures=tuple(numbers)), escape, {BEST: "<b>{}</b>", TIE: "<u>{}</u>"})
    small = f"<small>{'<br>'.join(map(escape, intervals))}</small>" if intervals else ""
    return f"<td{_title(cell)}>{text}{small}</td>"


def _left(column: int) -> str:
    return " class='left'" if column < 2 else ""


def _title(cell: Cell) -> str:
    """The intervals as a tooltip."""
    ends = [f"[{figure.interval[0]:.1f}, {figure.interval[1]:.1f}]" for figure in cell.figures if figure.interval]
    return f" title='95 % interval {' / '.join(ends)}'" if ends else ""


def _written(cell: Cell, quote: Callable[[str], str], marks: dict[str, str]) -> str:
    """The cell with best and tied scores marked."""
    if not cell.figures:
        return quote(MISSING)
    figures = [marks.get(figure.mark, "{}").format(quote(figure.text)) for figure in cell.figures]
    return "/".join(figures) + quote(cell.suffix)


def has_marks(table: ScoreTable) -> bool:
    """Whether a score is marked as the best, or as close to it."""
    return any(figure.mark for row in table.runs for cell in row.cells for figure in cell.figures)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2129; --faint: #687080; --rule: #c9ced6; --paper: #fff; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e4e7ec; --faint: #9aa3b2; --rule: #3b424e; --paper: #15181d; }}
}}
body {{ margin: 2.5rem auto; padding: 0 1.5rem; max-width: max-content; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }}
h1 {{ font-size: 1.25rem; font-weight: 600; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink);
  font-variant-numeric: tabular-nums; }}
thead th {{ border-bottom: 1px solid var(--ink); font-weight: 600; }}
tbody th {{ font-weight: 400; }}
th, td {{ padding: .3rem .7rem; text-align: right; white-space: nowrap; }}
th.left, td.left, th.section {{ text-align: left; }}
tbody tr:hover td {{ background: color-mix(in srgb, var(--rule) 30%, transparent); }}
.published td {{ color: var(--faint); }}
.published .section {{ border-top: 1px solid var(--ink); padding-top: .8rem; font-weight: 600; font-style: italic; }}
u {{ text-underline-offset: 3px; }}
ul {{ max-width: 75ch; padding-left: 1.1rem; color: var(--faint); font-size: .87rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div class="wide" role="region" aria-label="Scores" tabindex="0">
{table}
</div>
<ul>
{notes}
</ul>
</main>
</body>
</html>
"""
