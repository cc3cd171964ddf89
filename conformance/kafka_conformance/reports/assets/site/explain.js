"use strict";
// Bytes explained in this page. With a runtime the reference runs in a worker; without one, a reader of headers does.
(() => {
  const MOST = 1 << 20;
  const parts = {};
  let worker, ready, number = 0;
  const answers = new Map();

  // ---- input ----

  // As `kafkaproof explain --hex` reads digits.
  function bytesOf(text) {
    const digits = text.replace(/0x|\\x|[\s,:_'"-]/gi, "");
    const wrong = digits.search(/[^0-9a-f]/i);
    if (wrong >= 0) throw new Error(`${JSON.stringify(digits[wrong])} is no hex digit (digit ${wrong + 1})`);
    if (digits.length % 2) throw new Error(`${digits.length} hex digits: the last byte has only one`);
    if (!digits.length) throw new Error("there are no bytes yet: paste hex digits or choose a file");
    return Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16));
  }

  const hexOf = (bytes) => [...bytes.slice(0, 4096)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");

  // ---- the reference in a worker ----

  window.kafkaproofPart = (name, text) => { parts[name] = text; };

  function policyOf(paths) {
    if (!window.trustedTypes) return { createScriptURL: (url) => url };
    const allowed = (url) => paths.includes(url) || url.startsWith("blob:");
    return trustedTypes.createPolicy("kafkaproof", {
      createScriptURL: (url) => { if (allowed(url)) return url; throw new TypeError(`no script of this page: ${url}`); },
    });
  }

  async function unpackedPart(name) {
    const bytes = Uint8Array.from(atob(parts[name]), (character) => character.charCodeAt(0));
    delete parts[name];
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function startWorker(paths, say) {
    const policy = policyOf(paths);
    let loaded = 0;
    say(`Loading the reference, 0 of ${paths.length} parts…`);
    await Promise.all(paths.map((path) => new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = policy.createScriptURL(path);
      script.onload = () => { say(`Loading the reference, ${++loaded} of ${paths.length} parts…`); resolve(); };
      script.onerror = () => reject(new Error(`${path} cannot be loaded`));
      document.head.append(script);
    })));
    say("Starting Python…");
    const unpacked = {};
    for (const name of Object.keys(parts)) unpacked[name] = await unpackedPart(name);
    const source = URL.createObjectURL(new Blob([unpacked.worker], { type: "text/javascript" }));
    delete unpacked.worker;
    worker = new Worker(policy.createScriptURL(source));
    await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => {
        if (data.ready) resolve();
        else if (answers.has(data.number)) settle(data);
        else reject(new Error(data.error));
      };
      worker.onerror = (event) => reject(new Error(event.message || "the worker cannot be started"));
      worker.postMessage({ parts: unpacked });
    });
  }

  function settle({ number: of, found, error }) {
    const [resolve, reject] = answers.get(of);
    answers.delete(of);
    if (error) reject(new Error(error));
    else resolve(JSON.parse(found));
  }

  function byReference(title, bytes) {
    return new Promise((resolve, reject) => {
      answers.set(++number, [resolve, reject]);
      worker.postMessage({ number, title, bytes });
    });
  }

  // ---- the fallback: headers of v2 batches ----

  const HEADER = [
    ["base_offset", 8, "offset"], ["batch_length", 4, "framing"], ["partition_leader_epoch", 4, "producer"],
    ["magic", 1, "format"], ["crc", 4, "checksum"], ["attributes", 2, "format"], ["last_offset_delta", 4, "offset"],
    ["base_timestamp", 8, "time"], ["max_timestamp", 8, "time"], ["producer_id", 8, "producer"],
    ["producer_epoch", 2, "producer"], ["base_sequence", 4, "producer"], ["record_count", 4, "framing"],
  ];
  const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"];
  const UNSIGNED = ["crc", "attributes"];

  function valueOf(view, at, size, name) {
    if (UNSIGNED.includes(name)) return "0x" + (size === 4 ? view.getUint32(at) : view.getUint16(at)).toString(16).padStart(2 * size, "0");
    if (size === 8) return String(view.getBigInt64(at));
    return String(size === 4 ? view.getInt32(at) : size === 2 ? view.getInt16(at) : view.getInt8(at));
  }

  function byHeaders(title, bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), rows = [];
    let at = 0, batches = 0, problem = "";
    while (at < bytes.length && !problem) {
      if (bytes.length - at < 17) { problem = `${bytes.length - at} bytes are left, too few for a header`; break; }
      const length = view.getInt32(at + 8), magic = view.getInt8(at + 16), end = at + 12 + length;
      if (magic !== 2) { problem = `magic ${magic}: this reader knows the headers of v2 batches only`; break; }
      if (length < 49 || end > bytes.length) { problem = `a batch of ${length} bytes, ${bytes.length - at - 12} are left`; break; }
      rows.push(["part", 0, `record batch v2 at byte ${at}`]);
      for (const [name, size, group] of HEADER) {
        const meaning = name === "attributes" ? CODECS[view.getUint16(at) & 7] || "unknown codec" : "";
        rows.push(["field", 1, group, at, [hexOf(bytes.slice(at, at + size))], name, valueOf(view, at, size, name), meaning, []]);
        at += size;
      }
      if (at < end) rows.push(["field", 1, "packed", at, [hexOf(bytes.slice(at, Math.min(at + 8, end)))], "records", `${end - at} bytes`, "not explained without the reference", []]);
      at = end;
      batches += 1;
    }
    if (problem) rows.push(["end", at]);
    return { title, size: `${bytes.length.toLocaleString("en")} bytes`, rows, summary: problem || `${batches} batch headers; nothing was checked`, rules: {} };
  }

  // ---- the page ----

  addEventListener("DOMContentLoaded", () => {
    const form = $("explain"), status = $("explain-status"), runtime = form.dataset.runtime ? JSON.parse(form.dataset.runtime) : [];
    const say = (text) => { status.textContent = text; };
    let turn = 0;

    async function show(title, bytes) {
      const mine = ++turn;
      try {
        if (bytes.length > MOST) say(`${bytes.length.toLocaleString("en")} bytes; the first ${MOST.toLocaleString("en")} are explained.`);
        const data = bytes.slice(0, MOST);
        if (runtime.length) {
          ready = ready || startWorker(runtime, say);
          await ready;
          say("Explaining…");
        }
        const found = runtime.length ? await byReference(title, data) : byHeaders(title, data);
        if (mine !== turn) return;
        const rules = Object.entries(found.rules).map(([id, statement]) => make("div", { class: "rule" },
          make("p", {}, make("a", { href: `../rule/${id}/index.html` }, id), " ", statement)));
        $("explained").replaceChildren(...questionView(found), ...rules);
        say(found.summary);
      } catch (error) {
        say(`This cannot be explained here: ${error.message}`);
      }
    }

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      try { show("Pasted bytes", bytesOf($("hex").value)); } catch (error) { say(error.message); }
    });
    const take = async (file) => {
      if (!file) return;
      const bytes = new Uint8Array(await file.slice(0, MOST).arrayBuffer());
      $("hex").value = hexOf(bytes);
      show(file.name, bytes);
    };
    $("file").addEventListener("change", (event) => take(event.target.files[0]));
    $("example").addEventListener("click", () => {
      $("hex").value = EXAMPLE;
      show("An example", bytesOf(EXAMPLE));
    });
    document.addEventListener("dragover", (event) => { event.preventDefault(); form.classList.add("over"); });
    document.addEventListener("dragleave", () => form.classList.remove("over"));
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      form.classList.remove("over");
      take(event.dataTransfer.files[0]);
    });
  });

  // A batch with one record, key "k", value "hello".
  const EXAMPLE = "00 00 00 00 00 00 00 00 00 00 00 3e ff ff ff ff 02 1f 7f 7d 49 00 00 00 00 00 00 00 00 01 62 ff ca 6d 5a ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff 00 00 00 01 18 00 00 00 02 6b 0a 68 65 6c 6c 6f 00";
})();
