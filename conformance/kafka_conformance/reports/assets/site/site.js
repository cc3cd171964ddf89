// ---- the site ----

(() => {
  const waiting = [];

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  // Each data file calls this once; it is a script, since a page that is a file cannot read others.
  window.kafkaproofData = (text) => waiting.push(unpacked(text));

  // ---- bytes of a case ----

  function answersTable(said) {
    const rows = said.map((each) => make("tr", { role: "row" },
      make("th", { scope: "row", role: "rowheader" }, each.label),
      make("td", { role: "cell" }, make("span", { class: "tag s-" + each.outcome }, words(each.outcome))),
      make("td", { role: "cell" }, each.answer || "", each.also ? make("p", { class: "faint" }, "also differ: " + each.also.join(", ")) : null)));
    return make("details", {}, make("summary", {}, `What they answered (${said.length})`), saidTable(["codec", "outcome", "answer"], rows));
  }

  function recorded(evidence) {
    const heads = ["by", "release", "answer"].map((text) => make("th", { scope: "col" }, text));
    const rows = evidence.map((row) => make("tr", {}, row.map((text) => make("td", {}, text))));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Recorded answers" },
      make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)));
  }

  // The head that other pages have in their HTML; pages of cases are thousands.
  function addHead() {
    const root = "../../";
    document.head.append(make("link", { rel: "icon", href: root + "assets/icon.svg" }));
    const links = SECTIONS.flatMap(([name, href]) => [make("a", { href: root + href, "aria-current": href === "case/index.html" && "page" }, name), " "]);
    document.title += " · Kafkaproof";
    document.body.prepend(
      make("a", { class: "skip", href: "#content" }, "Skip to the content"),
      make("header", {}, make("p", { class: "brand" }, make("a", { href: root + "index.html" }, "Kafkaproof")),
        make("nav", { class: "views", "aria-label": "Sections" }, links),
        make("form", { class: "find", role: "search", action: root + "search/index.html" },
          make("input", { type: "search", name: "q", "aria-label": "Search libraries, cases and rules", placeholder: "Search ( / )", autocomplete: "off" }))));
  }

  function findingRow(each) {
    return make("tr", { role: "row" },
      make("th", { scope: "row", role: "rowheader" }, each.label),
      make("td", { role: "cell" }, make("span", { class: "tag grade g-" + each.grade }, words(each.grade)), " ", make("span", { class: "faint" }, words(each.outcome))),
      make("td", { role: "cell" }, each.cause && make("p", {}, make("a", { href: "../../" + each.path }, each.cause)), each.why && make("p", {}, each.why)));
  }

  function findingsView(detail) {
    const others = Object.entries(detail.others).map(([outcome, labels]) =>
      make("p", {}, make("span", { class: "tag s-" + outcome }, words(outcome)), " ", labels.join(", ")));
    const kinds = detail.kinds.length ? `Kinds of error that fit: ${detail.kinds.join(", ")}. ` : "";
    const rules = detail.rules.map(([id, path, statement]) => make("div", { class: "rule" },
      make("p", {}, make("a", { href: "../../" + path }, id), " ", statement)));
    return [
      ...rules,
      kinds || detail.why ? make("p", { class: "faint" }, kinds, detail.why) : null,
      detail.findings.length || others.length ? make("h2", {}, "Answers") : null,
      detail.findings.length ? saidTable(["codec", "finding", "what it did"], detail.findings.map(findingRow)) : null,
      ...others,
    ];
  }

  function bytesView(detail, all) {
    const written = detail.said.filter((each) => each.written).flatMap((each) => [make("h2", {}, `Written by ${each.label}`), ...questionView(each.written)]);
    if (!all) return [...detail.question.flatMap(questionView), ...written];
    const right = detail.expected.map((text) => block(text, "The right answer"));
    return [
      ...findingsView(detail),
      detail.said.length ? answersTable(detail.said) : null,
      make("h2", {}, "The input"), ...detail.question.flatMap(questionView),
      ...(right.length ? [make("h2", {}, "The right answer"), ...right] : []),
      ...(detail.evidence.length ? [make("h2", {}, "Recorded answers of real brokers and clients"), recorded(detail.evidence)] : []),
      ...written,
    ];
  }

  async function showBytes(place) {
    const details = Object.assign({}, ...await Promise.all(waiting)), detail = details[place.dataset.bytes];
    if (detail) place.replaceChildren(...bytesView(detail, "all" in place.dataset).filter(Boolean));
    place.dataset.shown = "yes";
  }

  // ---- the matrix ----

  function startMatrix(table) {
    $("details").addEventListener("input", (event) => table.classList.toggle("short", !event.target.checked));
    table.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button.sort");
      if (button) sortBy(table, button);
    });
  }

  // ---- the list of causes ----

  function startFilters(form) {
    const rows = [...document.querySelectorAll(".causes tbody tr")];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const count = document.querySelector("[data-count]");
    const apply = () => {
      const wanted = wantedOf(form, ["grade"]);
      let shown = 0;
      rows.forEach((row, at) => {
        const grade = row.querySelector(".grade").textContent;
        row.hidden = Boolean(wanted.grade && grade !== wanted.grade) || !wanted.words.every((word) => texts[at].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      count.textContent = `${shown} of ${rows.length} are shown`;
    };
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  }

  // ---- the search ----

  const MOST = 50, KINDS = ["library", "rule", "erratum", "cause", "area", "docs", "tool", "case"];

  // The nearer to the start of an id or a title all words stand, the better.
  function score(entry, wanted) {
    let sum = 0;
    for (const word of wanted) {
      const at = entry.text.indexOf(word);
      if (at < 0) return -1;
      const begins = at === 0 || entry.text[at - 1] === "\n", starts = /\W|_/.test(entry.text[at - 1] || " ");
      sum += begins ? 3 : starts ? 2 : 1;
    }
    return entry.ids.includes(wanted.join(" ")) ? 100 : sum;
  }

  async function startSearch(form) {
    const listed = (await Promise.all(waiting))[0].map(([kind, title, path, more]) => (
      { kind, title, path, text: `${title}\n${more}`.toLowerCase(), ids: more.toLowerCase().split(" ").concat(title.toLowerCase().split(": ")[0]) }));
    const field = form.elements.q;
    const apply = () => {
      const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = wanted.length ? listed.map((entry) => [score(entry, wanted), entry]).filter(([points]) => points >= 0) : [];
      found.sort(([one, first], [other, second]) => other - one || KINDS.indexOf(first.kind) - KINDS.indexOf(second.kind));
      $("search-count").textContent = wanted.length ? `${found.length.toLocaleString("en")} found${found.length > MOST ? `, the first ${MOST} are shown` : ""}` : `${listed.length.toLocaleString("en")} pages`;
      $("search-list").replaceChildren(...found.slice(0, MOST).map(([, entry]) => make("li", {},
        make("span", { class: "kind" }, entry.kind), " ", make("a", { href: "../" + entry.path }, entry.title),
        entry.kind === "case" || entry.kind === "cause" ? make("p", { class: "faint" }, entry.text.split("\n")[1]) : null)));
    };
    field.value = new URLSearchParams(location.search).get("q") || "";
    field.addEventListener("input", () => {
      history.replaceState(null, "", field.value ? "?q=" + encodeURIComponent(field.value) : location.pathname);
      apply();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
    field.focus();
  }

  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const field = document.querySelector("input[type=search][name=q]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  });

  addEventListener("DOMContentLoaded", async () => {
    if (!document.querySelector("header")) addHead();
    for (const frame of document.querySelectorAll(".doc pre, .doc table")) frame.tabIndex = 0;
    const one = (selector) => document.querySelector(selector);
    // Headings of the documentation have ids too.
    const table = one("table#profiles:not(.turned)"), filters = one("[data-filters]"), search = one("form#search");
    if (table) startMatrix(table);
    if (filters) startFilters(filters);
    if (search) await startSearch(search);
    await Promise.all([...document.querySelectorAll("[data-bytes]")].map(showBytes));
    document.documentElement.dataset.ready = "yes";
  });
})();
