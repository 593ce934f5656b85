"""Open a page in a browser, as its reader does, and return what its scripts made of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

# A bare machine has no browser, and none is installed for a test; what the page holds is tested without one, too.
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def dumped(page: Path, *options: str) -> str:
    """Return the document of a page after its scripts have run; the profile of the browser lies beside the page."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"]
    command += [*options, "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False).stdout
