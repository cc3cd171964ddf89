"use strict";
// What all pages are made with. Text becomes text nodes, never markup: what testees say is in it.
const $ = (id) => document.getElementById(id);

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === false || value === undefined || value === null) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child || child === 0) element.append(child);
  }
  return element;
}

async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const words = (outcome) => outcome.replaceAll("_", " ");
const fact = (name, ...value) => [make("dt", {}, name), make("dd", {}, ...value)];

function safely(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

const block = (text, name) => make("pre", { tabindex: 0, role: "region", "aria-label": name }, text);

function questionView(part) {
  if (part.text !== undefined) return [make("h3", {}, part.title), block(part.text, part.title)];
  return [make("h3", {}, `${part.title}, ${part.size}`), hex(part), make("p", { class: "faint" }, part.summary)];
}

// ---- bytes ----

function hex(part) {
  const heads = ["byte", "bytes", "field", "value", "meaning"].map((text) => make("th", { scope: "col", role: "columnheader" }, text));
  const body = make("tbody", { role: "rowgroup" });
  let inner = 0;
  for (const row of part.rows) {
    if (row[0] === "open") inner += 1;
    if (row[0] === "close") inner -= 1;
    const made = hexRow(row);
    if (!made) continue;
    if (inner) made.classList.add("inner");
    body.append(made);
  }
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": part.title },
    make("table", { class: "hex", role: "table" }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads)), body));
}

const line = (kind, ...children) =>
  make("tr", { role: "row", class: kind }, make("td", { role: "cell", colspan: 5 }, ...children));

function hexRow([kind, ...rest]) {
  switch (kind) {
    case "part": return line("part", rest[1]);
    case "open": return line("part", "▾ " + rest[1]);
    case "field": return fieldRow(...rest);
    case "error": return line("error", make("strong", {}, "✗ " + rest[0] + ": "), rest[1], make("br"), make("span", { class: "faint" }, rest[2] + "; rule " + rest[3]));
    case "end": return line("note", `${rest[0]}  end of these bytes`);
    case "more": return line("note", `… ${rest[0].toLocaleString("en")} rows more; kafkaproof explain shows them all`);
  }
  return null;
}

function fieldRow(depth, group, at, bytes, name, value, meaning, notes) {
  const digits = bytes.flatMap((row, number) => [
    number ? "\n" : "",
    ...(typeof row === "string" ? [row] : [row[0] && row[0] + " ", make("mark", {}, row[1]), row[2] && " " + row[2]]),
  ]);
  const below = notes.map(([what, means]) => make("div", { class: "note" }, `${what}  ${means}`));
  return make("tr", { role: "row", class: "d" + Math.min(depth, 6) },
    make("td", { role: "cell", class: "at" }, at),
    make("td", { role: "cell", class: "bytes g-" + group }, digits),
    make("td", { role: "cell", class: "name g-" + group }, name),
    make("td", { role: "cell", class: "value" }, value),
    make("td", { role: "cell", class: "meaning" }, meaning, below));
}

// ---- details, a few to a chunk ----

const chunks = new Map();

async function detailOf(index, number) {
  const chunk = Math.floor(number / index.chunk);
  if (!chunks.has(chunk)) chunks.set(chunk, unpack("chunk-" + chunk));
  return (await chunks.get(chunk))[number % index.chunk];
}

function saidTable(heads, rows) {
  const head = heads.map((text) => make("th", { scope: "col", role: "columnheader" }, text));
  return make("table", { class: "said", role: "table" },
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, head)), make("tbody", { role: "rowgroup" }, rows));
}

// ---- one in the place of the list ----

const TITLE = document.title;

function showOne(id, view, event) {
  $("case").replaceChildren(...view.filter(Boolean));
  $("overview").hidden = true;
  $("case").hidden = false;
  document.title = id + " · Kafkaproof";
  scrollTo(0, 0);
  if (event) $("case").querySelector("h1").focus({ preventScroll: true });
}

// Gives the id of the one that was there.
function hideOne() {
  const left = $("case").hidden ? "" : document.title.split(" · ")[0];
  $("case").hidden = true;
  $("case").replaceChildren();
  $("overview").hidden = false;
  document.title = TITLE;
  return left;
}

// ---- filters ----

function wantedOf(form, names) {
  const fields = new FormData(form);
  const wanted = {};
  for (const name of names) wanted[name] = fields.get(name) || "";
  wanted.words = (fields.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
  return wanted;
}

function remembered(form, base = "#/") {
  const parameters = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) parameters.set(name, value);
  const text = parameters.toString();
  const hash = text ? base + "?" + text : base;
  history.replaceState(null, "", hash);
  return hash;
}

function fill(form, hash) {
  const parameters = new URLSearchParams(hash.includes("?") ? hash.slice(hash.indexOf("?") + 1) : "");
  for (const field of form.elements) if (field.name) field.value = parameters.get(field.name) || "";
}

function whenFiltered(form, act) {
  form.addEventListener("input", act);
  form.addEventListener("reset", (event) => { event.preventDefault(); fill(form, ""); act(); });
  form.addEventListener("submit", (event) => event.preventDefault());
}

// ---- a matrix ----

// The name sorts up, then down; a profile sorts by its share, the highest first.
function sortBy(table, button) {
  const column = button.dataset.sort, head = button.closest("th"), bodies = [...table.tBodies];
  const down = column !== "" || head.getAttribute("aria-sort") === "ascending";
  const name = (body) => body.querySelector("th a").textContent.toLowerCase();
  const share = (body) => Number(body.rows[0].dataset.percents.trim().split(/\s+/)[Number(column)]);
  bodies.sort((one, other) => name(one).localeCompare(name(other)));
  if (column !== "") bodies.sort((one, other) => share(other) - share(one));
  else if (down) bodies.reverse();
  bodies.sort((one, other) => one.classList.contains("own") - other.classList.contains("own"));
  for (const each of table.tHead.querySelectorAll("[aria-sort]")) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  table.append(...bodies);
}
