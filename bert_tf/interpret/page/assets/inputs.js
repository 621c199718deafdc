// Inputs: the embeddings of each piece, and their sum.

const S = facts.pieces.length;
const NAMES = { token: "token", segment: "+ segment", position: "+ position", task: "+ task", total: "= sum",
  output: "normalized" };
const E = facts.arrays.input_token.shape[1];

const ALL = [...facts.inputs, "total", "output"];

view("inputs", "Inputs", `What a piece is before the first layer: the embeddings of its token, its segment and its ` +
  `position, ${E} numbers each, and their sum, which a LayerNorm then normalizes. Bars stand up where a number is ` +
  "above 0, and hang down where it is below; each row has a scale of its own, and one bar in fifty is longer than it is " +
  "high. Beside it stands its length (norm).",
show);

async function show(box) {
  const parts = {};
  for (const name of [...facts.inputs, "output"]) parts[name] = await numbers(`input_${name}`);
  parts.total = parts.token.map((_, n) => facts.inputs.reduce((sum, name) => sum + parts[name][n], 0));
  const cut = (name, piece) => parts[name].subarray(piece * E, (piece + 1) * E);
  const found = element("div");
  const update = () => {
    const values = ALL.map((name) => cut(name, state.piece));
    const canvases = ALL.map((name) => barCanvas(`${name} embedding of ${quoted(state.piece)}`));
    const rows = ALL.map((name, n) => element("div", { class: "embedding" },
      element("span", { class: "what" }, NAMES[name]), canvases[n],
      element("span", { class: "number" }, plain(norm(values[n])))));
    found.replaceChildren(element("h3", {}, heading()), ...rows, folded("As numbers", () => asNumbers(values)));
    const width = Math.max(120, canvases[0].parentNode.clientWidth - 160);
    canvases.forEach((canvas, n) => drawBars(canvas, values[n], usual(values[n]), width, 38));
  };
  box.append(pieceChips("Whose embeddings", update), found, element("h3", {}, "Lengths of all pieces' embeddings"),
    lengths(cut));
  requestAnimationFrame(update);
}

function heading() {
  return `${quoted(state.piece)}, place ${state.piece}, segment ${facts.segments[state.piece]}`;
}

function asNumbers(values) {
  const rows = Array.from({ length: E }, (_, d) => [String(d), ...values.map((each) => plain(each[d], 3))]);
  const made = table(["number", ...ALL.map((name) => NAMES[name])], rows, "Embeddings as numbers");
  made.classList.add("tall");
  return made;
}

function lengths(cut) {
  const norms = ALL.map((name) => facts.pieces.map((_, n) => norm(cut(name, n))));
  const most = norms.map(largest);
  const rows = facts.pieces.map((piece, n) => [piece, ...norms.map((each, k) => bar(plain(each[n]), each[n] / most[k]))]);
  const made = table(["piece", ...ALL.map((name) => NAMES[name])], rows, "Lengths of embeddings");
  made.classList.add("tall");
  return made;
}
