// Runs the reference by Pyodide. It gets everything from the page and fetches nothing.
// It is a classic worker, since a page that is a file may start no other; Pyodide takes a worker without importScripts.
self.importScripts = () => { throw new Error("this worker imports modules"); };
const BASE = "https://pyodide.invalid/";
let explain;

async function start(parts) {
  const script = (bytes) => import(URL.createObjectURL(new Blob([bytes], { type: "text/javascript" })));
  const files = { "pyodide.asm.wasm": [parts.wasm, "application/wasm"], "python_stdlib.zip": [parts.stdlib, "application/zip"] };
  self.fetch = async (url) => {
    const found = files[String(url).slice(BASE.length)];
    if (!found) throw new Error(`this page fetches nothing, and not ${url}`);
    return new Response(found[0], { headers: { "Content-Type": found[1] } });
  };
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all([script(parts.loader), script(parts.module)]);
  const python = await loadPyodide({
    indexURL: BASE,
    createPyodideModule,
    lockFileContents: JSON.parse(new TextDecoder().decode(parts.lock)),
  });
  python.unpackArchive(parts.reference, "zip", { extractDir: "/reference" });
  explain = python.runPython(`
import json, sys
sys.path.insert(0, "/reference")
from kafka_conformance.reports.browser_codecs import install
install()
from kafka_conformance.reports.byte_rows import explained
from kafka_records.rules import rule

def explain_in_browser(title, data):
    found = explained(title, bytes(data))
    broken = [row[4] for row in found["rows"] if row[0] == "error"]
    found["rules"] = {each: rule(each).statement for each in broken}
    return json.dumps(found)

explain_in_browser
`);
}

self.onmessage = async ({ data }) => {
  try {
    if (data.parts) {
      await start(data.parts);
      postMessage({ ready: true });
    } else {
      postMessage({ number: data.number, found: explain(data.title, data.bytes) });
    }
  } catch (error) {
    postMessage({ number: data.number, error: String(error && error.message || error).trim().split("\n").at(-1) });
  }
};
