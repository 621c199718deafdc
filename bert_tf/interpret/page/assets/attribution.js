// Attribution: the contribution of each word to the score of a prediction, in the text's own characters.

const why = facts.attribution; // none where the model has no head
const most = largest(why?.word_values ?? []);
const DIGITS = most ? Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(most)))) : 2;

view("attribution", "Attribution", "Integrated gradients: the contribution of each word to the score of the prediction, " +
  "compared with the baseline, in which all tokens are [PAD]. A solid line below a word: it supports " +
  "the prediction; a dotted one: it counts against it.", show);

function show(box) {
  const detail = readout();
  detail.textContent = "Hover over a word, or focus it with Tab and the arrow keys, to see its tokens.";
  const texts = facts.texts.map((text, n) => element("p", { class: "words" }, marked(text, n)));
  const spoken = element("div", { role: "group", "aria-label": "Words" }, texts);
  const tell = ({ target }) => {
    const word = target.closest("[data-column]");
    if (word) detail.textContent = piecesOf(Number(word.dataset.column));
  };
  spoken.addEventListener("mouseover", tell);
  spoken.addEventListener("focusin", tell);
  box.append(answer(), arrows(spoken), detail, element("div", { class: "split" },
    element("div", {}, element("h3", {}, "Words by absolute contribution"), words()),
    element("div", {}, ...(why.logits.length ? [element("h3", {}, "Labels"), logits()] : []),
      element("h3", {}, "Score and baseline"), scores())));
}

function answer() {
  const place = why.places && why.places[0] === why.places[1] ? ` at ${quoted(why.places[0])}` : "";
  const title = why.several ? "Most likely label: " : "Prediction: ";
  return element("p", { class: "answer" }, why.chosen ? "Target: " : title,
    element("strong", {}, why.target || "(none)"), place);
}

// The text as it is, its words as buttons.
function marked(text, n) {
  const [characters, parts] = [[...text], []];
  let end = 0;
  facts.words.forEach((word, place) => {
    if (word.of_text !== n) return;
    if (word.start > end) parts.push(characters.slice(end, word.start).join(""));
    end = word.end;
    const value = why.word_values[place];
    const own = why.places !== null && facts.word_of_token.slice(why.places[0], why.places[1] + 1).includes(place);
    const classes = ["word", ...(value < 0 ? ["below"] : []), ...(own ? ["own"] : [])].join(" ");
    const share = most ? Math.abs(value) / most : 0;
    parts.push(element("button", { type: "button", class: classes, share, "data-row": 0,
      "data-column": place, tabindex: -1, "aria-label": `${word.text} ${signed(value)}${own ? ", part of the prediction" : ""}` },
    element("span", {}, word.text), element("small", {}, signed(value))));
  });
  return [...parts, characters.slice(end).join("")];
}

function signed(value) {
  const text = plain(value, DIGITS);
  return value > 0 && Number(text) ? `+${text}` : text;
}

function piecesOf(word) {
  const own = facts.tokens.map((_, n) => n).filter((n) => facts.word_of_token[n] === word);
  const list = own.map((n) => `${facts.tokens[n]} ${signed(why.values[n])}`).join(", ");
  return `\u201c${facts.words[word].text}\u201d contributes ${signed(why.word_values[word])}. Its tokens: ${list}`;
}

function scores() {
  const difference = why.score - why.baseline_score;
  const gap = why.gap === null ? "the scores are the same" : `${plain(100 * why.gap, 3)}% of the difference`;
  return table([], [
    ["score (logit)", plain(why.score, 3)],
    ["baseline score (all tokens [PAD])", plain(why.baseline_score, 3)],
    ["difference, the sum of contributions", plain(difference, 3)],
    ["completeness gap", gap],
    ["integration steps", String(why.steps)],
  ], "Scores");
}

function words() {
  const order = why.word_values.map((_, n) => n).sort((a, b) => Math.abs(why.word_values[b]) - Math.abs(why.word_values[a]));
  const made = table(["word", "position", "contribution"], order.map((n) => [facts.words[n].text, String(n),
    bar(signed(why.word_values[n]), most && Math.abs(why.word_values[n]) / most, Math.sign(why.word_values[n]))]), "Words");
  made.classList.add("tall");
  return made;
}

// The probabilities of a server, if the model's task is known; otherwise the softmax.
function logits() {
  const top = Math.max(...why.logits);
  const powers = why.logits.map((value) => Math.exp(value - top));
  const total = powers.reduce((a, b) => a + b, 0);
  const shares = why.probabilities ?? powers.map((power) => power / total);
  const order = shares.map((_, n) => n).sort((a, b) => shares[b] - shares[a]);
  const several = why.logits.length > 1;
  const titles = ["label", "logit", ...(several ? [why.probabilities ? "probability" : "softmax"] : [])];
  return table(titles, order.map((n) => [why.labels[n], plain(why.logits[n], 3),
    ...(several ? [bar(percent(shares[n]), shares[n])] : [])]), "Labels");
}
