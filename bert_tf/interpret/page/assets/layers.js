// Layers: how similar a token's hidden states are from layer to layer, and to those of others.

const S = facts.tokens.length;
const L = facts.all_layers + 1;
const DASHES = ["7 4", "2 3", "10 3 2 3", "1 4", "14 4"];
const TALL = 220;

view("layers", "Layers", "Cosine similarity of a token's hidden states, between layers and with other tokens. Layer 0 " +
  "is the input of the first layer. Select a token, and others to compare it with.", show);

async function show(box) {
  const itself = await numbers("itself");
  const among = await Promise.all(Array.from({ length: L }, (_, layer) => numbers("among", layer)));
  const found = element("div");
  const update = () => {
    const own = (a, b) => itself[(a * L + b) * S + state.token];
    const steps = Array.from({ length: L }, (_, layer) => layer);
    const lines = [[`${quoted(state.token)} of layer 0`, steps.map((layer) => own(0, layer))],
      ...state.others.map((n) => [`${quoted(n)}, position ${n}`, steps.map((layer) => among[layer][state.token * S + n])])];
    found.replaceChildren(
      element("h3", {}, `${quoted(state.token)} and other tokens, in the same layer`), chart(lines),
      table(["cosine with", ...steps.map((layer) => `layer ${layer}`)],
        lines.map(([name, values], n) => [element("span", {}, sample(n), name), ...values.map(cosine)]), "Cosines with others"),
      element("h3", {}, `${quoted(state.token)} with itself, between layers`),
      table(["", ...steps.map((layer) => `layer ${layer}`)],
        steps.map((a) => [`layer ${a}`, ...steps.map((b) => cosine(own(a, b)))]), "Cosines with itself"));
  };
  const toggle = (n) => {
    state.others = state.others.includes(n) ? state.others.filter((each) => each !== n) : [...state.others, n];
    update();
  };
  if (!state.others.length) state.others = nearest(among[L - 1]);
  box.append(pieceChips("Token", update),
    chips("Compared with", (n) => state.others.includes(n), toggle), found);
  update();
}

// The two tokens nearest to the chosen one in the last layer.
function nearest(cosines) {
  const score = (n) => cosines[state.token * S + n];
  const others = facts.tokens.map((_, n) => n).filter((n) => n !== state.token && facts.of_text[n] >= 0);
  return others.sort((a, b) => score(b) - score(a)).slice(0, 2);
}

function cosine(value) {
  return shade(plain(value), Math.max(0, value) ** 2);
}

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function strokeOf(n) {
  return n ? { stroke: hue(n), "stroke-dasharray": DASHES[(n - 1) % DASHES.length], "stroke-width": 2 }
    : { stroke: colour("ink"), "stroke-width": 2.5 };
}

function sample(n) {
  return drawn("svg", { class: "sample", viewBox: "0 0 40 8", "aria-hidden": "true" },
    drawn("line", { x1: 0, y1: 4, x2: 40, y2: 4, ...strokeOf(n) }));
}

function chart(lines) {
  const wide = Math.max(300, Math.min(960, panel.clientWidth));
  const low = Math.min(0, ...lines.flatMap(([, values]) => values));
  const x = (layer) => 34 + (layer * (wide - 50)) / Math.max(1, L - 1);
  const y = (value) => 10 + ((1 - value) * (TALL - 40)) / (1 - low);
  const ticks = [1, 0.5, 0, ...(low < -0.25 ? [-0.5] : [])].flatMap((value) => [
    drawn("line", { x1: 34, x2: wide - 10, y1: y(value), y2: y(value), class: "grid" }),
    drawn("text", { x: 28, y: y(value) + 4, "text-anchor": "end" }, plain(value, 1))]);
  const every = Math.ceil(L / 13);
  const names = Array.from({ length: L }, (_, layer) => layer).filter((layer) => layer % every === 0).map((layer) =>
    drawn("text", { x: x(layer), y: TALL - 6, "text-anchor": "middle" }, String(layer)));
  const paths = lines.map(([, values], n) => drawn("polyline",
    { points: values.map((value, layer) => `${x(layer)},${y(value)}`).join(" "), fill: "none", ...strokeOf(n) }));
  return drawn("svg", { viewBox: `0 0 ${wide} ${TALL}`, class: "chart", role: "img",
    "aria-label": "Cosines by layer, as in the table below" }, ...ticks, ...names, ...paths);
}
