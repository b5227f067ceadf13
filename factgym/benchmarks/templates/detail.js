// One episode: what was asked, what it earned, the evidence, and the transcript.

const SIGNS = { right: "\u2713", wrong: "\u2717", silent: "\u2717", error: "!", unscored: "!", invalid: "\u2717", played: "" };
const STATES = { right: "right", wrong: "wrong", silent: "no verdict", error: "infrastructure error", unscored: "not scored", invalid: "not a valid question", played: "played" };
const LONG = 700;
const NEAR = 180;
const DEEP = 6;

function outcome(row) {
  if (row.state === "error") return [STATES.error, el("span", "muted", row.cause ? " " + label(row.cause) : "")];
  if (row.state === "unscored" || row.state === "invalid") return [STATES[row.state]];
  if (row.state === "played") return [row.verdict ? label(row.verdict) : "played"];
  if (row.state === "right") return [label(row.verdict)];
  return [row.verdict ? label(row.verdict) : "no verdict", el("span", "muted", " instead of "), label(row.gold)];
}

function showDetail(row, detail, shared) {
  const { triple } = detail;
  const asked = triple ? [...triplePart(triple), ...evidencePart(detail)] : answerPart(detail);
  const told = triple ? factsPart(triple) : evidencePart(detail);
  return el("div", "sheet",
    headPart(row, detail),
    el("div", "stack answered", ...asked),
    el("div", "stack weighed", detail.steps.length || !triple ? rewardPart(detail) : null, ...told),
    detail.steps.length ? transcriptPart(detail, shared) : null);
}

function headPart(row, detail) {
  const back = el("button", "", "\u2190 Episodes");
  back.id = "back";
  back.type = "button";
  const meta = [row.topic, row.turns || detail.steps.length ? plural(row.turns, "turn") : "", detail.steps.length ? label(detail.stop) : "",
    row.tokens === null ? "" : thousands(row.tokens) + " tokens",
    row.seconds === null ? "" : duration(row.seconds),
    detail.attempt > 1 ? "attempt " + detail.attempt : ""].filter(Boolean).join(" \u00b7 ");
  const who = el("div", "who", back,
    el("div", "line", el("span", "id", row.task), nth(row)),
    el("div", "outcome " + row.state, el("span", "sign", SIGNS[row.state]), ...outcome(row)),
    el("div", "meta", meta));
  const total = el("div", "total num", el("b", "", fixed(row.reward, 3)), el("span", "", "reward"));
  const head = el("header", "dhead full", who, total);
  if (!detail.error && row.group.length < 2) return head;
  return el("div", "stack full", head,
    detail.error ? el("p", "fault", el("b", "", label(detail.error[0])), detail.error[1]) : null,
    row.group.length > 1 ? groupPart(row) : null);
}

function groupPart(row) {
  const rewards = row.group.map((one) => one.reward).filter((reward) => reward !== null);
  const right = row.group.filter((one) => one.state === "right").length;
  const labelled = row.group.some((one) => one.gold);
  const told = [row.group.length + " samples of this task", labelled ? right + " right" : "",
    rewards.length ? "mean reward " + fixed(rewards.reduce((a, b) => a + b, 0) / rewards.length, 3) : "",
    rewards.length > 1 && row.spread < 1e-9 ? "all equal" : ""].filter(Boolean).join(" \u00b7 ");
  return el("section", "group", el("h2", "", told), el("div", "samples", ...row.group.map((one) => sampleCard(one, one === row))));
}

function sampleCard(row, current) {
  const shown = row.state === "error" ? label(row.cause) : row.verdict ? label(row.verdict) : STATES[row.state];
  const node = el("button", "sample " + row.state,
    el("span", "line", el("span", "num", el("span", "sign", SIGNS[row.state]), row.sample), el("b", "num", fixed(row.reward, 3))),
    el("span", "line muted", el("span", "about", shown), row.tokens === null ? null : el("span", "num", thousands(row.tokens) + " tok")));
  node.type = "button";
  node.dataset.i = String(row.i);
  if (current) node.setAttribute("aria-current", "true");
  return node;
}

function answerPart(detail) {
  if (!detail.answer.length && !detail.question) return [];
  const part = el("section", "", el("h2", "", "Answer to be checked"));
  if (detail.question) part.append(textBlock("question", detail.question));
  part.append(marked("answer", detail.answer));
  const key = legend(detail.answer, "um");
  if (key) part.append(key);
  const parts = [part];
  if (detail.claims.length) parts.push(el("section", "", el("h2", "", "Gold"), el("ul", "claims", ...detail.claims.map(claimRow))));
  return [...parts, ...submittedPart(detail)];
}

function submittedPart(detail) {
  if (!detail.submitted.length) return [];
  const rows = detail.submitted.map((claim) => {
    const row = claimRow(claim);
    for (const quote of claim.quotes) row.append(quoteLine(...quote));
    if (!claim.quotes.length && claim.status !== "not_found") row.append(el("span", "why", el("span", "tag bad", "no quote")));
    return row;
  });
  return [el("section", "", el("h2", "", "Submitted"), el("ul", "claims", ...rows))];
}

function triplePart(triple) {
  const part = el("section", "", el("h2", "", "Question"), textBlock("answer", triple.question || "(none)"));
  const rows = triple.answers.map(([role, text]) => el("li", "", roleOf(role), textBlock("", text || "(none)")));
  const spans = triple.evidence.map(spanRow);
  return [part, el("section", "", el("h2", "", "Answer"), el("ul", "claims", ...rows)),
    spans.length ? el("section", "", el("h2", "", "Its evidence"), el("ul", "claims", ...spans)) : null];
}

function roleOf(role) {
  return el("span", role === "gold" ? "status held" : "status plain", role);
}

function factsPart(triple) {
  if (!triple.facts.length) return [];
  const facts = triple.facts.map(([name, value]) => el("div", "", el("dt", "", label(name)), el("dd", "num", value)));
  return [el("section", "", el("h2", "", "Measured"), el("dl", "facts", ...facts))];
}

function spanRow([role, text, place, fault]) {
  const why = el("span", "why", place);
  if (fault) why.append(el("span", "tag bad", fault));
  const line = el("div", "", el("mark", role === "gold" ? "g" : fault ? "" : "q", text));
  line.dir = "auto";
  return el("li", "", roleOf(role), line, place || fault ? why : null);
}

function quoteLine(text, found) {
  const line = el("div", "quoted", found ? el("mark", "q", text) : text);
  line.dir = "auto";
  if (!found) line.append(el("span", "tag bad", "not in the cited passages"));
  return line;
}

function claimRow(claim) {
  const why = [claim.reason, claim.evidence.join(", ")].filter(Boolean).join(" \u00b7 ");
  return el("li", "", el("span", ["supported", "Attributable", "match"].includes(claim.status) ? "status held" : "status", label(claim.status)),
    textBlock("", claim.text), why ? el("span", "why", why) : null);
}

function rewardPart(detail) {
  const part = el("section", "", el("h2", "", "Reward"));
  const { rows, total, gates } = detail.reward;
  if (!rows.length) { part.append(el("p", "muted", detail.reward.status || "no report")); return part; }
  const heads = ["component", "", "value", "weight", "gate", "earned"].map((name) => el("th", "", name));
  const body = rows.map(([name, value, weight, gate, earned]) => {
    const wide = el("td", "wide", bar(value));
    const lost = weight !== null && earned !== null && earned < weight - 1e-9;
    return el("tr", "", el("th", "", name), wide, el("td", "num", fixed(value, 3)),
      el("td", "num", weight === null ? "" : fixed(weight, 2)), el("td", "num", gate === null ? "" : "\u00d7" + fixed(gate, 2)),
      el("td", lost ? "num" : "num full-credit", earned === null || earned === undefined ? "" : fixed(earned, 3)));
  });
  const foot = el("tr", "", el("th", "", "total"), el("td", ""), el("td", ""), el("td", ""), el("td", ""), el("td", "num", fixed(total, 3)));
  part.append(el("table", "parts", el("thead", "", el("tr", "", ...heads)), el("tbody", "", ...body), el("tfoot", "", foot)));
  if (gates.length) part.append(el("p", "fine", "gates: " + gates.map(([name, value]) => name + " " + fixed(value, 2)).join(", ")));
  return part;
}

function evidencePart(detail) {
  if (!detail.passages.length && !detail.elsewhere.length) return [];
  const part = el("section", "", el("h2", "", detail.triple ? "Documents" : "Evidence"));
  const key = legend(detail.passages.flatMap((one) => one.text), "gq");
  for (const one of detail.passages) part.append(passageCard(one));
  for (const [id, tag] of detail.elsewhere) {
    part.append(el("p", "elsewhere", el("span", "pid mono", id), " was " + tag + "; it is not one of this task's passages"));
  }
  if (key) part.append(key);
  return [part];
}

function passageCard(one) {
  const used = one.tags.length > 0;
  const tags = one.tags.map((tag) => el("span", "tag " + tag, tag));
  if (one.tags.includes("cited") && !one.tags.includes("read")) tags.push(el("span", "tag bad", "not read"));
  if (one.tags.includes("gold") && !one.tags.includes("cited")) tags.push(el("span", "tag bad", "not cited"));
  return el("div", used ? "passage" : "passage idle",
    el("header", "", el("span", "pid", one.id), el("span", "title", one.title), ...tags), passageBody(one.text));
}

// Of a long passage, what surrounds the marks; the rest opens on demand.
function passageBody(pieces) {
  const size = pieces.reduce((sum, piece) => sum + piece[0].length, 0);
  if (size < LONG) return marked("body", pieces);
  const near = pieces.length > 1 ? NEAR : 2 * NEAR;
  const shown = pieces.flatMap((piece, i) => {
    const [text, marks] = piece;
    const head = i === 0 && pieces.length > 1 ? 0 : near;
    const tail = i === pieces.length - 1 ? 0 : near;
    if (marks || text.length < head + tail + NEAR) return [piece];
    const from = whole(text, head);
    const to = whole(text, text.length - tail);
    return [[text.slice(0, from), ""], ["", "", to - from], [text.slice(to), ""]];
  });
  const body = el("div", "text-block body");
  body.dir = "auto";
  for (const [text, marks, left] of shown) {
    if (left === undefined) body.append(...marked("", [[text, marks]]).childNodes);
    else body.append(gapButton(left, body, pieces));
  }
  return body;
}

function gapButton(left, body, pieces) {
  const button = el("button", "gap", " \u2026 " + left.toLocaleString("en-US") + " characters \u2026 ");
  button.type = "button";
  button.addEventListener("click", () => body.replaceWith(marked("body", pieces)));
  return button;
}

function transcriptPart(detail, shared) {
  const begun = detail.steps.findIndex((step) => step.role === "assistant");
  const steps = detail.steps.map((step, i) => (step.role === "assistant" ? policyStep(step) : otherStep(step, i < begun, shared)));
  return el("section", "told-all", el("h2", "", "Transcript"), el("div", "steps", ...steps));
}

function folded(name, text, kind) {
  const peek = el("span", "peek", text.slice(0, whole(text, 140)).replace(/\s+/g, " "));
  return el("details", "", el("summary", "", el("b", "", name), peek), textBlock(kind, text));
}

function callCard(call) {
  const head = el("header", "", el("span", "tool", call.tool || "call"));
  if (call.error) head.append(el("span", "tag bad", call.error));
  const kind = call.error ? "call failed" : "call";
  if (!isShort(call.arguments)) return el("div", kind, head, argumentsOf(call.arguments, 0));
  for (const [name, value] of Object.entries(call.arguments)) {
    head.insertBefore(el("span", "arg", el("span", "muted", label(name) + " "), textBlock("inline", scalar(value))), call.error ? head.lastChild : null);
  }
  return el("div", kind + " short", head);
}

function isShort(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return false;
  const all = Object.entries(value);
  return all.every(([, one]) => one === null || typeof one !== "object") &&
    all.reduce((sum, [name, one]) => sum + name.length + scalar(one).length, 0) < 110;
}

function argumentsOf(value, depth) {
  if (value === null || typeof value !== "object") return textBlock("", scalar(value));
  if (depth >= DEEP) return textBlock("", JSON.stringify(value));
  if (Array.isArray(value)) {
    if (value.every((one) => one === null || typeof one !== "object")) {
      return value.length < 2 || value.every((one) => scalar(one).length < 24)
        ? textBlock("", value.map(scalar).join(", ") || "\u2013")
        : el("ol", "", ...value.map((one) => el("li", "", textBlock("", scalar(one)))));
    }
    return el("ol", "", ...value.map((one) => el("li", "", argumentsOf(one, depth + 1))));
  }
  const list = el("dl", "args");
  for (const [name, one] of Object.entries(value)) {
    const nests = one !== null && typeof one === "object" && !(Array.isArray(one) && one.every((x) => x === null || typeof x !== "object"));
    list.append(el("dt", "", label(name)), el("dd", nests ? "nest" : "", argumentsOf(one, depth + 1)));
  }
  return list;
}

function scalar(value) {
  if (value === "") return "\u2013";
  return typeof value === "string" ? value : String(value);
}

function otherStep(step, before, shared) {
  const text = typeof step.text === "number" ? shared()[step.text] ?? "" : step.text;
  if (before) return el("div", "step", folded(step.role === "user" ? "Task" : "Instructions", text, ""));
  const body = textBlock("told", text);
  const node = el("div", "step", el("header", "", step.role === "tool" || step.role === "user" ? "Result" : step.role || "message"), body);
  if (text.length > LONG) {
    body.classList.add("long");
    const more = el("button", "more", "Show all " + text.length.toLocaleString("en-US") + " characters");
    more.type = "button";
    more.addEventListener("click", () => { body.classList.remove("long"); more.remove(); });
    node.append(more);
  }
  return node;
}
