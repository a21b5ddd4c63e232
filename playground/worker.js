// Python in a worker of the browser: it loads a run and answers questions about it.

importScripts("pyodide/pyodide.js");

const RUN = "/run";
let pyodide, answers;

async function start() {
  postMessage({ progress: "Starting Python …" });
  const [python, packages] = await Promise.all([loadPyodide({ indexURL: new URL("pyodide/", location.href).href }), file("python.zip")]);
  postMessage({ progress: "Starting NumPy …" });
  python.unpackArchive(packages, "zip", { extractDir: "/python" });
  python.runPython("import sys; sys.path.insert(0, '/python')");
  [pyodide, answers] = [python, python.pyimport("answers")];
}

async function file(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path} could not be loaded (${response.status}).`);
  return response.arrayBuffer();
}

// A run of the site by its name, or the files of a folder.
async function open({ run, files }) {
  postMessage({ progress: "Loading the run …" });
  if (run) pyodide.unpackArchive(await file(`runs/${run}.zip`), "zip", { extractDir: RUN });
  else {
    pyodide.FS.mkdirTree(RUN);
    for (const { name, bytes } of files) pyodide.FS.writeFile(`${RUN}/${name}`, new Uint8Array(bytes));
  }
  checked(answers.open_run(RUN));
  postMessage({ progress: "Computing the certificates …" });
}

function checked(json) {
  const { answer, error } = JSON.parse(json);
  if (error) throw new Error(error);
  return answer;
}

function ask({ name, question }) {
  const result = answers.answer(name, JSON.stringify(question ?? {}));
  if (typeof result === "string") return checked(result);
  const bytes = result.toJs();
  result.destroy();
  return new Blob([bytes]);
}

const started = start();
onmessage = async ({ data }) => {
  try {
    await started;
    postMessage({ id: data.id, answer: data.name ? ask(data) : await open(data) });
  } catch (error) {
    postMessage({ id: data.id, error: error.message });
  }
};
