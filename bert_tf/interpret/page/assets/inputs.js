// Inputs: the embeddings of each token, and their sum.

const S = facts.tokens.length;
const NAMES = { token: "token", segment: "+ segment", position: "+ position", task: "+ task", total: "= sum",
  output: "normalized" };
const E = facts.arrays.input_token.shape[1];

const ALL = [...facts.inputs, "total", "output"];

view("inputs", "Inputs", `The input of the first layer: the token, segment and position embeddings, ${E} dimensions each, ` +
  "and their sum, before and after LayerNorm. Bars point up for positive values and down for negative ones; each row has " +
  "its own scale, and the largest 2% are clipped. The number on the right is the norm.",
show);

async function show(box) {
  const parts = {};
  for (const name of [...facts.inputs, "output"]) parts[name] = await numbers(`input_${name}`);
  parts.total = parts.token.map((_, n) => facts.inputs.reduce((sum, name) => sum + parts[name][n], 0));
  const cut = (name, token) => parts[name].subarray(token * E, (token + 1) * E);
  const found = element("div");
  const update = () => {
    const values = ALL.map((name) => cut(name, state.token));
    const canvases = ALL.map((name) => barCanvas(`${name} embedding of ${quoted(state.token)}`));
    const rows = ALL.map((name, n) => element("div", { class: "embedding" },
      element("span", { class: "what" }, NAMES[name]), canvases[n],
      element("span", { class: "number" }, plain(norm(values[n])))));
    found.replaceChildren(element("h3", {}, heading()), ...rows, folded("All values", () => asNumbers(values)));
    const width = Math.max(120, canvases[0].parentNode.clientWidth - 160);
    canvases.forEach((canvas, n) => drawBars(canvas, values[n], usual(values[n]), width, 38));
  };
  box.append(pieceChips("Token", update), element("div", { class: "split" }, found,
    element("div", {}, element("h3", {}, "Norms of all tokens"), lengths(cut))));
  requestAnimationFrame(update);
}

function heading() {
  return `${quoted(state.token)}, position ${state.token}, segment ${facts.segments[state.token]}`;
}

function asNumbers(values) {
  const rows = Array.from({ length: E }, (_, d) => [String(d), ...values.map((each) => plain(each[d], 3))]);
  const made = table(["dimension", ...ALL.map((name) => NAMES[name])], rows, "Values of the embeddings");
  made.classList.add("tall");
  return made;
}

function lengths(cut) {
  const norms = ALL.map((name) => facts.tokens.map((_, n) => norm(cut(name, n))));
  const most = norms.map(largest);
  const rows = facts.tokens.map((token, n) => [token, ...norms.map((each, k) => bar(plain(each[n]), each[n] / most[k]))]);
  const made = table(["token", ...ALL.map((name) => NAMES[name])], rows, "Norms of embeddings");
  made.classList.add("tall");
  return made;
}
