"""A page that describes the endpoints, made from their OpenAPI schema, without scripts."""

import json
import shlex
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Schema = Mapping[str, Any]
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Endpoints of structviews</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css">
</head>
<body class="api">
"""


def api_page(schema: Schema, address: str, with_token: bool) -> str:
    """The page as HTML.

    Args:
        schema: the application's OpenAPI schema.
        address: the server's address in the examples, without a slash at the end.
        with_token: whether requests must carry a token.
    """
    operations = [(path, method, each) for path, methods in schema["paths"].items() for method, each in methods.items()]
    links = "".join(
        f'<li><a href="#{path[1:]}"><code>{method.upper()} {path}</code></a> {escape(each["summary"])}</li>\n'
        for path, method, each in operations
    )
    token = (
        "<p>Every request carries the server's token, as in the examples: write it in the place of TOKEN.</p>\n"
        if with_token
        else ""
    )
    sections = "".join(
        section(schema, address, path, method, each, with_token=with_token) for path, method, each in operations
    )
    return (
        f'{HEAD}<header><h1>Endpoints</h1> <a href="./">To the page</a></header>\n<main>\n'
        "<p>Programs can ask for all that the page shows. Requests and answers are JSON, described for "
        "client generators in "
        f'<a href="openapi.json">openapi.json</a>.</p>\n{token}<nav aria-label="Endpoints"><ul>{links}</ul></nav>\n'
        f"{sections}{errors(schema, operations[0][2])}</main>\n</body>\n</html>\n"
    )


def section(schema: Schema, address: str, path: str, method: str, operation: Schema, *, with_token: bool) -> str:
    """An endpoint: what it takes and gives, and how to call it."""
    answer = content_of(operation["responses"]["200"])
    html = f'<section id="{path[1:]}">\n<h2><code>{method.upper()} {path}</code> {escape(operation["summary"])}</h2>\n'
    body = None
    if "requestBody" in operation:
        asked = resolved(schema, content_of(operation["requestBody"]))
        body = {name: each["examples"][0] for name, each in asked["properties"].items() if "examples" in each}
        html += table("Request", request_rows(schema, asked))
    html += table("Answer", [(name, kind, about) for name, kind, about in fields(schema, answer)])
    calls = {"curl": curl(address + path, body, with_token), "Python": python(address + path, body, with_token)}
    for name, call in calls.items():
        html += f'<h3>{name}</h3>\n<pre class="{name.lower()}">{escape(call)}</pre>\n'
    return html + "</section>\n"


def content_of(part: Schema) -> Schema:
    """The schema of a body."""
    content: Schema = part["content"]["application/json"]["schema"]
    return content


def resolved(schema: Schema, part: Schema) -> Schema:
    """A part of the schema, in the place of a reference to it; of a choice with null, the other one."""
    for choice in part.get("anyOf", ()):
        if choice.get("type") != "null":
            return resolved(schema, choice)
    if "$ref" not in part:
        return part
    found: Schema = schema["components"]["schemas"][part["$ref"].rpartition("/")[2]]
    return found


def request_rows(schema: Schema, asked: Schema) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each field of a request."""
    for name, each in asked["properties"].items():
        about = each.get("description", "")
        if name in asked.get("required", ()):
            about += " (required)"
        elif each.get("default") is not None:
            about += f" (by default {each['default']})"
        yield name, kind_of(schema, each), about.strip()


def fields(schema: Schema, part: Schema, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each field of an answer, those of nested objects included."""
    for name, each in resolved(schema, part).get("properties", {}).items():
        yield prefix + name, kind_of(schema, each), each.get("description", "")
        inner, place = resolved(schema, each), prefix + name
        while inner.get("type") == "array" and "items" in inner:
            inner, place = resolved(schema, inner["items"]), place + "[]"
        yield from fields(schema, inner, place + ".")


def kind_of(schema: Schema, part: Schema) -> str:
    """A type in words."""
    optional = " or null" if any(choice.get("type") == "null" for choice in part.get("anyOf", ())) else ""
    part = resolved(schema, part)
    if part.get("type") == "array":
        kinds = {kind_of(schema, each) for each in part.get("prefixItems") or [part.get("items", {})]}
        kind = "list of " + " and ".join(plural(each) for each in sorted(kinds, reverse=True))
    elif isinstance(part.get("additionalProperties"), dict):
        kind = f"object of {plural(kind_of(schema, part['additionalProperties']))}"
    else:
        kind = part.get("type", "value")
    return kind + optional


def plural(kind: str) -> str:
    """The plural of a type: ``lists of strings``."""
    first, *rest = kind.split(" ", 1)
    return " ".join([f"{first}s", *rest])


def table(caption: str, rows: Any) -> str:
    """A table of fields."""
    lines = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(kind)}</td><td>{escape(about)}</td></tr>\n'
        for name, kind, about in rows
    )
    head = '<thead><tr><th scope="col">field</th><th scope="col">type</th><th scope="col">meaning</th></tr></thead>'
    return f"<table><caption>{caption}</caption>{head}<tbody>\n{lines}</tbody></table>\n"


def errors(schema: Schema, operation: Schema) -> str:
    """The section on errors, which are the same for all endpoints."""
    rows = "".join(
        f'<tr><th scope="row">{status}</th><td>{escape(each["description"])}</td></tr>\n'
        for status, each in operation["responses"].items()
        if status != "200"
    )
    return (
        '<section id="errors">\n<h2>Errors</h2>\n<p>An error is <code>{"detail": "one line"}</code>, which says what '
        "to do.</p>\n"
        f'<table><thead><tr><th scope="col">status</th><th scope="col">when</th></tr></thead><tbody>\n{rows}'
        "</tbody></table>\n</section>\n"
    )


def curl(url: str, body: Any, with_token: bool) -> str:
    """A call by curl."""
    parts = [f"curl -s {shlex.quote(url)}"]
    if with_token:
        parts.append("-H 'Authorization: Bearer TOKEN'")
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"]
    return " \\\n  ".join(parts)


def python(url: str, body: Any, with_token: bool) -> str:
    """A call in Python, with requests."""
    lines = ["import requests", ""]
    arguments = [json.dumps(url)]
    if with_token:
        lines.append('headers = {"Authorization": "Bearer TOKEN"}')
        arguments.append("headers=headers")
    if body is not None:
        lines.append(f"asked = {json.dumps(body, ensure_ascii=False)}")
        arguments.append("json=asked")
    lines += [f"answer = requests.{'get' if body is None else 'post'}({', '.join(arguments)})", "print(answer.json())"]
    return "\n".join(lines)
