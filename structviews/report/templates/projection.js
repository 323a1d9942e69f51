"use strict";
(() => {
  const { x, y, texts, lines, colourings } = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const canvas = $("plot");
  const pen = canvas.getContext("2d");
  const lowered = texts.map((text) => text.toLowerCase());
  const MARGIN = 16;  // pixels around the points of the whole
  const NEAR = 16;  // pixels within which a point is pointed at
  const SHADES = 32;  // colours of a scale
  const MOST_HITS = 50;  // that are listed
  const RADIUS = texts.length > 5000 ? 2 : texts.length > 2000 ? 2.5 : 3.5;
  const view = { scale: 1, left: 0, top: 0 };  // the scale is relative to the whole; left and top are in pixels
  let colouring = colourings[0];
  let words = "";
  let kept = null;  // the class that the legend lets stand out
  let lit = null;  // for each point whether it stands out; null if all do
  let current = -1;  // the point whose sentence is shown
  const matches = () => [...texts.keys()].filter((i) => lit[i]);

  /** Create an element with text. */
  const element = (name, text, kind = "") => {
    const made = document.createElement(name);
    made.textContent = text;
    made.className = kind;
    return made;
  };

  // Places.
  const largest = (numbers) => numbers.reduce((a, b) => Math.max(a, b), 1e-9);
  const spread = { x: largest(x), y: largest(y) };
  const unit = () => Math.min((canvas.clientWidth - 2 * MARGIN) / spread.x, (canvas.clientHeight - 2 * MARGIN) / spread.y);
  const place = (i) => {
    const one = unit();
    const left = (canvas.clientWidth - spread.x * one) / 2;
    const top = (canvas.clientHeight - spread.y * one) / 2;
    return [(left + x[i] * one) * view.scale + view.left, (top + y[i] * one) * view.scale + view.top];
  };

  // Drawing.
  const shapes = {
    "●": (px, py, r) => { pen.moveTo(px + r, py); pen.arc(px, py, r, 0, 7); },
    "▲": (px, py, r) => { pen.moveTo(px, py - r); pen.lineTo(px + r, py + r); pen.lineTo(px - r, py + r); pen.closePath(); },
    "■": (px, py, r) => pen.rect(px - r, py - r, 2 * r, 2 * r),
    "◆": (px, py, r) => { pen.moveTo(px, py - r); pen.lineTo(px + r, py); pen.lineTo(px, py + r); pen.lineTo(px - r, py); pen.closePath(); },
    "▼": (px, py, r) => { pen.moveTo(px, py + r); pen.lineTo(px + r, py - r); pen.lineTo(px - r, py - r); pen.closePath(); },
  };
  const part = (value) => Math.min(1, Math.max(0, (value - colouring.low) / Math.max(1, colouring.high - colouring.low)));
  const mixed = (share, style) => {
    const [a, b] = share < 0.5 ? ["--low", "--middle"] : ["--middle", "--high"];
    const numbers = (name) => [1, 3, 5].map((at) => parseInt(style.getPropertyValue(name).trim().slice(at, at + 2), 16));
    const [one, other] = [numbers(a), numbers(b)];
    const weight = share < 0.5 ? 2 * share : 2 * share - 1;
    return `rgb(${one.map((value, i) => Math.round(value + weight * (other[i] - value)))})`;
  };

  /** Colour and shape of each group of points, and the group of each point. */
  const groups = (style) => {
    const { classes, values } = colouring;
    if (classes) {
      const looks = classes.map(({ colour, symbol }) => [style.getPropertyValue(`--c${colour}`), symbol]);
      return { looks, of: (i) => values[i] };
    }
    const looks = Array.from({ length: SHADES }, (_, i) => [mixed(i / (SHADES - 1), style), "●"]);
    return { looks, of: (i) => Math.round(part(values[i]) * (SHADES - 1)) };
  };

  const draw = () => {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      [canvas.width, canvas.height] = [width * ratio, height * ratio];
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    const { looks, of } = groups(style);
    const radius = RADIUS * Math.min(2, view.scale ** 0.4);
    const drawn = (wanted, alpha, r) => {
      const members = looks.map(() => []);
      for (let i = 0; i < texts.length; i += 1) if (!lit || lit[i] === wanted) members[of(i)].push(i);
      pen.globalAlpha = alpha;
      looks.forEach(([colour, symbol], group) => {
        pen.fillStyle = colour;
        for (const i of members[group]) {
          const [px, py] = place(i);
          if (px < -r || py < -r || px > width + r || py > height + r) continue;
          pen.beginPath();
          shapes[symbol](px, py, r);
          pen.fill();
        }
      });
      pen.globalAlpha = 1;
    };
    if (lit) drawn(false, 0.12, radius);
    drawn(true, lit ? 1 : 0.8, lit ? radius + 0.5 : radius);
    if (current < 0) return;
    pen.strokeStyle = style.getPropertyValue("--ink");
    pen.lineWidth = 2;
    pen.beginPath();
    shapes["●"](...place(current), radius + 3);
    pen.stroke();
  };
  let waiting = 0;
  const redraw = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  };

  // The sentence.
  const show = (i) => {
    if (i === current) return;
    current = i;
    redraw();
    if (i < 0) {
      $("sentence").replaceChildren(element("p", "Point at a sentence, tap it, or use the arrow keys.", "quiet"));
      return;
    }
    const text = element("p", texts[i]);
    text.dir = "auto";
    const about = colourings.map(({ name, classes, values }) => (classes ? classes[values[i]].name : `${name}: ${values[i]}`));
    $("sentence").replaceChildren(text, element("p", [`line ${lines[i].toLocaleString("en")}`, ...about].join(" · "), "quiet"));
  };
  const nearest = (px, py) => {
    let best = -1;
    let least = NEAR ** 2;
    for (let i = 0; i < texts.length; i += 1) {
      if (lit && !lit[i]) continue;
      const [left, top] = place(i);
      const distance = (left - px) ** 2 + (top - py) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  };

  // Zoom and movement.
  const bound = () => {
    const most = (size) => size * (view.scale - 1);
    view.left = Math.min(0, Math.max(-most(canvas.clientWidth), view.left));
    view.top = Math.min(0, Math.max(-most(canvas.clientHeight), view.top));
    canvas.classList.toggle("zoomed", view.scale > 1);
    redraw();
  };
  const zoom = (factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) => {
    const scale = Math.min(60, Math.max(1, view.scale * factor));
    view.left = px - (px - view.left) * (scale / view.scale);
    view.top = py - (py - view.top) * (scale / view.scale);
    view.scale = scale;
    bound();
  };
  const whole = () => {
    Object.assign(view, { scale: 1, left: 0, top: 0 });
    bound();
  };
  /** Zoom about the current sentence, if there is one in the picture. */
  const zoomAbout = (factor) => (current < 0 ? zoom(factor) : zoom(factor, ...place(current)));
  const intoView = (i) => {
    const [px, py] = place(i);
    if (px < MARGIN || px > canvas.clientWidth - MARGIN) view.left += canvas.clientWidth / 2 - px;
    if (py < MARGIN || py > canvas.clientHeight - MARGIN) view.top += canvas.clientHeight / 2 - py;
    bound();
  };

  // Pointers: one moves or points, two zoom.
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    canvas.setPointerCapture(event.pointerId);
    show(nearest(event.offsetX, event.offsetY));
  });
  canvas.addEventListener("pointermove", (event) => {
    const to = [event.offsetX, event.offsetY];
    const from = fingers.get(event.pointerId);
    if (!from) return show(nearest(...to));
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    if (other) zoom(apart(to) / apart(from), (to[0] + other[0]) / 2, (to[1] + other[1]) / 2);
    else {
      view.left += to[0] - from[0];
      view.top += to[1] - from[1];
      bound();
    }
    fingers.set(event.pointerId, to);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, ({ pointerId }) => fingers.delete(pointerId));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / (event.deltaMode ? 20 : 500)), event.offsetX, event.offsetY);
  }, { passive: false });

  // Keys: the next sentence in a direction is near, and more ahead than aside.
  const directions = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  const next = ([dx, dy]) => {
    if (current < 0) return nearestOf(canvas.clientWidth / 2, canvas.clientHeight / 2);
    const [px, py] = place(current);
    let best = current;
    let least = Infinity;
    for (let i = 0; i < texts.length; i += 1) {
      if (i === current || (lit && !lit[i])) continue;
      const [left, top] = place(i);
      const ahead = (left - px) * dx + (top - py) * dy;
      const aside = Math.abs((left - px) * dy + (top - py) * dx);
      if (ahead > 0 && aside <= ahead && ahead + aside < least) [best, least] = [i, ahead + aside];
    }
    return best;
  };
  const nearestOf = (px, py) => {
    const distance = (i) => Math.hypot(place(i)[0] - px, place(i)[1] - py);
    return (lit ? matches() : [...texts.keys()]).reduce((best, i) => (best < 0 || distance(i) < distance(best) ? i : best), -1);
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = { "+": () => zoomAbout(1.5), "=": () => zoomAbout(1.5), "-": () => zoomAbout(1 / 1.5), 0: whole,
      Escape: () => show(-1) };
    const direction = directions[event.key];
    if (!direction && !actions[event.key]) return;
    event.preventDefault();
    if (direction) {
      show(next(direction));
      if (current >= 0) intoView(current);
    } else actions[event.key]();
  });
  $("larger").addEventListener("click", () => zoomAbout(1.5));
  $("smaller").addEventListener("click", () => zoomAbout(1 / 1.5));
  $("whole").addEventListener("click", whole);

  // What stands out: the sentences with the words, and those of the class.
  const light = () => {
    lit = words || kept !== null
      ? texts.map((_, i) => lowered[i].includes(words) && (kept === null || colouring.values[i] === kept)) : null;
    const hits = words ? matches() : [];
    $("found").textContent = words ? `${hits.length.toLocaleString("en")} of ${texts.length.toLocaleString("en")} sentences` : "";
    $("hits-title").hidden = !hits.length;
    $("hits").replaceChildren(...hits.slice(0, MOST_HITS).map((i) => {
      const button = element("button", texts[i]);
      button.type = "button";
      button.dir = "auto";
      button.addEventListener("click", () => { show(i); intoView(i); });
      const item = document.createElement("li");
      item.append(button);
      return item;
    }));
    redraw();
  };
  $("search").addEventListener("input", () => {
    words = $("search").value.trim().toLowerCase();
    light();
  });
  $("tools").addEventListener("submit", (event) => {
    event.preventDefault();
    if (words) $("hits").querySelector("button")?.click();
  });

  // Colours.
  const legend = () => {
    const { name, classes, low, high, cut } = colouring;
    $("name").textContent = name[0].toUpperCase() + name.slice(1);
    if (!classes) {
      const ends = element("div", "", "ends");
      ends.append(element("span", low.toLocaleString("en")), element("span", `${high.toLocaleString("en")}${cut ? " and more" : ""}`));
      $("legend").replaceChildren(element("div", "", "scale"), ends);
      return;
    }
    $("legend").replaceChildren(...classes.map((each, i) => {
      const button = document.createElement("button");
      button.type = "button";
      const symbol = element("span", each.symbol, `c${each.colour}`);
      symbol.setAttribute("aria-hidden", "true");
      button.append(symbol, element("span", each.name));
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        kept = kept === i ? null : i;
        [...$("legend").children].forEach((other, at) => other.setAttribute("aria-pressed", String(at === kept)));
        light();
      });
      return button;
    }));
  };
  $("colour").append(...colourings.map(({ name }) => element("option", name)));
  $("colour").addEventListener("change", () => {
    colouring = colourings[$("colour").selectedIndex];
    kept = null;
    legend();
    light();
  });

  // On paper the colours are the light ones.
  const paper = (printed) => {
    document.documentElement.classList.toggle("printed", printed);
    draw();
  };
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(bound).observe(canvas);
  legend();
  light();
})();
