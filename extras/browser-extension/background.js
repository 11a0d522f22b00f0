// Answers questions of the native host. Only sites that the user allowed in the popup are read or used.
"use strict";

const HOST = "dev.lathe.browser";
// The host reads messages up to 1 MB.
const LONGEST_TEXT = 200_000;
const LONGEST_IMAGE = 900_000;
const LOAD_LIMIT = 30_000;

let port;

function connect() {
  if (port !== undefined) return;
  port = chrome.runtime.connectNative(HOST);
  port.onMessage.addListener((message) => void reply(message));
  port.onDisconnect.addListener(() => {
    // Reading it tells the browser that the error was seen.
    void chrome.runtime.lastError;
    port = undefined;
  });
}

async function reply(message) {
  const answer = { id: message.id };
  try {
    const tool = TOOLS[message.method];
    if (tool === undefined) throw new Error(`the extension has no ${message.method}`);
    answer.result = await tool(message.params ?? {});
  } catch (error) {
    answer.error = String(error.message ?? error);
  }
  port?.postMessage(answer);
}

async function tabOf(params) {
  if (params.tab !== undefined) return chrome.tabs.get(params.tab);
  const [tab] = await chrome.tabs.query({ active: true, lastFocusedWindow: true });
  const [any] = tab === undefined ? await chrome.tabs.query({ active: true }) : [tab];
  if (any === undefined) throw new Error("no tab is open");
  return any;
}

// Refuses an address whose site the user did not allow.
async function requireAllowed(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    throw new Error(`${address} is not an address`);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new Error(`${url.protocol} pages can't be used`);
  }
  const { sites = [] } = await chrome.storage.local.get("sites");
  const granted = await chrome.permissions.contains({ origins: [`${url.protocol}//${url.hostname}/*`] });
  if (!sites.includes(url.origin) || !granted) {
    throw new Error(`${url.origin} is not allowed: open it, click the Lathe icon and allow it`);
  }
}

async function inPage(params, run, values) {
  const tab = await tabOf(params);
  await requireAllowed(tab.url);
  const [found] = await chrome.scripting.executeScript({ target: { tabId: tab.id }, func: run, args: values });
  if (found.result?.error) throw new Error(found.result.error);
  return found.result;
}

function loaded(tabId) {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => finish(reject, new Error("the page did not load in time")), LOAD_LIMIT);
    function finish(settle, value) {
      clearTimeout(limit);
      chrome.tabs.onUpdated.removeListener(changed);
      settle(value);
    }
    function changed(id, change) {
      if (id === tabId && change.status === "complete") finish(resolve);
    }
    chrome.tabs.onUpdated.addListener(changed);
  });
}

// These run in the page.
function readPage(longest) {
  const selectorOf = (element) => {
    if (element.id) return `#${CSS.escape(element.id)}`;
    const parts = [];
    for (let node = element; node.parentElement; node = node.parentElement) {
      const place = [...node.parentElement.children].indexOf(node) + 1;
      parts.unshift(`${node.localName}:nth-child(${place})`);
    }
    return parts.join(" > ");
  };
  const seen = (element) => element.getClientRects().length > 0;
  const elements = [...document.querySelectorAll("a[href], button, input, select, textarea")].filter(seen).slice(0, 200);
  const lines = elements.map((element) => {
    const label = (element.innerText || element.getAttribute("aria-label") || element.placeholder || element.name || "").trim().slice(0, 80);
    return `${element.localName} "${label}" ${selectorOf(element)}`;
  });
  const text = `${document.title}\n${location.href}\n\n${document.body?.innerText ?? ""}\n\nElements:\n${lines.join("\n")}`;
  return text.slice(0, longest);
}

function click(selector) {
  const element = document.querySelector(selector);
  if (element === null) return { error: `nothing matches ${selector}` };
  element.scrollIntoView({ block: "center" });
  element.click();
  return `clicked ${element.localName}`;
}

function type(selector, text, submit) {
  const element = document.querySelector(selector);
  if (element === null) return { error: `nothing matches ${selector}` };
  if (element.type === "password") return { error: "passwords are typed by the user" };
  element.focus();
  if (element.isContentEditable) element.textContent = text;
  else if ("value" in element) element.value = text;
  else return { error: `${element.localName} is not a field` };
  element.dispatchEvent(new InputEvent("input", { bubbles: true, data: text }));
  element.dispatchEvent(new Event("change", { bubbles: true }));
  if (submit) {
    element.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    element.form?.requestSubmit();
  }
  return `typed into ${element.localName}`;
}

const TOOLS = {
  async tabs() {
    const { sites = [] } = await chrome.storage.local.get("sites");
    const allowed = (tab) => {
      try {
        return sites.includes(new URL(tab.url).origin);
      } catch {
        return false;
      }
    };
    // Of other sites, only that there is a tab.
    return (await chrome.tabs.query({})).map((tab) =>
      allowed(tab)
        ? { id: tab.id, active: tab.active, url: tab.url, title: tab.title }
        : { id: tab.id, active: tab.active, url: "not allowed" },
    );
  },
  async navigate(params) {
    await requireAllowed(params.url);
    const tab = await tabOf(params);
    const done = loaded(tab.id);
    await chrome.tabs.update(tab.id, { url: params.url, active: true });
    await done;
    return `opened ${params.url} in tab ${tab.id}`;
  },
  read_page: (params) => inPage(params, readPage, [LONGEST_TEXT]),
  click: (params) => inPage(params, click, [String(params.selector)]),
  type: (params) => inPage(params, type, [String(params.selector), String(params.text), params.submit === true]),
  async screenshot() {
    const tab = await tabOf({});
    await requireAllowed(tab.url);
    for (const quality of [80, 50, 20]) {
      const picture = await chrome.tabs.captureVisibleTab(tab.windowId, { format: "jpeg", quality });
      const image = picture.slice(picture.indexOf(",") + 1);
      if (image.length <= LONGEST_IMAGE) return { image, mimeType: "image/jpeg" };
    }
    throw new Error("the picture is too large: make the window smaller");
  },
};

chrome.runtime.onStartup.addListener(connect);
chrome.runtime.onInstalled.addListener(connect);
// The browser stops idle service workers; the alarm starts this one again.
chrome.alarms.create("connect", { periodInMinutes: 0.5 });
chrome.alarms.onAlarm.addListener(connect);
connect();
