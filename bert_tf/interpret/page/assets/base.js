// What all views stand on: facts, arrays that are unpacked when they are first seen, elements, numbers as text.

const facts = JSON.parse(document.getElementById("facts").textContent);
const shown = {}; // name of a view -> {title, about, show}
const state = { layer: 0, head: 0, token: Math.max(0, facts.of_text.findIndex((text) => text >= 0)), others: [] };

const MANY = 2 ** 24; // numbers that are kept unpacked
const unpacked = new Map(); // the ones used last stand last
let halves = null; // float16 -> number

function view(name, title, about, show) {
  shown[name] = { title, about, show };
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name === "heads") made.style.setProperty("--heads", value);
    else if (name === "share") made.style.setProperty("--share", Math.min(1, Math.max(0, value)));
    else if (name.startsWith("aria-")) made.setAttribute(name, value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat());
  return made;
}

// Returns a promise of one part of an array, a Float32Array.
function numbers(name, part = 0) {
  const key = `${name}-${part}`;
  const found = unpacked.get(key) ?? unpack(name, part);
  unpacked.delete(key);
  unpacked.set(key, found);
  let total = 0;
  for (const each of [...unpacked.keys()].reverse()) {
    total += size(each.slice(0, each.lastIndexOf("-")));
    if (total > MANY && each !== key) unpacked.delete(each);
  }
  return found;
}

function size(name) {
  return facts.arrays[name].shape.reduce((a, b) => a * b, 1);
}

async function unpack(name, part) {
  const { kind, scales } = facts.arrays[name].parts[part];
  const text = atob(document.getElementById(`${name}-${part}`).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(stream).arrayBuffer();
  if (kind === "half") return fromHalves(new Uint16Array(data));
  const values = new Float32Array(data.byteLength);
  const whole = kind === "root" ? new Uint8Array(data) : new Int8Array(data);
  const run = whole.length / scales.length;
  scales.forEach((scale, n) => {
    for (let i = n * run; i < (n + 1) * run; i++) values[i] = scale * (kind === "root" ? whole[i] ** 2 : whole[i]);
  });
  return values;
}

function fromHalves(bits) {
  halves ??= Float32Array.from({ length: 65536 }, (_, n) => {
    const [exponent, rest] = [(n >> 10) & 31, n & 1023];
    return (n >> 15 ? -1 : 1) * (exponent ? (1 + rest / 1024) * 2 ** (exponent - 15) : rest * 2 ** -24);
  });
  return Float32Array.from(bits, (n) => halves[n]);
}

// Numbers as text, in as many characters everywhere.
function plain(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) ? `\u2212${text}` : text;
}

function weightText(value) {
  return plain(value, value >= 0.0995 ? 2 : 3);
}

function percent(value) {
  return `${plain(100 * value, value >= 0.0995 ? 0 : 1)}%`;
}

function quoted(token) {
  return `\u201c${facts.tokens[token]}\u201d`;
}

function largest(values) {
  let most = 0;
  for (const value of values) most = Math.max(most, Math.abs(value));
  return most;
}

// Of which only one number in fifty is farther from 0: bars are drawn to that scale, lest a few outliers flatten all.
function usual(values) {
  const sizes = Float32Array.from(values, Math.abs).sort();
  return sizes[Math.ceil(0.98 * sizes.length) - 1] || sizes[sizes.length - 1];
}

function norm(values) {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}

// Drawing.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function hue(head) {
  return `hsl(${(215 + 137.5 * head) % 360} 65% ${colour("lightness")})`;
}

// Makes a canvas so large, in the page's pixels, and returns what draws on it.
function pen(canvas, width, height) {
  const dense = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const drawing = canvas.getContext("2d");
  drawing.scale(dense, dense);
  return drawing;
}

// Draws numbers side by side: up where they are above 0, down where they are below, so that no colour is needed.
function drawBars(canvas, values, most, width, height = 32) {
  const drawing = pen(canvas, width, height);
  const [middle, wide] = [height / 2, width / values.length];
  const [plus, minus] = [colour("plus"), colour("minus")];
  drawing.fillStyle = colour("line");
  drawing.fillRect(0, middle - 0.25, width, 0.5);
  values.forEach((value, n) => {
    const tall = most ? Math.max(-1, Math.min(1, value / most)) * (middle - 1) : 0;
    drawing.fillStyle = value > 0 ? plus : minus;
    drawing.fillRect(n * wide, middle - Math.max(tall, 0), Math.max(wide - (wide > 2 ? 0.6 : 0), 0.4), Math.abs(tall));
  });
}

function barCanvas(label) {
  return element("canvas", { role: "img", "aria-label": label, class: "bars" });
}
