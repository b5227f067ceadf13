// One turn of the policy: how the reply came about, its text and its calls.

const USUAL_ENDS = ["stop", "tool_calls"];

function policyStep(step) {
  const made = step.made;
  const head = el("header", "", el("b", "", step.turn ? "Turn " + step.turn : "Assistant"));
  if (step.error && !step.calls.some((call) => call.error === step.error)) head.append(el("span", "tag bad", step.error));
  head.append(...endTags(made));
  const took = tookPart(made);
  if (took) head.append(took);
  if (step.credit !== null && step.credit !== undefined) head.append(el("span", "gain", "credit " + fixed(step.credit, 3)));
  const node = el("div", "step policy", head);
  if (step.reasoning) node.append(folded("Reasoning", step.reasoning, "thought"));
  if (step.text) node.append(textBlock("prose", step.text));
  if (step.calls.length) node.append(el("div", "calls", ...step.calls.map(callCard)));
  if (step.raw) node.append(el("details", "raw", el("summary", "", "as written"), textBlock("raw", step.raw)));
  if (made.received) node.append(el("details", "raw", el("summary", "", "as received from the model"), textBlock("raw", made.received)));
  if (made.notes) node.append(el("details", "raw", el("summary", "", "notes"), el("div", "noted", argumentsOf(made.notes, 0))));
  return node;
}

function endTags(made) {
  const tags = [];
  if (made.finish === "length") tags.push(el("span", "tag bad", "cut off at the length limit"));
  else if (made.finish && !USUAL_ENDS.includes(made.finish)) tags.push(el("span", "tag", label(made.finish)));
  const retries = made.retries ?? [];
  if (retries.length) {
    const tag = el("span", "tag warn", plural(retries.length, "retry", "retries") + ": " + [...new Set(retries.map(([cause]) => label(cause)))].join(", "));
    tag.title = retries.map(([cause, waited]) => label(cause) + (waited === null ? "" : ", waited " + duration(waited))).join("\n");
    tags.push(tag);
  }
  if (made.sent !== undefined && made.sent !== null) tags.push(el("span", "tag", "saw " + plural(made.sent, "message")));
  return tags;
}

// Seconds of the model and tokens in and out; the rest of what is known in the tooltip.
function tookPart(made) {
  const tokens = made.tokens ?? {};
  const seconds = made.seconds ?? {};
  const shown = [];
  if (tokens.prompt_tokens !== undefined || tokens.completion_tokens !== undefined) {
    const side = (kind) => (tokens[kind] === undefined ? "\u2013" : thousands(tokens[kind]));
    shown.push(side("prompt_tokens") + " \u2192 " + side("completion_tokens") + " tokens");
  }
  if (seconds.model !== undefined) shown.push(duration(seconds.model));
  if (!shown.length) return null;
  const part = el("span", "took num", shown.join(" \u00b7 "));
  part.title = [made.model, ...Object.entries(tokens).map(([kind, n]) => label(kind) + " " + thousands(n)),
    ...Object.entries(seconds).map(([kind, n]) => label(kind) + " " + duration(n)),
    made.finish ? "finish reason " + made.finish : ""].filter(Boolean).join("\n");
  return part;
}
