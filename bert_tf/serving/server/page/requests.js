// The request of the page as code, to be copied: for curl, and for Python without any package.

import { element } from "./elements.js";

// Returns the nodes of the code boxes, and what shows another request in them: update(path, body).
export function codeBoxes() {
  const boxes = [["curl", shellCommand], ["Python", pythonCode]].map(([name, write]) => {
    const code = element("pre", { tabindex: 0, "aria-label": `The request with ${name}` });
    const copy = element("button", { type: "button" }, "Copy");
    copy.addEventListener("click", () => copyText(code, copy));
    const node = element("div", { class: "code" }, element("p", {}, element("strong", {}, name), copy), code);
    return { node, show: (address, body) => (code.textContent = write(address, body)) };
  });
  const update = (path, body) => {
    const address = new URL(path, document.baseURI).href;
    for (const { show } of boxes) show(address, body);
  };
  return [boxes.map(({ node }) => node), update];
}

function shellCommand(address, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  return `curl -X POST ${quoted(address)} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(written(body))}`;
}

function pythonCode(address, body) {
  return `import json
import urllib.request

body = ${written(body)}
request = urllib.request.Request(
    ${JSON.stringify(address)},
    data=json.dumps(body).encode(),
    headers={"Content-Type": "application/json"},
)
with urllib.request.urlopen(request) as response:
    print(json.load(response)["predictions"])`;
}

// The body with a line for each instance. Strings, lists and objects of JSON mean the same in Python.
function written({ signature_name, instances }) {
  const lines = instances.map((each) => `\n    ${literal(each)}`);
  return `{\n  "signature_name": ${literal(signature_name)},\n  "instances": [${lines.join(",")}\n  ]\n}`;
}

function literal(value) {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "string") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each)}`).join(", ")}}`;
}

// The clipboard is only there on a secure page or on this machine; otherwise the text is selected.
async function copyText(code, button) {
  getSelection().selectAllChildren(code);
  const done = await navigator.clipboard?.writeText(code.textContent).then(() => true, () => false);
  button.textContent = done ? "Copied" : "Selected";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}
