// Explanations of a prediction, with the signatures that an export may have for that. They are recognized by their
// outputs, and take the same texts as the prediction.

import { decimal, element, percent, table } from "./elements.js";

const MORE = { attribution: "target", attention: "layers" }; // output that tells a signature -> its input besides texts
const SHOWN = { attribution: ["Word attributions", words], attention: ["Attention weights", looks] };
// A Chinese character is a word by itself; some marks between letters part no words: "don't", "e-mail".
const LETTER = "(?:(?!\\p{Script=Han})[\\p{L}\\p{M}\\p{N}])";
const WORD = new RegExp(`${LETTER}+(?:['\u2019._\u00ad-]${LETTER}+)*|\\S`, "gu");
const FEWEST = 2; // digits of a number behind its point

const tokensOf = (row) => row.token ?? row.piece; // "piece": exports of version 0.1

export const explains = ({ outputs }) => ["token", "piece"].some((output) => output in outputs) &&
  Object.keys(MORE).some((output) => output in outputs);

// Returns {output: button} for each signature that explains an answer, `row`, to some texts.
//   ask(signature, more)   what a signature says of the texts, with its input besides them
//   place(heading)         [node, attempt]: where the explanation stands, and what does something that may go wrong
export function offers(signatures, row, texts, ask, place) {
  const buttons = {};
  for (const [output, [label, show]] of Object.entries(SHOWN)) {
    const name = Object.keys(signatures).find((each) => output in signatures[each].outputs);
    const others = Object.keys(signatures[name]?.inputs ?? {}).filter((each) => each !== MORE[output]);
    if (!name || others.length !== Object.keys(texts).length || !others.every((each) => each in texts)) continue;
    const more = (value) => ask(name, { [MORE[output]]: value });
    buttons[output] = element("button", { type: "button" }, label);
    buttons[output].addEventListener("click", () => show(...place(label), more, row, Object.values(texts)));
  }
  return buttons;
}

// What can be explained of an answer: [target, name] each, the model's own first.
function targetsOf({ label, labels, answer, start, end, entity, entity_count }) {
  if (labels) return [label, ...labels.filter((name) => name !== label)].map((name) => [name, name]);
  if (entity) return entity.slice(0, entity_count).map((name, i) => [`${start[i]}:${end[i]}`, name]);
  return answer ? [[`${start}:${end}`, answer]] : [];
}

async function words(box, attempt, ask, row, texts) {
  const targets = targetsOf(row);
  const shown = element("div");
  const show = (target) => attempt(async () => shown.replaceChildren(...attributions(await ask(target), texts)));
  if (targets.length > 1) box.append(choice("Explain", targets, show));
  box.append(shown);
  await show(targets[0]?.[0] ?? "");
}

// The contribution of each word, and how complete these are.
function attributions(row, texts) {
  const found = texts.map((text, n) => wordsOf(text, n, row));
  const most = Math.max(...found.flat().map(({ value }) => Math.abs(value)), 0);
  const digits = most ? Math.min(6, Math.max(FEWEST, 1 - Math.floor(Math.log10(most)))) : FEWEST;
  const signed = (value) => {
    const number = Number(value.toFixed(digits));
    return `${number > 0 ? "+" : ""}${number ? value.toFixed(digits) : (0).toFixed(digits)}`;
  };
  const told = element("p", { class: "told" }, "Hover over a word, or focus it with Tab and the arrow keys, to see its tokens.");
  const tell = ({ text, value, tokens }) => {
    const list = tokens.map((n) => `${tokensOf(row)[n]} ${signed(row.attribution[n])}`).join(", ");
    told.textContent = `\u201c${text}\u201d contributes ${signed(value)}. Its tokens: ${list}`;
  };
  const paragraphs = texts.map((text, n) => marked(text, found[n], (word) => {
    const button = chip(word.text, () => tell(word));
    mark(button, most && word.value / most, signed(word.value));
    return button;
  }));
  return [
    arrows(element("div", { role: "group", "aria-label": "Words" }, ...paragraphs)),
    told,
    element("p", { class: "told" }, "Attributions for ", element("strong", {}, row.target || "(none)"), " by integrated gradients: the " +
      "number below a word is its contribution to the score. Solid lines: for the prediction; dotted lines: against it. " +
      "Words without a number were truncated."),
    table([
      ["Score (logit)", decimal(row.score)],
      ["Baseline score (all tokens [PAD])", decimal(row.baseline_score)],
      ["Difference, the sum of contributions", decimal(row.score - row.baseline_score)],
      ["Completeness gap: share of the difference not attributed", Number.isFinite(row.gap) ? percent(row.gap) : "no difference"],
      ["Integration steps", `${row.steps}`],
    ]),
  ];
}

// The words of a text that have tokens, in its order: {text, start, end, value, tokens}.
function wordsOf(text, of, { start, of_text, attribution }) {
  const own = start.map((_, n) => n).filter((n) => of_text[n] === of);
  const found = [];
  let [behind, at] = [0, 0]; // in UTF-16 units, which JavaScript counts, and in code points, which offsets count
  for (const match of text.matchAll(WORD)) {
    const begin = at + Array.from(text.slice(behind, match.index)).length;
    behind = match.index + match[0].length;
    at = begin + Array.from(match[0]).length;
    const [first, limit] = [begin, at];
    const tokens = own.filter((n) => start[n] >= first && start[n] < limit);
    const value = tokens.reduce((sum, n) => sum + attribution[n], 0);
    if (tokens.length) found.push({ text: match[0], start: begin, end: at, value, tokens });
  }
  return found;
}

// A text as it is, with its words as `make` makes them.
function marked(text, parts, make) {
  const points = Array.from(text);
  const node = element("p", { class: "words" });
  let from = 0;
  for (const part of parts) {
    node.append(points.slice(from, part.start).join(""), make(part));
    from = part.end;
  }
  node.append(points.slice(from).join(""));
  return node;
}

async function looks(box, attempt, ask) {
  const layer = element("input", { type: "number", value: -1, step: 1 });
  const head = element("select");
  const shown = element("div");
  let found;
  const draw = () => shown.replaceChildren(...weights(found, Number(head.value)));
  const show = () => attempt(async () => {
    found = await ask([Math.trunc(Number(layer.value))]);
    const names = ["mean of all", ...found.attention[0].map((_, n) => `${n}`)];
    const chosen = head.value || "-1";
    head.replaceChildren(...names.map((name, n) => element("option", { value: n - 1 }, name)));
    head.value = chosen;
    draw();
  });
  layer.addEventListener("change", show);
  head.addEventListener("change", draw);
  const fields = [element("label", {}, "Layer (from 0; -1: last) ", layer), element("label", {}, "Head ", head)];
  box.append(element("div", { class: "choices" }, ...fields), shown);
  await show();
}

// The attention weights from one token, in percent below all tokens; another is chosen with the mouse or keyboard.
function weights(row, head) {
  const token = tokensOf(row);
  const [heads] = row.attention;
  const there = token.map((_, n) => n).filter((n) => token[n] !== "");
  const of = (from, to) => (head < 0 ? heads.reduce((sum, each) => sum + each[from][to], 0) / heads.length : heads[head][from][to]);
  const told = element("p", { class: "told", role: "status" });
  const look = (from) => {
    const shares = there.map((to) => of(from, to));
    const most = Math.max(...shares);
    chips.forEach((each, n) => mark(each, most && shares[n] / most, (100 * shares[n]).toFixed(0), there[n] === from));
    told.textContent = `Attention weights from ${token[from]}, in percent`;
  };
  const chips = there.map((n) => chip(token[n], () => look(n)));
  look(there[0]);
  return [arrows(element("p", { class: "words", role: "group", "aria-label": "Tokens" }, ...chips)), told];
}

function chip(text, chosen) {
  const button = element("button", { type: "button", tabindex: -1 }, element("span", {}, text), element("small"));
  for (const event of ["focus", "mouseenter"]) button.addEventListener(event, chosen);
  return button;
}

// Shows a share, -1 to 1 of the greatest, and its number with a chip.
function mark(button, share, number, own = false) {
  button.className = ["word", ...(share < 0 ? ["below"] : []), ...(own ? ["own"] : [])].join(" ");
  button.style.setProperty("--share", Math.abs(share));
  button.lastChild.textContent = number;
}

// Lets arrow keys, Home and End move among the buttons of a box; Tab goes past all of them.
function arrows(box) {
  const all = [...box.querySelectorAll("button")];
  if (all.length) all[0].tabIndex = 0;
  box.addEventListener("focusin", ({ target }) => all.forEach((each) => (each.tabIndex = each === target ? 0 : -1)));
  box.addEventListener("keydown", (event) => {
    const at = all.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
    const next = all[to[event.key]];
    if (at < 0 || !next || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    next.focus();
  });
  return box;
}

function choice(label, rows, change) {
  const select = element("select", {}, ...rows.map(([value, name]) => element("option", { value }, name)));
  select.addEventListener("change", () => change(select.value));
  return element("label", {}, `${label} `, select);
}
