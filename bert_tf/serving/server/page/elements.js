// Nodes of the page. Text becomes text nodes, never markup.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function table(rows) {
  const line = ([name, ...cells]) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell)));
  return element("table", {}, ...rows.map(line));
}

export function percent(share) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(1)}%` : "not a number";
}

export function decimal(value) {
  return Number.isFinite(value) ? value.toFixed(3) : "not a number";
}
