"use strict";
const SVG = "http://www.w3.org/2000/svg";
const STATES = { waiting: "waiting", playing: "playing", ended: "ended", interrupted: "stopped", failed: "failed", lost: "gone" };
const main = document.getElementById("view");
const status = document.getElementById("status");

// Everything that is told is text: names come from other machines.
function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function duration(seconds) {
  if (seconds === null) return "–";
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 48 * 3600) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

function bytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000) return unit === "B" ? `${count} B` : `${count.toFixed(1)} ${unit}`;
    count /= 1000;
  }
  return `${count.toFixed(1)} TB`;
}

function value(number, share) {
  if (number === null) return "–";
  return share ? `${(100 * number).toFixed(2)}%` : String(Number(number.toPrecision(4)));
}

function line(points, share, label) {
  const [width, height] = [600, 120];
  const made = document.createElementNS(SVG, "svg");
  made.setAttribute("viewBox", `-4 -6 ${width + 8} ${height + 12}`);
  made.setAttribute("role", "img");
  const values = points.map((point) => point[1]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const last = points[points.length - 1];
  made.setAttribute(
    "aria-label",
    `${label} from round ${points[0][0]} to ${last[0]}: between ${value(least, share)} and ${value(most, share)}, now ${value(last[1], share)}`
  );
  const across = (round) => (last[0] === points[0][0] ? width / 2 : ((round - points[0][0]) / (last[0] - points[0][0])) * width);
  const down = (number) => (most === least ? height / 2 : height - ((number - least) / (most - least)) * height);
  const path = document.createElementNS(SVG, "polyline");
  path.setAttribute("points", points.map(([round, number]) => `${across(round).toFixed(1)},${down(number).toFixed(1)}`).join(" "));
  const dot = document.createElementNS(SVG, "circle");
  for (const [name, number] of Object.entries({ cx: across(last[0]), cy: down(last[1]), r: 4 })) dot.setAttribute(name, number);
  made.append(path, dot);
  return made;
}

function curve(points, share, label) {
  const made = element("figure", null);
  const values = points.map((point) => point[1]);
  const range = `from ${value(Math.min(...values), share)} to ${value(Math.max(...values), share)}`;
  made.append(line(points, share, label), element("figcaption", `${label} by rounds, ${range}`));
  return made;
}

function table(label, headings, rows, texts = 1) {
  const wide = element("div", null, { class: "wide", tabindex: "0", role: "region", "aria-label": label });
  const made = element("table", null);
  const head = element("tr", null);
  const looks = (place) => (place < texts ? { class: "text" } : {});
  headings.forEach((heading, place) => head.append(element("th", heading, { scope: "col", ...looks(place) })));
  const body = element("tbody", null);
  for (const [first, ...others] of rows) {
    const row = element("tr", null);
    row.append(element("th", first, { scope: "row", class: "text" }));
    others.forEach((cell, place) => row.append(element("td", cell, looks(place + 1))));
    body.append(row);
  }
  const top = element("thead", null);
  top.append(head);
  made.append(top, body);
  wide.append(made);
  return wide;
}

function progress(done, of, told) {
  const made = element("p", null);
  if (of) made.append(element("progress", null, { value: done, max: of, "aria-label": told }), " ");
  made.append(told);
  return made;
}

function left(view) {
  return view.left === null ? "" : `, ${duration(view.left)} left`;
}

function doing(view) {
  const told = [`${view.phase === "join" ? "joining" : `round ${view.round + 1}`} for ${duration(view.since)}`];
  const count = view.doing.working || 0;
  if (count) told.push(`at work: ${view.working.join(", ")}${count > view.working.length ? ` and ${count - view.working.length} more` : ""}`);
  if (view.doing.waiting) told.push(`waiting: ${view.doing.waiting}`);
  if (view.doing.done) told.push(`done: ${view.doing.done}`);
  return told.join("; ");
}

function* run(view) {
  yield progress(view.round, view.rounds, `round ${view.round}${view.rounds ? ` of ${view.rounds}` : ""}${view.over ? "" : left(view)}`);
  if (view.points.length) {
    yield element("p", `${view.metric} ${value(view.score, view.share)}, worst ${value(view.worst, view.share)}`, { class: "lead" });
    yield curve(view.points, view.share, view.metric);
    if (view.validation.length) yield curve(view.validation, view.share, `${view.metric} on validation data`);
    yield element("p", `sent ${bytes(view.sent)}, received ${bytes(view.received)}; worked ${duration(view.seconds)}`);
  }
  if (view.state === "playing" && view.phase) yield element("p", doing(view));
  const out = Object.entries(view.out);
  if (out.length) yield element("p", `dropped out now: ${out.map(([name, why]) => `${name} (${why})`).join(", ")}`);
  if (view.people.length) {
    yield element("h2", "Participants, worst off first");
    yield table("Participants", ["name", view.metric, "sent", "received", "now"], view.people.map((person) => [
      person.name, value(person.score, view.share), bytes(person.sent), bytes(person.received), person.doing,
    ]));
  }
  if (view.dropped) {
    yield element("h2", `Dropped out ${view.dropped} times`);
    yield table("The last who dropped out", ["name", "why", "round"], [...view.drops].reverse().map((drop) => [drop.name, drop.why, String(drop.round)]), 2);
  }
  if (view.news.length) {
    yield element("h2", "The server says");
    yield element("pre", view.news.join("\n"), { tabindex: "0" });
  }
}

function* comparison(view) {
  yield progress(view.played, view.rounds, `rounds of all runs ${view.played} of ${view.rounds}${left(view)}`);
  yield table("Methods", ["method", view.metric || "so far", "runs over", "now", "failed"], view.candidates.map((one) => [
    one.name,
    value(one.mean, view.share) + (one.done > 1 && one.mean !== null ? ` ± ${value(one.deviation, view.share)}` : ""),
    one.tried ? `${one.tried[0]} of ${one.tried[1]} settings tried` : `${one.done} of ${one.runs}`,
    one.playing.map(([seed, round, rounds]) => `seed ${seed}: ${round} of ${rounds}`).join(", "),
    one.failed.length ? String(one.failed.length) : "",
  ]));
  for (const one of view.candidates)
    for (const [seed, why] of one.failed) yield element("p", `${one.name}, seed ${seed}: ${why}`);
  for (const each of view.running) {
    yield element("h2", each.title);
    yield progress(each.round, each.rounds, `round ${each.round} of ${each.rounds}${left(each)}`);
    if (each.points.length) yield curve(each.points, each.share, each.metric);
  }
}

function show(view) {
  const what = view.kind === "comparison" ? `Comparison of ${view.title}` : view.title || "A run";
  document.title = `${view.kind === "error" ? "" : `${what}: `}${STATES[view.state] || "error"}`;
  document.getElementById("title").textContent = view.kind === "error" ? "It cannot be read" : what;
  const told = view.kind === "error" ? view.why : `${STATES[view.state]}${view.why ? `: ${view.why}` : ""}`;
  if (status.textContent !== told) status.textContent = told; // read out only when it changes
  document.getElementById("folder").textContent = view.folder || "";
  const focused = document.activeElement && document.activeElement.getAttribute("aria-label");
  const blocks = view.kind === "error" ? [] : [...(view.kind === "comparison" ? comparison(view) : run(view))];
  main.replaceChildren(...blocks);
  if (focused) [...main.querySelectorAll("[aria-label][tabindex]")].find((each) => each.getAttribute("aria-label") === focused)?.focus();
}

const events = new EventSource("events" + location.search);
events.onmessage = (event) => show(JSON.parse(event.data));
events.onerror = () => { status.textContent = "the connection is lost; waiting for it"; };
