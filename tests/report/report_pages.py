"""A page as a tree of its elements."""

from html.parser import HTMLParser

# Elements that have no end.
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Element:
    """A part of a page."""

    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.content = tag, attributes, []

    @property
    def text(self):
        parts = (each if isinstance(each, str) else each.text for each in self.content)
        return " ".join(" ".join(parts).split())

    def all(self, tag, of=None, **attributes):
        """The elements below, of a tag, of a class and with some attributes."""
        found = []
        for each in (each for each in self.content if not isinstance(each, str)):
            classes = [None, *(each.attributes.get("class") or "").split()]
            if each.tag == tag and of in classes and attributes.items() <= each.attributes.items():
                found.append(each)
            found += each.all(tag, of, **attributes)
        return found

    def rows(self):
        """The texts of a table's cells."""
        return [[cell.text for cell in row.content if not isinstance(cell, str)] for row in self.all("tr")]


class Page(HTMLParser):
    """A page as a tree; whatever is opened must be closed."""

    def __init__(self, text):
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert len(self.open) == 1, [each.tag for each in self.open]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.open[-1].content.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].content.append(data)


def read_page(path):
    return Page(path.read_text("utf-8")).root
