// Examples to click, chosen by what a signature takes and returns, so that they fit any model of the task.

const FILMS = [
  "A warm, funny and beautifully acted film that I would gladly see again.",
  "A dull and lifeless film with a plot that makes no sense at all.",
  "The first half is slow, but the ending makes up for it.",
];
const PAIRS = [
  ["A man is playing a guitar.", "Somebody is playing an instrument."],
  ["How do I reset my password?", "Where is the nearest train station?"],
];
const CONTEXT = "Joan Baez was born in New York City in 1941. She released her first album in 1960 and sang at the March on " +
  "Washington in 1963.";
const CHOICES = ["She walks in.", "She reads the menu backwards.", "The door eats an apple."];

// Each entry: an output that tells the task, or none for any, the inputs, and for each example the texts of these inputs.
const EXAMPLES = [
  ["entity", ["text"], [[CONTEXT], ["Angela Merkel met the directors of Siemens in Munich on Tuesday."]]],
  ["token", ["text"], [["The capital of France is [MASK]."], ["She [MASK] the door and walked in."]]],
  ["embedding", ["text"], [["A man plays the guitar.\nSomebody makes music.\nThe stock market fell.\nShares lost value."]]],
  ["answer", ["question", "context"], [["Where was Joan Baez born?", CONTEXT], ["When did her first album appear?", CONTEXT]]],
  ["choice", ["context", "choices"], [["She opens the door of the restaurant.", CHOICES]]],
  ["order", ["query", "documents"], [["Where was Joan Baez born?", [CONTEXT, ...FILMS]]]],
  [null, ["text"], FILMS.map((text) => [text])],
  [null, ["text_a", "text_b"], PAIRS],
];

// Returns [name, {input: list of texts}] of each example for a signature.
export function examplesFor({ inputs, outputs }) {
  const names = Object.keys(inputs).sort();
  const found = EXAMPLES.find(([output, own]) =>
    (output === null || output in outputs) && [...own].sort().join() === names.join());
  if (!found) return [];
  const [, own, examples] = found;
  return examples.map((texts) => [texts[0], Object.fromEntries(own.map((name, n) => [name, [texts[n]].flat()]))]);
}
