// The tabs, and which view is open. A link may name one: page.html#layers

const [tabs, panel] = ["tabs", "panel"].map((id) => document.getElementById(id));

function openView(name) {
  const { title, about, show } = shown[name] ?? {};
  const missing = facts.views.find((each) => each.name === name).missing;
  for (const tab of tabs.children) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  const box = element("div", { "data-view": name });
  panel.setAttribute("aria-labelledby", `tab-${name}`);
  panel.replaceChildren(element("h2", {}, title), element("p", { class: "about" }, about), box);
  if (missing) {
    box.append(element("p", { class: "missing" }, "Not available for this model. ", missing));
    return;
  }
  box.setAttribute("aria-busy", "true");
  Promise.resolve(show(box)).then(() => box.removeAttribute("aria-busy"));
}

// The address names the view, to be copied; a frame in a notebook has none of its own.
function choose(name) {
  openView(name);
  if (location.protocol !== "about:") history.replaceState(null, "", `#${name}`);
}

function opened() {
  return panel.querySelector("[data-view]").dataset.view;
}

tabs.append(...facts.views.map(({ name }, n) => element("button", { type: "button", role: "tab", id: `tab-${name}`,
  "aria-controls": "panel", "data-row": 0, "data-column": n, click: () => choose(name) }, shown[name].title)));
arrows(tabs);
tabs.addEventListener("focusin", ({ target }) => target.id !== `tab-${opened()}` && target.matches(":focus-visible") &&
  target.click());
document.getElementById("texts").append(...facts.texts.map((text, n) => element("p", {},
  ...(facts.texts.length > 1 ? [element("b", {}, `${"ab"[n]} `)] : []), text)));
document.getElementById("texts").append(...facts.notes.map((note) => element("p", { class: "missing" }, note)));

function asked() {
  return facts.views.find(({ name }) => name === location.hash.slice(1))?.name;
}

openView(asked() ?? facts.views[0].name);
addEventListener("hashchange", () => asked() && asked() !== opened() && openView(asked()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => openView(opened()));
