"""Score tables for the terminal, in Markdown and LaTeX, and as HTML for the report."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

from rich.text import Text

from structviews.evaluation.scores.tables import BEST, MISSING, TIE, Cell, Row, ScoreTable
from structviews.runtime.terminal import Table as RichTable
from structviews.runtime.wording import as_text

PUBLISHED = "published"
MARKS = "bold: best of the runs; underlined: within the 95 % interval of the best"
ABREAST = 10  # most task columns side by side on a page
LONG = 40  # tables with more rows than this need small print to fit a page


def as_rich(table: ScoreTable, width: int) -> list[RichTable]:
    """The table, without notes, for a terminal of ``width`` characters, split by tasks into several if too wide."""
    rows = [table.header, *(row.texts for row in (*table.runs, *table.published))]
    widths = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], width // 3)  # long run names may wrap
    fixed = range(len(table.labels))
    parts: list[list[int]] = [[]]
    for column in range(len(table.labels), len(table.header)):
        if parts[-1] and sum(widths[i] for i in (*fixed, *parts[-1], column)) + 1 > width:
            parts.append([])
        parts[-1].append(column)
    tables = []
    for part in parts:
        rich = RichTable()
        for i in (*fixed, *part):
            rich.add_column(table.header[i], justify="left" if i < 2 else "right", no_wrap=i > 0)
        for row in table.runs:
            rich.add_row(*(Text(row.texts[i]) for i in (*fixed, *part)))
        if table.published:
            rich.add_section()
            rich.add_row(Text(PUBLISHED, style="italic"))
        for row in table.published:
            rich.add_row(*(Text(row.texts[i]) for i in (*fixed, *part)), style="dim")
        tables.append(rich)
    return tables


def as_markdown(table: ScoreTable) -> str:
    """The table and its notes in Markdown."""

    def line(row: Row) -> list[str]:
        return [*map(as_text, row.labels), *row.texts[len(row.labels) :]]

    rule = ["---" if i < 2 else "--:" for i in range(len(table.header))]
    rows = [[*map(as_text, table.header)], rule, *map(line, table.runs)]
    if table.published:
        rows += [[f"**{PUBLISHED}**", *[""] * (len(rule) - 1)], *map(line, table.published)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"- {as_text(note)}" for note in (*table.legend, *table.notes))]) + "\n"


def as_latex(table: ScoreTable) -> str:
    """LaTeX floats with booktabs rules; tasks that do not fit side by side go into further floats."""
    legend = [*table.legend, *([MARKS] if has_marks(table) else [])]
    caption = ". ".join(_latex(note[:1].upper() + note[1:]) for note in legend)
    lines = ["% needs \\usepackage{booktabs}", *(f"% {line}" for note in table.notes for line in note.splitlines())]
    for i, part in enumerate(side_by_side(table)):
        lines += ["\\begin{table*}", "\\centering\\setlength{\\tabcolsep}{4pt}", *_latex_part(table, part)]
        lines += [f"\\caption{{{caption if i == 0 else 'Further tasks, as above'}.}}", "\\end{table*}"]
    return "\n".join(lines) + "\n"


def side_by_side(table: ScoreTable) -> list[range]:
    """Indices of the tasks, in parts of at most ``ABREAST`` that fit a page."""
    tasks = range(len(table.tasks))
    n_parts = max(1, -(-len(tasks) // ABREAST))
    return [tasks[i * len(tasks) // n_parts : (i + 1) * len(tasks) // n_parts] for i in range(n_parts)]


def has_marks(table: ScoreTable) -> bool:
    """Whether a score is marked as the best, or as close to it."""
    return any(figure.mark for row in table.runs for cell in row.cells for figure in cell.figures)


def _columns(table: ScoreTable, tasks: Sequence[int]) -> tuple[list[str], list[Row]]:
    """The header of a part of the table, and the published rows that have a score in it."""
    names = [*table.labels, *(table.tasks[i] for i in tasks)]
    return names, [row for row in table.published if any(row.cells[i].figures for i in tasks)]


def _marked(cell: Cell, quote: Callable[[str], str], marks: dict[str, str]) -> str:
    """The cell with best and tied scores marked."""
    if not cell.figures:
        return quote(MISSING)
    figures = [marks.get(figure.mark, "{}").format(quote(figure.text)) for figure in cell.figures]
    return "/".join(figures) + quote(cell.suffix)


def _latex_part(table: ScoreTable, tasks: Sequence[int]) -> list[str]:
    def line(row: Row) -> str:
        cells = [_marked(row.cells[i], _latex, {BEST: "\\textbf{{{}}}", TIE: "\\underline{{{}}}"}) for i in tasks]
        return " & ".join([*map(_latex, row.labels), *cells]) + " \\\\"

    names, published = _columns(table, tasks)
    lines = [
        "\\scriptsize" if len(table.runs) + len(published) > LONG else "\\small",
        f"\\begin{{tabular}}{{@{{}}ll{'r' * (len(names) - 2)}@{{}}}}",
        "\\toprule",
        " & ".join(map(_latex, names)) + " \\\\",
        "\\midrule",
        *map(line, table.runs),
    ]
    if published:
        lines += ["\\midrule", f"\\multicolumn{{{len(names)}}}{{@{{}}l}}{{\\emph{{{PUBLISHED}}}}} \\\\"]
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


def html_table(table: ScoreTable, tasks: Sequence[int]) -> str:
    """An HTML table of some tasks, given by index; published rows have their own section."""
    names, published = _columns(table, tasks)
    left = [" class='left'" if i < 2 else "" for i in range(len(names))]

    def line(row: Row) -> str:
        name, *others = map(escape, row.labels)
        labels = [f"<td{left[i]}>{label}</td>" for i, label in enumerate(others, 1)]
        cells = [_html_cell(row.cells[i]) for i in tasks]
        return f"<tr><th scope='row'{left[0]}><span>{name}</span></th>{''.join([*labels, *cells])}</tr>"

    header = "".join(f"<th scope='col'{left[i]}>{escape(name)}</th>" for i, name in enumerate(names))
    lines = ["<table>", f"<thead><tr>{header}</tr></thead>", "<tbody>", *map(line, table.runs)]
    if published:
        lines += ["</tbody>", "<tbody class='published'>"]
        if table.runs:
            lines += [f"<tr><th class='section' colspan='{len(names)}'>{PUBLISHED}</th></tr>"]
        lines += map(line, published)
    return "\n".join([*lines, "</tbody>", "</table>"])


def _html_cell(cell: Cell) -> str:
    """The scores in one line; the intervals as a tooltip and, if they are shown, below in small print."""
    numbers, small = [], []
    for figure in cell.figures:
        number, bracket, interval = figure.text.partition(" [")
        numbers.append(replace(figure, text=number))
        small += [escape(bracket.strip() + interval)] if bracket else []
    text = _marked(replace(cell, figures=tuple(numbers)), escape, {BEST: "<b>{}</b>", TIE: "<u>{}</u>"})
    text += f"<small>{'<br>'.join(small)}</small>" if small else ""
    ends = [f"[{figure.interval[0]:.1f}, {figure.interval[1]:.1f}]" for figure in cell.figures if figure.interval]
    return f"<td title='95 % interval {' / '.join(ends)}'>{text}</td>" if ends else f"<td>{text}</td>"
