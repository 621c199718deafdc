// Model: all layers and heads at a glance.

const SIDE = 96; // of a picture, at most

view("model", "Model", "One picture per head: attention from each token (rows) to each token (columns), darker for larger " +
  "weights. Below it: the share of all attention that goes to the most attended token. Click, or press Enter, to open a " +
  "head.", show);

async function show(box) {
  const said = readout();
  const tell = ({ target }) => {
    const { layer, head } = target.closest("button")?.dataset ?? {};
    if (layer !== undefined) said.textContent = describe(Number(layer), Number(head));
  };
  const rows = facts.layers.map((layer, row) => element("tr", {}, element("th", { scope: "row" }, `layer ${layer}`),
    Array.from({ length: facts.heads }, (_, head) => element("td", {}, picture(row, head)))));
  const heads = Array.from({ length: facts.heads }, (_, head) => element("th", { scope: "col" }, `head ${head}`));
  const grid = element("table", { class: "pictures", heads: facts.heads, mouseover: tell, focusin: tell },
    element("thead", {}, element("tr", {}, element("td"), heads)), element("tbody", {}, rows));
  said.textContent = "Hover over a picture, or focus it with Tab and the arrow keys, for details.";
  box.append(said, scrolling("All heads", arrows(grid)));
  const values = await numbers("thumbnails");
  const ink = colour("plus");
  whenSeen([...grid.querySelectorAll("button")], (button) => {
    const { layer, head } = button.dataset;
    drawPicture(button.firstChild, values, Number(layer) * facts.heads + Number(head), ink);
  });
}

function describe(layer, head) {
  if (!facts.kept[layer][head]) return `Layer ${facts.layers[layer]}, head ${head} was pruned.`;
  const most = `${quoted(facts.most[layer][head])} receives ${percent(facts.most_share[layer][head])} of all attention`;
  return `Layer ${facts.layers[layer]}, head ${head}: ${most}, more than any other token.`;
}

function picture(layer, head) {
  const kept = facts.kept[layer][head];
  return element("button", { type: "button", class: "picture", "data-row": layer, "data-column": head,
    "data-layer": layer, "data-head": head, tabindex: -1, disabled: !kept, "aria-label": describe(layer, head),
    click: () => {
      Object.assign(state, { layer, head });
      openView("heads");
    } }, element("canvas"), element("small", {}, kept ? percent(facts.most_share[layer][head]) : "pruned"));
}

function drawPicture(canvas, values, place, ink) {
  const T = facts.arrays.thumbnails.shape[3];
  const drawing = pen(canvas, SIDE, SIDE);
  const own = values.subarray(place * T * T, (place + 1) * T * T);
  const [most, wide] = [largest(own), SIDE / T];
  drawing.fillStyle = ink;
  own.forEach((value, n) => {
    drawing.globalAlpha = most ? Math.sqrt(value / most) : 0;
    drawing.fillRect((n % T) * wide, Math.floor(n / T) * wide, wide, wide);
  });
}
