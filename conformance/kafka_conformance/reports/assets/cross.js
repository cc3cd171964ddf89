(() => {
  const form = $("filters");
  let index, lastList = "#/";

  // ---- the list ----

  const severityOf = (number) => index.outcomes[number];

  function fitting(one, wanted) {
    const some = one.passages.some(([producer, column, outcome]) =>
      (!wanted.severity || severityOf(outcome) === wanted.severity) &&
      (!wanted.writes || String(producer) === wanted.writes) &&
      (!wanted.reads || column === wanted.reads));
    return some && wanted.words.every((word) => one.text.includes(word));
  }

  function apply() {
    const wanted = wantedOf(form, ["severity", "writes", "reads"]);
    const filtered = index.batches.filter((one) => fitting(one, wanted));
    const all = `${index.batches.length.toLocaleString("en")} batches that failed somewhere`;
    const narrowed = filtered.length < index.batches.length;
    $("count").textContent = narrowed ? `${filtered.length.toLocaleString("en")} shown, of ${all}` : all;
    $("list").replaceChildren(...filtered.map(listed));
  }

  const batchHref = (id) => "#/batch/" + encodeURIComponent(id);

  function listed(one) {
    const counts = new Map();
    for (const [, , outcome] of one.passages) counts.set(outcome, (counts.get(outcome) || 0) + 1);
    const chips = [...counts].sort(([a], [b]) => a - b).map(([outcome, count]) =>
      make("span", { class: "tag s-" + severityOf(outcome) }, `${words(severityOf(outcome))} in ${count}`));
    return make("li", {},
      make("a", { class: "id", href: batchHref(one.id) }, one.id),
      make("p", {}, one.title),
      make("p", { class: "faint" }, one.why[0]),
      make("div", { class: "chips" }, chips));
  }

  // ---- a batch ----

  function batchView(one, detail) {
    return [
      make("p", { class: "back" }, make("a", { href: lastList, id: "back" }, "← All batches")),
      make("h1", { tabindex: -1 }, one.title || one.id),
      make("dl", { class: "facts" },
        fact("batch", make("code", {}, one.id)),
        one.rules.length ? fact("rules", one.rules.join(", ")) : [],
        fact("what is right", make("code", {}, `kafkaproof explain --case '${one.id}'`))),
      make("h2", {}, "What became of it"),
      passages(detail.passages),
      make("h2", {}, "What was written"),
      ...detail.written.flatMap(questionView),
      detail.written.length ? null : make("p", { class: "faint" }, "Nothing."),
      make("h2", {}, "What was asked for"),
      ...detail.question.flatMap(questionView),
    ];
  }

  function passages(all) {
    const rows = all.map((each) => make("tr", { role: "row" },
      make("th", { scope: "row", role: "rowheader" }, each.where),
      make("td", { role: "cell" }, make("span", { class: "tag s-" + each.outcome }, words(each.outcome))),
      make("td", { role: "cell" }, each.whose),
      make("td", { role: "cell" }, each.why)));
    return saidTable(["who", "outcome", "whose fault", "what differed"], rows);
  }

  // ---- which of the two ----

  async function route(event) {
    const hash = location.hash;
    if (hash.startsWith("#/batch/")) {
      const id = safely(hash.slice("#/batch/".length));
      const number = index.batches.findIndex((one) => one.id === id);
      if (number >= 0) return showBatch(number, event);
    }
    showList(hash, event);
  }

  async function showBatch(number, event) {
    const one = index.batches[number];
    const detail = await detailOf(index, number);
    if (safely(location.hash.slice("#/batch/".length)) !== one.id) return; // another was asked for meanwhile
    showOne(one.id, batchView(one, detail), event);
  }

  function showList(hash, event) {
    const left = hideOne();
    if (!hash || hash.startsWith("#/")) {
      lastList = hash || "#/";
      fill(form, hash);
      apply();
      const link = left && [...$("list").querySelectorAll("a.id")].find((each) => each.textContent === left);
      if (link) link.focus();
      else if (lastList !== "#/") $("batches").scrollIntoView();
      else if (event) $("content").focus();
      return;
    }
    open(safely(hash.slice(1)));
  }

  // A link into something that is folded opens it.
  function open(id) {
    const target = $(id);
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
    const summary = target.querySelector("summary");
    if (summary) summary.focus({ preventScroll: true });
  }

  async function start() {
    if (form) {
      index = await unpack("index");
      for (const one of index.batches) one.text = [one.id, one.title, ...one.rules, ...one.why].join("\n").toLowerCase();
      whenFiltered(form, () => { lastList = remembered(form); apply(); });
      apply();
      addEventListener("hashchange", route);
      await route();
    } else { // nothing failed
      addEventListener("hashchange", () => open(safely(location.hash.slice(1))));
    }
    document.documentElement.dataset.ready = "yes";
  }

  start().catch((error) => { const count = $("count"); if (count) count.textContent = `This page cannot be unpacked here: ${error}`; });
})();
