// Allows or forbids the site of the active tab, or the one in the address of this page.
"use strict";

async function site() {
  const named = new URLSearchParams(location.search).get("site");
  if (named !== null) return new URL(named);
  const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
  return tab?.url === undefined ? undefined : new URL(tab.url);
}

async function show() {
  const url = await site();
  const line = document.getElementById("site");
  const button = document.getElementById("change");
  if (url === undefined || !["http:", "https:"].includes(url.protocol)) {
    line.textContent = "Lathe can't use this page.";
    return;
  }
  const { sites = [] } = await chrome.storage.local.get("sites");
  const allowed = sites.includes(url.origin);
  line.textContent = allowed
    ? `Sessions of Lathe may read and use ${url.origin}.`
    : `Let sessions of Lathe read and use ${url.origin}?`;
  button.textContent = allowed ? "Forbid" : "Allow";
  button.hidden = false;
  button.onclick = async () => {
    const origins = [`${url.protocol}//${url.hostname}/*`];
    if (!allowed && !(await chrome.permissions.request({ origins }))) return;
    const rest = sites.filter((known) => known !== url.origin);
    await chrome.storage.local.set({ sites: allowed ? rest : [...rest, url.origin] });
    await show();
  };
}

void show();
