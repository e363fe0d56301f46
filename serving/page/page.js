"use strict";
const $ = (id) => document.getElementById(id);
const root = new URL(document.body.dataset.root, location.href);

function curl() {
  // A single quote ends a quoted word in the shell; JSON lets us write it as an escape instead.
  const body = JSON.stringify({ text: $("text").value }).replaceAll("'", "\\u0027");
  $("curl").textContent = `curl -s ${new URL("predict", root)} -H 'Content-Type: application/json' -d '${body}'`;
}

function row(name, score) {
  const tr = document.createElement("tr");
  const [label, bar, number] = ["th", "td", "td"].map((tag) => tr.appendChild(document.createElement(tag)));
  label.textContent = name;
  bar.appendChild(Object.assign(document.createElement("meter"), { value: score }));
  number.textContent = `${(100 * score).toFixed(1)} %`;
  number.className = "number";
  return tr;
}

function show(prediction, timing) {
  $("label").textContent = prediction.label;
  const ranked = Object.entries(prediction.scores).sort((a, b) => b[1] - a[1]);
  $("scores").replaceChildren(...ranked.map(([name, score]) => row(name, score)));
  $("note").textContent = (prediction.truncated ? "The text was longer than the model reads and was cut. " : "") + timing;
  $("answer").hidden = false;
}

async function classify(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  $("error").hidden = true;
  const began = performance.now();
  try {
    const response = await fetch(new URL("predict", root), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text: $("text").value }),
    });
    const body = await response.json();
    if (!response.ok) throw new Error(body.error.message);
    show(body.predictions[0], `${(performance.now() - began).toFixed(0)} ms`);
  } catch (error) {
    $("answer").hidden = true;
    $("error").textContent = error.message;
    $("error").hidden = false;
  } finally {
    button.disabled = false;
  }
}

async function introduce() {
  try {
    const health = await (await fetch(new URL("health", root))).json();
    $("name").textContent = document.title = `${health.model.name} ${health.model.version}`;
    const checked = health.verified ? "verified" : "not verified";
    const held = health.model.digest ? [`${health.runtime} on ${health.device}`, health.model.digest] : [];
    $("about").textContent = [health.reason ?? "healthy", checked, ...held].join(" · ");
  } catch (error) {
    $("about").textContent = `/health does not answer: ${error.message}`;
  }
  setTimeout(introduce, 5000);
}

$("form").addEventListener("submit", classify);
$("text").addEventListener("input", curl);
curl();
introduce();
