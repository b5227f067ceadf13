// State lives in the address: `#` is the overview, `#e=17&gold=...` an episode within a filtered list.

const data = readRows();
let shown = data.rows;
let chosen = null;
let shownDetail = null;
let lastEpisodes = "#episodes";

function sharedTexts() {
  const block = byId("shared");
  return block ? JSON.parse(block.textContent) : [];
}

function address() {
  const want = filterValues();
  const parts = new URLSearchParams();
  if (chosen !== null) parts.set("e", String(chosen));
  for (const id of FILTERS) if (want[id] !== UNSET[id]) parts.set(id, want[id]);
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
  refilter(at !== null && data.rows[at] ? at : null);
}

function refilter(at) {
  shown = selectRows(data.rows, filterValues());
  byId("count").textContent = shown.length === data.rows.length ? plural(shown.length, "episode")
    : shown.length.toLocaleString("en-US") + " of " + plural(data.rows.length, "episode");
  byId("spacer").style.height = shown.length * ROW + "px";
  byId("list").scrollTop = 0;
  const wide = !matchMedia("(max-width: 820px)").matches;
  choose(at !== null ? at : wide && shown.length ? shown[0].i : null, at !== null);
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
  const block = byId("e" + chosen);
  if (!block || (document.readyState === "loading" && !block.nextSibling)) {
    pane.replaceChildren(el("p", "nothing", "This episode is still being read from disk."));
    shownDetail = null;
    return;
  }
  pane.replaceChildren(showDetail(data.rows[chosen], JSON.parse(block.textContent), sharedTexts));
  byId("back").addEventListener("click", () => { byId("episodes").classList.remove("open"); });
}

function move(step) {
  if (byId("episodes").hidden) { location.hash = lastEpisodes; return; }
  if (!shown.length) return;
  const at = shown.findIndex((row) => row.i === chosen);
  const next = at < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, at + step));
  choose(shown[next].i, true);
}

function nextSample() {
  if (chosen === null || byId("episodes").hidden) return;
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
  if (sample) choose(Number(sample.dataset.i), true);
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
