"use strict";
// Draws the rows of a trace on one canvas. The events are columns of numbers in `data`.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("picture");
  const stage = document.getElementById("stage");
  const tooltip = document.getElementById("tooltip");
  const pen = canvas.getContext("2d");
  const count = data.name.length;

  const LABELS = 176, RULER = 26, LANE = 19, GAP = 8, HEADING = 24;
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';

  // ---- Layout

  // A row's events in lanes, one for each depth, in order of time.
  const rows = data.rows.map((row, index) => ({ ...row, index, lanes: [], folded: false, top: 0, height: 0 }));
  for (let i = 0; i < count; ++i) {
    const lanes = rows[data.row[i]].lanes;
    while (lanes.length <= data.depth[i]) lanes.push([]);
    lanes[data.depth[i]].push(i);
  }
  const arrowsFrom = new Map(), arrowsTo = new Map();
  for (const [from, to] of data.arrows) {
    if (!arrowsFrom.has(from)) arrowsFrom.set(from, []);
    arrowsFrom.get(from).push(to);
    arrowsTo.set(to, from);
  }
  const headings = [];

  function layOut() {
    let top = RULER, group = null;
    headings.length = 0;
    for (const row of rows) {
      if (row.group !== group) {
        group = row.group;
        headings.push({ text: group, top });
        top += HEADING;
      }
      row.top = top;
      row.height = (row.folded ? 1 : Math.max(row.lanes.length, 1)) * LANE;
      top += row.height + GAP;
    }
    return top;
  }
  let contentHeight = layOut();

  // ---- Visible range

  const view = { from: 0, to: 1, top: 0 };
  let width = 0, height = 0, hovered = -1, selected = -1, search = "", matches = null, frame = 0;
  const colors = {};

  const plot = () => Math.max(width - LABELS, 1);
  const toX = time => LABELS + ((time - view.from) / (view.to - view.from)) * plot();
  const toTime = x => view.from + ((x - LABELS) / plot()) * (view.to - view.from);

  function show(from, to) {
    const margin = data.duration * 0.02, least = 0.05;
    let span = Math.min(Math.max(to - from, least), data.duration + 2 * margin);
    const middle = (from + to) / 2;
    view.from = Math.min(Math.max(middle - span / 2, -margin), data.duration + margin - span);
    view.to = view.from + span;
    redraw();
  }
  const showAll = () => show(-data.duration * 0.02, data.duration * 1.02);
  function zoom(factor, time) {
    show(time - (time - view.from) * factor, time + (view.to - time) * factor);
  }
  function scroll(by) {
    view.top = Math.min(Math.max(view.top + by, 0), Math.max(contentHeight - height + 8, 0));
    redraw();
  }
  function redraw() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function readColors() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["page", "panel", "line", "faint", "text", "soft", "accent", "arrow", "dim", "on-bar"]) {
      colors[name] = style.getPropertyValue("--" + name).trim();
    }
    colors.category = data.categories.map(({ key }) => style.getPropertyValue("--" + key).trim());
    // Equal names have the same tint.
    colors.tint = data.names.map(name => {
      let hash = 7;
      for (let i = 0; i < name.length; ++i) hash = (hash * 31 + name.charCodeAt(i)) | 0;
      return ((hash >>> 0) % 5) * 0.055;
    });
    pen.font = FONT;
  }

  // ---- Text

  const digits = value => (value >= 100 ? 0 : value >= 10 ? 1 : 2);
  function duration(us) {
    if (us >= 1e6) return (us / 1e6).toFixed(digits(us / 1e6)) + " s";
    if (us >= 1e3) return (us / 1e3).toFixed(digits(us / 1e3)) + " ms";
    if (us === 0) return "0";
    if (us >= 1) return us.toFixed(digits(us)) + " µs";
    return Math.round(us * 1000) + " ns";
  }
  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB"];
    let unit = 0;
    while (value >= 1024 && unit < 3) { value /= 1024; ++unit; }
    return (unit ? value.toFixed(digits(value)) : value) + " " + units[unit];
  }
  const nameOf = i => data.names[data.name[i]];

  function describe(i) {
    const list = [
      ["category", data.categories[data.category[i]].label],
      ["start", duration(data.start[i])],
      ["duration", duration(data.length[i])],
      ["row", rows[data.row[i]].device ? rows[data.row[i]].group + ", " + rows[data.row[i]].name : rows[data.row[i]].name],
    ];
    const details = data.details[i] || {};
    const operator = data.operator[i];
    if (operator >= 0) {
      list.push(["operator", nameOf(operator)]);
      const shapes = (data.details[operator] || {})["Input Dims"];
      if (shapes) list.push(["operator arguments", JSON.stringify(shapes)]);
    }
    const call = arrowsTo.get(i);
    if (call !== undefined) list.push(["launched", duration(Math.max(data.start[i] - data.start[call], 0)) + " before"]);
    for (const [key, value] of Object.entries(details)) {
      if (key === "stream" || key === "device") continue;
      if (key === "bytes") list.push(["bytes", bytes(value)]);
      else if (key.startsWith("memory bandwidth")) list.push(["bandwidth", Number(value).toFixed(1) + " GB/s"]);
      else list.push([key === "Input Dims" ? "arguments" : key === "Input type" ? "types" : key, typeof value === "string" ? value : JSON.stringify(value)]);
    }
    return list;
  }
  function element(tag, text) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // ---- Drawing

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colors.page;
    pen.fillRect(0, 0, width, height);
    pen.textBaseline = "middle";
    pen.font = FONT;
    drawGrid();
    pen.save();
    pen.beginPath();
    pen.rect(0, RULER, width, height - RULER);
    pen.clip();
    pen.translate(0, -view.top);
    for (const heading of headings) drawHeading(heading);
    for (const row of rows) if (row.top + row.height > view.top && row.top < view.top + height) drawRow(row);
    drawArrows();
    pen.restore();
    drawRuler();
  }

  function step() {
    const wanted = ((view.to - view.from) / plot()) * 110;
    const power = 10 ** Math.floor(Math.log10(wanted));
    return [1, 2, 5, 10].map(m => m * power).find(s => s >= wanted);
  }
  function eachTick(visit) {
    const by = step();
    for (let k = Math.ceil(view.from / by); k * by <= view.to; ++k) visit(k * by, toX(k * by));
  }
  function drawGrid() {
    pen.fillStyle = colors.faint;
    eachTick((_, x) => { if (x >= LABELS) pen.fillRect(Math.round(x), RULER, 1, height); });
  }
  function drawRuler() {
    pen.fillStyle = colors.panel;
    pen.fillRect(0, 0, width, RULER);
    pen.fillStyle = colors.line;
    pen.fillRect(0, RULER - 1, width, 1);
    pen.fillRect(LABELS - 1, 0, 1, height);
    pen.fillStyle = colors.soft;
    pen.textAlign = "center";
    eachTick((time, x) => { if (x > LABELS + 18) pen.fillText(time < 0 ? "" : duration(Math.abs(time) < 1e-9 ? 0 : time), x, RULER / 2); });
    pen.textAlign = "left";
    pen.fillText(duration(view.to - view.from) + " shown", 12, RULER / 2);
  }
  function drawHeading({ text, top }) {
    pen.fillStyle = colors.panel;
    pen.fillRect(0, top + 2, width, HEADING - 6);
    pen.fillStyle = colors.text;
    pen.font = "600 " + FONT;
    pen.textAlign = "left";
    pen.fillText(clip(text, width - 24), 12, top + HEADING / 2 - 1);
    pen.font = FONT;
  }
  function drawRow(row) {
    pen.save();
    pen.beginPath();
    pen.rect(LABELS, row.top, plot(), row.height);
    pen.clip();
    const shown = row.folded ? row.lanes.slice(0, 1) : row.lanes;
    shown.forEach((lane, depth) => drawLane(lane, row.top + depth * LANE));
    pen.restore();
    pen.textAlign = "left";
    pen.fillStyle = colors.text;
    const mark = row.lanes.length > 1 ? (row.folded ? "▸ " : "▾ ") : "";
    pen.fillText(clip(mark + row.name, LABELS - 22), 12, row.top + LANE / 2);
    if (row.device && (row.height >= 2 * LANE || row.folded === false)) {
      const words = Math.round(row.busy * 100) + " % busy";
      pen.fillStyle = colors.soft;
      if (row.height >= 2 * LANE) pen.fillText(clip(words + " · " + row.work + " launches", LABELS - 20), 12, row.top + LANE * 1.5);
      else {
        pen.textAlign = "right";
        pen.fillText(words, LABELS - 12, row.top + LANE / 2);
      }
    }
    pen.fillStyle = colors.faint;
    pen.fillRect(0, row.top + row.height + GAP / 2, width, 1);
  }

  // The first event of a lane that ends after the left edge.
  function firstVisible(lane) {
    let low = 0, high = lane.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data.start[lane[middle]] + data.length[lane[middle]] < view.from) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  function drawLane(lane, top) {
    let filled = -1;  // the pixel column up to which thin events are drawn
    for (let k = firstVisible(lane); k < lane.length; ++k) {
      const i = lane[k];
      if (data.start[i] > view.to) break;
      const left = Math.max(toX(data.start[i]), LABELS - 2);
      const right = Math.min(toX(data.start[i] + data.length[i]), width + 2);
      const special = i === hovered || i === selected || (matches && matches.has(i));
      if (right < filled && !special) continue;
      const wide = Math.max(right - left - (right - left > 4 ? 1 : 0), 1);
      filled = left + wide;
      drawBar(i, left, top, wide);
    }
  }
  function drawBar(i, left, top, wide) {
    const dimmed = matches && !matches.has(i);
    pen.globalAlpha = dimmed ? Number(colors.dim) : 1 - colors.tint[data.name[i]];
    pen.fillStyle = colors.category[data.category[i]];
    if (wide > 5) {
      pen.beginPath();
      pen.roundRect(left, top + 1, wide, LANE - 3, 3);
      pen.fill();
    } else {
      pen.fillRect(left, top + 1, wide, LANE - 3);
    }
    pen.globalAlpha = 1;
    if (wide > 34 && !dimmed) {
      pen.fillStyle = colors["on-bar"];
      pen.textAlign = "left";
      const words = clip(nameOf(i), wide - 10);
      if (words.length > 2) pen.fillText(words, left + 5, top + LANE / 2);
    }
    if (i === hovered || i === selected) {
      pen.strokeStyle = i === selected ? colors.accent : colors.text;
      pen.lineWidth = 1.5;
      pen.strokeRect(left - 0.5, top + 0.5, Math.max(wide + 1, 3), LANE - 2);
    }
  }
  function clip(words, space) {
    if (pen.measureText(words).width <= space) return words;
    let low = 0, high = words.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (pen.measureText(words.slice(0, middle) + "…").width <= space) low = middle;
      else high = middle - 1;
    }
    return low ? words.slice(0, low) + "…" : "";
  }

  const yOf = i => {
    const row = rows[data.row[i]];
    return row.top + (row.folded ? 0 : data.depth[i]) * LANE + LANE / 2;
  };
  function drawArrow(from, to, strong) {
    const x0 = toX(data.start[from] + data.length[from] / 2), x1 = toX(data.start[to]);
    const y0 = yOf(from), y1 = yOf(to);
    const bend = Math.max(Math.abs(x1 - x0) / 2, 18);
    pen.globalAlpha = strong ? 1 : 0.38;
    pen.lineWidth = strong ? 1.8 : 1;
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(x1 + 1, y1);
    pen.lineTo(x1 - 6, y1 - 3.5);
    pen.lineTo(x1 - 6, y1 + 3.5);
    pen.fill();
    pen.globalAlpha = 1;
  }
  function drawArrows() {
    pen.save();
    pen.beginPath();
    pen.rect(LABELS, view.top + RULER, plot(), height);
    pen.clip();
    pen.strokeStyle = pen.fillStyle = colors.arrow;
    if (document.getElementById("arrows").checked) {
      const seen = data.arrows.filter(([from, to]) => data.start[to] <= view.to && data.start[from] >= view.from
        || data.start[from] <= view.to && data.start[to] >= view.from);
      // More arrows would hide the events.
      if (seen.length <= 60) for (const [from, to] of seen) drawArrow(from, to, false);
    }
    for (const i of [hovered, selected]) {
      for (const to of arrowsFrom.get(i) || []) drawArrow(i, to, true);
      if (arrowsTo.has(i)) drawArrow(arrowsTo.get(i), i, true);
    }
    pen.restore();
  }

  // ---- Mouse and keyboard

  function rowAt(y) {
    if (y < RULER) return undefined;
    const at = y + view.top;
    return rows.find(row => at >= row.top && at < row.top + row.height);
  }
  function eventAt(x, y) {
    const row = rowAt(y);
    if (!row || x < LABELS) return -1;
    const lane = row.lanes[row.folded ? 0 : Math.floor((y + view.top - row.top) / LANE)];
    if (!lane) return -1;
    const reach = ((view.to - view.from) / plot()) * 2;  // tolerance for thin events
    const time = toTime(x);
    let best = -1, distance = Infinity;
    for (let k = Math.max(firstVisible(lane) - 1, 0); k < lane.length; ++k) {
      const i = lane[k];
      if (data.start[i] > time + reach) break;
      const away = Math.max(data.start[i] - time, time - data.start[i] - data.length[i], 0);
      if (away <= reach && away < distance) { best = i; distance = away; }
    }
    return best;
  }
  function hover(i, x, y) {
    if (i !== hovered) {
      hovered = i;
      tooltip.hidden = i < 0;
      if (i >= 0) {
        const list = element("dl");
        for (const [key, value] of describe(i)) list.append(element("dt", key), element("dd", value));
        tooltip.replaceChildren(element("b", nameOf(i)), list);
      }
      redraw();
    }
    if (i < 0) return;
    const box = tooltip.getBoundingClientRect();
    tooltip.style.left = Math.max(Math.min(x + 14, width - box.width - 8), 4) + "px";
    tooltip.style.top = (y + 18 + box.height < height ? y + 18 : Math.max(y - box.height - 12, 4)) + "px";
  }
  function select(i) {
    selected = i;
    const panel = document.getElementById("selected");
    if (i >= 0) {
      const list = element("dl");
      for (const [key, value] of describe(i)) {
        const pair = element("div");
        pair.append(element("dt", key), element("dd", value));
        list.append(pair);
      }
      panel.replaceChildren(element("b", nameOf(i)), list);
    } else {
      panel.replaceChildren(Object.assign(element("span", "No event is selected."), { className: "hint" }));
    }
    resize();
  }

  let grip = null;
  canvas.addEventListener("pointerdown", event => {
    grip = { x: event.offsetX, y: event.offsetY, from: view.from, to: view.to, top: view.top, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!grip) return hover(eventAt(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    const dx = event.offsetX - grip.x, dy = event.offsetY - grip.y;
    if (Math.abs(dx) + Math.abs(dy) > 3) grip.moved = true;
    if (!grip.moved) return;
    canvas.classList.add("moving");
    hover(-1);
    const by = (dx / plot()) * (grip.to - grip.from);
    show(grip.from - by, grip.to - by);
    scroll(grip.top - dy - view.top);
  });
  canvas.addEventListener("pointerup", event => {
    const clicked = grip && !grip.moved;
    grip = null;
    canvas.classList.remove("moving");
    if (!clicked) return;
    const row = rowAt(event.offsetY);
    if (row && event.offsetX < LABELS && row.lanes.length > 1) {
      row.folded = !row.folded;
      contentHeight = layOut();
      scroll(0);
    } else {
      select(eventAt(event.offsetX, event.offsetY));
    }
  });
  canvas.addEventListener("pointerleave", () => { if (!grip) hover(-1); });
  canvas.addEventListener("dblclick", event => {
    const i = eventAt(event.offsetX, event.offsetY);
    if (i >= 0) show(data.start[i] - data.length[i] * 0.3, data.start[i] + data.length[i] * 1.3);
  });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = ((event.deltaX || event.deltaY) / plot()) * (view.to - view.from);
      show(view.from + by, view.to + by);
    } else if (event.offsetX < LABELS || event.altKey) {
      scroll(event.deltaY);
    } else {
      zoom(Math.exp(event.deltaY * 0.0016), toTime(event.offsetX));
    }
  }, { passive: false });

  const middle = () => (view.from + view.to) / 2;
  const pan = part => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));
  const keys = {
    w: () => zoom(0.7, middle()), s: () => zoom(1 / 0.7, middle()), a: () => pan(-0.15), d: () => pan(0.15),
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), ArrowUp: () => scroll(-40), ArrowDown: () => scroll(40),
    "+": () => zoom(0.7, middle()), "-": () => zoom(1 / 0.7, middle()), 0: showAll, Escape: () => select(-1),
  };
  window.addEventListener("keydown", event => {
    if (event.target.tagName === "INPUT" && event.target.type === "search") return;
    if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.getElementById("in").addEventListener("click", keys.w);
  document.getElementById("out").addEventListener("click", keys.s);
  document.getElementById("all").addEventListener("click", showAll);
  document.getElementById("arrows").addEventListener("change", redraw);
  document.getElementById("search").addEventListener("input", event => {
    search = event.target.value.trim().toLowerCase();
    matches = null;
    let total = 0;
    if (search) {
      const hit = data.names.map(name => name.toLowerCase().includes(search));
      matches = new Set();
      for (let i = 0; i < count; ++i) if (hit[data.name[i]]) { matches.add(i); total += data.length[i]; }
    }
    document.getElementById("found").textContent = matches ? matches.size + " found, " + duration(total) : "";
    redraw();
  });

  // ---- Initialization

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    width = stage.clientWidth;
    height = stage.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    scroll(0);
    draw();  // immediately: resizing clears a canvas
  }
  function drawLegend() {
    const legend = document.getElementById("legend");
    legend.replaceChildren();
    data.categories.forEach(({ label, count: times }, index) => {
      if (!times) return;
      const item = element("span"), swatch = element("i");
      swatch.style.background = colors.category[index];
      item.append(swatch, element("span", label + " " + times));
      legend.append(item);
    });
    if (data.arrows.length) legend.append(element("span", "→ launch to work " + data.arrows.length));
  }
  document.getElementById("summary").textContent = duration(data.duration) + ", " + count + " events";
  readColors();
  drawLegend();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); drawLegend(); redraw(); });
  new ResizeObserver(resize).observe(stage);
  showAll();
  resize();
  // For tests.
  window.timeline = { data, rows, view, show, draw, toX, yOf, eventAt, describe, get hovered() { return hovered; }, get selected() { return selected; } };
})();
