// What several views have: choices, tokens in a row, movement by arrow keys, rows that are filled when they are seen.

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function choice(label, names, chosen, change) {
  const options = names.map((name, n) => element("option", { value: n }, name));
  const select = element("select", { change: () => change(Number(select.value)) }, options);
  select.value = chosen;
  return element("label", {}, `${label} `, select);
}

function pickLayer(change) {
  return choice("Layer", facts.layers.map(String), state.layer, (layer) => {
    state.layer = layer;
    change();
  });
}

function pickHead(change) {
  return choice("Head", Array.from({ length: facts.heads }, (_, head) => String(head)), state.head, (head) => {
    state.head = head;
    change();
  });
}

// Lets arrow keys, Home and End move the focus among what has data-row and data-column; Tab goes past all of it.
function arrows(box) {
  box.addEventListener("focusin", ({ target }) => {
    if (target.dataset.row === undefined) return;
    box.querySelectorAll('[data-row][tabindex="0"]').forEach((each) => (each.tabIndex = -1));
    target.tabIndex = 0;
  });
  box.addEventListener("keydown", (event) => {
    const { row, column } = event.target.dataset;
    if (row === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    const next = { Home: first, End: last }[event.key]?.(box) ?? neighbour(box, Number(row), Number(column), event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  const items = box.querySelectorAll("[data-row]");
  if (items.length && !box.querySelector('[data-row][tabindex="0"]')) items[0].tabIndex = 0;
  return box;
}

function first(box) {
  return box.querySelector("[data-row]");
}

function last(box) {
  return [...box.querySelectorAll("[data-row]")].pop();
}

function neighbour(box, row, column, key) {
  const step = STEPS[key];
  return step && box.querySelector(`[data-row="${row + step[0]}"][data-column="${column + step[1]}"]`);
}

// All tokens in the text's order, one of them chosen, or several: `pressed(n)` says which.
function chips(label, pressed, change) {
  const buttons = facts.tokens.map((token, n) =>
    element("button", {
      type: "button", class: "token", "data-row": 0, "data-column": n, tabindex: -1, "aria-pressed": pressed(n),
      click: () => {
        change(n);
        buttons.forEach((button, k) => button.setAttribute("aria-pressed", pressed(k)));
      },
    }, token));
  (buttons.find((_, n) => pressed(n)) ?? buttons[0]).tabIndex = 0;
  return element("div", {}, element("p", { class: "name" }, label),
    arrows(element("div", { class: "chips", role: "group", "aria-label": label }, buttons)));
}

function pieceChips(label, change) {
  return chips(label, (n) => n === state.token, (n) => {
    state.token = n;
    change();
  });
}

// Fills each element when it comes near what is seen of `root`, a box that scrolls, or of the page.
function whenSeen(elements, fill, root = null) {
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      watch.unobserve(target);
      fill(target);
    }
  }, { root, rootMargin: "400px" });
  elements.forEach((each) => watch.observe(each));
}

// A table of cells: text, or elements. The first cell of a row is its name.
function table(columns, rows, label) {
  const head = element("tr", {}, columns.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map(([name, ...cells]) => element("tr", {}, element("th", { scope: "row" }, name),
    cells.map((cell) => (cell instanceof Node && cell.tagName === "TD" ? cell : element("td", {}, cell)))));
  const parts = [element("thead", {}, head), element("tbody", {}, body)];
  return scrolling(label, element("table", {}, columns.length ? parts : parts[1]));
}

function scrolling(label, ...children) {
  return element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label }, children);
}

// A cell that is the darker the greater `share` is, and one with a bar behind its number.
function shade(text, share) {
  return element("td", { class: "shade", share }, text);
}

function bar(text, share, sign = 1) {
  return element("td", { class: sign < 0 ? "bar below" : "bar", share }, text);
}

// "As numbers": a table that is made when it is opened.
function folded(summary, make) {
  const details = element("details", {
    toggle: () => {
      if (details.open && details.children.length === 1) details.append(make());
    },
  }, element("summary", {}, summary));
  return details;
}

function readout() {
  return element("p", { class: "readout", role: "status" });
}
