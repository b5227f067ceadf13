// Search inside transcripts: a pattern over the JSON text of the page finds candidates, which alone are parsed.

const SLICE = 12;
const REDRAW = 200;
let searchNumber = 0;

// A word as it may be written in a data block: escapes for what is not ASCII, and for what JSON and HTML reserve.
function blockPattern(word) {
  const written = (char) => [...JSON.stringify(char).slice(1, -1)]
    .map((unit) => (/[<>&]|[^\0-\x7f]/.test(unit) ? [...Array(unit.length).keys()].map((k) => "\\u" + unit.charCodeAt(k).toString(16).padStart(4, "0")).join("") : unit))
    .join("").replace(/[\\^$.*+?()[\]{}|\/-]/g, "\\$&");
  return new RegExp([...word].map((char) => {
    const forms = [...new Set([char, char.toLowerCase(), char.toUpperCase()])].map(written);
    return forms.length > 1 && char > "\x7f" ? "(?:" + forms.join("|") + ")" : forms[0];
  }).join(""), "i");
}

function stringsIn(node) {
  if (typeof node === "string") return [node];
  if (node === null || typeof node !== "object") return [];
  return Object.values(node).flatMap(stringsIn);
}

function transcriptText(detail) {
  return detail.steps.flatMap((step) => [
    typeof step.text === "string" ? step.text : "", step.reasoning ?? "", step.error ?? "", step.made?.received ?? "",
    ...(step.calls ?? []).flatMap((call) => [call.tool, call.error, ...stringsIn(call.arguments)]),
  ]).join("\n").toLowerCase();
}

function inTranscript(row, words, patterns) {
  const text = byId("e" + row.i).textContent;
  if (!words.every((word, k) => row.text.includes(word) || patterns[k].test(text))) return false;
  const transcript = transcriptText(JSON.parse(text));
  return words.every((word) => row.text.includes(word) || transcript.includes(word));
}

// Looks through entries in short slices, so that the page stays responsive; `report` gets the matches of a slice.
function searchTranscripts(entries, words, report) {
  const number = ++searchNumber;
  const patterns = words.map(blockPattern);
  let next = 0;
  let matches = [];
  let drawn = performance.now();
  const slice = () => {
    if (number !== searchNumber) return;
    const end = performance.now() + SLICE;
    let waiting = false;
    for (; next < entries.length && performance.now() < end; next++) {
      const rows = rowsOf(entries[next]);
      waiting = document.readyState === "loading" && rows.some((row) => !byId("e" + row.i)?.nextSibling);
      if (waiting) break;
      if (rows.some((row) => inTranscript(row, words, patterns))) matches.push(entries[next]);
    }
    const over = next >= entries.length;
    if (over || performance.now() - drawn > REDRAW) {
      report(matches, over ? 1 : next / entries.length);
      matches = [];
      drawn = performance.now();
    }
    if (!over) setTimeout(slice, waiting ? REDRAW : 0);
  };
  slice();
}

function stopSearch() { searchNumber += 1; }

// The words in an opened episode: marked by the browser without a change of the document, and unfolded.
function highlightWords(pane, words) {
  if (!globalThis.CSS?.highlights) return null;
  const ranges = [];
  const walker = document.createTreeWalker(pane, NodeFilter.SHOW_TEXT);
  while (words.length && ranges.length < 500 && walker.nextNode()) {
    const text = walker.currentNode.data.toLowerCase();
    if (text.length !== walker.currentNode.data.length) continue;
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0 && ranges.length < 500; at = text.indexOf(word, at + word.length)) {
        const range = document.createRange();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + word.length);
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set("search", new Highlight(...ranges));
  for (const range of ranges) {
    const part = range.startContainer.parentElement;
    const folded = part.closest("details");
    if (folded && part.closest(".steps")) folded.open = true;
    part.closest(".long")?.classList.remove("long");
  }
  return ranges[0] ?? null;
}
