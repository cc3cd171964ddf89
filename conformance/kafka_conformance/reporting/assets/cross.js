"use strict";
// A link into something that is folded opens it.
(() => {
  function open() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
    const summary = target.querySelector("summary");
    if (summary) summary.focus({ preventScroll: true });
  }
  addEventListener("hashchange", open);
  open();
})();
