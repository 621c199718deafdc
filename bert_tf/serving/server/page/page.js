// Queries the server that this page came from, as its other clients do: which models there are, their inputs, and
// predictions for the texts in the fields. A link may hold a request: #model=films&text=A fine film.&send, and with
// &explain its explanation.

import { view } from "./answers.js";
import { element } from "./elements.js";
import { examplesFor } from "./examples.js";
import { explains, offers } from "./explanations.js";
import { codeBoxes } from "./requests.js";

const ORDER = ["text", "text_a", "text_b", "question", "context", "choices"]; // of fields; others follow by name
const LINES = "Texts, one per line: the first is compared with the others";

const [form, model, version, signature, examples, fields, error, summary, answer, request] = [
  "form", "model", "version", "signature", "examples", "fields", "error", "summary", "answer", "request",
].map((id) => document.getElementById(id));

let models = []; // of models.json: {name, versions}
let signatures = {}; // of the chosen version that take nothing but strings: name -> SignatureDef
let explanations = {}; // those that say why, likewise
const typed = Object.create(null); // input -> texts, kept while models are changed
const [boxes, showCode] = codeBoxes();
let latest = new AbortController(); // of what was asked last: an answer that comes after that is of no interest

async function ask(path, body) {
  const post = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await fetch(path, { ...post, signal: latest.signal }).catch(() => {
    throw new Error("The server did not respond.");
  });
  const value = parsed(await response.text());
  if (response.ok && value) return value;
  throw new Error(value?.error || `The server responded with status ${response.status}.`);
}

// TensorFlow Serving writes NaN and Infinity, which JSON has not: they become null.
function parsed(text) {
  const plain = text.replace(/"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)/g, (part) => (part[0] === '"' ? part : "null"));
  try {
    return JSON.parse(plain);
  } catch {
    return null;
  }
}

// Does what takes time, in place of what was begun before, and says what went wrong with it.
async function attempt(work) {
  latest.abort();
  const mine = (latest = new AbortController());
  error.textContent = summary.textContent = "";
  answer.replaceChildren();
  form.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (failure) {
    if (mine === latest) error.textContent = failure.message;
  }
  if (mine === latest) form.setAttribute("aria-busy", "false");
}

function path() {
  const number = version.value ? `/versions/${version.value}` : "";
  return `v1/models/${encodeURIComponent(model.value)}${number}`;
}

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name) => element("option", { value: name }, name || "newest")));
  if (names.includes(chosen)) select.value = chosen;
}

function chooseModel(wishes) {
  const versions = models.find(({ name }) => name === model.value)?.versions ?? [];
  fill(version, ["", ...versions], wishes.get("version"));
  document.getElementById("version-label").hidden = versions.length < 2;
  if (versions.length) return chooseVersion(wishes);
  clear();
  throw new Error(`No version of ${model.value} is available. See the server's log.`);
}

// What belongs to another model must not stay if the chosen one fails.
function clear() {
  signatures = explanations = {};
  fields.replaceChildren();
  examples.hidden = request.hidden = true;
}

async function chooseVersion(wishes) {
  clear();
  const { metadata } = await ask(`${path()}/metadata`);
  const offered = Object.entries(metadata.signature_def.signature_def);
  signatures = Object.fromEntries(offered.filter(([, each]) => takesTexts(each) && !explains(each)));
  explanations = Object.fromEntries(offered.filter(([, each]) => explains(each)));
  const rank = (name) => (name === "serving_default" ? 0 : 1); // the others by name: the server has no order
  const names = Object.keys(signatures).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  if (!names.length) throw new Error(`${model.value} does not take texts. Use the REST or gRPC API instead.`);
  fill(signature, names, wishes.get("signature"));
  document.getElementById("signature-label").hidden = names.length < 2;
  drawFields();
}

function takesTexts({ inputs, method_name }) {
  const all = Object.values(inputs);
  // Classify and Regress take texts too, but inside of tf.Example.
  return method_name.endsWith("/predict") && all.length > 0 && all.every(({ dtype }) => dtype === "DT_STRING");
}

function inputsOf({ inputs }) {
  const place = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return Object.keys(inputs).sort((a, b) => place(a) - place(b) || a.localeCompare(b));
}

const isList = ({ inputs }, name) => inputs[name].tensor_shape.dim?.length === 2;
const isForLines = (chosen) => "embedding" in chosen.outputs && Object.keys(chosen.inputs).length === 1;

function drawFields() {
  const chosen = signatures[signature.value];
  fields.replaceChildren(...inputsOf(chosen).map((name) => (isList(chosen, name) ? listField(name) : textField(name))));
  if (isForLines(chosen)) fields.querySelector("textarea").rows = 4;
  const buttons = examplesFor(chosen).map(([name, texts]) => {
    const button = element("button", { type: "button" }, name);
    button.addEventListener("click", () => {
      Object.assign(typed, texts);
      drawFields();
      attempt(() => send());
    });
    return button;
  });
  examples.replaceChildren("Examples", ...buttons);
  examples.hidden = !buttons.length;
  showRequest();
}

// The request as it is now, as code.
function showRequest() {
  const chosen = signatures[signature.value];
  request.hidden = !chosen;
  if (chosen) showCode(`${path()}:predict`, bodyOf(signature.value, instancesOf(chosen, texts(chosen))));
}

function textField(name) {
  const chosen = signatures[signature.value];
  const words = isForLines(chosen) ? LINES : `${name[0].toUpperCase()}${name.slice(1).replaceAll("_", " ")}`;
  const field = element("textarea", { name, rows: name === "context" ? 6 : 2 });
  field.value = typed[name]?.[0] ?? "";
  const hint = "token" in chosen.outputs ? " with [MASK], or the model's own mask token, in place of a word" : "";
  return element("label", {}, `${words}${hint}`, field);
}

function listField(name) {
  const set = element("fieldset", {}, element("legend", {}, `${name[0].toUpperCase()}${name.slice(1)}`));
  const more = element("button", { type: "button" }, "Add a text");
  const add = (text) => {
    const field = element("input", { name, "aria-label": `${name} ${set.querySelectorAll("input").length + 1}` });
    field.value = text;
    more.before(field);
    return field;
  };
  set.append(more);
  more.addEventListener("click", () => {
    add("").focus();
    showRequest();
  });
  for (const text of typed[name] ?? ["", ""]) add(text);
  return set;
}

// Remembers what is typed, and returns the names of the inputs.
function read() {
  const names = inputsOf(signatures[signature.value]);
  const all = [...fields.querySelectorAll("textarea, input")];
  for (const name of names) typed[name] = all.filter((field) => field.name === name).map(({ value }) => value);
  return names;
}

// The texts as the fields have them, {input: text, or list of texts}.
function texts(chosen) {
  const found = Object.create(null);
  for (const name of read()) {
    found[name] = isList(chosen, name) ? typed[name].filter((text) => text.trim()) : typed[name][0];
    if (isForLines(chosen)) found[name] = found[name].split("\n").filter((line) => line.trim());
  }
  return found;
}

function instancesOf(chosen, found) {
  return isForLines(chosen) ? Object.values(found)[0] : [found];
}

function bodyOf(name, instances) {
  return { signature_name: name, instances };
}

async function send(explain = false) {
  const chosen = signatures[signature.value];
  if (!chosen) throw new Error("No model is selected.");
  const given = texts(chosen);
  for (const [name, value] of Object.entries(given)) if (!value.length) throw new Error(`The field ${name} is empty.`);
  const asked = link();
  history.replaceState(null, "", `#${asked}`);
  showRequest();
  const rows = await predictions(signature.value, chosen, instancesOf(chosen, given));
  const shown = view(rows, given);
  summary.textContent = shown.summary;
  const own = isForLines(chosen) ? Object.fromEntries(Object.entries(given).map(([name, [first]]) => [name, first])) : given;
  const buttons = offers(explanations, rows[0], own, explanation(own), placeFor(latest));
  buttons.attribution?.addEventListener("click", () => history.replaceState(null, "", `#${asked}&explain`));
  const more = element("p", { class: "offers" }, ...Object.values(buttons));
  answer.replaceChildren(...shown.nodes, ...(more.childNodes.length ? [more] : []), shown.details);
  if (explain) buttons.attribution?.click();
}

async function predictions(name, { outputs }, instances) {
  const { predictions: rows } = await ask(`${path()}:predict`, bodyOf(name, instances));
  const names = Object.keys(outputs);
  // Where there is one output, the reply leaves its name out.
  return names.length > 1 ? rows : rows.map((value) => ({ [names[0]]: value }));
}

// Returns what asks a signature that explains.
function explanation(texts) {
  return async (name, more) => (await predictions(name, explanations[name], [{ ...texts, ...more }]))[0];
}

// Returns what makes a section for an explanation, in place of the same one before, of the answer that was asked by `mine`.
function placeFor(mine) {
  return (label) => {
    const heading = element("h2", { tabindex: -1 }, label);
    const section = element("section", { "aria-label": label }, heading);
    const before = [...answer.querySelectorAll("section")].find((each) => each.getAttribute("aria-label") === label);
    before ? before.replaceWith(section) : answer.lastElementChild.before(section);
    heading.focus();
    const attempt = async (work) => {
      section.setAttribute("aria-busy", "true");
      error.textContent = "";
      await work().catch((failure) => {
        if (mine === latest) error.textContent = failure.message;
      });
      section.setAttribute("aria-busy", "false");
    };
    return [section, attempt];
  };
}

function link() {
  const query = new URLSearchParams({ model: model.value });
  if (version.value) query.set("version", version.value);
  if (signature.options.length > 1) query.set("signature", signature.value);
  for (const name of read()) for (const text of typed[name]) query.append(name, text);
  return `${query}&send`;
}

async function begin() {
  const wishes = new URLSearchParams(location.hash.slice(1));
  for (const name of wishes.keys()) typed[name] = wishes.getAll(name);
  models = (await ask("ui/models.json")).models;
  fill(model, models.map(({ name }) => name), wishes.get("model"));
  await chooseModel(wishes);
  fields.querySelector("textarea, input").focus();
  if (wishes.has("send")) await send(wishes.has("explain"));
}

const nothing = new URLSearchParams();
model.addEventListener("change", () => attempt(() => chooseModel(nothing)));
version.addEventListener("change", () => attempt(() => chooseVersion(nothing)));
signature.addEventListener("change", () => attempt(async () => drawFields()));
form.addEventListener("input", showRequest);
form.addEventListener("submit", (event) => (event.preventDefault(), attempt(() => send())));
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
addEventListener("hashchange", () => attempt(begin));
request.append(...boxes);
attempt(begin);
