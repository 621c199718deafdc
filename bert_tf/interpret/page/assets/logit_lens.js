// Logit lens: the predictions of the masked-LM head at each position, from each layer.

view("logit_lens", "Logit lens", "Predictions of the masked-LM head at each position if the layer were the last: " +
  "the most likely token and its probability. Layer 0 is the input of the first layer; the last one is the model's " +
  "prediction. Hover over a cell, or focus it with Tab and the arrow keys, for more.", show);

async function show(box) {
  const { tokens, which, shape: [L, S, K] } = facts.masked;
  const [shares, own] = [await numbers("masked"), await numbers("masked_own")];
  const at = (layer, place) => (layer * S + place) * K;
  const detail = element("div", { class: "detail", role: "status" });
  const tell = ({ target }) => {
    const cell = target.closest("[data-row]");
    if (cell) describe(Number(cell.dataset.row), Number(cell.dataset.column));
  };
  function describe(place, layer) {
    const start = at(layer, place);
    const names = Array.from({ length: K }, (_, k) => tokens[which[start + k]]).filter(Boolean);
    const rows = names.map((name, k) => [name, bar(percent(shares[start + k]), shares[start + k])]);
    detail.replaceChildren(element("p", {}, names.length
      ? `After layer ${layer}, at ${quoted(place)}, whose own probability is ${percent(own[layer * S + place])}:`
      : `A causal (left-to-right) model predicts nothing at ${quoted(place)}.`), table([], rows, "Most likely tokens"));
  }
  const rows = facts.tokens.map((_, place) => element("tr", { "data-place": place }));
  const fill = (row) => {
    const place = Number(row.dataset.place);
    row.replaceChildren(element("th", { scope: "row" }, facts.tokens[place]), ...Array.from({ length: L }, (_, layer) => {
      const [name, share] = [tokens[which[at(layer, place)]], shares[at(layer, place)]];
      return element("td", { class: "shade", share }, element("button", { type: "button", class: "cell",
        "data-row": place, "data-column": layer, tabindex: place + layer ? -1 : 0 },
      element("span", { class: name === facts.tokens[place] ? "same" : "" }, name || "\u2013"),
      element("small", {}, name ? percent(share) : "")));
    }));
  };
  const names = Array.from({ length: L }, (_, layer) => element("th", { scope: "col" }, `layer ${layer}`));
  const grid = element("table", { class: "words", mouseover: tell, focusin: tell },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "token"), names)), element("tbody", {}, rows));
  const scroller = scrolling("Layers and positions", arrows(grid));
  scroller.classList.add("tall");
  fill(rows[0]);
  box.append(detail, scroller, element("p", { class: "note" }, "Underlined: equal to the token at this position."));
  describe(state.token, L - 1);
  whenSeen(rows.slice(1), fill, scroller);
}
