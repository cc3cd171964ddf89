(() => {
  const STEP = 60;
  const GRADED = { FAIL: "users of supported releases get wrong or no data, or damage is not detected", HOSTILE: "a broken or malicious peer can stop the process or deceive it", NON_STRICT: "stricter or more lenient than Kafka where that is allowed" };
  let index, cases, rules, programs, filtered = [], shown = 0, lastPage = "#/";

  const label = (testee) => index.testees[testee].label;
  const libraryOf = (testee) => index.libraries.find((one) => one.id === index.testees[testee].library);
  const caseHref = (id) => "#/case/" + encodeURIComponent(id);
  const libraryHref = (library) => "#/" + encodeURIComponent(library.id);
  const causeHref = (library, cause) => `${libraryHref(library)}/${encodeURIComponent(cause.id)}`;
  const gradeTag = (grade) => make("span", { class: "tag grade g-" + grade }, words(grade));
  const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

  // ---- findings ----

  const severityOf = (number) => index.outcomes[number];
  const isFinding = (number) => number !== null && number < index.severities;
  const form = $("filters");

  async function casesOf() {
    if (cases) return;
    const unpacked = await unpack("cases");
    for (const one of unpacked.cases) {
      one.text = [one.id, one.title, one.area, ...one.rules, ...one.why].join("\n").toLowerCase();
    }
    [cases, rules] = [unpacked.cases, unpacked.rules];
  }

  function fitting(one, wanted) {
    if (wanted.area && one.area !== wanted.area) return false;
    if (wanted.reach && one.reach !== wanted.reach) return false;
    if (wanted.profile && !one.profiles.includes(wanted.profile)) return false;
    const testees = wanted.testee ? [Number(wanted.testee)] : one.outcomes.keys();
    let some = false;
    for (const testee of testees) {
      const outcome = one.outcomes[testee], grade = one.grades[testee];
      if (outcome === undefined || outcome === null) continue;
      if (wanted.severity ? severityOf(outcome) !== wanted.severity : !isFinding(outcome) && !wanted.change) continue;
      if (wanted.grade && (grade === null || index.grades[grade] !== wanted.grade)) continue;
      if (wanted.change && !one.changes.some(([who, kind]) => who === testee && kind === wanted.change)) continue;
      some = true;
    }
    return some && wanted.words.every((word) => one.text.includes(word));
  }

  function apply() {
    const wanted = wantedOf(form, ["grade", "reach", "profile", "severity", "area", "testee", "change"]);
    filtered = cases.filter((one) => fitting(one, wanted));
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

  function listed(one) {
    const chips = one.outcomes.flatMap((outcome, testee) =>
      isFinding(outcome) ? [chip(testee, outcome, one.grades[testee], one.known.includes(testee))] : []);
    const changes = one.changes.map(([testee, kind]) => make("span", { class: "change c-" + kind }, `${kind} in ${label(testee)}`));
    return make("li", {},
      make("a", { class: "id", href: caseHref(one.id) }, one.id),
      make("p", {}, one.title),
      make("p", { class: "faint" }, one.why[0]),
      make("div", { class: "chips" }, chips, changes));
  }

  function chip(testee, outcome, grade, known) {
    const name = grade === null ? "ungraded" : index.grades[grade];
    return make("span", { class: "tag grade g-" + name + (known ? " known" : ""), title: words(severityOf(outcome)) },
      `${label(testee)}: ${words(name)}`, known && make("span", { class: "unseen" }, " (known deviation)"));
  }

  // ---- causes ----

  const causeForm = $("cause-filters");
  const ORDERS = {
    "": (one, other) => 0,
    cases: (one, other) => other.cause.cases.length - one.cause.cases.length,
    library: (one, other) => one.library.id.localeCompare(other.library.id),
    title: (one, other) => one.cause.title.localeCompare(other.cause.title),
  };

  function applyCauses() {
    const wanted = wantedOf(causeForm, ["grade", "reach", "profile", "release", "library", "review", "order"]);
    const every = index.libraries.flatMap((library) => library.causes.map((cause) => ({ library, cause })));
    const found = every.filter(({ library, cause }) => (!wanted.library || library.id === wanted.library) && fits(library, cause, wanted));
    found.sort((one, other) => index.grades.indexOf(one.cause.grade) - index.grades.indexOf(other.cause.grade));
    found.sort(ORDERS[wanted.order] || ORDERS[""]);
    $("cause-count").textContent = `${counted(found.length, "cause")} shown, of ${every.length.toLocaleString("en")}`;
    $("cause-list").replaceChildren(...causeTables(found, true));
  }

  function fits(library, cause, wanted) {
    if (wanted.grade && cause.grade !== wanted.grade) return false;
    if (wanted.reach && cause.reach !== wanted.reach) return false;
    if (wanted.profile && !cause.profiles.includes(wanted.profile)) return false;
    if (wanted.release && !cause.releases.includes(wanted.release)) return false;
    if (wanted.review && cause.reviewed !== (wanted.review === "reviewed")) return false;
    const text = [cause.title, cause.id, library.id, cause.source || "", cause.explanation || "", ...cause.rules].join("\n").toLowerCase();
    return wanted.words.every((word) => text.includes(word));
  }

  function causeTables(found, named) {
    const reviewed = found.filter(({ cause }) => cause.reviewed), others = found.filter(({ cause }) => !cause.reviewed);
    return [
      reviewed.length ? causeTable(reviewed, named, "Reviewed causes") : null,
      others.length ? make("h3", {}, `Unreviewed: ${counted(others.length, "group")} of findings by rule and effect`) : null,
      others.length ? make("p", { class: "faint" }, "The library's source was not read for these. A group may hold several defects, or a defect of the adapter.") : null,
      others.length ? causeTable(others, named, "Unreviewed groups of findings") : null,
    ].filter(Boolean);
  }

  function causeTable(found, named, name) {
    const heads = ["grade", "cause", ...(named ? ["library"] : []), "effect", "reach", "profile", "cases"];
    const rows = found.map(({ library, cause }) => make("tr", { role: "row" },
      make("td", { role: "cell" }, gradeTag(cause.grade)),
      make("th", { scope: "row", role: "rowheader" }, make("a", { href: causeHref(library, cause) }, cause.title), cause.known && make("span", { class: "faint" }, " known deviation")),
      named && make("td", { role: "cell", class: "of" }, make("a", { href: libraryHref(library) }, library.id)),
      make("td", { role: "cell" }, words(cause.effect)),
      make("td", { role: "cell" }, index.reaches[cause.reach]),
      make("td", { role: "cell" }, cause.profiles.join(", ")),
      make("td", { role: "cell", class: "number", "data-unit": cause.cases.length === 1 ? "case" : "cases" }, cause.cases.length)));
    const head = heads.map((text) => make("th", { scope: "col", role: "columnheader", class: text === "cases" && "number" }, text));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
      make("table", { class: "causes", role: "table" }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, head)), make("tbody", { role: "rowgroup" }, rows)));
  }

  // ---- a library ----

  function libraryView(library) {
    const rows = library.rows.map(({ testee, client }) => {
      const one = index.testees[testee];
      const kind = client ? "client" : "codec";
      return [
        make("dt", {}, `${one.label} ${one.version}`, make("span", { class: "faint" }, [` ${kind}`, one.language && `, ${one.language}`])),
        make("dd", {}, one.line || "no profile"),
      ];
    });
    const found = library.causes.map((cause) => ({ library, cause }));
    const reviewed = library.causes.filter((cause) => cause.reviewed);
    const grades = ["FAIL", "HOSTILE", "NON_STRICT"].filter((grade) => library.causes.some((cause) => cause.grade === grade));
    const counts = grades.map((grade) => [reviewed.filter((cause) => cause.grade === grade).length, words(grade)]).filter(([number]) => number);
    return [
      make("p", { class: "back" }, make("a", { href: "#/", id: "back" }, "← All libraries")),
      make("h1", { tabindex: -1 }, library.id),
      make("dl", { class: "lines" }, rows.flat()),
      ...library.rows.map(({ testee }) => profileTable(testee)),
      make("h2", {}, counts.length ? `Causes: ${counts.map((each) => each.join(" ")).join(", ")}` : found.length ? "Causes" : "No causes"),
      grades.length ? make("ul", { class: "legend" }, grades.map((grade) => make("li", {}, gradeTag(grade), " " + GRADED[grade]))) : null,
      ...causeTables(found, false),
      make("p", { class: "faint" }, library.info ? make("a", { href: `#/findings?grade=INFO${library.rows.length === 1 ? "&testee=" + library.rows[0].testee : ""}` }, `${counted(library.info, "finding")} of grade INFO`) : "No findings of grade INFO", ": no record, position or check differs, or no supported release serves such bytes."),
    ];
  }

  // The row of the testee in the matrix, turned: a line for each profile, a column for each compression.
  function profileTable(testee) {
    const row = table.querySelector(`tr[data-testee="${testee}"]`), heads = ["profile", "all"], lines = [];
    for (const column of table.querySelectorAll("thead .column")) if (!heads.includes(column.textContent)) heads.push(column.textContent);
    let line;
    for (const cell of [...row.cells].slice(1)) {
      const copy = make("td", {}, ...[...cell.childNodes].map((node) => node.cloneNode(true)));
      if (cell.classList.contains("all")) lines.push(line = [copy]);
      else line.push(copy);
    }
    const names = [...table.querySelectorAll("thead [data-profile]")].map((each) => each.dataset.profile);
    const body = lines.map((cells, at) => cells[0].hasChildNodes() && make("tr", {}, make("th", { scope: "row" }, names[at]), cells));
    const name = `Profiles and compressions of ${label(testee)}`;
    return make("div", { class: "scroll fit", tabindex: 0, role: "region", "aria-label": name },
      make("table", { class: "profiles turned" },
        make("caption", {}, label(testee)),
        make("thead", {}, make("tr", {}, heads.map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, body)));
  }

  // ---- a cause ----

  function causeView(library, cause, detail, program) {
    const rows = Object.entries(cause.counts);
    const shownCases = cause.cases.slice(0, 200);
    return [
      make("p", { class: "back" }, make("a", { href: libraryHref(library), id: "back" }, `← ${library.id}`), ...sideCauses(library, cause)),
      make("h1", { tabindex: -1 }, cause.title),
      make("p", {}, gradeTag(cause.grade), " ", cause.reviewed ? null : make("strong", { class: "unreviewed" }, "unreviewed "), make("span", { class: "faint" }, cause.reason)),
      cause.explanation ? make("p", { class: "explanation" }, cause.explanation.split("`").map((text, at) => at % 2 ? make("code", {}, text) : text)) : make("p", { class: "faint" }, "These findings have one rule and one effect. The library's source was not read for them, so they may be several defects."),
      make("dl", { class: "facts" },
        fact("effect", words(cause.effect)),
        fact("reach", index.reaches[cause.reach]),
        fact("profiles", cause.profiles.join(", ")),
        fact("rules", cause.rules.map((rule, at) => [at ? ", " : "", make("a", { href: "#/findings?q=" + encodeURIComponent(rule) }, rule)]).flat()),
        cause.source ? fact("source", make("code", {}, cause.source), ` in ${cause.version}`) : [],
        cause.upstream ? fact("upstream", /^https:\/\//.test(cause.upstream) ? make("a", { href: cause.upstream, rel: "noreferrer" }, cause.upstream) : cause.upstream) : [],
        cause.disclosure ? fact("disclosure", cause.disclosure) : [],
        cause.first_bad ? fact("first release", cause.first_bad) : [],
        cause.last_bad ? fact("last release", cause.last_bad) : [],
        fact("findings", rows.map(([testee, counts]) => `${label(testee)}: ${Object.entries(counts).map(([grade, number]) => `${number} ${words(grade)}`).join(", ")}`).join(" · ")),
        fact("declare it", make("code", {}, `cause = "${cause.id}"`))),
      cause.reply ? replyView(cause.reply) : null,
      make("h2", {}, "The smallest case"),
      make("p", {}, make("a", { class: "id", href: caseHref(cause.cases[0]) }, cause.cases[0])),
      detail ? smallest(cause, detail) : null,
      ...(program ? programView(program) : []),
      make("h2", {}, counted(cause.cases.length, "case")),
      make("ul", { class: "ids" }, shownCases.map((id) => make("li", {}, make("a", { href: caseHref(id) }, id)))),
      cause.cases.length > shownCases.length ? make("p", { class: "faint" }, `and ${cause.cases.length - shownCases.length} more`) : null,
    ];
  }

  // Text of the library's maintainers; it changes no grade.
  function replyView({ text, by, date, link }) {
    return make("figure", { class: "reply" },
      make("blockquote", {}, make("p", {}, text)),
      make("figcaption", { class: "faint" }, `Reply by ${by}, ${date}`, link && /^https:\/\//.test(link) ? [" · ", make("a", { href: link, rel: "noreferrer nofollow" }, "where it was given")] : null));
  }

  function programView({ language, commands, files }) {
    const names = Object.keys(files);
    return [
      make("h2", {}, "Reproducer"),
      make("p", {}, `A program in ${language} that needs the library only. In an empty folder with ${names.join(" and ")}:`),
      block(commands.join("\n"), "Commands"),
      ...names.map((name) => make("details", {}, make("summary", {}, make("code", {}, name)), block(files[name], name))),
    ];
  }

  function sideCauses(library, cause) {
    const at = library.causes.indexOf(cause);
    return [[at - 1, "Previous", "prev"], [at + 1, "Next", "next"]].map(([number, name, rel]) => {
      const other = library.causes[number];
      return other ? make("a", { href: causeHref(library, other), title: other.title, rel }, name) : null;
    });
  }

  function smallest(cause, detail) {
    const affected = detail.said.filter((each) => each.cause === cause.id && String(each.testee) in cause.counts);
    const answers = affected.map((each) => make("p", {}, make("strong", {}, label(each.testee) + ": "), each.why || words(each.outcome)));
    const command = affected.length ? index.testees[affected[0].testee].again : "";
    return make("div", {}, make("p", {}, detail.title), ...answers,
      ...affected.filter((each) => each.written).flatMap(written),
      ...(detail.question || []).flatMap(questionView),
      make("p", { class: "faint" }, "Look at it: ", make("code", {}, `kafkaproof explain --case '${detail.id}'`)),
      command ? make("p", { class: "faint" }, "Run it again: ", make("code", {}, `${command} --only '${detail.id}'`)) : null);
  }

  // ---- a case ----

  function caseView(one, detail, number) {
    const view = [
      make("p", { class: "back" },
        make("a", { href: lastPage, id: "back" }, lastPage.startsWith("#/findings") ? "← All findings" : "← Back"),
        neighbour(number, -1, "Previous"), neighbour(number, 1, "Next")),
      make("h1", { tabindex: -1 }, detail.title || one.id),
      facts(one, detail),
      make("h2", {}, "Answers"),
      said(detail.said),
      ...detail.said.filter((each) => each.written).flatMap(written),
      make("h2", {}, "What is right"),
      right(one, detail),
    ];
    view.push(make("h2", {}, "The rule"), ...one.rules.map(ruleView));
    if (detail.evidence && detail.evidence.length) view.push(make("h2", {}, "Recorded answers"), recorded(detail.evidence));
    if (detail.question) view.push(make("h2", {}, "The input"), ...detail.question.flatMap(questionView));
    else view.push(make("p", { class: "warning" }, "This corpus does not have the case any more."));
    return view;
  }

  function neighbour(number, step, name) {
    const at = filtered.indexOf(cases[number]);
    const other = at < 0 ? undefined : filtered[at + step];
    return other ? make("a", { href: caseHref(other.id), title: other.id, rel: step < 0 ? "prev" : "next" }, name) : null;
  }

  function facts(one, detail) {
    return make("dl", { class: "facts" },
      fact("case", make("code", {}, one.id)),
      fact("area", make("a", { href: "#/findings?area=" + encodeURIComponent(one.area) }, one.area), `, ${one.op}`),
      detail.refs && detail.refs.length ? fact("refers to", detail.refs.join(", ")) : [],
      fact("look at it", make("code", {}, `kafkaproof explain --case '${one.id}'`)),
      again(detail) ? fact("run it again", make("code", {}, `${again(detail)} --only '${one.id}'`)) : []);
  }

  function again(detail) {
    const first = detail.said.find((each) => isFinding(index.outcomes.indexOf(each.outcome)));
    return index.testees[(first || detail.said[0]).testee].again;
  }

  function said(all) {
    const rows = all.map((each) => make("tr", { role: "row" },
      make("th", { scope: "row", role: "rowheader" }, label(each.testee)),
      make("td", { role: "cell" }, each.grade && gradeTag(each.grade), " ", make("span", { class: each.grade ? "faint" : "tag s-" + each.outcome }, words(each.outcome))),
      make("td", { role: "cell" }, causeLine(each), make("p", {}, each.why || (each.outcome === "agree" ? "as is right" : "")), more(each))));
    return saidTable(["codec", "outcome", "what it did"], rows);
  }

  function written(each) {
    return [make("h2", {}, `Written by ${label(each.testee)}`), ...questionView(each.written)];
  }

  function causeLine(each) {
    if (!each.cause) return null;
    const library = libraryOf(each.testee), cause = library.causes.find((one) => one.id === each.cause);
    const facts = `${words(each.effect)} · ${index.reaches[each.reach]} · ${each.profile}`;
    return make("p", {}, cause && [make("a", { href: causeHref(library, cause) }, cause.title), " · "], make("span", { class: "faint" }, facts));
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
    const [statement, outcome, sources] = rules[id] || ["", "", []];
    return make("div", { class: "rule" },
      make("p", {}, make("a", { href: "#/findings?q=" + encodeURIComponent(id) }, id), "  ", statement),
      outcome && make("p", { class: "faint" }, outcome),
      sources.length ? make("p", { class: "faint" }, "sources: " + sources.join(", ")) : null);
  }

  function recorded(evidence) {
    const heads = ["who", "release", "answer"].map((text) => make("th", { scope: "col" }, text));
    const rows = evidence.map((row) => make("tr", {}, row.map((text) => make("td", {}, text))));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Recorded answers" },
      make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)));
  }

  // ---- the profiles ----

  const table = $("profiles");

  function showCompressions(wide) {
    table.classList.toggle("wide", wide);
    for (const head of table.querySelectorAll("thead [data-span]")) head.colSpan = wide ? Number(head.dataset.span) : 1;
  }

  // ---- views ----

  function showView(name, event) {
    hideOne();
    for (const each of document.querySelectorAll(".view")) each.hidden = each.dataset.view !== name;
    for (const each of document.querySelectorAll(".views a")) {
      const current = each.getAttribute("href") === (name === "profiles" ? "#/" : "#/" + name);
      if (current) each.setAttribute("aria-current", "page");
      else each.removeAttribute("aria-current");
    }
    if (!event) return;
    const left = new URL(event.oldURL).hash;
    const link = [...document.querySelectorAll(".view:not([hidden]) a")].find((each) => each.getAttribute("href") === left);
    const heading = [...document.querySelectorAll(".view:not([hidden]) h1, .view:not([hidden]) h2")].find((each) => each.tabIndex === -1);
    scrollTo(0, 0);
    if (link) link.focus();
    else heading.focus({ preventScroll: true });
  }

  const VIEWS = { "": "profiles", causes: "causes", areas: "areas", findings: "findings" };

  async function route(event) {
    const hash = location.hash || "#/";
    if (!hash.startsWith("#/")) return; // a place on the page
    const [path] = hash.slice(2).split("?");
    const [first, ...others] = path.split("/").map(safely);
    if (first === "case") {
      await casesOf();
      const id = safely(path.slice("case/".length)), number = cases.findIndex((one) => one.id === id);
      if (number >= 0) return showCase(number, event);
    }
    const library = index.libraries.find((one) => one.id === first);
    if (library && !Object.hasOwn(VIEWS, first)) {
      const cause = library.causes.find((one) => one.id === others[0] || one.formerly?.includes(others[0]));
      return cause ? showCause(library, cause, event) : showPage(library.id, libraryView(library), event);
    }
    // Links of earlier pages name filters of findings without a view.
    const name = first === "" && hash.includes("?") ? "findings" : VIEWS[first] || "profiles";
    lastPage = hash;
    if (name === "findings") {
      await casesOf();
      fill(form, hash);
      apply();
    }
    if (name === "causes") {
      fill(causeForm, hash);
      applyCauses();
    }
    showView(name, event);
  }

  function showPage(title, view, event) {
    lastPage = location.hash;
    showOne(title, view, event);
    for (const each of document.querySelectorAll(".views a")) each.removeAttribute("aria-current");
  }

  async function showCause(library, cause, event) {
    const hash = location.hash;
    await casesOf();
    const number = cases.findIndex((one) => one.id === cause.cases[0]);
    const detail = number < 0 ? null : await detailOf(index, number);
    programs = programs || await unpack("programs");
    const program = programs[`${library.id}/${cause.id}`];
    if (location.hash === hash) showPage(cause.title, causeView(library, cause, detail, program), event);
  }

  async function showCase(number, event) {
    const hash = location.hash, one = cases[number];
    const detail = await detailOf(index, number);
    if (location.hash !== hash) return; // another was opened meanwhile
    if (!filtered.length) filtered = cases;
    showOne(one.id, caseView(one, detail, number), event);
  }

  async function start() {
    index = await unpack("index");
    whenFiltered(form, () => { lastPage = remembered(form, "#/findings"); apply(); });
    whenFiltered(causeForm, () => { lastPage = remembered(causeForm, "#/causes"); applyCauses(); });
    $("more").addEventListener("click", () => {
      const first = showMore();
      $("list").children[first].querySelector("a").focus();
    });
    $("compressions").addEventListener("input", (event) => showCompressions(event.target.checked));
    $("details").addEventListener("input", (event) => table.classList.toggle("short", !event.target.checked));
    table.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button.sort");
      if (button) sortBy(table, button);
    });
    addEventListener("hashchange", route);
    await route();
    document.documentElement.dataset.ready = "yes";
  }

  start().catch((error) => { $("count").textContent = `This page cannot be unpacked here: ${error}`; });
})();
