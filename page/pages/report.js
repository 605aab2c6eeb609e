"use strict";
// Shows the values under the pointer, or under a cursor that the arrow keys move.
function follow(chart) {
  const plot = chart.querySelector(".plot svg"), cursor = plot.querySelector(".cursor");
  const now = chart.querySelector(".now"), low = Number(chart.dataset.low), high = Number(chart.dataset.high);
  const lines = [...plot.querySelectorAll("g[data-points]")].map(group => {
    const numbers = group.dataset.points.split(" ").map(Number);
    return { name: group.dataset.name, x: numbers.filter((_, i) => i % 2 === 0), y: numbers.filter((_, i) => i % 2) };
  });
  const places = [...new Set(lines.flatMap(line => line.x))].sort((a, b) => a - b);
  let at = -1;
  const nearest = (list, x) => list.reduce((best, value, i) => Math.abs(value - x) < Math.abs(list[best] - x) ? i : best, 0);
  function show(x) {
    const words = [];
    for (const line of lines) {
      const i = nearest(line.x, x), name = document.createElement("span"), value = document.createElement("b");
      if (lines.length > 1) { name.textContent = line.name + " "; words.push(name); }
      value.textContent = line.y[i] + " ";
      words.push(value);
    }
    const place = document.createElement("span");
    place.textContent = chart.dataset.x.toLowerCase() + " " + x;
    now.replaceChildren(...words, place);
    cursor.setAttribute("d", `M${1000 * (x - low) / (high - low)} 0v1000`);
  }
  function hide() { now.replaceChildren(); cursor.removeAttribute("d"); at = -1; }
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect();
    at = nearest(places, low + (high - low) * (event.clientX - box.left) / box.width);
    show(places[at]);
  });
  plot.addEventListener("pointerleave", hide);
  chart.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.target !== chart) return;
    at = at < 0 ? (by > 0 ? 0 : places.length - 1) : Math.min(Math.max(at + by, 0), places.length - 1);
    show(places[at]);
    event.preventDefault();
  });
  chart.addEventListener("blur", hide);
}
document.querySelectorAll(".chart").forEach(follow);
