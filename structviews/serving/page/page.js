"use strict";

const PAUSE = 500;  // ms of idle typing before a request is sent
const TOKEN = "structviews-token";
const $ = (id) => document.getElementById(id);
let served = null;
let present = null;  // aborts the current requests

/** Create an element with attributes and children; a string child becomes text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Call an endpoint; an error carries the server's message. */
async function ask(path, body, signal) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const options = { headers, signal, method: body ? "POST" : "GET", body: body && JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not respond: is it running?");
  }
  const content = await answer.json().catch(() => ({ detail: `the server returned status ${answer.status}` }));
  if (answer.ok) return content;
  $("entry").hidden = answer.status !== 401;
  throw new Error(content.detail);
}

function say(text, wrong = false) {
  $("status").textContent = text;
  $("status").classList.toggle("wrong", wrong);
}

/** Request everything about the two sentences; a newer call cancels this one. */
async function compare() {
  present?.abort();
  present = new AbortController();
  const { signal } = present;
  const sentences = [$("first").value.trim(), $("second").value.trim()];
  const run = $("run").value;
  if (!sentences.every(Boolean)) {
    say("Enter two sentences.");
    return;
  }
  $("results").setAttribute("aria-busy", "true");
  say("…");
  try {
    const [similarity, trees, neighbours] = await Promise.all([
      ask("similarity", { run, pairs: [sentences] }, signal),
      ask("trees", { run, sentences }, signal),
      served.corpus ? ask("neighbours", { run, sentences }, signal) : null,
    ]);
    showSimilarity(similarity.similarities[0]);
    showTrees(trees.trees);
    if (neighbours) showNeighbours(sentences, neighbours.neighbours);
    say("");
    $("results").setAttribute("aria-busy", "false");
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  }
}

function showSimilarity({ views, joined }) {
  const row = (name, cosine, kind) => element("tr", { class: kind },
    element("th", { scope: "row" }, name),
    element("td", { class: "bar" }, element("meter", { min: 0, max: 1, value: cosine, "aria-hidden": "true" })),
    element("td", { class: "number" }, cosine.toFixed(3)));
  const rows = Object.entries(views).map(([name, cosine]) => row(name, cosine, "view"));
  $("similarity").tBodies[0].replaceChildren(...rows, row(Object.keys(views).join(" + "), joined, "joined"));
}

function showTrees(trees) {
  $("attention").hidden = !trees.some((tree) => Object.keys(tree.attention).length);
  const figure = (words, { title, svg }) => {
    const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    const image = element("img", { src: source, alt: `${title} of: ${words}` });
    return element("figure", {}, element("figcaption", {}, title),
      element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": title }, image));
  };
  $("trees").lastElementChild.replaceChildren(...trees.flatMap((tree) => {
    const words = tree.tokens.join(" ");
    const rows = ["dependency", "constituency"].map((kind) => element("div", { class: "drawings" },
      ...tree.drawings.filter((drawing) => drawing.kind === kind).map((drawing) => figure(words, drawing))));
    return [element("h3", { dir: "auto" }, words), ...rows];
  }));
}

function showNeighbours(sentences, found) {
  const item = ({ text, place, times, cosine }) => {
    const where = `  ${served.corpus.unit} ${place.toLocaleString("en")}${times > 1 ? ` and ${times - 1} more` : ""}`;
    return element("li", {}, element("span", { class: "cosine" }, cosine.toFixed(3)),
      element("span", { class: "text", dir: "auto" }, text, element("span", { class: "quiet" }, where)));
  };
  $("neighbours").lastElementChild.replaceChildren(...sentences.map((sentence, i) =>
    element("div", {}, element("h3", { dir: "auto" }, sentence), element("ol", {}, ...found[i].map(item)))));
}

function showRun() {
  const run = served.runs.find(({ name }) => name === $("run").value);
  $("about").textContent = `${run.views.join(", ")} · ${run.dim.toLocaleString("en")} dimensions · ${run.representation}`;
}

async function start() {
  try {
    served = await ask("runs");
  } catch (error) {
    say(error.message, true);
    return;
  }
  $("run").replaceChildren(...served.runs.map(({ name }) => element("option", {}, name)));
  for (const id of ["first", "second"]) $(id).maxLength = served.characters;
  $("neighbours").hidden = !served.corpus;
  if (served.corpus) {
    $("corpus").textContent = `Among ${served.corpus.sentences.toLocaleString("en")} sentences of `
      + `${served.corpus.name}, with their cosine.`;
  }
  showRun();
  await compare();
}

let pause;
$("ask").addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(() => served && compare(), PAUSE);
});
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(pause);
  if (served) compare(); else start();
});
$("run").addEventListener("change", () => { showRun(); compare(); });
$("entry").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $("token").value);
  $("entry").hidden = true;
  start();
});
start();
