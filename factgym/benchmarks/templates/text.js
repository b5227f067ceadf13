"use strict";
// Everything foreign reaches the document through text nodes made here, never as markup.

const BAR_FULL = 100;
const SVG = "http://www.w3.org/2000/svg";
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{d800}-\u{dfff}\u{e0000}-\u{e007f}]/gu;

const byId = (id) => document.getElementById(id);
const label = (name) => name.replaceAll("_", " ");
const fixed = (value, places) => (value === null || value === undefined ? "\u2013" : (Math.round(value * 10 ** places) / 10 ** places + 0).toFixed(places));

function el(tag, kind, ...children) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  for (const child of children) {
    if (child instanceof Node) node.append(child);
    else if (child !== null && child !== undefined && child !== "") put(node, String(child));
  }
  return node;
}

// Characters that hide or reorder others are shown by their number instead.
function put(node, text) {
  let last = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > last) node.append(document.createTextNode(text.slice(last, found.index)));
    const sign = document.createElement("mark");
    sign.className = "ctl";
    sign.textContent = "U+" + found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    node.append(sign);
    last = found.index + found[0].length;
  }
  if (last < text.length) node.append(document.createTextNode(text.slice(last)));
}

// The nearest place at or before `at` that does not part the two halves of a character.
function whole(text, at) {
  const code = text.charCodeAt(at);
  return at > 0 && code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}

function textBlock(kind, text) {
  const node = el("div", "text-block " + kind, text);
  node.dir = "auto";
  return node;
}

const MARKS = { g: "gold fact", q: "submitted quote", u: "not carried by the evidence", m: "marked by the agent" };

function marked(kind, pieces) {
  const node = el("div", "text-block " + kind);
  node.dir = "auto";
  for (const [text, marks] of pieces) {
    if (!marks) { put(node, text); continue; }
    const mark = el("mark", [...marks].join(" "), text);
    mark.title = [...marks].map((one) => MARKS[one]).join(", ");
    node.append(mark);
  }
  return node;
}

function legend(pieces, names) {
  const seen = new Set(pieces.flatMap((piece) => [...piece[1]]));
  const shown = [...names].filter((name) => seen.has(name));
  return shown.length ? el("p", "legend", ...shown.map((name) => el("mark", name, MARKS[name]))) : null;
}

function bar(value) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "bar");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const [kind, share] of [["track", 1], ["fill", Math.min(1, Math.max(0, value || 0))]]) {
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", kind);
    rect.setAttribute("x", "0");
    rect.setAttribute("y", "3.5");
    rect.setAttribute("height", "3");
    rect.setAttribute("width", String(share * BAR_FULL));
    svg.append(rect);
  }
  return svg;
}

function plural(n, noun, several) {
  return n.toLocaleString("en-US") + " " + (n === 1 ? noun : several ?? noun + "s");
}

function nth(row) {
  return row.group.length > 1 ? el("span", "nth num", "sample " + row.sample) : null;
}

const thousands = (value) => Math.round(value).toLocaleString("en-US");

function duration(seconds) {
  if (seconds >= 60) return Math.floor(Math.round(seconds) / 60) + " min " + (Math.round(seconds) % 60) + " s";
  if (seconds >= 1) return fixed(seconds, seconds >= 10 ? 1 : 2) + " s";
  return fixed(1000 * seconds, seconds >= 0.01 || seconds === 0 ? 0 : 1) + " ms";
}
