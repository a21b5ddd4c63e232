// The back end of the playground without a server: Python in a worker of this page.
// src/horizonfree/web/backend.js has the same three exports.

const MAX_BYTES = 2 ** 29; // of a run
const worker = new Worker(new URL("worker.js", import.meta.url));
const waiting = new Map(); // id: the functions that settle its promise
let last = 0, show = () => {};

export let linkNote = "It opens this run and this reward.";

worker.onmessage = ({ data: { id, answer, error, progress } }) => {
  if (progress) return show(progress);
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error));
  else resolve(answer);
};
worker.onerror = (event) => {
  for (const { reject } of waiting.values()) reject(new Error(event.message || "Python could not be started."));
  waiting.clear();
};

function send(message) {
  return new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    worker.postMessage({ id: last, ...message });
  });
}

export const ask = (name, question) => send({ name, question });

// Load the run that the address names, or wait until one is chosen.
export async function open(report) {
  const runs = await (await fetch("runs/runs.json")).json();
  const name = new URLSearchParams(location.search).get("run");
  const input = Object.assign(document.createElement("input"), { type: "file", webkitdirectory: true, id: "folder" });
  const label = Object.assign(document.createElement("label"), { htmlFor: "folder", textContent: "Your own run, a folder that explore wrote: " });
  const choice = Object.assign(document.createElement("p"), { id: "runs" });
  choice.append("Runs: ");
  for (const run of runs) choice.append(link(run.title, `?run=${run.name}`, run.name === name), " · ");
  if (name) choice.append(link("your own", "?"));
  else choice.append(label, input);
  document.querySelector("header").append(choice);
  if (name && !runs.some((run) => run.name === name)) throw new Error(`There is no run ${name.slice(0, 40)} here.`);
  if (name) {
    show = report;
    return send({ run: name });
  }
  linkNote = "It opens this reward on a page with the same run.";
  document.querySelector("main").hidden = true;
  report("Choose a run. Everything is computed in this browser; nothing is sent anywhere.");
  return chosen(input, report);
}

function link(text, href, isCurrent = false) {
  const anchor = Object.assign(document.createElement("a"), { textContent: text, href });
  if (isCurrent) anchor.setAttribute("aria-current", "page");
  return anchor;
}

// Wait for a folder that holds a run.
function chosen(input, report) {
  return new Promise((resolve) => {
    input.onchange = async () => {
      const files = [...input.files].filter((file) => file.webkitRelativePath.split("/").length === 2);
      try {
        show = report;
        if (files.reduce((sum, file) => sum + file.size, 0) > MAX_BYTES) throw new Error("This folder is too large for the browser.");
        await send({ files: await Promise.all(files.map(async (file) => ({ name: file.name, bytes: await file.arrayBuffer() }))) });
        input.disabled = true;
        document.querySelector("main").hidden = false;
        resolve();
      } catch (error) {
        report(error.message);
      }
    };
  });
}
