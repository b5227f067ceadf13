// State lives in the address: `#` is the overview, `#e=17&gold=...` an episode within a filtered list.

const data = readRows();
let shown = data.entries;
let chosen = null;
let shownDetail = null;
let lastEpisodes = "#episodes";
let pending = 0;
const PAUSE = 200;

function sharedTexts() {
  const block = byId("shared");
  return block ? JSON.parse(block.textContent) : [];
}

function address() {
  const want = filterValues();
  const parts = new URLSearchParams();
  if (chosen !== null) parts.set("e", String(chosen));
  for (const id of filters()) if (want[id] !== UNSET[id]) parts.set(id, want[id]);
  return "#" + (parts.toString() || "episodes");
}

function remember() {
  lastEpisodes = address();
  if (location.hash !== lastEpisodes) history.replaceState(null, "", lastEpisodes);
}

function showView(episodes) {
  byId("overview").hidden = episodes;
  byId("episodes").hidden = !episodes;
  for (const [id, on] of [["to-overview", !episodes], ["to-episodes", episodes]]) {
    if (on) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
}

function route() {
  const hash = location.hash.slice(1);
  if (!hash) { showView(false); return; }
  const parts = new URLSearchParams(hash);
  setFilters(Object.fromEntries(parts));
  const at = parts.has("e") ? Number(parts.get("e")) : null;
  showView(true);
  refilter(at !== null && data.entries[at] ? at : null);
}

function refilter(at) {
  const want = filterValues();
  const words = wordsOf(want);
  const selected = selectEntries(data, want);
  const matches = new Set(selected.filter((entry) => words.every((word) => entry.text.includes(word))));
  shown = selected.filter((entry) => matches.has(entry));
  byId("spacer").style.height = shown.length * ROW + "px";
  byId("list").scrollTop = 0;
  const wide = !matchMedia("(max-width: 820px)").matches;
  shownDetail = null;
  choose(at !== null ? at : wide && shown.length ? shown[0].i : null, at !== null);
  clearTimeout(pending);
  stopSearch();
  const rest = words.length ? selected.filter((entry) => !matches.has(entry)) : [];
  countShown(rest.length ? 0 : 1);
  if (!rest.length) return;
  const report = (found, part) => {
    for (const entry of found) matches.add(entry);
    if (found.length) shown = selected.filter((entry) => matches.has(entry));
    countShown(part);
    if (chosen === null && wide && shown.length) choose(shown[0].i, false);
    else drawList(shown, chosen);
  };
  pending = setTimeout(() => searchTranscripts(rest, words, report), PAUSE);
}

function countShown(part) {
  const noun = data.runs ? "task" : "episode";
  const all = plural(data.entries.length, noun);
  const count = shown.length === data.entries.length ? all : shown.length.toLocaleString("en-US") + " of " + all;
  byId("count").textContent = count + (part < 1 ? " \u00b7 transcripts " + Math.round(100 * part) + " %" : "");
  byId("list").setAttribute("aria-busy", String(part < 1));
}

function choose(i, open) {
  chosen = i;
  byId("episodes").classList.toggle("open", Boolean(open) && i !== null);
  const place = shown.findIndex((row) => row.i === i);
  if (place >= 0) reveal(place);
  drawList(shown, chosen);
  drawDetail();
  remember();
}

function drawDetail() {
  const pane = byId("detail");
  if (chosen === shownDetail && pane.firstChild) return;
  shownDetail = chosen;
  pane.scrollTop = 0;
  if (chosen === null) { pane.replaceChildren(el("p", "nothing", "Choose an episode.")); return; }
  const entry = data.entries[chosen];
  const rows = rowsOf(entry);
  const unread = (row) => !byId("e" + row.i) || (document.readyState === "loading" && !byId("e" + row.i).nextSibling);
  if (rows.some(unread)) {
    pane.replaceChildren(el("p", "nothing", "This episode is still being read from disk."));
    shownDetail = null;
    return;
  }
  const read = (i) => JSON.parse(byId("e" + i).textContent);
  pane.replaceChildren(data.runs ? showPair(entry, data.runs, read, sharedTexts) : showDetail(entry, read(chosen), sharedTexts));
  byId("back").addEventListener("click", () => { byId("episodes").classList.remove("open"); });
  const first = highlightWords(pane, wordsOf(filterValues()));
  if (first?.startContainer.parentElement.closest(".steps")) first.startContainer.parentElement.scrollIntoView({ block: "center" });
}

function move(step) {
  if (byId("episodes").hidden) { location.hash = lastEpisodes; return; }
  if (!shown.length) return;
  const at = shown.findIndex((row) => row.i === chosen);
  const next = at < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, at + step));
  choose(shown[next].i, true);
}

function nextSample() {
  if (chosen === null || data.runs || byId("episodes").hidden) return;
  const group = data.rows[chosen].group;
  choose(group[(group.findIndex((row) => row.i === chosen) + 1) % group.length].i, true);
}

function toggleTheme() {
  const root = document.documentElement;
  const dark = (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
}

function toggleReasoning() {
  const all = [...byId("detail").querySelectorAll(".step.policy > details:has(.thought)")];
  const open = all.some((one) => !one.open);
  for (const one of all) one.open = open;
}

function resetFilters() {
  setFilters({});
  refilter(chosen);
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  o: () => { location.hash = byId("episodes").hidden ? lastEpisodes : ""; },
  n: nextSample,
  t: toggleTheme,
  x: toggleReasoning,
  r: resetFilters,
  "?": () => byId("keys").showModal(),
  "/": () => {
    if (byId("episodes").hidden) location.hash = lastEpisodes;
    setTimeout(() => byId("q").focus(), 0);
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  if (event.target.closest("input, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const inList = event.target === byId("list");
  const step = inList ? { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, End: 1e9, Home: -1e9 }[event.key] : undefined;
  const act = step !== undefined ? () => move(step) : KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

byId("list").addEventListener("scroll", () => requestAnimationFrame(() => drawList(shown, chosen)), { passive: true });
byId("list").addEventListener("click", (event) => {
  const item = event.target.closest(".item");
  if (item) choose(Number(item.dataset.i), true);
});
byId("detail").addEventListener("click", (event) => {
  const sample = event.target.closest(".sample");
  if (sample?.dataset.run) {
    byId("b").value = sample.dataset.run;
    refilter(chosen);
  } else if (sample) choose(Number(sample.dataset.i), true);
});
byId("filters").addEventListener("input", () => refilter(null));
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("reset").addEventListener("click", resetFilters);
byId("theme").addEventListener("click", toggleTheme);
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("to-episodes").addEventListener("click", (event) => { event.preventDefault(); location.hash = lastEpisodes; });
addEventListener("hashchange", () => { if (location.hash !== address() || byId("episodes").hidden) route(); });
addEventListener("resize", () => { if (!byId("episodes").hidden) drawList(shown, chosen); });
addEventListener("beforeprint", () => { for (const one of byId("detail").querySelectorAll("details:has(> .thought)")) one.open = true; });
document.addEventListener("DOMContentLoaded", () => { if (!byId("episodes").hidden && shownDetail === null) drawDetail(); });

fillFilters(data);
route();
