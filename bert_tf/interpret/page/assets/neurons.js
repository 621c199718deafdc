// Neurons: how a query and the keys make the attention weights of one token.

const S = facts.tokens.length;
const [, , D] = facts.arrays.query.shape;
const WIDTH = Math.min(256, Math.max(96, 3 * D));
const POSITIONS = "positions" in facts.arrays; // scores of relative positions, which are added to the sum of products
const TERMS = facts.position_terms; // how many of them the divisor counts
const SCALE = Math.sqrt((1 + TERMS) * D);
const DIVISOR = TERMS ? `\u221a(${1 + TERMS} \u00d7 ${D})` : `\u221a${D}`;

view("neurons", "Neurons", `The query of a token, ${D} dimensions, is multiplied elementwise with the key of each token. ` +
  `The sum of the products${POSITIONS ? " and of the scores of relative positions," : ""} divided by ${DIVISOR} is the ` +
  "score, and the softmax of the scores gives the weights. Bars point up for positive values and down for negative " +
  "ones; the largest 2% are clipped.", show);

async function show(box) {
  const found = element("div");
  const update = async () => {
    const names = ["weights", "query", "key", ...(POSITIONS ? ["positions"] : [])];
    const [weights, query, key, positions] = await Promise.all(names.map((each) => numbers(each, state.layer)));
    const cut = (values, token) => values.subarray((state.head * S + token) * D, (state.head * S + token + 1) * D);
    const start = (state.head * S + state.token) * S;
    fill(found, cut(query, state.token), facts.tokens.map((_, n) => cut(key, n)), weights.subarray(start, start + S),
      positions?.subarray(start, start + S));
  };
  box.append(element("div", { class: "controls" }, pickLayer(update), pickHead(update)),
    pieceChips("Query of token", update), found);
  await update();
}

function fill(found, query, keys, weights, positions) {
  if (!facts.kept[state.layer][state.head]) {
    found.replaceChildren(element("p", {}, "This head was pruned: it has no queries and keys."));
    return;
  }
  const products = keys.map((key) => key.map((value, d) => value * query[d]));
  const dots = products.map((each) => each.reduce((a, b) => a + b, 0));
  const all = (rows) => usual(rows.flatMap((row) => [...row]));
  const most = { key: all(keys), product: all(products), dot: largest(dots) };
  const own = barCanvas(`Query of ${quoted(state.token)}`);
  drawBars(own, query, usual(query), WIDTH);
  const detail = element("div");
  const choose = (n) => detail.replaceChildren(...pairOf(n, query, keys[n], products[n], dots[n], weights[n]));
  const rows = keys.map((_, n) => rowOf(n, dots[n], most.dot, weights[n], positions?.[n], choose));
  const score = POSITIONS ? ["positions", `score, (sum + positions) / ${DIVISOR}`] : [`score, sum / ${DIVISOR}`];
  const names = ["Key of", "key", "query \u00d7 key", "sum", ...score, "weight"];
  const head = element("tr", {}, names.map((name) => element("th", { scope: "col" }, name)));
  const body = element("tbody", {}, rows);
  const scroller = scrolling("Keys", arrows(element("table", { class: "neurons" }, element("thead", {}, head), body)));
  scroller.classList.add("tall");
  found.replaceChildren(element("p", { class: "query" }, element("span", {}, `Query of ${quoted(state.token)}`), own),
    scroller, detail);
  whenSeen(rows, (row) => {
    const n = rows.indexOf(row);
    const [key, product] = row.querySelectorAll("canvas");
    drawBars(key, keys[n], most.key, WIDTH);
    drawBars(product, products[n], most.product, WIDTH);
  }, scroller);
  choose([...weights.keys()].reduce((a, b) => (weights[b] > weights[a] ? b : a)));
}

function rowOf(n, dot, most, weight, position, choose) {
  const hidden = facts.causal && n > state.token;
  const [key, product] = [`Key of ${quoted(n)}`, `Query times key of ${quoted(n)}`].map(barCanvas);
  [key, product].forEach((canvas) => (canvas.width = canvas.height = 0));
  const name = element("button", { type: "button", class: "token", "data-row": n, "data-column": 0, tabindex: -1,
    click: () => choose(n) }, facts.tokens[n]);
  return element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "drawn" }, key),
    element("td", { class: "drawn" }, product), bar(plain(dot), Math.abs(dot) / most, Math.sign(dot)),
    ...(POSITIONS ? [element("td", {}, plain(position))] : []), element("td", {}, plain((dot + (position ?? 0)) / SCALE)),
    bar(hidden ? "hidden" : weightText(weight), weight));
}

function pairOf(n, query, key, product, dot, weight) {
  const most = largest(product);
  const order = [...product.keys()].sort((a, b) => Math.abs(product[b]) - Math.abs(product[a]));
  const rows = order.map((d) => [String(d), plain(query[d], 3), plain(key[d], 3),
    bar(plain(product[d], 3), most && Math.abs(product[d]) / most, Math.sign(product[d]))]);
  const heading = `${quoted(state.token)} attends to ${quoted(n)}: sum ${plain(dot)}, weight ${weightText(weight)}`;
  const numbersOf = table(["dimension", "query", "key", "product"], rows, heading);
  numbersOf.classList.add("tall");
  return [element("h3", {}, heading), element("p", {}, "All dimensions, by absolute product:"), numbersOf];
}
