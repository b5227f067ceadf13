// A page that `factgym view --watch` serves asks for changes: the overview reads itself again, open episodes wait for a click.

const ASK_EVERY = 2000;
let version = null;

async function askForChanges() {
  try {
    const answer = await fetch("version", { cache: "no-store" });
    const text = await answer.text();
    if (version !== null && text !== version) {
      if (byId("episodes").hidden) { location.reload(); return; }
      byId("fresh").hidden = false;
    } else version = text;
  } catch { /* the server has stopped: the page stays as it is */ }
  setTimeout(askForChanges, ASK_EVERY);
}

byId("fresh").addEventListener("click", () => location.reload());
addEventListener("load", askForChanges);
