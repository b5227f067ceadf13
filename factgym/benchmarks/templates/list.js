// The list: filters over all rows in memory, and only the rows in view in the document.

const ROW = 66;
const MARGIN = 6;
const ORDERS = {
  file: ["as played", () => 0],
  low: ["lowest value", (a, b) => (value(a) ?? 9e9) - (value(b) ?? 9e9)],
  high: ["highest value", (a, b) => (value(b) ?? -9e9) - (value(a) ?? -9e9)],
  turns: ["most turns", (a, b) => b.turns - a.turns],
  tokens: ["most tokens", (a, b) => (b.tokens ?? -1) - (a.tokens ?? -1), (row) => row.tokens !== null],
  seconds: ["slowest", (a, b) => (b.seconds ?? -1) - (a.seconds ?? -1), (row) => row.seconds !== null],
  task: ["by task", (a, b) => a.group[0].i - b.group[0].i || a.sample - b.sample, (row) => row.group.length > 1],
  spread: ["widest groups", (a, b) => b.spread - a.spread || a.group[0].i - b.group[0].i || a.sample - b.sample, (row) => row.group.length > 1],
};
const UNSET = {
  q: "", gold: "*", verdict: "*", state: "*", cause: "*", sample: "*", sort: "file", value: "", min: "", max: "",
  a: "0", b: "", change: "*",
};
let component = -1;

// Of the reward, or of the component that is chosen.
function value(row) {
  return component < 0 ? row.reward : row.parts[component] ?? null;
}

function readRows() {
  const index = JSON.parse(byId("index").textContent);
  const rows = index.rows.map((values, i) => {
    const row = { i };
    index.columns.forEach((name, k) => { row[name] = values[k]; });
    row.text = [row.task, row.question, row.answer, row.topic].join("\n").toLowerCase();
    row.rows = [row];
    return row;
  });
  groupRows(rows);
  const { golds, verdicts, components, runs } = index;
  return { rows, golds, verdicts, components, runs, entries: runs ? pairRows(rows, runs.length) : rows };
}

// Every row knows the samples of its task in its run, in order, and how far apart their rewards are.
function groupRows(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = (row.run ?? 0) + "\n" + row.task;
    const group = groups.get(key) ?? [];
    if (!group.length) groups.set(key, group);
    group.push(row);
  }
  for (const group of groups.values()) {
    group.sort((a, b) => a.sample - b.sample || a.i - b.i);
    const rewards = group.map((row) => row.reward).filter((reward) => reward !== null);
    const spread = rewards.length ? Math.max(...rewards) - Math.min(...rewards) : -1;
    for (const row of group) { row.group = group; row.spread = spread; }
  }
}

function fillSelect(id, options) {
  byId(id).replaceChildren(...options.map(([value, name]) => {
    const option = el("option", "", name);
    option.value = value;
    return option;
  }));
}

function fillFilters(data) {
  const states = Object.keys(STATES).filter((state) => data.rows.some((row) => row.state === state));
  fillSelect("gold", [["*", "any"], ...data.golds.map((one) => [one, label(one)])]);
  fillSelect("verdict", [["*", "any"], ...data.verdicts.map((one) => [one, label(one)]), ["", "none"]]);
  fillSelect("state", [["*", "any"], ...states.map((one) => [one, STATES[one]])]);
  const causes = [...new Set(data.rows.map((row) => row.cause))].filter(Boolean).sort();
  const codes = [...new Set(data.rows.flatMap((row) => row.codes))].filter((code) => !causes.includes(code)).sort();
  fillSelect("cause", [["*", "any"], ...causes.map((one) => [one, label(one)]), ...codes.map((one) => [one, "turn: " + label(one)])]);
  fillSelect("value", [["", "reward"], ...data.components.map((one) => [one, label(one)])]);
  const samples = [...new Set(data.rows.map((row) => row.sample))].sort((a, b) => a - b);
  fillSelect("sample", [["*", "any"], ...samples.map((one) => [String(one), String(one)])]);
  byId("cause").parentNode.hidden = !causes.length && !codes.length;
  byId("sample").parentNode.hidden = samples.length < 2;
  byId("gold").parentNode.hidden = !data.golds.length;
  byId("verdict").parentNode.hidden = !data.verdicts.length;
  const orders = data.runs ? Object.entries(PAIR_ORDERS) : Object.entries(ORDERS).filter(([, [, , known]]) => !known || data.rows.some(known));
  fillSelect("sort", orders.map(([key, [name]]) => [key, name]));
  if (data.runs) fillPairFilters(data.runs);
}

// Filters that this page has: those of pairs are on the page of several runs alone.
const filters = () => Object.keys(UNSET).filter((id) => byId(id));

function filterValues() {
  return { ...UNSET, ...Object.fromEntries(filters().map((id) => [id, byId(id).value])) };
}

function setFilters(values) {
  for (const id of filters()) {
    byId(id).value = values[id] ?? UNSET[id];
    if (byId(id).value === "" && byId(id).selectedIndex === -1) byId(id).value = UNSET[id];
  }
}

const wordsOf = (want) => want.q.toLowerCase().split(/\s+/).filter(Boolean);

// Entries that pass every filter but the words, which may be in a transcript.
function selectEntries(data, want) {
  component = data.components.indexOf(want.value);
  if (data.runs) setPair(data.runs.length, want);
  const min = want.min === "" ? null : Number(want.min);
  const max = want.max === "" ? null : Number(want.max);
  const fits = (row) =>
    (want.gold === "*" || row.gold === want.gold) &&
    (want.verdict === "*" || (row.verdict === want.verdict && (want.verdict !== "" || row.state === "silent"))) &&
    (want.state === "*" || row.state === want.state) &&
    (want.cause === "*" || row.cause === want.cause || row.codes.includes(want.cause)) &&
    (want.sample === "*" || String(row.sample) === want.sample) &&
    (min === null || (value(row) !== null && value(row) >= min - 1e-9)) &&
    (max === null || (value(row) !== null && value(row) <= max + 1e-9));
  const chosen = data.entries.filter((entry) => rowsOf(entry).some(fits) && (!data.runs || changes(entry, want.change)));
  const orders = data.runs ? PAIR_ORDERS : ORDERS;
  return want.sort === "file" ? chosen : chosen.sort((a, b) => orders[want.sort][1](a, b) || a.i - b.i);
}

function itemParts(row) {
  return el("div", "item " + row.state,
    el("div", "line", el("span", "id", row.task), nth(row), el("span", "score num", fixed(value(row), 3))),
    el("div", "line", el("span", "outcome", el("span", "sign", SIGNS[row.state]), ...outcome(row))),
    el("span", "about", row.answer || row.question));
}

function itemNode(row, place, total, chosen) {
  const node = row.pair ? pairItem(row) : itemParts(row);
  node.id = "row" + row.i;
  node.dataset.i = String(row.i);
  node.setAttribute("role", "option");
  node.setAttribute("aria-selected", String(chosen));
  node.setAttribute("aria-posinset", String(place + 1));
  node.setAttribute("aria-setsize", String(total));
  node.style.top = place * ROW + "px";
  return node;
}

function drawList(shown, chosen) {
  const list = byId("list");
  const spacer = byId("spacer");
  spacer.style.height = shown.length * ROW + "px";
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - MARGIN);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + (list.clientHeight || 800)) / ROW) + MARGIN);
  const nodes = [];
  for (let place = first; place < last; place++) nodes.push(itemNode(shown[place], place, shown.length, shown[place].i === chosen));
  if (!shown.length) nodes.push(el("p", "nothing", "No episode fits these filters."));
  spacer.replaceChildren(...nodes);
  if (chosen !== null && byId("row" + chosen)) list.setAttribute("aria-activedescendant", "row" + chosen);
  else list.removeAttribute("aria-activedescendant");
}

function reveal(place) {
  const list = byId("list");
  const top = place * ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
}
