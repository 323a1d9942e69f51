"use strict";

const PAUSE = 500;  // ms of idle typing before a request is sent
const TOKEN = "structviews-token";
const FOLDED = "Binarised";  // begins the title of drawings that are folded away
const SMALLEST = 0.7;  // scale at which words can still be read; a wider tree scrolls
const ZOOM = 1.25;
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

function typed() {
  return [$("first"), $("second")].map((box) => box.value.trim()).filter(Boolean);
}

/** Show nothing about sentences that are no longer there. */
function clear() {
  for (const id of ["similarity", "neighbours", "trees", "warning"]) $(id).hidden = true;
  $("trees").lastElementChild.replaceChildren();
  $("results").removeAttribute("aria-busy");
}

/** Request everything about the sentences; a newer call cancels this one. */
async function compare() {
  present?.abort();
  present = new AbortController();
  const { signal } = present;
  const sentences = typed();
  const run = $("run").value;
  if (!sentences.length) {
    clear();
    say("Type a sentence to see its trees, or two to see how alike they are.");
    return;
  }
  $("results").setAttribute("aria-busy", "true");
  say("Working …");
  try {
    const [trees, neighbours, similarity] = await Promise.all([
      ask("trees", { run, sentences }, signal),
      served.corpus ? ask("neighbours", { run, sentences }, signal) : null,
      sentences.length === 2 ? ask("similarity", { run, pairs: [sentences] }, signal) : null,
    ]);
    showSimilarity(similarity?.similarities[0]);
    showNeighbours(sentences, neighbours?.neighbours);
    showTrees(sentences, trees.trees);
    showWarning(trees.warning);
    say(sentences.length === 2 ? "" : "Type a second sentence to compare the two.");
    $("results").setAttribute("aria-busy", "false");
  } catch (error) {
    if (error.name === "AbortError") return;
    clear();
    say(error.message, true);
  }
}

/** What is wrong with the text, as a sentence; what follows the colon is for those who train and serve runs. */
function showWarning(warning) {
  $("warning").hidden = !warning;
  if (!warning) return;
  const [wrong] = warning.split(": ");
  $("warning").textContent = `${wrong[0].toUpperCase()}${wrong.slice(1)}.`;
}

/** A share of random pairs in words. */
function closer(share) {
  const percent = Math.round(100 * share);
  if (percent === 100) return `closer than ${share === 1 ? "all" : "nearly all"} random pairs`;
  if (percent === 0) return `closer than ${share === 0 ? "no" : "hardly any"} random pair`;
  return `closer than ${percent} % of random pairs`;
}

function showSimilarity(found) {
  $("similarity").hidden = !found;
  if (!found) return;
  const { views, joined, closer_than: shares } = found;
  const row = (name, cosine, share, kind) => element("tr", { class: kind },
    element("th", { scope: "row" }, name),
    element("td", { class: "bar" }, element("meter", { min: 0, max: 1, value: cosine, "aria-hidden": "true" })),
    element("td", { class: "number" }, cosine.toFixed(3)),
    element("td", { class: "closer" }, shares ? closer(share) : ""));
  const names = Object.keys(views);
  const rows = names.map((name) => row(name, views[name], shares?.views[name], "view"));
  const all = row(names.length > 1 ? `${names.join(" + ")}, joined` : "joined", joined, shares?.joined, "joined");
  $("similarity").querySelector("tbody").replaceChildren(...rows, all);
}

/** A drawing of a tree in a box that scrolls where it does not fit; ``box.zoom`` is relative to the fitting size. */
function tree(sentence, { title, svg }) {
  const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  const image = element("img", { src: source, alt: `${title} of: ${sentence}` });
  const box = element("div", { class: "scroll", role: "group", "aria-label": `${title} of: ${sentence}` }, image);
  box.zoom = 1;
  box.fit = () => {
    if (!image.naturalWidth || !box.clientWidth) return;
    const fitting = Math.max(SMALLEST, Math.min(1, box.clientWidth / image.naturalWidth));
    image.width = Math.round(image.naturalWidth * fitting * box.zoom);
    edges(box);
  };
  image.addEventListener("load", box.fit);
  box.addEventListener("scroll", () => edges(box));
  new ResizeObserver(box.fit).observe(box);
  return element("figure", {}, element("figcaption", { dir: "auto" }, sentence), box);
}

/** Fade the edges behind which a drawing goes on; what scrolls takes the focus, so that keys can scroll it. */
function edges(box) {
  const left = Math.abs(box.scrollLeft);
  box.classList.toggle("more-left", left > 1);
  box.classList.toggle("more-right", left + box.clientWidth < box.scrollWidth - 1);
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

/** The drawings with one title, of all sentences side by side, with their zoom. */
function row(title, figures) {
  const boxes = figures.map((figure) => figure.lastElementChild);
  const zoom = (factor) => boxes.forEach((box) => {
    box.zoom = factor ? Math.min(4, Math.max(0.25, box.zoom * factor)) : 1;
    box.fit();
  });
  const keys = { "+": ZOOM, "=": ZOOM, "-": 1 / ZOOM, 0: 0 };
  const button = (sign, name, factor) => {
    const made = element("button", { type: "button", "aria-label": `${name}: ${title}`, title: name }, sign);
    made.addEventListener("click", () => zoom(factor));
    return made;
  };
  const made = element("div", { class: "row" },
    element("div", { class: "zoom" }, button("−", "Smaller", 1 / ZOOM), button("Fit", "Fit", 0), button("+", "Larger", ZOOM)),
    element("div", { class: "beside" }, ...figures));
  made.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    zoom(keys[event.key]);
  });
  return title.startsWith(FOLDED)
    ? element("details", {}, element("summary", {}, title), made)
    : element("div", { class: "kind" }, element("h3", {}, title), made);
}

function showTrees(sentences, trees) {
  const open = new Set([...document.querySelectorAll("#trees details[open] summary")].map((each) => each.textContent));
  $("attention").hidden = !trees.some(({ attention }) => Object.keys(attention).length);
  const titles = trees[0].drawings.map(({ title }) => title);
  const rows = titles.map((title, i) => row(title, trees.map(({ drawings }, n) => tree(sentences[n], drawings[i]))));
  for (const each of rows) each.open = open.has(each.firstElementChild.textContent);
  $("trees").lastElementChild.replaceChildren(...rows);
  $("trees").hidden = false;
}

function showNeighbours(sentences, found) {
  $("neighbours").hidden = !found;
  if (!found) return;
  const item = ({ text, place, times, cosine }) => {
    const where = `  ${served.corpus.unit} ${place.toLocaleString("en")}${times > 1 ? ` and ${times - 1} more` : ""}`;
    return element("li", {}, element("span", { class: "cosine" }, cosine.toFixed(3)),
      element("span", { class: "text", dir: "auto" }, text, element("span", { class: "quiet" }, where)));
  };
  $("neighbours").lastElementChild.replaceChildren(...sentences.map((sentence, i) =>
    element("div", {}, element("h3", { dir: "auto" }, sentence), element("ol", {}, ...found[i].map(item)))));
}

function showRun() {
  const { name, views, dim, representation } = served.runs.find((run) => run.name === $("run").value);
  $("about").textContent = `${name}: a sentence has ${dim.toLocaleString("en")} dimensions, by the views ${views.join(", ")}`
    + `${representation === "vector" ? "" : ` (${representation})`}.`;
}

/** What the page says about the corpus, or how to have one. */
function showCorpus({ corpus }) {
  $("scale").textContent = "The cosine under each view and of the joined vectors: 1 is the most alike. "
    + (corpus ? `For comparison: random pairs of sentences from ${corpus.name}.`
      : "To see what random sentences have, and the nearest ones, start structviews serve with --corpus.");
  if (corpus) {
    $("corpus").textContent = `Among ${corpus.sentences.toLocaleString("en")} sentences of ${corpus.name}, `
      + "with their cosine.";
  }
}

async function start() {
  try {
    served = await ask("runs");
  } catch (error) {
    say(error.message, true);
    return;
  }
  $("run").replaceChildren(...served.runs.map(({ name }) => element("option", {}, name)));
  $("run").parentElement.hidden = served.runs.length < 2;
  for (const id of ["first", "second"]) $(id).maxLength = served.characters;
  showCorpus(served);
  showRun();
  await compare();
}

let pause;
let boxes = 2;  // with a sentence, when last looked at
$("ask").addEventListener("input", () => {
  clearTimeout(pause);
  const filled = typed().length;
  if (filled < boxes) {
    present?.abort();
    clear();
    say("");
  }
  boxes = filled;
  pause = setTimeout(() => served && compare(), filled ? PAUSE : 0);
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
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
start();
