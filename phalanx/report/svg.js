"use strict";
// Small building blocks of the figures: elements, scales, ticks, colours.

const ROBOT_COLOURS = ["#4f8cff", "#f2a33a", "#2fbf8f", "#ea5f9a", "#9b7bff", "#2bb8c9", "#f0684f", "#93b83a"];
const MODE_COLOURS = { NOMINAL: "#2fbf8f", FILTERED: "#f2a33a", HOLD: "#4f8cff", LAND: "#ea5f9a", OFF: "#8d94a0", ESTOP: "#e5484d" };
const STATE_COLOURS = { POLICY: "#2fbf8f", "POLICY (HOLD)": "#f2a33a", ARMED: "#4f8cff", STARTING: "#9b7bff", LANDING: "#ea5f9a", STOPPED: "#e5484d", FAULT: "#e5484d", SILENT: "#e5484d" };
const robotColour = (index) => ROBOT_COLOURS[index % ROBOT_COLOURS.length];
const stateColour = (name) => STATE_COLOURS[name] || STATE_COLOURS[name.split(" ")[0]] || "#8d94a0";
const modeColour = (name) => MODE_COLOURS[name] || "#8d94a0";

const escapeText = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
const mixed = (a, b, share) => {
  const part = (colour, k) => parseInt(colour.slice(1 + 2 * k, 3 + 2 * k), 16);
  return `rgb(${[0, 1, 2].map((k) => Math.round((1 - share) * part(a, k) + share * part(b, k))).join(",")})`;
};
const html = (tag, attributes = {}, inner = "") => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.innerHTML = inner;
  return element;
};
const line = (x1, y1, x2, y2, kind) =>
  `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" class="${kind}"/>`;
const text = (x, y, content, kind = "", anchor = "start") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" class="${kind}" text-anchor="${anchor}">${escapeText(content)}</text>`;
const textWidth = (content) => 6.9 * String(content).length; // px at most, of the figures' 11.5 px letters
const path = (points, colour, width = 1.6, extra = "") =>
  `<path d="M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}" fill="none" stroke="${colour}" stroke-width="${width}" stroke-linejoin="round" ${extra}/>`;

const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

// Corners of the convex hull of [[x, y], ...]: Andrew's monotone chain.
function hull(points) {
  if (points.length < 3) return points;
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
  const half = (line) => {
    const chain = [];
    for (const p of line) {
      while (chain.length > 1 && turn(chain[chain.length - 2], chain[chain.length - 1], p) <= 0) chain.pop();
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return half(sorted).concat(half(sorted.reverse()));
}

function ticks(low, high, wanted) {
  const raw = (high - low || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(+(k * step).toPrecision(12));
  return out;
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)} k`;
  return `${+value.toPrecision(4)}`;
}

// Draws now and again whenever the width changes, so that text keeps its size on every screen.
function responsive(host, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(host.clientWidth);
    if (width > 40 && width !== last) { last = width; draw(width); }
  }).observe(host);
}
