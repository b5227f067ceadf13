"""`python docs/pictures.py [curves]`: the pictures of the pages.

Curves: of every file in `recipes/results`, by Matplotlib. Episodes, which are played for them: by Chromium, at one and a
half times their size, deterministic but for the fonts of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from factgym.cli.docs import draw_curves

IMAGES = Path(__file__).parent / "images"
EPISODE = ("claimcheck-multihop", "--split", "train", "--agent", "lexical", "-n", "20")
# Quiet: no request of the browser's own, no first-run page, no profile that outlives the picture.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1.5",
]


def factgym(*words: str) -> None:
    """Run a command of factgym."""
    subprocess.run([sys.executable, "-m", "factgym.cli.main", *words], check=True, stdout=subprocess.DEVNULL)


def screenshot(page: Path, address: str, image: Path, width: int, height: int) -> None:
    """Draw a page. address: what follows its path, such as "#e=3"."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("docs/pictures.py needs Chromium")
    with tempfile.TemporaryDirectory() as profile:
        options = [f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={image}"]
        url = page.resolve().as_uri() + address
        subprocess.run([browser, *FLAGS, *options, url], check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    """Draw the pictures."""
    IMAGES.mkdir(exist_ok=True)
    draw_curves(IMAGES.parents[1], all_of_them=True)
    if "curves" in sys.argv[1:]:
        return
    with tempfile.TemporaryDirectory() as folder:
        factgym("eval", *EPISODE, "--out", folder)
        factgym("view", folder)
        screenshot(Path(folder) / "index.html", "#e=3", IMAGES / "episode.png", 1280, 1290)


if __name__ == "__main__":
    main()
