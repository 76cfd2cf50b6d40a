"use strict";
// Charts follow the colours of the style sheet; the list of cases can be filtered. Without scripts all text is there.
(() => {
  const figures = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const coloured = (value) => {
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item)]));
    }
    return typeof value === "string" && /^\$[a-z0-9]+$/.test(value) ? colour(value.slice(1)) : value;
  };

  const draw = () => {
    for (const element of document.querySelectorAll(".chart")) {
      const figure = coloured(figures[element.dataset.chart]);
      const axis = { gridcolor: colour("rule"), linecolor: colour("rule"), zerolinecolor: colour("rule"), fixedrange: true };
      const layout = {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", autosize: true,
        font: { family: getComputedStyle(document.body).fontFamily, size: element.clientWidth < 480 ? 11.5 : 13.5, color: colour("ink") },
        ...figure.layout,
      };
      for (const key of Object.keys(layout).filter((name) => /^[xy]axis/.test(name))) {
        const title = { ...layout[key].title, font: { size: layout.font.size, color: colour("muted") } };
        layout[key] = { ...axis, ...layout[key], title };
      }
      Plotly.react(element, figure.data, layout, { displayModeBar: false, responsive: true });
    }
  };
  if (Object.keys(figures).length) {
    draw();
    dark.addEventListener("change", draw);
  }

  const cases = [...document.querySelectorAll(".case")].map((element) => ({
    element, kind: element.dataset.effect, text: element.textContent.toLowerCase(),
  }));
  const needle = document.getElementById("needle");
  if (!needle) return;
  const more = document.getElementById("more");
  const firstShown = 12;
  let kind = "all";
  let limit = firstShown;
  const filter = () => {
    const word = needle.value.trim().toLowerCase();
    const fitting = cases.filter((one) => (kind === "all" || one.kind === kind) && one.text.includes(word));
    for (const one of cases) one.element.hidden = true;
    for (const one of fitting.slice(0, limit)) one.element.hidden = false;
    more.hidden = fitting.length <= limit;
    document.getElementById("count").textContent = `${fitting.length} found`;
  };
  needle.addEventListener("input", () => {
    limit = firstShown;
    filter();
  });
  more.addEventListener("click", () => {
    limit = cases.length;
    filter();
  });
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => {
      kind = button.dataset.show;
      for (const other of document.querySelectorAll("[data-show]")) other.setAttribute("aria-pressed", other === button);
      limit = firstShown;
      filter();
    });
  }
  filter();
})();
