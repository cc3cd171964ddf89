(() => {
  const STEP = 60;
  let index, filtered = [], shown = 0, lastList = "#/";

  // ---- the list ----

  const severityOf = (number) => index.outcomes[number];
  const isFinding = (number) => number !== null && number < index.outcomes.length - 2;
  const form = $("filters");

  function fitting(one, wanted) {
    if (wanted.area && one.area !== wanted.area) return false;
    const testees = wanted.testee ? [Number(wanted.testee)] : one.outcomes.keys();
    let some = false;
    for (const testee of testees) {
      const outcome = one.outcomes[testee];
      if (outcome === undefined || outcome === null) continue;
      if (wanted.severity ? severityOf(outcome) !== wanted.severity : !isFinding(outcome) && !wanted.change) continue;
      if (wanted.change && !one.changes.some(([who, kind]) => who === testee && kind === wanted.change)) continue;
      some = true;
    }
    return some && wanted.words.every((word) => one.text.includes(word));
  }

  function apply() {
    const wanted = wantedOf(form, ["severity", "area", "testee", "change"]);
    filtered = index.cases.filter((one) => fitting(one, wanted));
    const some = filtered.length.toLocaleString("en"), all = index.found.toLocaleString("en");
    const narrowed = Object.values(wanted).some((value) => value.length);
    $("count").textContent = narrowed ? `${some} cases shown, of ${all} with findings` : `${all} cases with findings`;
    $("list").replaceChildren();
    shown = 0;
    showMore();
  }

  function showMore() {
    const before = shown;
    shown = Math.min(filtered.length, shown + STEP);
    $("list").append(...filtered.slice(before, shown).map(listed));
    $("more").hidden = shown >= filtered.length;
    $("more").textContent = `Show more (${(filtered.length - shown).toLocaleString("en")} are left)`;
    return before;
  }

  const caseHref = (id) => "#/case/" + encodeURIComponent(id);

  function listed(one) {
    const chips = one.outcomes.flatMap((outcome, testee) =>
      isFinding(outcome) ? [chip(testee, severityOf(outcome), one.known.includes(testee))] : []);
    const changes = one.changes.map(([testee, kind]) => make("span", { class: "change c-" + kind }, `${kind} in ${label(testee)}`));
    return make("li", {},
      make("a", { class: "id", href: caseHref(one.id) }, one.id),
      make("p", {}, one.title),
      make("p", { class: "faint" }, one.why[0]),
      make("div", { class: "chips" }, chips, changes));
  }

  const label = (testee) => index.testees[testee].label;

  function chip(testee, severity, known) {
    return make("span", { class: "tag s-" + severity + (known ? " known" : "") },
      `${label(testee)}: ${words(severity)}`, known && make("span", { class: "unseen" }, " (known deviation)"));
  }

  // ---- a case ----

  function caseView(one, detail, number) {
    const view = [
      make("p", { class: "back" },
        make("a", { href: lastList, id: "back" }, "← All findings"),
        neighbour(number, -1, "Previous"), neighbour(number, 1, "Next")),
      make("h1", { tabindex: -1 }, detail.title || one.id),
      facts(one, detail),
      make("h2", {}, "What each said"),
      said(detail.said),
      ...detail.said.filter((each) => each.written).flatMap(written),
      make("h2", {}, "What is right"),
      right(one, detail),
    ];
    view.push(make("h2", {}, "The rule"), ...one.rules.map(ruleView));
    if (detail.evidence && detail.evidence.length) view.push(make("h2", {}, "Recorded answers"), recorded(detail.evidence));
    if (detail.question) view.push(make("h2", {}, "The question"), ...detail.question.flatMap(questionView));
    else view.push(make("p", { class: "warning" }, "This corpus does not have the case any more."));
    return view;
  }

  function neighbour(number, step, name) {
    const at = filtered.indexOf(index.cases[number]);
    const other = at < 0 ? undefined : filtered[at + step];
    return other ? make("a", { href: caseHref(other.id), title: other.id, rel: step < 0 ? "prev" : "next" }, name) : null;
  }

  function facts(one, detail) {
    return make("dl", { class: "facts" },
      fact("case", make("code", {}, one.id)),
      fact("area", make("a", { href: "#/?area=" + encodeURIComponent(one.area) }, one.area), `, ${one.op}`),
      detail.refs && detail.refs.length ? fact("refers to", detail.refs.join(", ")) : [],
      fact("look at it", make("code", {}, `kafkaproof explain --case '${one.id}'`)),
      again(detail) ? fact("ask again", make("code", {}, `${again(detail)} --only '${one.id}'`)) : []);
  }

  function again(detail) {
    const first = detail.said.find((each) => isFinding(index.outcomes.indexOf(each.outcome)));
    return index.testees[(first || detail.said[0]).testee].again;
  }

  function said(all) {
    const rows = all.map((each) => make("tr", { role: "row" },
      make("th", { scope: "row", role: "rowheader" }, label(each.testee)),
      make("td", { role: "cell" }, make("span", { class: "tag s-" + each.outcome }, words(each.outcome))),
      make("td", { role: "cell" }, make("p", {}, each.why || (each.outcome === "agree" ? "as is right" : "")), more(each))));
    return saidTable(["codec", "outcome", "what it did"], rows);
  }

  function written(each) {
    return [make("h2", {}, `Written by ${label(each.testee)}`), ...questionView(each.written)];
  }

  function more(each) {
    return [
      each.answer && each.outcome !== "skipped" && `answer: ${each.answer}`,
      each.also && `also differ: ${each.also.join(", ")}`,
      each.left_out && `not exposed: ${each.left_out.join(", ")}`,
      each.known && `known deviation: ${each.known}`,
      each.before && `in the baseline ${each.before}`,
      each.deaths && `its process died ${each.deaths} times over it`,
    ].filter(Boolean).map((text) => make("p", { class: "faint" }, text));
  }

  const VERDICTS = {
    valid: "It has to be taken, and to give what follows.",
    invalid: "It has to be refused.",
    acceptable: "It may be refused or taken; whoever takes it has to give what follows.",
  };

  function right(one, detail) {
    const kinds = detail.kinds && detail.kinds.length ? ` Kinds of error that fit: ${detail.kinds.join(", ")}.` : "";
    const texts = (detail.expected || []).map((text) => block(text, "What is right"));
    return make("div", {}, make("p", {}, (VERDICTS[one.expected] || one.expected) + kinds),
      detail.why && make("p", { class: "faint" }, detail.why), texts);
  }

  function ruleView(id) {
    const [statement, outcome, sources] = index.rules[id] || ["", "", []];
    return make("div", { class: "rule" },
      make("p", {}, make("a", { href: "#/?q=" + encodeURIComponent(id) }, id), "  ", statement),
      outcome && make("p", { class: "faint" }, outcome),
      sources.length ? make("p", { class: "faint" }, "sources: " + sources.join(", ")) : null);
  }

  function recorded(evidence) {
    const heads = ["who", "release", "answer"].map((text) => make("th", { scope: "col" }, text));
    const rows = evidence.map((row) => make("tr", {}, row.map((text) => make("td", {}, text))));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Recorded answers" },
      make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)));
  }

  // ---- which of the two ----

  async function route(event) {
    const hash = location.hash;
    if (hash && !hash.startsWith("#/")) return; // a place on the page
    if (hash.startsWith("#/case/")) {
      const id = safely(hash.slice("#/case/".length));
      const number = index.cases.findIndex((one) => one.id === id);
      if (number >= 0) return showCase(number, event);
    }
    showList(hash, event);
  }

  async function showCase(number, event) {
    const one = index.cases[number];
    const detail = await detailOf(index, number);
    const asked = safely(location.hash.slice("#/case/".length));
    if (asked !== one.id) return; // another was asked for meanwhile
    showOne(one.id, caseView(one, detail, number), event);
  }

  function showList(hash, event) {
    const left = hideOne();
    lastList = hash || "#/";
    fill(form, hash);
    apply();
    if (!event) {
      if (lastList !== "#/") $("findings").scrollIntoView();
      return;
    }
    const link = left && [...$("list").querySelectorAll("a.id")].find((each) => each.textContent === left);
    if (link) link.focus();
    else if (lastList !== "#/") $("findings").focus();
    else $("content").focus();
  }

  async function start() {
    index = await unpack("index");
    for (const one of index.cases) {
      one.text = [one.id, one.title, one.area, ...one.rules, ...one.why].join("\n").toLowerCase();
    }
    whenFiltered(form, () => { lastList = remembered(form); apply(); });
    $("more").addEventListener("click", () => {
      const first = showMore();
      $("list").children[first].querySelector("a").focus();
    });
    addEventListener("hashchange", route);
    await route();
    document.documentElement.dataset.ready = "yes";
  }

  start().catch((error) => { $("count").textContent = `This page cannot be unpacked here: ${error}`; });
})();
