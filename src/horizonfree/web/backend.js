// The back end of a playground that is served by `horizonfree serve`: requests to its server.
// A playground without a server (playground/backend.js) has the same three exports.

export const linkNote = "It opens this reward on this machine while the server runs.";

// Prepare the run; `report` shows a text while it takes time.
export async function open(report) {
  report("Loading …");
}

// The answer to a question: an object, or the bytes of a file as a blob.
export async function ask(name, question) {
  const options = question && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) };
  let response;
  try {
    response = await fetch(`api/${name}`, options);
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error ?? `The server answered ${response.status}.`);
  return response.headers.get("content-type").startsWith("application/json") ? response.json() : response.blob();
}
