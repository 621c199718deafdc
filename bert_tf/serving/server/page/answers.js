// The predictions for a request, as nodes of the page.

import { decimal, element, percent, table } from "./elements.js";

// Returns {summary, nodes, details} of an answer: `rows` of {output: value}, and the `texts` of the first, {input: text or texts}.
// The outputs decide how it is shown, so that any model that gives them is shown in the same way.
export function view(rows, texts) {
  const found = VIEWS.find(([outputs]) => outputs.every((output) => output in rows[0]));
  const { summary, nodes } = found ? found[1](rows[0], texts, rows) : plainOutputs(rows[0]);
  const whole = element("pre", {}, JSON.stringify(rows.length === 1 ? rows[0] : rows, null, 1));
  const details = element("details", {}, element("summary", {}, "Full response (JSON)"), whole);
  details.open = !found;
  return { summary, nodes, details };
}

const VIEWS = [
  [["label", "labels", "probabilities"], labels],
  [["choice", "probabilities"], choice],
  [["scores", "order"], ranking],
  [["answer", "start", "end"], answer],
  [["entity", "type", "start", "end", "entity_count"], entities],
  [["token", "probability"], blank],
  [["embedding"], neighbours],
  [["score"], number],
];

function labels({ label, labels, probabilities, predicted, confident }) {
  const rows = labels.map((name, i) => [name, probabilities[i]]);
  const best = rows.find(([name]) => name === label);
  // A multi-label model says which labels it predicts: any number of them.
  const several = predicted && (labels.filter((_, i) => predicted[i]).join(", ") || "No label is predicted.");
  rows.sort((a, b) => b[1] - a[1]);
  const summary = (several ?? (best ? `${label}, ${percent(best[1])}` : label)) + doubt(confident);
  return { summary, nodes: [bars(rows, label, "Probability of each label")] };
}

// A model that says whether it is confident may say that it is not.
function doubt(confident) {
  return confident === false ? " (not confident)" : "";
}

function choice({ choice, probabilities, confident }, { choices }) {
  const rows = choices.map((text, i) => [text, probabilities[i]]);
  const chosen = choices[choice];
  const summary = chosen === undefined ? "There are no choices." : chosen + doubt(confident);
  return { summary, nodes: [bars(rows, chosen, "Probability of each choice")] };
}

function ranking({ scores, order }, { documents }) {
  const rows = order.filter((i) => i >= 0).map((i) => [documents[i], scores[i]]);
  const best = rows[0]?.[0];
  return { summary: best ?? "There are no documents.", nodes: [bars(rows, best, "Score of each document", decimal)] };
}

function answer({ answer, start, end, score, null_score }, { context }) {
  const points = Array.from(context); // offsets count code points, JavaScript's strings UTF-16 units
  const nodes = answer ? [marked(points, [{ start, end }])] : [];
  const scores = [["Score", score], ["Score of \u201cno answer\u201d", null_score]].filter(([, value]) => value !== undefined);
  if (scores.length) nodes.push(table(scores.map(([name, value]) => [name, decimal(value)])));
  return { summary: answer || "The text does not contain an answer.", nodes };
}

function entities(row, texts) {
  const found = [];
  for (let i = 0; i < row.entity_count; i++) {
    found.push({ start: row.start[i], end: row.end[i], type: row.type[i], name: row.entity[i], score: row.score?.[i] });
  }
  if (!found.length) return { summary: "No entities were found.", nodes: [] };
  const types = [...new Set(found.map(({ type }) => type))].sort();
  for (const each of found) each.number = types.indexOf(each.type) % 6;
  const rows = found.map(({ name, type, score }) => [name, type, ...(score === undefined ? [] : [percent(score)])]);
  const summary = `${found.length} ${found.length === 1 ? "entity" : "entities"}: ${types.join(", ")}`;
  return { summary, nodes: [marked(Array.from(Object.values(texts)[0]), found), table(rows)] };
}

function blank({ token, probability }) {
  const rows = token.map((name, i) => [name, probability[i]]).filter(([name]) => name !== "");
  if (!rows.length) return { summary: "The text contains no mask token.", nodes: [] };
  return { summary: `${rows[0][0]}, ${percent(rows[0][1])}`, nodes: [bars(rows, rows[0][0], "Probability of each token")] };
}

// Nearest sentences: all texts by their cosine with the first, and, from three on, each with each.
function neighbours({ embedding }, texts, rows) {
  const all = Object.values(texts)[0];
  const cosines = rows.map((one) => rows.map((other) => cosine(one.embedding, other.embedding)));
  const near = all.slice(1).map((text, i) => [text, cosines[0][i + 1]]).sort((a, b) => b[1] - a[1]);
  if (!near.length) {
    return { summary: `An embedding of ${embedding.length} dimensions. Add lines to compare texts.`, nodes: [] };
  }
  const heading = element("h2", {}, `Similarity to “${all[0]}”`);
  const nodes = [heading, bars(near, near[0][0], "Cosine similarity to the first text", decimal)];
  if (all.length > 2) nodes.push(element("h2", {}, "Pairwise cosine similarity"), matrix(all, cosines));
  return { summary: `Most similar: ${near[0][0]} (cosine ${decimal(near[0][1])})`, nodes };
}

function number({ score }) {
  return { summary: `Score ${decimal(score)}`, nodes: [] };
}

// The answer of a task that the page does not know: its outputs that are strings or numbers, with their names.
function plainOutputs(row) {
  const shown = (value) => (value === null || typeof value === "number" && !Number.isInteger(value) ? decimal(value) : `${value}`);
  const plain = Object.entries(row).filter(([, value]) => value === null || typeof value !== "object");
  const rows = plain.map(([name, value]) => [name.replaceAll("_", " "), shown(value)]);
  const summary = rows.length === 1 ? rows[0].join(": ") : "The model responded.";
  return { summary, nodes: rows.length > 1 ? [table(rows)] : [] };
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  const lengths = Math.sqrt(dot(a, a) * dot(b, b));
  return lengths ? dot(a, b) / lengths : 0;
}

// The text of `points`, its parts from `start` to `end` marked; a part that overlaps one before it is left out.
function marked(points, parts) {
  const node = element("p", { class: "text" });
  let from = 0;
  for (const { start, end, type, number } of [...parts].sort((a, b) => a.start - b.start)) {
    if (start < from) continue;
    const mark = element("mark", type ? { class: `type-${number}` } : {}, points.slice(start, end).join(""));
    if (type) mark.append(element("small", {}, type));
    node.append(points.slice(from, start).join(""), mark);
    from = end;
  }
  node.append(points.slice(from).join(""));
  return node;
}

function bars(rows, best, caption, format = percent) {
  const body = rows.map(([name, value]) => {
    const bar = element("div", { class: "bar" });
    bar.style.width = `${100 * Math.min(1, Math.max(0, value))}%`;
    const cells = [element("th", { scope: "row" }, name), element("td", {}, bar), element("td", {}, format(value))];
    return element("tr", name === best ? { class: "best" } : {}, ...cells);
  });
  return element("table", { class: "bars", "aria-label": caption }, ...body);
}

function matrix(texts, values) {
  const numbers = texts.map((_, i) => element("td", {}, `${i + 1}`));
  const rows = texts.map((text, i) => {
    const cells = values[i].map((value) => element("td", {}, decimal(value)));
    return element("tr", {}, element("th", { scope: "row" }, `${i + 1}. ${text}`), ...cells);
  });
  return element("div", { class: "wide" }, element("table", {}, element("tr", {}, element("td"), ...numbers), ...rows));
}
