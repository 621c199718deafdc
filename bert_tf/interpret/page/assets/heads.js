// Heads: tokens on both sides, and lines between them by weight.

const ROW = 24; // height of a token
const LINES = 3000; // at most so many are drawn
const FILTERS = { all: () => true, "a \u2192 a": [0, 0], "a \u2192 b": [0, 1], "b \u2192 a": [1, 0], "b \u2192 b": [1, 1] };
const FROM = 0, TO = 1; // the sides
const S = facts.tokens.length;

view("heads", "Heads", "Attention from each token (left) to each token (right) in one layer: wider and darker lines are " +
  "larger weights. Hover over a token, or focus it with Tab and the arrow keys, to see only its lines, with numbers; " +
  "Escape shows all lines.",
show);

async function show(box) {
  const chosen = new Set([state.head]);
  const look = { filter: "all", least: 0.1, hovered: null, focused: null, weights: null, lines: [] };
  const said = readout();
  const sides = [FROM, TO].map((side) => tokens(side, look, () => update()));
  const canvas = element("canvas", { "aria-hidden": "true" });
  const rows = element("div", { class: "lines" }, sides[FROM].list, canvas, sides[TO].list);
  rows.style.height = `${S * ROW}px`;
  const scroller = element("div", { class: "scroller" }, arrows(rows));

  async function load() {
    look.weights = await numbers("weights", state.layer);
    buttons.forEach((button, head) => (button.disabled = !facts.kept[state.layer][head]));
    choose();
  }
  function choose() {
    look.lines = strongest(look, chosen);
    buttons.forEach((button, head) => button.setAttribute("aria-pressed", chosen.has(head)));
    update();
  }
  function update() {
    const active = look.hovered ?? look.focused;
    const found = active && totals(look.weights, chosen, active);
    sides.forEach(({ mark }, side) => mark(active, active && side !== active.side ? found : null));
    said.textContent = active ? sentence(active, found, chosen) : overview(look, chosen);
    draw();
  }
  function draw() {
    const active = look.hovered ?? look.focused;
    const height = Math.min(scroller.clientHeight, S * ROW);
    const width = Math.max(60, rows.clientWidth - 2 * sides[FROM].list.offsetWidth);
    canvas.style.top = `${scroller.scrollTop}px`;
    drawLines(pen(canvas, width, height), active ? linesOf(look, chosen, active) : look.lines, width, height,
      scroller.scrollTop, chosen.size > 1);
  }
  const toggle = (head) => {
    if (!chosen.delete(head)) chosen.add((state.head = head));
    choose();
  };
  const buttons = Array.from({ length: facts.heads }, (_, head) => headButton(head, () => toggle(head)));
  const several = (...heads) => () => {
    chosen.clear();
    heads.forEach((head) => facts.kept[state.layer][head] && chosen.add(head));
    choose();
  };
  const every = Array.from({ length: facts.heads }, (_, head) => head);
  const least = element("input", {
    type: "range", min: 0, max: 100, value: 10, "aria-label": "Minimum weight, in percent of the largest",
    input: () => {
      look.least = Number(least.value) / 100;
      choose();
    },
  });
  box.append(
    element("div", { class: "controls" }, pickLayer(load), facts.texts.length > 1 ? choice("Token pairs",
      Object.keys(FILTERS), 0, (n) => {
        look.filter = Object.keys(FILTERS)[n];
        choose();
      }) : [], element("label", {}, "Minimum weight ", least)),
    element("div", { class: "controls", role: "group", "aria-label": "Heads" }, "Heads", buttons,
      element("button", { type: "button", click: several(...every) }, "All"),
      element("button", { type: "button", click: several() }, "None")),
    said, scroller);
  scroller.addEventListener("scroll", () => requestAnimationFrame(draw));
  new ResizeObserver(() => look.weights && draw()).observe(scroller);
  await load();
}

function headButton(head, click) {
  const swatch = element("span", { class: "swatch" });
  swatch.style.background = hue(head);
  return element("button", { type: "button", class: "head", "aria-pressed": false, click }, swatch, String(head));
}

// The tokens of one side: their list, and what marks one of them, or gives the others numbers.
function tokens(side, look, changed) {
  const at = (event) => event.target.closest("[data-row]");
  const set = (name) => (event) => {
    const found = at(event);
    look[name] = found && { side, token: Number(found.dataset.row) };
    changed();
  };
  const unset = (name) => () => {
    look[name] = null;
    changed();
  };
  const items = facts.tokens.map((token, n) => {
    const label = `${side === FROM ? "from" : "to"} ${token}`;
    return element("button", { type: "button", class: "token", "data-row": n, "data-column": side, tabindex: -1,
      "aria-label": label }, element("span", {}, token), element("span", { class: "number" }));
  });
  const list = element("div", { class: side === FROM ? "side from" : "side to", role: "group",
    "aria-label": side === FROM ? "Attending tokens" : "Attended tokens", mouseover: set("hovered"),
    mouseleave: unset("hovered"), focusin: set("focused"), focusout: unset("focused"),
    keydown: (event) => event.key === "Escape" && event.target.blur() }, items);
  function mark(active, found) {
    const most = found ? largest(found) : 0;
    items.forEach((item, n) => {
      item.classList.toggle("active", active?.side === side && active.token === n);
      item.lastChild.textContent = found && found[n] >= 0.0005 ? weightText(found[n]) : "";
      item.style.setProperty("--share", found ? found[n] / most : 0);
    });
  }
  return { list, mark };
}

// Mean weights over the chosen heads, from a token to all, or to it from all.
function totals(weights, chosen, { side, token }) {
  const found = new Float32Array(S);
  for (const head of chosen) {
    for (let n = 0; n < S; n++) {
      const [i, j] = side === FROM ? [token, n] : [n, token];
      found[n] += weights[(head * S + i) * S + j] / chosen.size;
    }
  }
  return found;
}

function passes(filter, i, j) {
  const wanted = FILTERS[filter];
  return filter === "all" || (facts.of_text[i] === wanted[0] && facts.of_text[j] === wanted[1]);
}

// Returns [head, from, to, weight] of the greatest weights of all.
function strongest(look, chosen) {
  const passing = Uint8Array.from({ length: S * S }, (_, n) => passes(look.filter, Math.floor(n / S), n % S));
  const each = (act) => {
    for (const head of chosen) {
      for (let n = 0; n < S * S; n++) if (passing[n]) act(look.weights[head * S * S + n], head, n);
    }
  };
  let most = 0;
  each((weight) => (most = Math.max(most, weight)));
  const [bins, counts] = [1000, new Uint32Array(1001)];
  const bin = (weight) => Math.floor(bins * Math.sqrt(weight / most));
  if (most) each((weight) => counts[bin(weight)]++);
  let [low, total] = [bins, counts[bins]];
  while (low > 0 && total + counts[low - 1] <= LINES && ((low - 1) / bins) ** 2 >= look.least) total += counts[--low];
  const lines = [];
  if (most) {
    each((weight, head, n) => {
      if (weight && bin(weight) >= low && lines.length < LINES) lines.push([head, Math.floor(n / S), n % S, weight]);
    });
  }
  return lines;
}

function linesOf(look, chosen, { side, token }) {
  const lines = [];
  for (const head of chosen) {
    for (let n = 0; n < S; n++) {
      const [i, j] = side === FROM ? [token, n] : [n, token];
      const weight = look.weights[(head * S + i) * S + j];
      if (weight >= 0.0005) lines.push([head, i, j, weight]);
    }
  }
  return lines;
}

function drawLines(drawing, lines, width, height, top, byHead) {
  const most = lines.reduce((so, line) => Math.max(so, line[3]), 0);
  const plus = colour("plus");
  for (const [head, i, j, weight] of lines) {
    const [from, to] = [(i + 0.5) * ROW - top, (j + 0.5) * ROW - top];
    if (Math.max(from, to) < 0 || Math.min(from, to) > height) continue;
    drawing.globalAlpha = 0.12 + (0.88 * weight) / most;
    drawing.lineWidth = 0.4 + (4 * weight) / most;
    drawing.strokeStyle = byHead ? hue(head) : plus;
    drawing.beginPath();
    drawing.moveTo(0, from);
    drawing.bezierCurveTo(width / 2, from, width / 2, to, width, to);
    drawing.stroke();
  }
}

function where(chosen) {
  const heads = [...chosen].sort((a, b) => a - b);
  const named = heads.length === 1 ? `head ${heads[0]}` : `mean of ${heads.length} heads`;
  return `Layer ${facts.layers[state.layer]}, ${named}`;
}

function sentence({ side, token }, found, chosen) {
  if (!chosen.size) return "No head is selected.";
  const order = [...found.keys()].sort((a, b) => found[b] - found[a]).slice(0, 5);
  const list = order.map((n) => `${facts.tokens[n]} ${weightText(found[n])}`).join(", ");
  return `${where(chosen)}: ${quoted(token)} ${side === FROM ? "attends to" : "receives attention from"} ${list}`;
}

function overview(look, chosen) {
  if (!chosen.size) return "No head is selected.";
  if (!look.lines.length) return `${where(chosen)}: no lines`;
  const count = look.lines.length.toLocaleString("en");
  return `${where(chosen)}: ${count === "1" ? "1 line" : `the ${count} strongest lines`}`;
}
