// Several runs: an entry is a task's sample with its row in each run, two of which are side by side.

let pair = [0, 1];
const EQUAL = 1e-9;
const PAIR_ORDERS = {
  file: ["as played", () => 0],
  gain: ["largest gain", (a, b) => (gain(b) ?? -9e9) - (gain(a) ?? -9e9)],
  loss: ["largest loss", (a, b) => (gain(a) ?? 9e9) - (gain(b) ?? 9e9)],
};
const CHANGES = {
  outcome: ["other outcome", ([a, b]) => a && b && (a.state !== b.state || a.verdict !== b.verdict)],
  fixed: ["wrong, then right", ([a, b]) => a && b && a.state !== "right" && b.state === "right"],
  broken: ["right, then wrong", ([a, b]) => a && b && a.state === "right" && b.state !== "right"],
  up: ["higher value", (both, delta) => delta > EQUAL],
  down: ["lower value", (both, delta) => delta < -EQUAL],
  same: ["equal value", (both, delta) => delta !== null && Math.abs(delta) <= EQUAL],
  single: ["in one of them alone", ([a, b]) => Boolean(a) !== Boolean(b)],
};

function pairRows(rows, count) {
  const entries = new Map();
  for (const row of rows) {
    const key = row.sample + "\n" + row.task;
    const entry = entries.get(key) ?? { i: entries.size, pair: true, task: row.task, sample: row.sample, rows: Array(count).fill(null), text: "" };
    if (!entry.rows.some(Boolean)) entries.set(key, entry);
    entry.rows[row.run] = row;
    if (!entry.text) entry.text = row.text;
  }
  return [...entries.values()];
}

function setPair(count, want) {
  const index = (text, missing) => (/^\d+$/.test(text) && Number(text) < count ? Number(text) : missing);
  pair = [index(want.a, 0), index(want.b, count - 1)];
}

const inPair = (entry) => pair.map((run) => entry.rows[run]);
const rowsOf = (entry) => (entry.pair ? inPair(entry).filter(Boolean) : entry.rows);
const changes = (entry, change) => !CHANGES[change] || CHANGES[change][1](inPair(entry), gain(entry));

function gain(entry) {
  const [before, after] = inPair(entry).map((row) => (row ? value(row) : null));
  return before === null || after === null ? null : after - before;
}

function fillPairFilters(runs) {
  const names = runs.map((name, i) => [String(i), name]);
  for (const id of ["a", "b"]) fillSelect(id, names);
  UNSET.b = String(runs.length - 1);
  fillSelect("change", [["*", "any"], ...Object.entries(CHANGES).map(([key, [name]]) => [key, name])]);
}

function signed(delta, places = 3) {
  if (delta === null) return "\u2013";
  return Math.abs(delta) < 0.5 * 10 ** -places ? "=" : (delta > 0 ? "+" : "\u2212") + fixed(Math.abs(delta), places);
}

// Fewer turns or tokens are neither better nor worse.
const deltaKind = (delta) => "num delta" + (delta === null || Math.abs(delta) <= EQUAL ? "" : delta > 0 ? " up" : " down");

function shortOutcome(row) {
  return row ? el("span", "outcome " + row.state, el("span", "sign", SIGNS[row.state]), ...outcome(row)) : el("span", "muted", "not played");
}

function pairItem(entry) {
  const [before, after] = inPair(entry);
  const values = [before, after].map((row) => (row ? fixed(value(row), 3) : "\u2013"));
  const sample = entry.rows.some((row) => row && row.group.length > 1) ? el("span", "nth num", "sample " + entry.sample) : null;
  return el("div", "item both",
    el("div", "line", el("span", "id", entry.task), sample, el("span", deltaKind(gain(entry)), signed(gain(entry)))),
    el("div", "line", shortOutcome(before), el("span", "score num", values[0])),
    el("div", "line", shortOutcome(after), el("span", "score num", values[1])));
}

// What is the same for both runs once, then the values that differ, then each run's own part in a column.
function showPair(entry, runs, read, shared) {
  const rows = inPair(entry);
  const details = rows.map((row) => (row ? read(row.i) : null));
  const task = details.find(Boolean);
  const asked = task ? (task.triple ? triplePart(task.triple) : answerPart(withoutRun(task))) : [];
  const columns = rows.map((row, k) => (row ? runColumn(runs[pair[k]], row, details[k], shared) : el("section", "run", el("h2", "", runs[pair[k]]), el("p", "muted", "This run has not played the task."))));
  const back = el("button", "", "\u2190 Episodes");
  back.id = "back";
  back.type = "button";
  const head = el("header", "dhead full",
    el("div", "who", back, el("div", "line", el("span", "id", entry.task), rows.some((row) => row && row.group.length > 1) ? el("span", "nth num", "sample " + entry.sample) : null)),
    el("div", "total num", el("b", deltaKind(gain(entry)), signed(gain(entry))), el("span", "", component < 0 ? "reward" : label(data.components[component]))));
  return el("div", "sheet paired", head,
    runs.length > 2 ? el("div", "samples", ...entry.rows.map((row, k) => runCard(row, runs[k], k))) : null,
    el("div", "columns", el("div", "stack", ...asked), changeTable(rows, details, runs)),
    el("div", "columns", ...columns));
}

function withoutRun(detail) {
  const answer = detail.answer.map(([text, marks]) => [text, marks.replaceAll("m", "")]);
  return { ...detail, answer, submitted: [] };
}

function runCard(row, name, k) {
  const node = el("button", "sample " + (row ? row.state : ""),
    el("span", "line", el("span", "about", name), el("b", "num", row ? fixed(value(row), 3) : "\u2013")),
    el("span", "line muted", row ? el("span", "about", el("span", "sign", SIGNS[row.state]), row.verdict ? label(row.verdict) : STATES[row.state]) : "not played"));
  node.type = "button";
  node.dataset.run = String(k);
  node.title = name;
  if (pair.includes(k)) node.setAttribute("aria-current", "true");
  return node;
}

function changeTable(rows, details, runs) {
  const parts = details.map((detail) => new Map((detail?.reward.rows ?? []).map((row) => [row[0], row[1]])));
  const names = [...new Set(parts.flatMap((values) => [...values.keys()]))];
  const line = (name, [a, b], places) => {
    const delta = typeof a === "number" && typeof b === "number" ? b - a : null;
    const cells = [a, b].map((one) => el("td", "num", typeof one === "number" ? fixed(one, places) : "\u2013"));
    return el("tr", delta === null || Math.abs(delta) > EQUAL ? "" : "muted", el("th", "", name), ...cells, el("td", places ? deltaKind(delta) : "num delta", signed(delta, places)));
  };
  const body = [
    line("reward", rows.map((row) => row?.reward ?? null), 3),
    ...names.map((name) => line(name, parts.map((values) => values.get(name) ?? null), 3)),
    line("turns", rows.map((row) => row?.turns ?? null), 0),
  ];
  if (rows.some((row) => row && row.tokens !== null)) body.push(line("tokens", rows.map((row) => row?.tokens ?? null), 0));
  const heads = ["", ...pair.map((run) => runs[run]), "change"].map((name) => el("th", "", name));
  return el("section", "", el("h2", "", "What changed"), el("table", "parts changed", el("thead", "", el("tr", "", ...heads)), el("tbody", "", ...body)));
}

function runColumn(name, row, detail, shared) {
  const part = el("section", "run", el("h2", "", name), el("div", "outcome " + row.state, el("span", "sign", SIGNS[row.state]), ...outcome(row)));
  if (detail.error) part.append(el("p", "fault", el("b", "", label(detail.error[0])), detail.error[1]));
  part.append(...submittedPart(detail));
  const evidence = evidencePart(detail);
  if (evidence.length) part.append(el("details", "", el("summary", "", el("b", "", "Documents and what was cited")), ...evidence));
  if (detail.steps.length) part.append(transcriptPart(detail, shared));
  return part;
}
